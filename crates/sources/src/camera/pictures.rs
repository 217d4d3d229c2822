//! Recordings as pictures: a folder of them, or a zip archive.
//!
//! Frame n is the n-th picture of the [listing](super::listing), readable or not: an unreadable one is counted and passed over,
//! and those after it keep their numbers, so that a resumed run goes on where it was.
//!
//! Times come from the first of these that there is: a list of times, the user's `--rate`, the photographs themselves (EXIF,
//! if every one has it; then it also gives their order), one `--period` each. The speed of reading is none of them.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use zip::ZipArchive;

use super::exif::{self, Taken};
use super::listing::{self, Entry, LABELS, MOST, TIMES};
use super::regular::open_regular;
use super::{Counters, Frame, Kind, Next, Options, Source};
use crate::frame::picture;
use crate::{Error, Result};

/// No picture file read here is larger; it also stops archives that unpack without end.
const LARGEST_FILE: u64 = 256 << 20;

/// No list of times is larger.
const LARGEST_LIST: u64 = 512 << 20;

/// Times from here on are dates, counted from 1970: 2000-01-01 in nanoseconds. Smaller ones count from something else.
const DATES: u64 = 946_684_800_000_000_000;

/// Of this many bad pictures each is logged, of more only the number.
const NAMED: u64 = 10;

/// A recording that is read picture by picture.
#[derive(Debug)]
pub(super) struct Pictures {
    place: PathBuf,
    store: Store,
    entries: Vec<Entry>,
    rate: Option<f64>,
    /// What a picture without a time and a rate counts as, in nanoseconds.
    period: Option<u64>,
    /// Where the times come from, in words.
    times: &'static str,
    next: usize,
    counters: Counters,
    file: Vec<u8>,
}

#[derive(Debug)]
enum Store {
    Folder,
    Zip(Box<ZipArchive<BufReader<File>>>),
}

impl Pictures {
    /// The pictures of a folder.
    pub(super) fn folder(place: &Path, options: &Options) -> Result<Self> {
        let mut entries = match folder_times(place)? {
            Some(entries) => entries,
            None => listing::in_order(folder_names(place)?.into_iter()),
        };
        let labels = place.join(LABELS);
        if let Some(text) = read_list(&labels)? {
            listing::label(&mut entries, &text, &labels.display().to_string(), "")?;
        }
        Self::new(place, Store::Folder, entries, options)
    }

    /// The pictures of a zip archive.
    pub(super) fn zip(place: &Path, options: &Options) -> Result<Self> {
        let file = open_regular(place).map_err(|error| Error::io(place, error))?;
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| {
            Error::input(format!(
                "{}: not a readable zip archive ({error}); pack the pictures again",
                place.display()
            ))
        })?;
        if archive.len() > MOST {
            return Err(Error::input(format!(
                "{}: more than {MOST} entries; split the archive",
                place.display()
            )));
        }
        let names: Vec<String> =
            archive.file_names().filter_map(|name| Some(name.ok()?.into_owned())).collect();
        // A list in the archive, as high up as there is one: its text, its place in words, and the folder that its paths begin at.
        let mut list = |wanted: &str| -> Result<Option<(String, String, String)>> {
            let found = names.iter().filter(|name| name.rsplit('/').next() == Some(wanted));
            let Some(name) = found.min_by_key(|name| name.len()) else { return Ok(None) };
            let mut text = Vec::new();
            let read = archive
                .by_name(name)
                .map_err(std::io::Error::other)
                .and_then(|file| file.take(LARGEST_LIST).read_to_end(&mut text));
            read.map_err(|error| Error::io(place.join(name), error))?;
            let above = name.strip_suffix(wanted).unwrap_or_default().to_owned();
            let text = String::from_utf8_lossy(&text).into_owned();
            Ok(Some((text, place.join(name).display().to_string(), above)))
        };
        let (times, labels) = (list(TIMES)?, list(LABELS)?);
        let mut entries = match times {
            None => listing::in_order(names.into_iter()),
            Some((text, shown, above)) => {
                listing::timed(&text, &shown, |path| Some(format!("{above}{path}")))?
            }
        };
        if let Some((text, shown, above)) = labels {
            listing::label(&mut entries, &text, &shown, &above)?;
        }
        Self::new(place, Store::Zip(Box::new(archive)), entries, options)
    }

    fn new(place: &Path, store: Store, entries: Vec<Entry>, options: &Options) -> Result<Self> {
        if entries.is_empty() {
            return Err(Error::input(format!(
                "{}: no pictures, also in its subfolders; a recording is made of .jpg or .png files",
                place.display()
            )));
        }
        let listed = entries.iter().any(|entry| entry.time_ns.is_some());
        let period = options.period.and_then(|period| u64::try_from(period.as_nanos()).ok());
        let mut pictures = Self {
            place: place.to_path_buf(),
            store,
            entries,
            rate: options.rate,
            period,
            times: if listed { " with times" } else { "" },
            next: 0,
            counters: Counters::default(),
            file: Vec::new(),
        };
        if !listed && options.rate.is_none() {
            pictures.take_photographs_times();
        }
        if let Some(rate) = listing::rate(&pictures.entries) {
            pictures.rate = Some(rate);
        } else if let (None, Some(period), "") = (options.rate, options.period, pictures.times) {
            log::info!(
                "{}: the pictures do not say when they were taken: each counts as one --period, {} s; --rate says how many \
                 were taken in a second",
                place.display(),
                period.as_secs_f64()
            );
        }
        Ok(pictures)
    }

    /// Order and times as the photographs tell, if all of them do.
    fn take_photographs_times(&mut self) {
        let mut times = Vec::new();
        let mut zoned = true;
        for index in 0..self.entries.len() {
            let found = self.read_up_to(index, exif::HEAD).ok().and_then(|()| exif::taken(&self.file));
            let Some(Taken { time, zoned: known }) = found else { return };
            let Ok(time) = u64::try_from(time.as_nanosecond()) else { return };
            times.push(time);
            zoned &= known;
        }
        for (entry, time) in self.entries.iter_mut().zip(times) {
            entry.time_ns = Some(time);
        }
        // Of pictures of one moment the names decide, as before.
        self.entries.sort_by_key(|entry| entry.time_ns);
        self.times = " with times (EXIF)";
        if !zoned {
            log::info!(
                "{}: the photographs do not say their time zone: their clock is taken for UTC; --start-time corrects it",
                self.place.display()
            );
        }
    }

    /// A picture's time, of the list, by the rate, or by the period.
    fn time(&self, index: usize) -> Option<u64> {
        let listed = self.entries.get(index).and_then(|entry| entry.time_ns);
        let by_rate = || self.rate.map(|rate| (index as f64 / rate * 1e9).round() as u64);
        listed.or_else(by_rate).or_else(|| Some((index as u64).saturating_mul(self.period?)))
    }

    /// Reads the bytes of a picture into `self.file`.
    fn read(&mut self, index: usize) -> Result<()> {
        self.read_up_to(index, LARGEST_FILE)
    }

    fn read_up_to(&mut self, index: usize, most: u64) -> Result<()> {
        self.file.clear();
        let Some(Entry { name, .. }) = self.entries.get(index) else {
            return Err(Error::input("past the end of the recording"));
        };
        let path = self.place.join(name);
        let read = match &mut self.store {
            Store::Folder => open_regular(&path).and_then(|file| file.take(most).read_to_end(&mut self.file)),
            Store::Zip(archive) => archive
                .by_name(name)
                .map_err(std::io::Error::other)
                .and_then(|file| file.take(most).read_to_end(&mut self.file)),
        };
        read.map(|_| ()).map_err(|error| Error::io(path, error))
    }
}

/// The text of a list; none if there is no such file.
fn read_list(path: &Path) -> Result<Option<String>> {
    let file = match open_regular(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(path, error)),
    };
    let mut text = Vec::new();
    file.take(LARGEST_LIST).read_to_end(&mut text).map_err(|error| Error::io(path, error))?;
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}

/// Order and times from a list in the folder, or from one above that names pictures in this folder.
fn folder_times(place: &Path) -> Result<Option<Vec<Entry>>> {
    let own = place.join(TIMES);
    if let Some(text) = read_list(&own)? {
        return listing::timed(&text, &own.display().to_string(), |path| Some(path.to_owned())).map(Some);
    }
    // A relative path may end in `..` or be empty: the real one has a name and a parent.
    let Ok(real) = place.canonicalize() else { return Ok(None) };
    let (Some(above), Some(name)) = (real.parent(), real.file_name().and_then(|name| name.to_str())) else {
        return Ok(None);
    };
    let list = above.join(TIMES);
    let Some(text) = read_list(&list)? else { return Ok(None) };
    let inside = |path: &str| Some(path.strip_prefix(name)?.strip_prefix('/')?.to_owned());
    let entries = listing::timed(&text, &list.display().to_string(), inside)?;
    Ok(Some(entries).filter(|entries| !entries.is_empty()))
}

/// Paths of all files in a folder and its subfolders, hidden ones and links to folders left out.
fn folder_names(place: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let path = place.join(&folder);
        for entry in std::fs::read_dir(&path).map_err(|error| Error::io(&path, error))? {
            let entry = entry.map_err(|error| Error::io(&path, error))?;
            // A name that is not text cannot be a picture that any camera wrote; nor can a pipe, a socket or a device.
            let Ok(name) = entry.file_name().into_string() else { continue };
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !name.starts_with('.') {
                    folders.push(format!("{folder}{name}/"));
                }
            } else if is_plain_or_link(&entry) {
                names.push(format!("{folder}{name}"));
            }
            if names.len() + folders.len() > MOST {
                return Err(Error::input(format!(
                    "{}: more than {MOST} files; split the recording",
                    place.display()
                )));
            }
        }
    }
    Ok(names)
}

/// Whether an entry may be a picture. Where a link leads is seen when it is opened.
fn is_plain_or_link(entry: &std::fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_file() || kind.is_symlink())
}

impl Source for Pictures {
    fn kind(&self) -> Kind {
        Kind::Recorded
    }

    fn identity(&self) -> String {
        self.place.display().to_string()
    }

    fn describe(&self) -> String {
        format!("{}: {} pictures{}", self.place.display(), self.entries.len(), self.times)
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Next> {
        let index = self.next;
        if index >= self.entries.len() {
            return Ok(Next::End);
        }
        self.next += 1;
        let decoded = self.read(index).and_then(|()| picture(&self.file, &mut frame.rgb));
        let time = self.time(index);
        let Some(Entry { name, truth, .. }) = self.entries.get(index) else { return Ok(Next::End) };
        match decoded {
            Ok((width, height)) => {
                self.counters.frames += 1;
                (frame.width, frame.height, frame.sequence) = (width, height, index as u64);
                frame.monotonic_ns = super::now();
                frame.recorded_ns = time;
                (frame.truth, frame.mask) = (*truth, None);
                Ok(Next::Frame)
            }
            Err(error) => {
                self.counters.corrupt += 1;
                match self.counters.corrupt {
                    1..NAMED => log::warn!("{}: {name}: {error}; skipped", self.place.display()),
                    NAMED => {
                        log::warn!("{}: more unreadable pictures are only counted", self.place.display())
                    }
                    _ => {}
                }
                Ok(Next::Nothing)
            }
        }
    }

    fn seek(&mut self, sequence: u64) -> Result<()> {
        let index = usize::try_from(sequence).unwrap_or(usize::MAX);
        if index > self.entries.len() {
            return Err(Error::input(format!(
                "{} has {} pictures and cannot go on at number {sequence}; was it the recording of this run?",
                self.place.display(),
                self.entries.len()
            )));
        }
        self.next = index;
        Ok(())
    }

    fn epoch(&self) -> Option<Timestamp> {
        (self.begins_ns() >= DATES).then_some(Timestamp::UNIX_EPOCH)
    }

    fn begins_ns(&self) -> u64 {
        self.time(0).unwrap_or(0)
    }

    fn rate(&self) -> Option<f64> {
        self.rate
    }

    fn length(&self) -> Option<u64> {
        Some(self.entries.len() as u64)
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

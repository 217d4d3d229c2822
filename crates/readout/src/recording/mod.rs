//! A recording as those see it who read its trace: one time line over restarts and boots, each frame once, and an
//! honest word on what is missing.
//!
//! [`crate::trace::Reader`] gives out records as they were written. This module adds what every reader of a whole
//! recording needs: which session (start to stop) a record belongs to, how many seconds after the beginning it was,
//! frames and updates that a restart from a checkpoint repeated left out, which category each one ended up in
//! ([`Merges`]), and stretches of one category ([`segments`]). It reads folders, also of running recordings, and writes
//! nothing. What is made of it is the business of [`crate::export`] and [`crate::report`].
//!
//! # Time
//! `seconds` count from the first record. Within a boot they are the monotonic clock's. From one boot to the next they go
//! on where the last record was, plus the time in between if the wall clock had been set in both boots; else that time
//! is unknown and counts as nothing. A frame's moment is that of its picture where the camera told it, otherwise that of
//! its record.
//!
//! A recorded or built-in source has a time of its own, which frames carry and which may pass faster than ours. Then
//! `seconds` are the source's, from its first frame on, and other records have those of the frame before them. `wall` is
//! then the source's, too, and absent where it has none: never the time at which it was processed. Another source in the
//! same recording begins where the one before ended, so that no two frames share a time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Stamp;
use crate::storage::Filesystem;
use crate::trace::{Cause, Reader, Record, Start, Summary};
use crate::words::counted;
use crate::{Error, Result};

mod describe;
mod merges;
mod quantiles;
pub mod segments;
mod sessions;
mod timeline;

pub use describe::describe;
pub use merges::{Categories, Merges};
pub(crate) use quantiles::Quantiles;
pub use sessions::Session;

use sessions::Survey;
use timeline::Timeline;

/// The folder of the trace in a recording's data folder.
pub const TRACE: &str = "trace";

/// What is to be opened.
const EXPECTED: &str = "the data folder of a recording, the one that `oupn-edge record --data` was given";

/// How long a line may take to be finished by a running recording; a torn one never is.
const UNFINISHED: Duration = Duration::from_millis(100);

/// A recording's trace, looked through once.
#[derive(Debug, Clone)]
pub struct Recording {
    fs: Arc<dyn Filesystem>,
    dir: PathBuf,
    /// The device's name.
    pub device: String,
    /// A name that no other recording has, made of its first record's time and boot.
    pub run: String,
    /// From start to stop, in their order.
    pub sessions: Vec<Session>,
    /// The usual time from one frame to the next, in seconds; `None` with fewer than two frames.
    pub interval: Option<f64>,
    /// The last start.
    pub start: Option<Start>,
    /// Which categories were joined, as of the moment it was opened.
    pub merges: Merges,
}

/// A record in its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Its number.
    pub seq: u64,
    /// Which start of the recording it belongs to, from 1.
    pub session: usize,
    /// Seconds since the recording began.
    pub seconds: f64,
    /// When it was; for a frame, when its picture was taken.
    pub at: Stamp,
    /// What it says.
    pub record: Record,
}

/// What a reader did not find.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing {
    /// What is damaged or gone without a word.
    pub faults: Vec<String>,
    /// What the trace itself says is not there.
    pub notes: Vec<String>,
}

impl Recording {
    /// Looks through the recording at `path`: its data folder, or the trace folder in it.
    pub fn open(fs: Arc<dyn Filesystem>, path: &Path) -> Result<Self> {
        let dir = if path.join(TRACE).is_dir() { path.join(TRACE) } else { path.to_path_buf() };
        let mut survey = Survey::default();
        let mut timeline = Timeline::default();
        // Faults are told by whoever reads for real.
        let reader = Reader::open(Arc::clone(&fs), &dir).map_err(|error| error.expecting(EXPECTED))?;
        for entry in reader.flatten() {
            let (seconds, at) = timeline.place(&entry);
            survey.add(&entry, seconds, at);
        }
        let merges = survey.settled_merges();
        let Some(run) = survey.run else {
            return Err(Error::input(format!(
                "{}: there is no trace in it; expected {EXPECTED}",
                path.display()
            )));
        };
        Ok(Self {
            fs,
            dir,
            device: survey.start.as_ref().map_or(sessions::UNKNOWN, |start| &start.device).to_owned(),
            run,
            interval: survey.intervals.quantile(0.5),
            merges,
            sessions: survey.sessions,
            start: survey.start,
        })
    }

    /// The name of the device or participant in a session.
    pub fn device_in(&self, session: usize) -> &str {
        let session = session.checked_sub(1).and_then(|index| self.sessions.get(index));
        session.map_or(&self.device, |session| &session.device)
    }

    /// The sources of frames, each once, in their order.
    pub fn sources(&self) -> Vec<&str> {
        let mut sources: Vec<&str> = Vec::new();
        for session in &self.sessions {
            if !sources.contains(&session.source.as_str()) {
                sources.push(&session.source);
            }
        }
        sources
    }

    /// The folder of the trace.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Hands over each record in its order, without those that a restart repeated, and says what was missing.
    /// `visit` stops the reading by an error.
    pub fn read(&self, mut visit: impl FnMut(Seen) -> Result<()>) -> Result<Missing> {
        let mut reader = Reader::open(Arc::clone(&self.fs), &self.dir)?;
        let mut timeline = Timeline::default();
        let mut session = sessions::Counter::default();
        let mut missing = Missing::default();
        let mut unsound = 0;
        for entry in reader.by_ref() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    missing.faults.push(format!("could not be read to its end: {error}"));
                    continue;
                }
            };
            let session = session.of(&entry.record);
            let (seconds, at) = timeline.place(&entry);
            if matches!(&entry.record, Record::Merge(merge) if !merge.is_sound()) {
                unsound += 1;
                continue;
            }
            if !self.is_repeated(session, &entry.record) {
                visit(Seen { seq: entry.seq, session, seconds, at, record: entry.record })?;
            }
        }
        missing.add(reader.summary(), unsound);
        if reader.summary().unfinished_bytes > 0 && self.is_torn()? {
            let bytes = reader.summary().unfinished_bytes;
            missing.faults.push(format!("the last line is torn after {bytes} bytes"));
        }
        Ok(missing)
    }

    /// Whether a later session, gone back to a checkpoint, has the same frame or update again, or the frame of a merge or a publication.
    fn is_repeated(&self, session: usize, record: &Record) -> bool {
        match record {
            Record::Frame(frame) => merges::is_seen_again(&self.sessions, session, frame.frame),
            Record::Merge(merge) => merges::is_seen_again(&self.sessions, session, merge.frame),
            Record::Update(update) => {
                self.sessions.iter().skip(session).any(|later| later.updates.contains(&update.update))
            }
            Record::Publication(publication) => {
                merges::is_seen_again(&self.sessions, session, publication.frame)
            }
            _ => false,
        }
    }

    /// Whether the last segment's unfinished line stays unfinished: a running recording hands over whole lines.
    fn is_torn(&self) -> Result<bool> {
        let io = |error| Error::io(&self.dir, error);
        let names = self.fs.list(&self.dir).map_err(io)?;
        let Some(last) = names.iter().rfind(|name| name.ends_with(".jsonl")) else { return Ok(false) };
        let before = self.fs.len(&self.dir.join(last)).map_err(io)?;
        std::thread::sleep(UNFINISHED);
        Ok(self.fs.len(&self.dir.join(last)).map_err(io)? == before)
    }
}

impl Missing {
    fn add(&mut self, summary: &Summary, unsound_merges: u64) {
        let mut fault = |count: u64, one: &str, many: &str| {
            if count > 0 {
                self.faults.push(counted(count, one, many));
            }
        };
        fault(summary.damaged_lines, "damaged line was passed over", "damaged lines were passed over");
        fault(
            summary.newer_segments,
            "segment was written by a newer version of this program, and only that one can read it",
            "segments were written by a newer version of this program, and only that one can read them",
        );
        fault(
            unsound_merges,
            "merge was passed over: it does not join a younger category into an older one",
            "merges were passed over: they do not join a younger category into an older one",
        );
        let gone = unexplained(summary);
        fault(
            summary.missing,
            &format!("record is gone without a word: {gone}"),
            &format!("records are gone without a word: {gone}"),
        );
        let mut note = |count: u64, what: &str| {
            if count > 0 {
                self.notes.push(format!("{} {what}", counted(count, "record was", "records were")));
            }
        };
        note(summary.forgotten, "forgotten on request");
        note(summary.dropped, "dropped because the disk was too slow");
        note(summary.cut_off, "damaged by a crash and cut off");
    }
}

/// The first few holes that nothing explains.
fn unexplained(summary: &Summary) -> String {
    const SHOWN: usize = 8;
    let holes: Vec<String> = summary
        .gaps
        .iter()
        .filter(|gap| gap.cause == Cause::Unexplained)
        .take(SHOWN + 1)
        .map(|gap| {
            if gap.first == gap.last {
                gap.first.to_string()
            } else {
                format!("{}–{}", gap.first, gap.last)
            }
        })
        .collect();
    let more = if holes.len() > SHOWN { ", …" } else { "" };
    format!("numbers {}{more}", holes.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;

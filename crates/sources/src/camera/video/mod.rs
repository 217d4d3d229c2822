//! Video files, read whole and by their own times through the user's ffmpeg.
//!
//! ffprobe says what the file is ([`probe`]); ffmpeg decodes, turns and reduces it, and writes Y4M to a pipe. Pictures
//! that nobody will look at are dropped there: some tens of them in each sampling period are kept, chosen by their times
//! alone, so that the choice is the same wherever reading begins. The time of each that is kept comes from ffmpeg's filter
//! `showinfo` on standard error, one line before its picture.
//!
//! A frame's number is its time in milliseconds: it finds the frame again, in files with a constant rate and in others.
//! Going on after a restart begins some seconds earlier, at a key frame, and drops what lies before; formats that cannot be
//! entered exactly are decoded from their beginning.
//!
//! What is cut off or damaged is no error: what is there is given out, and [`Source::missing`] says what is not.

mod heard;
mod probe;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use self::heard::Heard;
use self::probe::{About, Tools};
use super::pipe::Pipe;
use super::{Counters, Frame, Kind, Next, Options, Source};
use crate::{Error, Result};

/// What is taken for a video by its name; the best known ones first.
pub(super) const EXTENSIONS: [&str; 28] = [
    "mp4", "mov", "mkv", "avi", "webm", "m4v", "mts", "m2ts", "ts", "mpg", "mpeg", "m2v", "vob", "wmv",
    "asf", "flv", "f4v", "3gp", "3g2", "ogv", "ogm", "mxf", "dv", "qt", "lrv", "insv", "y4m", "gif",
];

/// A decoder that gives nothing for so long hangs.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How long the line about a picture may come after the picture.
const LINE: Duration = Duration::from_secs(10);

/// How far before the wanted frame decoding begins, so that it comes out as if decoded from the start; in milliseconds.
const RUN_UP: u64 = 10_000;

/// A wanted frame further ahead than this is sought, not read up to; in milliseconds.
const AHEAD: u64 = 60_000;

/// The finest distance of pictures that are kept, in seconds, and how many there are in a period at least.
const FINEST: f64 = 0.1;
const IN_A_PERIOD: f64 = 10.0;

/// Pictures are reduced to this shorter side if nobody says what is needed.
const SIDE: usize = 224;

/// Whether a file with this extension is a video.
pub(super) fn is_video(extension: &str) -> bool {
    EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// A video file that is read from its beginning to its end.
pub(super) struct Video {
    path: PathBuf,
    tools: Tools,
    about: About,
    /// Seconds between pictures that are kept.
    step: f64,
    side: usize,
    timeout: Duration,
    decoder: Option<Decoder>,
    /// The number of the next frame that is wanted, or a later one.
    wanted: u64,
    /// The time of the last picture that was decoded, in nanoseconds.
    last: Option<u64>,
    counters: Counters,
    missing: Option<String>,
    ended: bool,
}

/// ffmpeg at work.
struct Decoder {
    pipe: Pipe,
    heard: Heard,
    /// No frame with a smaller number will come any more.
    at: u64,
    /// How long it has been waited for since something came; time in which nobody asked does not count.
    silent: Duration,
}

impl Video {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// ffmpeg is not there, or cannot read the file.
    pub(super) fn open(path: &Path, options: &Options) -> Result<Self> {
        let tools = Tools::find(std::env::var_os("PATH").as_deref(), path)?;
        Self::with(path, options, tools, TIMEOUT)
    }

    fn with(path: &Path, options: &Options, tools: Tools, timeout: Duration) -> Result<Self> {
        let about = probe::probe(&tools, path, timeout)?;
        let period = options.period.map_or(f64::INFINITY, |period| period.as_secs_f64());
        Ok(Self {
            path: path.to_path_buf(),
            tools,
            about,
            step: (period / IN_A_PERIOD).clamp(1e-3, FINEST),
            side: options.side.unwrap_or(SIDE),
            timeout,
            decoder: None,
            wanted: 0,
            last: None,
            counters: Counters::default(),
            missing: None,
            ended: false,
        })
    }

    /// The decoder, at or before the wanted frame.
    fn decoder(&mut self) -> Result<&mut Decoder> {
        let from = self.wanted;
        let fits =
            |decoder: &Decoder| decoder.at <= from && (from - decoder.at <= AHEAD || !self.about.seekable);
        let decoder = match self.decoder.take().filter(fits) {
            Some(decoder) => decoder,
            None => self.start(from)?,
        };
        Ok(self.decoder.insert(decoder))
    }

    fn start(&self, from: u64) -> Result<Decoder> {
        let sought = (self.about.seekable && from > RUN_UP).then(|| from - RUN_UP);
        let mut command = Command::new(&self.tools.ffmpeg);
        command.args(["-hide_banner", "-nostdin", "-nostats", "-loglevel", "level+info"]).args([
            "-protocol_whitelist",
            "file",
            "-copyts",
            "-start_at_zero",
        ]);
        if let Some(sought) = sought {
            command.args(["-ss", &seconds(sought)]);
        }
        // With a constant rate of its own making the output neither repeats nor drops a picture.
        command
            .arg("-i")
            .arg(probe::file(&self.path))
            .args(["-map", "0:V:0", "-an", "-sn", "-dn", "-vf", &self.filters(from), "-r", "25"])
            .args(["-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe", "-"]);
        let (heard, hear) = Heard::new(sought.is_some());
        let pipe = Pipe::decoder(&self.path.display().to_string(), command, hear)?;
        Ok(Decoder { pipe, heard, at: from, silent: Duration::ZERO })
    }

    /// Which pictures are kept, and how large they become.
    fn filters(&self, from: u64) -> String {
        // The little more keeps a picture at the very beginning of a cell in it.
        let cell = |time: &str| format!("floor(({time}-{:.6})/{}+0.001)", self.about.begins, self.step);
        let keep = format!(
            "gte(t,{})*(isnan(prev_t)+gt({},{}))",
            seconds(from.saturating_sub(1)),
            cell("t"),
            cell("prev_t")
        );
        let least = (self.side * 5 / 4).max(32);
        let short = format!("min({least},if(lt(dar,1),iw*sar,ih))");
        format!(
            "select='{keep}',showinfo=checksum=0,\
             scale=w='2*trunc(max(1,if(lt(dar,1),1,dar)*{short}/2))':h='2*trunc(max(1,if(lt(dar,1),1/dar,1)*{short}/2))':\
             flags=area:out_color_matrix=bt601:out_range=tv,settb=1/1000,setpts=N*40"
        )
    }

    /// The decoder has come to its end, in whatever way.
    fn end(&mut self, failure: Option<String>) -> Result<Next> {
        let heard = self.decoder.take().and_then(|decoder| decoder.heard.trouble());
        self.ended = true;
        let reason = heard.or(failure);
        if self.last.is_none() && self.wanted == 0 {
            let reason = reason.unwrap_or_else(|| "it has no picture".to_owned());
            return Err(Error::input(format!(
                "{}: ffmpeg finds no picture in it: {reason}",
                self.path.display()
            )));
        }
        let reached = self.last.map_or(self.wanted as f64 / 1e3, |last| last as f64 / 1e9);
        let end = self.about.duration.map(|duration| self.about.begins + duration.as_secs_f64());
        let slack = 1.0 + self.step + self.about.rate.map_or(1.0, |rate| 2.0 / rate);
        let short = end.filter(|end| reached + slack < *end);
        let cut = short.map(|end| format!("it ends at {reached:.1} s of {end:.1} s"));
        self.missing = match (cut, reason) {
            (Some(cut), Some(reason)) => Some(format!("{cut}; ffmpeg says: {reason}")),
            (None, Some(reason)) => Some(format!("a part is damaged; ffmpeg says: {reason}")),
            // The last picture of a video with a varying rate may stand for long.
            (Some(cut), None) if self.about.constant => Some(cut),
            _ => None,
        };
        if let Some(missing) = &mut self.missing {
            *missing = format!("{}: {missing}", self.path.display());
            log::warn!("{missing}");
        }
        Ok(Next::End)
    }
}

impl Source for Video {
    fn kind(&self) -> Kind {
        Kind::Recorded
    }

    fn identity(&self) -> String {
        self.path.display().to_string()
    }

    fn describe(&self) -> String {
        format!("{}: {}", self.path.display(), self.about.describe())
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Next> {
        if self.ended {
            return Ok(Next::End);
        }
        let (wanted, timeout) = (self.wanted, self.timeout);
        let decoder = self.decoder()?;
        let asked = Instant::now();
        let time = match decoder.pipe.next(frame) {
            Ok(Next::Frame) => decoder.heard.time(LINE),
            Ok(Next::Nothing) => {
                decoder.silent += asked.elapsed();
                if decoder.silent < timeout {
                    return Ok(Next::Nothing);
                }
                let seconds = timeout.as_secs();
                return self.end(Some(format!("nothing for {seconds} s, so it was ended")));
            }
            Ok(Next::End) => return self.end(None),
            Err(error) => return self.end(Some(error.to_string())),
        };
        let Some(time) = time else {
            return self
                .end(Some("no times of the pictures; a version of it that is not known here".to_owned()));
        };
        decoder.silent = Duration::ZERO;
        let number = time / 1_000_000;
        decoder.at = number + 1;
        self.last = Some(time);
        if number < wanted {
            return Ok(Next::Nothing);
        }
        self.wanted = number + 1;
        self.counters.frames += 1;
        (frame.sequence, frame.recorded_ns) = (number, Some(time));
        Ok(Next::Frame)
    }

    fn seek(&mut self, sequence: u64) -> Result<()> {
        (self.wanted, self.ended) = (sequence, false);
        Ok(())
    }

    fn epoch(&self) -> Option<Timestamp> {
        self.about.created
    }

    fn begins_ns(&self) -> u64 {
        (self.about.begins * 1e9).round() as u64
    }

    /// Numbers are milliseconds.
    fn length(&self) -> Option<u64> {
        let whole = self.about.duration? + Duration::from_nanos(self.begins_ns());
        u64::try_from(whole.as_millis()).ok()
    }

    fn missing(&self) -> Option<String> {
        self.missing.clone()
    }

    fn rate(&self) -> Option<f64> {
        self.about.rate
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl std::fmt::Debug for Video {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Video").field("path", &self.path).field("about", &self.about).finish_non_exhaustive()
    }
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

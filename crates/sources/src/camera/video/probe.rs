//! What a video file is, asked of the user's ffprobe.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::Value;

use crate::{Error, Result};

/// No answer is longer.
const LARGEST: u64 = 1 << 20;

/// Clocks that were never set say 1904 or 1970: no file is older than this, 1990 in seconds.
const EARLIEST: i64 = 631_152_000;

/// The containers that can be entered in the middle without losing the right frame.
const SEEKABLE: [&str; 4] = ["mov", "mp4", "matroska", "webm"];

/// What is asked for.
const ENTRIES: &str = "stream=codec_name,width,height,avg_frame_rate,r_frame_rate,duration,start_time:\
                       stream_tags=creation_time,DURATION:format=duration,start_time,format_name:\
                       format_tags=creation_time,com.apple.quicktime.creationdate";

/// The user's programs.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    pub(super) ffmpeg: PathBuf,
    pub(super) ffprobe: PathBuf,
}

impl Tools {
    /// Looks for them in the folders of `search`.
    pub(super) fn find(search: Option<&OsStr>, video: &Path) -> Result<Self> {
        let find = |name: &str| {
            let folders = search.map(std::env::split_paths)?;
            folders.map(|folder| folder.join(name)).find(|path| path.is_file())
        };
        match (find("ffmpeg"), find("ffprobe")) {
            (Some(ffmpeg), Some(ffprobe)) => Ok(Self { ffmpeg, ffprobe }),
            _ => Err(Error::input(format!(
                "{} is a video, and videos are read by ffmpeg and ffprobe, which are not installed: `sudo apt install ffmpeg` \
                 (macOS: `brew install ffmpeg`)",
                video.display()
            ))),
        }
    }
}

/// What a video says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct About {
    codec: String,
    size: (u64, u64),
    /// From its first picture to the end of its last one.
    pub(super) duration: Option<Duration>,
    /// Pictures a second, on average.
    pub(super) rate: Option<f64>,
    /// Whether all pictures last equally long.
    pub(super) constant: bool,
    /// When the first picture comes, in seconds after the file's beginning: sound may begin earlier.
    pub(super) begins: f64,
    /// When it was recorded.
    pub(super) created: Option<Timestamp>,
    /// Whether decoding can begin in the middle.
    pub(super) seekable: bool,
}

impl About {
    /// In words.
    pub(super) fn describe(&self) -> String {
        let (width, height) = self.size;
        let mut text = format!("video ({}) of {width}x{height}", self.codec);
        if let Some(duration) = self.duration {
            text.push_str(&format!(", {:.1} s", duration.as_secs_f64()));
        }
        if let Some(rate) = self.rate {
            text.push_str(&format!(", {} frames a second", (rate * 100.0).round() / 100.0));
        }
        text
    }

    fn of(answer: &Value) -> Option<Self> {
        let (stream, format) = (answer["streams"].get(0)?, &answer["format"]);
        let number = |value: &Value| value.as_str()?.parse::<f64>().ok().filter(|number| number.is_finite());
        let formats = format["format_name"].as_str().unwrap_or("");
        let is = |known: &[&str]| formats.split(',').any(|name| known.contains(&name));
        let start = number(&format["start_time"]).unwrap_or(0.0);
        // Matroska's lengths are counted from 0, whenever the first picture comes.
        let offset = if is(&["matroska", "webm"]) { start.max(0.0) } else { 0.0 };
        let tagged = tag(stream, "DURATION").and_then(clock).map(|seconds| seconds - offset);
        let whole = number(&format["duration"]).map(|seconds| seconds - offset);
        let duration = number(&stream["duration"]).or(tagged).or(whole);
        let (average, finest) = (&stream["avg_frame_rate"], &stream["r_frame_rate"]);
        let begins = number(&stream["start_time"]).map_or(0.0, |begin| begin - start);
        let created = tag(format, "com.apple.quicktime.creationdate")
            .or_else(|| tag(format, "creation_time"))
            .or_else(|| tag(stream, "creation_time"));
        Some(Self {
            codec: stream["codec_name"].as_str().unwrap_or("unknown").to_owned(),
            size: (stream["width"].as_u64()?, stream["height"].as_u64()?),
            duration: duration.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
            rate: fraction(average).or_else(|| fraction(finest)),
            constant: average == finest,
            begins: begins.clamp(0.0, 1e6),
            created: created
                .and_then(|text| text.parse().ok())
                .filter(|time: &Timestamp| time.as_second() >= EARLIEST),
            seekable: is(&SEEKABLE),
        })
    }
}

fn tag<'a>(of: &'a Value, name: &str) -> Option<&'a str> {
    of["tags"].get(name)?.as_str()
}

/// `00:00:27.400000000` in seconds.
fn clock(text: &str) -> Option<f64> {
    text.split(':').try_fold(0.0, |sum, part| Some(60.0 * sum + part.parse::<f64>().ok()?))
}

fn fraction(value: &Value) -> Option<f64> {
    let (above, below) = value.as_str()?.split_once('/')?;
    let rate = above.parse::<f64>().ok()? / below.parse::<f64>().ok()?;
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

/// A path as ffmpeg takes it for a file, whatever it looks like.
pub(super) fn file(path: &Path) -> OsString {
    let mut name = OsString::from("file:");
    name.push(path);
    name
}

/// Asks ffprobe.
pub(super) fn probe(tools: &Tools, path: &Path, timeout: Duration) -> Result<About> {
    let mut command = Command::new(&tools.ffprobe);
    command
        .args(["-v", "error", "-protocol_whitelist", "file", "-select_streams", "V:0"])
        .args(["-show_entries", ENTRIES, "-of", "json"])
        .arg(file(path));
    let (success, answer, words) = ask(command, timeout).map_err(|error| Error::io(&tools.ffprobe, error))?;
    let about = serde_json::from_slice(&answer).ok().as_ref().and_then(About::of);
    about.filter(|_| success).ok_or_else(|| {
        let words = String::from_utf8_lossy(&words);
        // The last line ends with the reason, behind the file's name.
        let last =
            words.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no video stream is in it");
        let name = file(path);
        let reason = last.strip_prefix(&format!("{}: ", name.display())).unwrap_or(last);
        let first =
            words.lines().next().filter(|first| *first != last).map(|first| format!(" ({})", first.trim()));
        Error::input(format!(
            "{} is not a video that ffmpeg can read: {reason}{}",
            path.display(),
            first.unwrap_or_default()
        ))
    })
}

/// Runs a program to its end, but not for longer than that: whether it succeeded, its output, its errors.
fn ask(mut command: Command, timeout: Duration) -> std::io::Result<(bool, Vec<u8>, Vec<u8>)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // What cannot be read was not said.
            let _ = pipe.map(|pipe| pipe.take(LARGEST).read_to_end(&mut bytes));
            bytes
        })
    };
    let output = read(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let errors = read(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let until = Instant::now() + timeout;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= until {
            child.kill()?;
            child.wait()?;
            let text = format!("no answer within {} s", timeout.as_secs());
            return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, text));
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Ok((status.success(), output.join().unwrap_or_default(), errors.join().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_answer_is_understood() {
        let answer = json!({
            "streams": [{"codec_name": "h264", "width": 640, "height": 360, "r_frame_rate": "30000/1001",
                "avg_frame_rate": "30000/1001", "start_time": "7.021000",
                "tags": {"creation_time": "2026-03-05T10:00:00.000000Z", "DURATION": "00:01:27.400000000"}}],
            "format": {"format_name": "matroska,webm", "start_time": "7.000000", "duration": "90.0"}
        });
        let about = About::of(&answer).unwrap();
        assert!((about.duration.unwrap().as_secs_f64() - 80.4).abs() < 1e-9);
        assert!((about.begins - 0.021).abs() < 1e-9 && about.constant && about.seekable);
        assert_eq!(about.created, "2026-03-05T10:00:00Z".parse().ok());
        assert_eq!(about.describe(), "video (h264) of 640x360, 80.4 s, 29.97 frames a second");
        // Apple's own tag knows the zone; a clock that was never set is none.
        let mut other = answer.clone();
        other["format"]["tags"] = json!({"creation_time": "1970-01-01T00:00:00.000000Z", "com.apple.quicktime.creationdate": "2026-03-05T12:00:00+0100"});
        assert_eq!(About::of(&other).unwrap().created, "2026-03-05T11:00:00Z".parse().ok());
        other["format"]["tags"] = json!({"creation_time": "1904-01-01T00:00:00.000000Z"});
        assert_eq!(About::of(&other).unwrap().created, None);
        assert_eq!(About::of(&json!({"streams": [], "format": {}})), None);
    }
}

//! Where frames come from: cameras, recordings, programs, and a built-in world, all behind one trait.
//!
//! A [`Camera`] is what the user names (`--camera`); opened, it is a [`Source`] that fills the caller's [`Frame`]. What a
//! frame is worth, when one is sampled and what is learned from it is decided elsewhere. Bad pixels are never an error
//! of the run: they are counted and skipped ([`Counters`]).

mod capture;
mod exif;
mod listing;
mod name;
mod natural;
#[cfg(feature = "nokhwa")]
mod nokhwa;
mod pictures;
mod pipe;
mod regular;
pub mod rooms;
#[cfg(test)]
mod tests;
pub mod v4l2;
mod video;
mod y4m;

use std::time::Duration;

use jiff::Timestamp;

use crate::Result;
use crate::frame::PixelFormat;

pub use self::capture::{Capture, Event, Life};
pub use self::name::{Camera, is_file, lasting, same};

/// A picture with its times, in buffers that are used again for the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Red, green, blue, row by row from the top: width · height · 3 bytes.
    pub rgb: Vec<u8>,
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Number of the frame within its source: of a camera the driver's, of a recording the place in it.
    pub sequence: u64,
    /// When the frame was taken, by this machine's monotonic clock; for recordings and the built-in world, when it was read.
    pub monotonic_ns: u64,
    /// When the frame was taken according to the recording, in nanoseconds since whatever the recording counts from.
    pub recorded_ns: Option<u64>,
    /// The instance that the frame shows, where the source knows it: the object attended to in the built-in world.
    pub truth: Option<u32>,
    /// The pixels of that instance: width · height bytes of 0 or 255.
    pub mask: Option<Vec<u8>>,
}

/// What a source is, for those who decide about pacing and resuming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Frames come when they come, and those not taken are lost.
    Live,
    /// Frames wait to be read; frame n is always the same.
    Recorded,
    /// As recorded, and without end.
    BuiltIn,
}

/// What became of a request for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The frame was filled.
    Frame,
    /// No frame this time (none came in time, or a bad one was skipped and counted); ask again.
    Nothing,
    /// There will be no more.
    End,
}

/// What a source has delivered so far, and what it could not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames delivered.
    pub frames: u64,
    /// Frames that the driver dropped before anybody saw them.
    pub gaps: u64,
    /// Frames that were there but could not be decoded.
    pub corrupt: u64,
}

/// How a camera is to be opened, where the user does not leave it to the program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// The pixel format to ask for, instead of the best one offered.
    pub format: Option<PixelFormat>,
    /// Width and height to ask for; of a raw pipe, the size of its frames.
    pub resolution: Option<(u32, u32)>,
    /// Frames a second to ask for; of a recording without times, at which it was made.
    pub rate: Option<f64>,
    /// A pipe is a camera (its frames are lost if not taken), not a recording.
    pub live_pipe: bool,
    /// When the first frame of a recording was taken.
    pub start_time: Option<Timestamp>,
    /// How often a frame is looked at, so that a recording need not give out every one.
    pub period: Option<Duration>,
    /// The longer side of the pictures that the encoder reads, so that a recording need not give out much larger ones.
    pub side: Option<usize>,
}

impl Options {
    /// What `rate` can be: from a picture in a quarter of an hour to more than any camera takes.
    pub const RATES: std::ops::RangeInclusive<f64> = 1e-3..=1e4;
}

/// Something that frames can be read from.
pub trait Source: std::fmt::Debug {
    /// Live, recorded or built in.
    fn kind(&self) -> Kind;

    /// A name under which the same source can be found again, also after a replug.
    fn identity(&self) -> String;

    /// What it is, in a line for people.
    fn describe(&self) -> String;

    /// Fills `frame` with the next picture.
    ///
    /// # Errors
    ///
    /// The source is lost: the camera was unplugged, the pipe's program failed. A bad frame is no error.
    fn next(&mut self, frame: &mut Frame) -> Result<Next>;

    /// Goes on at this frame number.
    ///
    /// # Errors
    ///
    /// The source is live and cannot go anywhere, or the recording ends before.
    fn seek(&mut self, sequence: u64) -> Result<()>;

    /// Whether a recording can be read again from an earlier frame on.
    fn goes_back(&self) -> bool {
        true
    }

    /// When this recording's time was 0, where it knows.
    fn epoch(&self) -> Option<Timestamp> {
        None
    }

    /// The time of a recording's first frame, in its own nanoseconds.
    fn begins_ns(&self) -> u64 {
        0
    }

    /// What is known to be missing of what was read so far, and why: a recording that was cut off or is damaged.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Frames a second, if known.
    fn rate(&self) -> Option<f64>;

    /// The number after its last frame, if it knows: for telling how long it still takes.
    fn length(&self) -> Option<u64> {
        None
    }

    /// Frames delivered and not delivered since the source was opened.
    fn counters(&self) -> Counters;
}

/// This machine's monotonic clock, which is also that of V4L2's frame times.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

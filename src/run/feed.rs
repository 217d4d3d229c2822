//! Frames with their times, from a camera that goes on by itself or from a recording that waits.
//!
//! A camera's time is the machine's monotonic clock; frames between two wanted ones are not looked at. A recording's
//! time is its own: it is read frame by frame as fast as it is consumed, or, paced, no faster than it was taken.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};

use super::plan::RunPlan;
use super::sampler::Sampler;
use crate::camera::{Camera, Capture, Counters, Event, Frame, Kind, Life, Next, Options, Source};
use crate::device::clock::Stamp;
use crate::{Error, Result};

/// The longest that a call waits, so that the loop hears requests and feeds the watchdog.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// Where frames come from.
pub enum Feed {
    /// A camera, drained by a thread of its own.
    Camera(Capture),
    /// Something that can be read at any speed.
    Playback(Playback),
}

/// A source that waits to be read.
pub struct Playback {
    source: Box<dyn Source + Send>,
    /// The number of the next frame that is read.
    next_sequence: u64,
    /// Nanoseconds between frames that carry no time of their own.
    spacing: u64,
    /// When to show the frame of which time, if it is to be shown as fast as it was taken.
    pace: Option<Pace>,
    /// A frame that was read before its time.
    early: bool,
    /// When the source's time was 0, where that is known.
    epoch: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Pace {
    origin: Option<(Instant, u64)>,
}

/// What the feed has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// A frame, taken at this time of the source's clock.
    Frame(u64),
    /// Nothing yet.
    Nothing,
    /// There will be no more.
    End,
}

impl Playback {
    /// Reads `source`, from frame `next_sequence` on. `start_time` is when its first frame was taken, if the user says so.
    pub fn new(
        mut source: Box<dyn Source + Send>,
        period: Duration,
        paced: bool,
        next_sequence: u64,
        start_time: Option<Timestamp>,
    ) -> Result<Self> {
        let spacing = match source.rate() {
            Some(rate) if rate > 0.0 => Duration::from_secs_f64(1.0 / rate),
            // Pictures without times are samples, one by one.
            _ => period,
        };
        if next_sequence > 0 {
            source.seek(next_sequence)?;
        }
        let spacing = u64::try_from(spacing.as_nanos()).unwrap_or(u64::MAX).max(1);
        let pace = paced.then(Pace::default);
        let began = i64::try_from(source.begins_ns()).unwrap_or(i64::MAX);
        let said = start_time.and_then(|time| time.checked_sub(SignedDuration::from_nanos(began)).ok());
        let epoch = said.or_else(|| source.epoch());
        Ok(Self { source, next_sequence, spacing, pace, early: false, epoch })
    }

    /// When a frame of this time of the source was taken, where that is known.
    fn wall(&self, time: u64) -> Option<Timestamp> {
        self.epoch?.checked_add(SignedDuration::from_nanos(i64::try_from(time).ok()?)).ok()
    }

    /// Whether earlier frames can be read again.
    pub fn goes_back(&self) -> bool {
        self.source.goes_back()
    }

    /// Reads one frame by its number, and leaves the place as it was: for a resumed run.
    pub fn read_again(&mut self, sequence: u64, frame: &mut Frame) -> Result<bool> {
        self.source.seek(sequence)?;
        // A video takes its time to get there.
        let found = loop {
            match self.source.next(frame)? {
                Next::Frame => break true,
                Next::Nothing => {}
                Next::End => break false,
            }
        };
        self.source.seek(self.next_sequence)?;
        Ok(found && frame.sequence == sequence)
    }

    fn next(&mut self, sampler: &Sampler, frame: &mut Frame) -> Result<Poll> {
        if !self.early {
            // A world can be looked at anywhere: frames that nobody wants are not even drawn.
            if self.source.kind() == Kind::BuiltIn
                && let Some(time) = sampler.next_time()
            {
                let wanted = time.div_ceil(self.spacing);
                if wanted > self.next_sequence {
                    self.next_sequence = wanted;
                    self.source.seek(wanted)?;
                }
            }
            match self.source.next(frame)? {
                Next::Frame => self.next_sequence = frame.sequence + 1,
                Next::Nothing => return Ok(Poll::Nothing),
                Next::End => return Ok(Poll::End),
            }
        }
        let time = frame.recorded_ns.unwrap_or_else(|| frame.sequence.saturating_mul(self.spacing));
        self.early = match &mut self.pace {
            None => false,
            Some(pace) => pace.hold(time),
        };
        Ok(if self.early { Poll::Nothing } else { Poll::Frame(time) })
    }
}

impl Pace {
    /// Sleeps until the frame's time, but not longer than the loop may be kept; whether it is still to come.
    fn hold(&mut self, time: u64) -> bool {
        let (start, first) = *self.origin.get_or_insert_with(|| (Instant::now(), time));
        let due = start + Duration::from_nanos(time.saturating_sub(first));
        let wait = due.saturating_duration_since(Instant::now());
        std::thread::sleep(wait.min(LONGEST_WAIT));
        wait > LONGEST_WAIT
    }
}

impl Feed {
    /// Opens the plan's source. One that waits to be read goes on at this picture.
    pub fn open(plan: &RunPlan, camera: &Camera, next_sequence: u64) -> Result<Self> {
        let side = plan.settings.image_height.max(plan.settings.image_width);
        let options = Options { period: Some(plan.period), side: Some(side), ..plan.camera_options.clone() };
        let source = camera.open(&options)?;
        let start_time = options.start_time;
        Ok(match source.kind() {
            Kind::Live if start_time.is_some() => {
                return Err(Error::input(format!(
                    "--start-time is for recordings: {} is live, and its frames have the time of now",
                    plan.camera
                )));
            }
            Kind::Live => Self::Camera(Capture::of(source, camera, &options)?),
            Kind::Recorded | Kind::BuiltIn => {
                Self::Playback(Playback::new(source, plan.period, plan.realtime, next_sequence, start_time)?)
            }
        })
    }

    /// The next frame, if one comes soon.
    pub fn next(&mut self, sampler: &Sampler, now_ns: u64, frame: &mut Frame) -> Result<Poll> {
        match self {
            Self::Playback(playback) => playback.next(sampler, frame),
            Self::Camera(capture) => {
                let wait = sampler.next_time().map_or(0, |time| time.saturating_sub(now_ns));
                let wait = Duration::from_nanos(wait);
                if wait > LONGEST_WAIT {
                    std::thread::sleep(LONGEST_WAIT);
                    return Ok(Poll::Nothing);
                }
                std::thread::sleep(wait);
                Ok(match capture.newest(frame, LONGEST_WAIT) {
                    true => Poll::Frame(frame.monotonic_ns),
                    false => Poll::Nothing,
                })
            }
        }
    }

    /// Lets time pass without looking: a paused camera goes on, a recording stands still.
    pub fn pass(&mut self) {
        std::thread::sleep(Duration::from_millis(50));
        if let Self::Playback(Playback { pace: Some(pace), .. }) = self {
            pace.origin = None;
        }
    }

    /// The moment of a frame: of a recording, with the wall time that the recording tells, or none.
    pub fn stamp(&self, now: Stamp, time: u64) -> Stamp {
        match self {
            Self::Camera(_) => now,
            Self::Playback(playback) => now.as_recorded(playback.wall(time)),
        }
    }

    /// What is known to be missing of a recording, and why.
    pub fn missing(&self) -> Option<String> {
        match self {
            Self::Camera(_) => None,
            Self::Playback(playback) => playback.source.missing(),
        }
    }

    /// What happened to the camera since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        match self {
            Self::Camera(capture) => capture.events().try_iter().collect(),
            Self::Playback(_) => Vec::new(),
        }
    }

    /// Whether the camera's thread still runs; a recording is read by the caller's own.
    pub fn life(&self) -> Life {
        match self {
            Self::Camera(capture) => capture.life(),
            Self::Playback(_) => Life::Running,
        }
    }

    /// Frames delivered, lost and damaged.
    pub fn counters(&self) -> Counters {
        match self {
            Self::Camera(capture) => capture.counters(),
            Self::Playback(playback) => playback.source.counters(),
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        match self {
            Self::Camera(capture) => capture.describe().to_owned(),
            Self::Playback(playback) => playback.source.describe(),
        }
    }

    /// The number of the next picture, for sources that can be read again.
    pub fn next_sequence(&self) -> u64 {
        match self {
            Self::Camera(_) => 0,
            // A frame that waits for its time has not been looked at.
            Self::Playback(playback) => playback.next_sequence - u64::from(playback.early),
        }
    }

    /// Pictures of the source from its first to its last, where it knows.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Camera(_) => None,
            Self::Playback(playback) => playback.source.length(),
        }
    }

    /// The playback, if it is one.
    pub fn playback(&mut self) -> Option<&mut Playback> {
        match self {
            Self::Playback(playback) => Some(playback),
            Self::Camera(_) => None,
        }
    }
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Feed").field(&self.describe()).finish()
    }
}

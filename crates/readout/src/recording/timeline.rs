//! Seconds since the beginning, over boots and sources, with a wall clock that may be wrong.

use jiff::Timestamp;

use crate::clock::Stamp;
use crate::trace::{Entry, Frame, Record, Start};

const SECOND: f64 = 1e9;

/// Where a camera's time and its latency agree this well, the camera's time is the machine's; in seconds.
const SAME_CLOCK: f64 = 2e-3;

/// The longest that a picture of a camera that told no latency may have been on its way, in seconds.
const LONGEST_WAY: f64 = 60.0;

/// What a frame stands for as long as no other shows it: the usual period, in seconds.
const ONE_FRAME: f64 = 4.0;

/// Places records on one time line, in the order of the trace.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    last: Option<Place>,
    /// Whether the frames of now have a time of their own; unknown in traces that do not say.
    recorded: Option<bool>,
    /// Of a recorded or built-in source: its first frame's time and its newest one's, in nanoseconds.
    source: Option<(u64, u64)>,
    /// When the newest frame of a recorded source was taken.
    wall: Option<Timestamp>,
    /// What the last frame of a source stands for, in seconds; none before its second one.
    step: Option<f64>,
    /// What the frames of now come from.
    name: String,
    /// What the clock showed when the frames began to come from a camera, and the seconds until then.
    origin: i128,
    base: f64,
    /// The seconds of the newest record, and whether a camera's frame was among them.
    reached: f64,
    on_clock: bool,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    at: Stamp,
    /// Nanoseconds since the beginning.
    since: i128,
}

impl Timeline {
    /// The seconds since the beginning, and the moment; of the picture, for a frame whose camera told its time.
    pub(super) fn place(&mut self, entry: &Entry) -> (f64, Stamp) {
        let since = match self.last {
            None => 0,
            Some(last) if last.at.boot == entry.at.boot => {
                last.since + i128::from(entry.at.mono_ns) - i128::from(last.at.mono_ns)
            }
            Some(last) => last.since + between(&last.at, &entry.at),
        };
        self.last = Some(Place { at: entry.at, since });
        let mut earlier = 0;
        match &entry.record {
            Record::Start(start) => self.start(start, since),
            Record::Frame(frame) => earlier = self.frame(frame, entry),
            _ => {}
        }
        let (passed, at) = match self.source {
            Some((first, newest)) => (i128::from(newest) - i128::from(first), entry.at),
            None if self.recorded == Some(true) => (0, entry.at),
            None => (since - self.origin - i128::from(earlier), before(entry.at, earlier)),
        };
        self.reached = self.base + passed as f64 / SECOND;
        // A recording's other records are where its frames are: neither is told by the clock of the processing.
        let at = if self.recorded == Some(true) { at.as_recorded(self.wall) } else { at };
        (self.reached, at)
    }

    /// Another source begins where the one before ended; the same one goes on.
    fn start(&mut self, start: &Start, since: i128) {
        let named = std::mem::replace(&mut self.name, start.source.clone());
        let recorded = std::mem::replace(&mut self.recorded, start.recorded);
        let another = !start.continues.unwrap_or(start.source == named);
        if self.source.is_some() && another {
            self.base = self.reached + self.step.unwrap_or(ONE_FRAME);
        } else if self.source.is_none()
            && start.recorded == Some(true)
            && (self.on_clock || recorded == Some(false))
        {
            // The time of a camera goes on until now.
            self.base += (since - self.origin) as f64 / SECOND;
        } else if self.source.is_some() || recorded != Some(true) {
            return;
        }
        (self.source, self.wall, self.step) = (None, None, None);
        (self.origin, self.on_clock) = (since, false);
    }

    /// Takes a frame's own time; returns how much earlier than its record a camera took it.
    fn frame(&mut self, frame: &Frame, entry: &Entry) -> u64 {
        let now = entry.at.mono_ns;
        let old = || guess_of_old_traces(frame, self.recorded, now);
        let Some(taken) = frame.source_ns.or_else(old) else {
            self.on_clock = true;
            return frame.captured_ns.map_or(0, |taken| now.saturating_sub(taken));
        };
        if self.source.is_none() && std::mem::take(&mut self.on_clock) {
            self.base = self.reached;
        }
        let (first, newest) = self.source.unwrap_or((taken, taken));
        if let Some(passed) = taken.checked_sub(newest).filter(|&passed| passed > 0) {
            self.step = Some(passed as f64 / SECOND);
        }
        self.source = Some((first, taken));
        self.wall = entry.at.wall;
        0
    }
}

/// The source's time of a frame without `source_ns`. Older versions wrote both times as `captured_ns`, and the oldest did
/// not say either whether the source was recorded: then a time that fits the machine's clock is taken for a camera's.
fn guess_of_old_traces(frame: &Frame, recorded: Option<bool>, now: u64) -> Option<u64> {
    let taken = frame.captured_ns?;
    let on_this_clock = now.checked_sub(taken).is_some_and(|way| {
        let seconds = way as f64 / SECOND;
        match frame.latency_ms {
            Some(latency) => (seconds - f64::from(latency) / 1e3).abs() < SAME_CLOCK,
            None => seconds < LONGEST_WAY,
        }
    });
    recorded.unwrap_or(!on_this_clock).then_some(taken)
}

/// What is known of the time between two boots.
fn between(last: &Stamp, first: &Stamp) -> i128 {
    match (last.wall, first.wall) {
        (Some(before), Some(after)) if last.synced && first.synced => {
            let microseconds = after.as_microsecond().saturating_sub(before.as_microsecond());
            i128::from(microseconds.max(0)) * 1000
        }
        _ => 0,
    }
}

/// The moment so much earlier in the same boot.
fn before(at: Stamp, nanoseconds: u64) -> Stamp {
    let microseconds = i64::try_from(nanoseconds / 1000).unwrap_or(i64::MAX);
    let earlier = |wall: Timestamp| {
        let wall = wall.as_microsecond().saturating_sub(microseconds);
        Timestamp::from_microsecond(wall).unwrap_or(Timestamp::MIN)
    };
    Stamp { mono_ns: at.mono_ns.saturating_sub(nanoseconds), wall: at.wall.map(earlier), ..at }
}

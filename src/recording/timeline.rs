//! Seconds since the beginning, over boots and with a wall clock that may be wrong.

use crate::device::clock::Stamp;
use crate::trace::{Entry, Frame, Record};

const SECOND: f64 = 1e9;

/// Where a camera's time and its latency agree this well, the camera's time is the machine's; in seconds.
const SAME_CLOCK: f64 = 2e-3;

/// The longest that a picture of a camera that told no latency may have been on its way, in seconds.
const LONGEST_WAY: f64 = 60.0;

/// Places records on one time line, in the order of the trace.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    last: Option<Place>,
    /// Of a recorded or built-in source: its first frame's time and its newest one's, in nanoseconds.
    source: Option<(u64, u64)>,
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
        if let Record::Start(start) = &entry.record
            && start.source != std::mem::replace(&mut self.name, start.source.clone())
            && self.source.take().is_some()
        {
            // Another source after a recorded one: its frames come after.
            (self.base, self.origin) = (self.reached, since);
        }
        let mut earlier = 0;
        if let Record::Frame(frame) = &entry.record
            && let Some(taken) = frame.captured_ns
        {
            match on_this_clock(frame, taken, entry.at.mono_ns) {
                Some(way) => {
                    earlier = way;
                    self.on_clock = true;
                }
                None => {
                    if self.source.is_none() && std::mem::take(&mut self.on_clock) {
                        self.base = self.reached;
                    }
                    self.source = Some((self.source.map_or(taken, |source| source.0), taken));
                }
            }
        }
        let (passed, at) = match self.source {
            Some((first, newest)) => (i128::from(newest) - i128::from(first), entry.at),
            None => (since - self.origin - i128::from(earlier), before(entry.at, earlier)),
        };
        self.reached = self.base + passed as f64 / SECOND;
        (self.reached, at)
    }
}

/// How long ago the picture was taken, if its time is that of the machine's clock and not of a recording.
fn on_this_clock(frame: &Frame, taken: u64, now: u64) -> Option<u64> {
    let way = now.checked_sub(taken)?;
    let seconds = way as f64 / SECOND;
    let same = match frame.latency_ms {
        Some(latency) => (seconds - f64::from(latency) / 1e3).abs() < SAME_CLOCK,
        None => seconds < LONGEST_WAY,
    };
    same.then_some(way)
}

/// What is known of the time between two boots.
fn between(last: &Stamp, first: &Stamp) -> i128 {
    let known = last.synced && first.synced;
    let microseconds = first.wall.as_microsecond().saturating_sub(last.wall.as_microsecond());
    if known { i128::from(microseconds.max(0)) * 1000 } else { 0 }
}

/// The moment so much earlier in the same boot.
fn before(at: Stamp, nanoseconds: u64) -> Stamp {
    let microseconds = i64::try_from(nanoseconds / 1000).unwrap_or(i64::MAX);
    let wall = jiff::Timestamp::from_microsecond(at.wall.as_microsecond().saturating_sub(microseconds));
    Stamp { mono_ns: at.mono_ns.saturating_sub(nanoseconds), wall: wall.unwrap_or(at.wall), ..at }
}

//! Whether pictures still come, so that the watchdog is fed only while the recording does its work.
//!
//! The capture thread reports a camera that falls silent as lost within ten seconds, and that is told. So a camera that
//! counts as present and brings nothing for much longer means that the thread itself is stuck or gone.

use std::time::{Duration, Instant};

use crate::camera::Counters;

/// Without a picture for so long, the watchdog is no longer fed …
const UNFED: Duration = Duration::from_secs(30);

/// … and for so long, the run ends by itself.
const GONE: Duration = Duration::from_secs(60);

/// How a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Pictures come, or there is a good reason why they do not.
    Alive,
    /// None has come for a while, for no known reason.
    Doubtful,
    /// None will come.
    Gone,
}

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Liveness {
    unfed: Duration,
    gone: Duration,
    counters: Counters,
    since: Instant,
}

impl Liveness {
    /// Begins to watch.
    pub fn new(now: Instant) -> Self {
        Self::with_timeouts(UNFED, GONE, now)
    }

    /// As [`Liveness::new`], with other timeouts.
    pub(super) fn with_timeouts(unfed: Duration, gone: Duration, now: Instant) -> Self {
        Self { unfed, gone, counters: Counters::default(), since: now }
    }

    /// Judges by what the source has delivered up to now. `excused` is a source that need not deliver: it is paused, known
    /// to be away, or read by the loop itself.
    pub fn judge(&mut self, counters: Counters, excused: bool, now: Instant) -> Health {
        if excused || counters != self.counters {
            self.counters = counters;
            self.since = now;
        }
        match now.saturating_duration_since(self.since) {
            silent if silent > self.gone => Health::Gone,
            silent if silent > self.unfed => Health::Doubtful,
            _ => Health::Alive,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_source_is_given_up_unless_it_is_excused() {
        let start = Instant::now();
        let mut liveness = Liveness::new(start);
        let mut at = |seconds: u64, frames: u64, excused: bool| {
            let counters = Counters { frames, ..Counters::default() };
            liveness.judge(counters, excused, start + Duration::from_secs(seconds))
        };
        assert_eq!(at(0, 1, false), Health::Alive);
        assert_eq!(at(29, 1, false), Health::Alive);
        assert_eq!(at(31, 1, false), Health::Doubtful);
        assert_eq!(at(32, 2, false), Health::Alive, "a picture came");
        assert_eq!(at(500, 2, true), Health::Alive, "paused, or the camera is away");
        assert_eq!(at(531, 2, false), Health::Doubtful);
        assert_eq!(at(561, 2, false), Health::Gone);
    }

    #[test]
    fn pictures_that_cannot_be_read_are_pictures() {
        let start = Instant::now();
        let mut liveness = Liveness::new(start);
        for second in 0..200 {
            let counters = Counters { corrupt: second, ..Counters::default() };
            assert_eq!(liveness.judge(counters, false, start + Duration::from_secs(second)), Health::Alive);
        }
    }
}

//! When to look: one frame every period, and a companion a moment after it.
//!
//! Times are those of the source: the camera's own time stamps, a recording's, or a world's. So what is sampled from a
//! recording does not depend on how fast it is read.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long after a sample its companion is taken: long enough to differ, short enough to show the same thing.
pub const COMPANION_AFTER: Duration = Duration::from_millis(300);

/// What a frame is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// As the companion of this earlier sample.
    pub companion_of: Option<u64>,
    /// As the next sample.
    pub sample: bool,
}

/// Decides frame by frame. All times in nanoseconds of the source's clock.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampler {
    period: u64,
    companions: bool,
    /// From when on the next sample is wanted; none before the first frame.
    next_sample: Option<u64>,
    /// The sample that waits for its companion, and from when on that is wanted.
    next_companion: Option<(u64, u64)>,
}

impl Sampler {
    /// A sampler that wants its first frame at once.
    pub fn new(period: Duration, companions: bool) -> Self {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
        Self { period, companions, next_sample: None, next_companion: None }
    }

    /// The same place in the source, with another rhythm from the next sample on.
    #[must_use]
    pub fn with(self, period: Duration, companions: bool) -> Self {
        let Self { period, companions, .. } = Self::new(period, companions);
        Self { period, companions, ..self }
    }

    /// What the frame of this time is wanted for, if it would be sample number `frame`.
    pub fn wants(&mut self, time: u64, frame: u64) -> Wanted {
        let sample = self.next_sample.is_none_or(|from| time >= from);
        // The next sample is the last chance of a companion that has not come yet.
        let companion_of =
            self.next_companion.filter(|(_, from)| sample || time >= *from).map(|(sample, _)| sample);
        if companion_of.is_some() {
            self.next_companion = None;
        }
        if sample {
            let on_time = self.next_sample.unwrap_or(time).saturating_add(self.period);
            // After a gap the rhythm starts anew instead of catching up.
            self.next_sample = Some(if on_time > time { on_time } else { time.saturating_add(self.period) });
            if self.companions {
                let after = u64::try_from(COMPANION_AFTER.as_nanos()).unwrap_or(0).min(self.period);
                self.next_companion = Some((frame, time.saturating_add(after)));
            }
        }
        Wanted { companion_of, sample }
    }

    /// The earliest time that a frame is wanted from; none before the first frame.
    pub fn next_time(&self) -> Option<u64> {
        let companion = self.next_companion.map(|(_, from)| from);
        self.next_sample.map(|sample| companion.map_or(sample, |companion| companion.min(sample)))
    }

    /// Begins a new rhythm: after a pause, a restart, or another clock.
    pub fn restart(&mut self) {
        self.next_sample = None;
        self.next_companion = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The frame numbers that were sampled and taken as companions, of a camera with ten frames a second.
    fn sampled(period: Duration, companions: bool, frames: u64) -> (Vec<u64>, Vec<u64>) {
        let mut sampler = Sampler::new(period, companions);
        let (mut samples, mut seconds) = (Vec::new(), Vec::new());
        for frame in 0..frames {
            let wanted = sampler.wants(5 * SECOND + frame * SECOND / 10, samples.len() as u64);
            if let Some(sample) = wanted.companion_of {
                assert_eq!(sample + 1, samples.len() as u64);
                seconds.push(frame);
            }
            if wanted.sample {
                samples.push(frame);
            }
        }
        (samples, seconds)
    }

    #[test]
    fn one_frame_a_period_and_its_companion() {
        let (samples, companions) = sampled(Duration::from_secs(2), true, 50);
        assert_eq!(samples, [0, 20, 40]);
        assert_eq!(companions, [3, 23, 43]);
        assert!(sampled(Duration::from_secs(2), false, 50).1.is_empty());
    }

    #[test]
    fn slow_sources_give_every_frame_and_the_next_one_as_its_companion() {
        let (samples, companions) = sampled(Duration::from_millis(50), true, 4);
        assert_eq!((samples, companions), (vec![0, 1, 2, 3], vec![1, 2, 3]));
    }

    #[test]
    fn no_sample_is_left_without_a_companion_however_uneven_the_times() {
        let mut sampler = Sampler::new(Duration::from_millis(200), true);
        let (mut samples, mut companions) = (0, Vec::new());
        for time in [0, 233, 399, 433, 599, 660, 801] {
            let wanted = sampler.wants(time * SECOND / 1000, samples);
            companions.extend(wanted.companion_of);
            samples += u64::from(wanted.sample);
        }
        assert_eq!((samples, companions), (5, vec![0, 1, 2, 3]));
    }

    #[test]
    fn a_gap_is_not_caught_up_with() {
        let mut sampler = Sampler::new(Duration::from_secs(4), false);
        let mut take = |second: u64| sampler.wants(second * SECOND, 0).sample;
        assert!(take(0) && !take(3) && take(4));
        assert!(take(60) && !take(61) && !take(63) && take(64));
    }
}

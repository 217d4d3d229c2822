//! Which checkpoints stay: the last two for safety, and a thinning row of older ones for `forget`.
//!
//! "Forget the last hour" returns the learner to a checkpoint from before, so one must exist. Time is what the program
//! has run, restarts included. For each of [`STEPS`] that time is divided into equal spans, and the first checkpoint
//! of the current span and of the one before it stay. So for every step there is one whose age is between the step
//! (less the interval between checkpoints) and twice the step, and never more than [`MOST_CHECKPOINTS`] files exist;
//! mostly fewer, since the first of a long span is the first of a short one too.

use std::time::Duration;

/// The spans by which older checkpoints are thinned out: a quarter of an hour, 1, 6 and 24 hours.
const STEPS: [Duration; 4] = [minutes(15), minutes(60), minutes(360), minutes(1440)];

/// The newest ones always stay: should the last be damaged, the one before it is there.
const NEWEST: usize = 2;

/// The most checkpoint files that are kept.
pub const MOST_CHECKPOINTS: usize = NEWEST + 2 * STEPS.len();

/// How many checkpoints to keep when a new one is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The last two and the row of older ones.
    LastTwoAndOlder,
    /// The last two only: when the disk is getting full.
    LastTwo,
}

const fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

/// For each checkpoint (newest first, by the time that the program had run at it), whether it stays.
pub(super) fn kept(running: &[Duration], keep: Keep) -> Vec<bool> {
    let span = |at: &Duration, step: &Duration| at.as_secs() / step.as_secs();
    let first_of_a_recent_span = |index: usize, at: &Duration, step: &Duration| {
        let newest = running.first().map_or(0, |newest| span(newest, step));
        let mine = span(at, step);
        mine + 1 >= newest && !running.iter().skip(index + 1).any(|older| span(older, step) == mine)
    };
    let stays = |(index, at): (usize, &Duration)| {
        index < NEWEST
            || keep == Keep::LastTwoAndOlder
                && STEPS.iter().any(|step| first_of_a_recent_span(index, at, step))
    };
    running.iter().enumerate().map(stays).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Saves one checkpoint after another and keeps what the rule keeps. Returns the ages left, newest first.
    fn run(intervals: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut held: Vec<Duration> = Vec::new();
        let mut now = 0;
        for interval in intervals {
            now += interval;
            held.insert(0, Duration::from_secs(now));
            let stays = kept(&held, Keep::LastTwoAndOlder);
            held = held.into_iter().zip(stays).filter_map(|(at, stays)| stays.then_some(at)).collect();
        }
        held.iter().map(|at| now - at.as_secs()).collect()
    }

    proptest! {
        #[test]
        fn few_are_kept_and_each_step_has_one_of_its_age(
            intervals in prop::collection::vec(30u64..=600, 1..600)
        ) {
            let ages = run(intervals.iter().copied());
            prop_assert!(ages.len() <= MOST_CHECKPOINTS, "{ages:?}");
            prop_assert_eq!(ages[0], 0);
            prop_assert!(ages.windows(2).all(|pair| pair[0] < pair[1]));
            if intervals.len() > 1 {
                prop_assert_eq!(ages[1], intervals[intervals.len() - 1], "the one before the newest stays");
            }
            for step in STEPS.map(|step| step.as_secs()) {
                let found = ages.iter().any(|&age| (step - 600..=2 * step).contains(&age));
                prop_assert!(found || intervals.iter().sum::<u64>() < 2 * step, "none for {step} s among {ages:?}");
            }
        }
    }

    #[test]
    fn a_full_disk_keeps_two() {
        let at: Vec<Duration> = (0..100).rev().map(|n| minutes(n * 10)).collect();
        assert_eq!(kept(&at, Keep::LastTwo).iter().filter(|&&stays| stays).count(), 2);
        assert!(kept(&at, Keep::LastTwoAndOlder).iter().filter(|&&stays| stays).count() > 2);
    }
}

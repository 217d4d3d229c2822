//! The sampled frames that learning can still reach, and which of them form the next window.
//!
//! A window is `window` consecutive samples; the next one begins `stride` samples later, so that the learning memory
//! after the first `stride` frames of one is exactly the memory before the other. If the learner was busy when a window
//! was due, the window is still that one: the ring holds half a window more than a window for it to be late. Only
//! when that is used up are samples left out, and the caller is told how many.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Due, Kept, Sample, WindowSource};

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Ring {
    samples: VecDeque<Sample>,
    window: usize,
    /// The frame with which the next window begins.
    next_start: u64,
}

impl Ring {
    /// An empty ring whose first window begins with frame `next_start`.
    pub fn new(window: usize, next_start: u64) -> Self {
        Self { samples: VecDeque::with_capacity(capacity(window)), window, next_start }
    }
}

impl WindowSource for Ring {
    fn push(&mut self, sample: Sample) {
        if self.samples.len() >= capacity(self.window) {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    fn add_companion(&mut self, frame: u64, sequence: u64, pixels: Arc<[u8]>) {
        if let Some(sample) = self.samples.iter_mut().rev().find(|sample| sample.frame == frame) {
            sample.companion = Some((sequence, pixels));
        }
    }

    fn due(&mut self, stride: usize, companions: bool) -> Option<Due> {
        let oldest = self.samples.front()?.frame;
        let newest = self.samples.back()?.frame;
        let left_out = oldest.saturating_sub(self.next_start);
        let start = self.next_start.max(oldest);
        let last = start + self.window as u64 - 1;
        if newest < last {
            return None;
        }
        // Numbers are consecutive, so places follow from them.
        let at = usize::try_from(start - oldest).ok()?;
        let samples: Vec<Sample> = self.samples.range(at..at + self.window).cloned().collect();
        if companions && newest == last && samples.last().is_some_and(|sample| sample.companion.is_none()) {
            return None;
        }
        self.next_start = start + stride as u64;
        let late = usize::try_from(newest - last).unwrap_or(usize::MAX);
        Some(Due { samples, late, left_out })
    }

    fn kept(&self) -> Kept {
        Kept { samples: self.samples.iter().cloned().collect(), next_start: self.next_start }
    }

    fn forget(&mut self, next_start: u64) {
        self.samples.clear();
        self.next_start = next_start;
    }

    fn restore(&mut self, kept: Kept) {
        self.forget(kept.next_start);
        kept.samples.into_iter().for_each(|sample| self.push(sample));
    }
}

fn capacity(window: usize) -> usize {
    window + window.div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(frame: u64) -> Sample {
        Sample { frame, sequence: 10 * frame, pixels: Arc::from([]), companion: None }
    }

    fn frames(due: &Due) -> Vec<u64> {
        due.samples.iter().map(|sample| sample.frame).collect()
    }

    #[test]
    fn windows_follow_each_other_by_the_stride() {
        let mut ring = Ring::new(4, 0);
        let mut windows = Vec::new();
        for frame in 0..9 {
            ring.push(sample(frame));
            windows.extend(ring.due(2, false).map(|due| (frames(&due), due.late, due.left_out)));
        }
        assert_eq!(windows, [(vec![0, 1, 2, 3], 0, 0), (vec![2, 3, 4, 5], 0, 0), (vec![4, 5, 6, 7], 0, 0)]);
    }

    #[test]
    fn a_late_window_is_the_one_that_was_due() {
        let mut ring = Ring::new(4, 0);
        (0..5).for_each(|frame| ring.push(sample(frame)));
        let due = ring.due(1, false).unwrap();
        assert_eq!((frames(&due), due.late, due.left_out), (vec![0, 1, 2, 3], 1, 0));
    }

    #[test]
    fn what_is_gone_is_counted() {
        let mut ring = Ring::new(4, 0);
        (0..9).for_each(|frame| ring.push(sample(frame)));
        let due = ring.due(2, false).unwrap();
        assert_eq!((frames(&due), due.late, due.left_out), (vec![3, 4, 5, 6], 2, 3));
        assert_eq!(ring.kept().next_start, 5);
    }

    #[test]
    fn a_window_waits_for_its_last_companion() {
        let mut ring = Ring::new(2, 0);
        for frame in 0..2 {
            ring.push(sample(frame));
            assert!(ring.due(1, true).is_none());
            ring.add_companion(frame, 10 * frame + 3, Arc::from([1]));
        }
        assert_eq!(frames(&ring.due(1, true).unwrap()), [0, 1]);
        // The companion of 2 never comes: 3 shows that it is no longer to be waited for.
        ring.push(sample(2));
        assert!(ring.due(1, true).is_none());
        ring.push(sample(3));
        assert_eq!(frames(&ring.due(1, true).unwrap()), [1, 2]);
    }
}

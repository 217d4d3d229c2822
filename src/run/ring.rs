//! The sampled frames that learning can still reach, and which of them form the next window.
//!
//! A window is `window` consecutive samples; the next one begins `stride` samples later, so that the learning memory
//! after the first `stride` frames of one is exactly the memory before the other. If the learner was busy when a window
//! was due, the window is still that one: the ring holds half a window more than a window for it to be late. Only
//! when that is used up are samples left out, and the caller is told how many.

use std::collections::VecDeque;
use std::sync::Arc;

/// A sampled frame as learning sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its number, from 0 over all restarts.
    pub frame: u64,
    /// The source's own number of the picture.
    pub sequence: u64,
    /// Height × width × channels.
    pub pixels: Arc<[u8]>,
    /// The picture a moment later, with the source's number of it.
    pub companion: Option<(u64, Arc<[u8]>)>,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Ring {
    samples: VecDeque<Sample>,
    window: usize,
    /// The frame with which the next window begins.
    next_start: u64,
}

/// A window that is due.
#[derive(Clone, Debug)]
pub struct Due {
    /// Its samples.
    pub samples: Vec<Sample>,
    /// How many samples came after its last one by now: the learner was late.
    pub late: usize,
    /// Samples that were left out before it, since they were gone.
    pub left_out: u64,
}

impl Ring {
    /// An empty ring whose first window begins with frame `next_start`.
    pub fn new(window: usize, next_start: u64) -> Self {
        Self { samples: VecDeque::with_capacity(capacity(window)), window, next_start }
    }

    /// Adds the newest sample.
    pub fn push(&mut self, sample: Sample) {
        if self.samples.len() >= capacity(self.window) {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Gives the sample of this frame its companion, if it is still here.
    pub fn add_companion(&mut self, frame: u64, sequence: u64, pixels: Arc<[u8]>) {
        if let Some(sample) = self.samples.iter_mut().rev().find(|sample| sample.frame == frame) {
            sample.companion = Some((sequence, pixels));
        }
    }

    /// The next window, if its last frame has been sampled. With `companions`, the newest sample is waited for until it has
    /// its own; one that got none, because the camera was lost, stands in for it itself.
    pub fn due(&mut self, stride: usize, companions: bool) -> Option<Due> {
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

    /// The samples that a resumed run needs again, oldest first.
    pub fn samples(&self) -> impl Iterator<Item = &Sample> {
        self.samples.iter()
    }

    /// The frame with which the next window begins.
    pub fn next_start(&self) -> u64 {
        self.next_start
    }

    /// Forgets all samples; the next window begins with frame `next_start`.
    pub fn clear(&mut self, next_start: u64) {
        self.samples.clear();
        self.next_start = next_start;
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
        assert_eq!(ring.next_start(), 5);
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

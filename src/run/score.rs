//! Categories against the truth, where a source knows it: the adjusted mutual information of the last frames.
//!
//! The truth never reaches the learner; it is compared with what came out.

use std::collections::VecDeque;

use oupn_readout::ami;

/// The frames that are compared.
pub const FRAMES: usize = 500;

/// Truth and category of the last frames.
#[derive(Clone, Debug, Default)]
pub struct Score {
    pairs: VecDeque<(u64, u64)>,
}

impl Score {
    /// Adds a frame, if its truth is known.
    pub fn add(&mut self, truth: Option<u64>, category: u64) {
        let Some(truth) = truth else { return };
        if self.pairs.len() >= FRAMES {
            self.pairs.pop_front();
        }
        self.pairs.push_back((truth, category));
    }

    /// How many frames are compared.
    pub fn frames(&self) -> usize {
        self.pairs.len()
    }

    /// How many different things they show.
    pub fn things(&self) -> usize {
        let mut things: Vec<u64> = self.pairs.iter().map(|(truth, _)| *truth).collect();
        things.sort_unstable();
        things.dedup();
        things.len()
    }

    /// The adjusted mutual information; 1 for the same grouping, 0 for chance.
    pub fn ami(&self) -> Option<f64> {
        let (truths, categories): (Vec<u64>, Vec<u64>) = self.pairs.iter().copied().unzip();
        if self.pairs.is_empty() {
            return None;
        }
        ami(&truths, &categories).ok()
    }
}

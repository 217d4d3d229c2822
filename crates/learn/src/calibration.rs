//! A useful start: β from the first frames, so that repeated views merge from the first minute on.
//!
//! With the paper's β = −12 every frame creates a category until learning has raised β over thousands of updates. What
//! counts as "the same" depends on the encoder and on the camera's world, so β is set from the first frames themselves: an
//! empty memory, shown those frames, is to found one category for every [`FRAMES_A_CATEGORY`] of them, or the next lower
//! number that it can. Of all β that do so, the middle one is taken, so that neither the next view of a known thing nor a
//! new thing lies at the edge, but none that asks for less similarity than the first frames had by more than
//! [`MARGIN`]: who has seen one thing only cannot know how different others are. That is done when 5, 10, 20, 40 and 75 frames have been seen; each calibration replaces
//! the one before it, and learning goes on from the last. Categories that were created meanwhile stay.
//!
//! One category in five frames is a prior on the world, not a result: at one frame every 4 s people look at a thing for
//! some twenty seconds. Learning then moves β by its own loss.

use crate::memory::{Control, LiveMemory, Rules};
use crate::{Error, Result};

/// The numbers of frames after which β is set.
const MOMENTS: [usize; 5] = [5, 10, 20, 40, 75];

/// How many of the first frames are to share a category, on average.
pub const FRAMES_A_CATEGORY: usize = 5;

/// The most by which the similarity asked for lies below what the first frames needed.
const MARGIN: f64 = 0.1;

/// Halvings of the range of β: from 2/τ wide to a thousandth of the similarity that matters.
const HALVINGS: usize = 12;

/// The embeddings of the first frames, until the last calibration is done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibrator {
    embeddings: Vec<f32>,
    dimension: usize,
}

impl Calibrator {
    /// Starts with no frames.
    pub fn new(dimension: usize) -> Self {
        Self { embeddings: Vec::with_capacity(MOMENTS[MOMENTS.len() - 1] * dimension), dimension }
    }

    /// Goes on from the embeddings that an earlier calibrator had.
    pub fn with(dimension: usize, embeddings: Vec<f32>) -> Self {
        Self { embeddings, dimension }
    }

    /// The embeddings so far.
    pub fn embeddings(&self) -> &[f32] {
        &self.embeddings
    }

    /// How many frames it has seen.
    pub fn frames(&self) -> usize {
        self.embeddings.len() / self.dimension.max(1)
    }

    /// Whether the last calibration is done.
    pub fn is_done(&self) -> bool {
        self.frames() >= MOMENTS[MOMENTS.len() - 1]
    }

    /// Adds a frame; returns the new β if this is a moment to set it.
    pub fn add(&mut self, embedding: &[f32], control: &Control, rules: &Rules) -> Result<Option<f64>> {
        if self.is_done() {
            return Ok(None);
        }
        if embedding.len() != self.dimension {
            return Err(Error::input("an embedding of another dimension"));
        }
        self.embeddings.extend_from_slice(embedding);
        if !MOMENTS.contains(&self.frames()) {
            return Ok(None);
        }
        self.beta(control, rules).map(Some)
    }

    /// β for which the frames so far found the wanted number of categories.
    pub fn beta(&self, control: &Control, rules: &Rules) -> Result<f64> {
        let wanted = self.frames().div_ceil(FRAMES_A_CATEGORY);
        // û = threshold at a cosine of 1 and of −1: all that lies beyond creates always or never.
        let shift = control.gamma * (1.0 / rules.threshold - 1.0).ln();
        let (low, high) = (shift - control.inv_tau, shift + control.inv_tau);
        let least = self.edge(low, high, control, rules, |created| created <= wanted)?;
        let number = self.created(&Control { beta: least, ..*control }, rules)?;
        let most = self.edge(least, high, control, rules, |created| created < number)?;
        Ok(least + (0.5 * (most - least)).min(MARGIN * control.inv_tau))
    }

    /// The smallest β between `low` and `high` that creates so few that `enough` says yes; `high` if none does.
    fn edge(
        &self,
        mut low: f64,
        mut high: f64,
        control: &Control,
        rules: &Rules,
        enough: impl Fn(usize) -> bool,
    ) -> Result<f64> {
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if enough(self.created(&Control { beta: middle, ..*control }, rules)?) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Ok(high)
    }

    fn created(&self, control: &Control, rules: &Rules) -> Result<usize> {
        let mut memory = LiveMemory::new(self.frames().max(1), self.dimension)?;
        let mut created = 0;
        for embedding in self.embeddings.chunks_exact(self.dimension) {
            created += usize::from(memory.observe(embedding, control, rules)?.created);
        }
        Ok(created)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;
    use crate::random::{Purpose, Random};

    /// Frames of `things` directions in turn, each `stay` frames long, with noise.
    fn frames(count: usize, stay: usize, noise: f32) -> Vec<[f32; 16]> {
        let mut random = Random::new(5, Purpose::World, 0);
        (0..count)
            .map(|frame| {
                let thing = frame / stay;
                std::array::from_fn(|at| {
                    f32::from(u8::from(at == thing % 16)) + noise * random.between(-1.0, 1.0)
                })
            })
            .collect()
    }

    #[test]
    fn repeated_views_merge_from_the_first_calibration_on() {
        let settings = Preset::Saycam.settings();
        let (mut control, rules) = (settings.control(), settings.rules());
        let mut calibrator = Calibrator::new(16);
        let mut memory = LiveMemory::new(75, 16).unwrap();
        let mut created = Vec::new();
        for frame in frames(75, 5, 0.1) {
            let observation = memory.observe(&frame, &control, &rules).unwrap();
            created.push(observation.created);
            if let Some(beta) = calibrator.add(&frame, &control, &rules).unwrap() {
                control.beta = beta;
            }
        }
        // The first five frames found one each, as the paper's start does; the other 14 things one each.
        assert_eq!(created[..5], [true; 5]);
        assert_eq!(created[5..].iter().filter(|created| **created).count(), 14);
        assert!(calibrator.is_done());
        assert_eq!(calibrator.add(&[0.0; 16], &control, &rules).unwrap(), None);
    }

    #[test]
    fn it_does_not_depend_on_the_scale_of_similarities() {
        let settings = Preset::Saycam.settings();
        for inv_tau in [5.0, 10.0, 40.0] {
            let control = Control { inv_tau, ..settings.control() };
            let mut calibrator = Calibrator::new(16);
            let mut beta = None;
            for frame in frames(20, 5, 0.1) {
                beta = calibrator.add(&frame, &control, &settings.rules()).unwrap().or(beta);
            }
            let control = Control { beta: beta.unwrap(), ..control };
            assert_eq!(calibrator.created(&control, &settings.rules()).unwrap(), 4);
        }
    }
}

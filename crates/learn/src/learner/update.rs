//! What an update did, and everything that updates change.
//!
//! That is one [`LearnerState`], in the open, so that it can be saved and restored whole. An update either happens completely
//! or leaves the state as it was: a loss or gradient that is not finite is reported, never applied.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::adam::{Adam, Group};
use crate::encoder::{Parameters, Statistics};
use crate::memory::Control;
use crate::tensors::Tensor;

/// Everything that learning changes.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnerState {
    /// The encoder's weights.
    pub parameters: Parameters,
    /// The running statistics of its batch norms.
    pub statistics: Statistics,
    /// 1/τ, β, γ.
    pub control: Control,
    /// The optimiser; its step counts the updates.
    pub adam: Adam,
    /// What the weights are pulled back to, if they are.
    pub anchor: Option<Vec<f32>>,
    /// What the objective carries from window to window, by name.
    pub carried: BTreeMap<String, Tensor>,
}

/// Why an update was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An embedding was not finite.
    EmbeddingNotFinite,
    /// The loss was not finite.
    LossNotFinite,
    /// The gradient of this group was not finite.
    GradientNotFinite(Group),
    /// The encoder's gradient was far longer than those before it.
    GradientTooLong,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmbeddingNotFinite => f.write_str("an embedding is not finite"),
            Self::LossNotFinite => f.write_str("the loss is not finite"),
            Self::GradientNotFinite(group) => write!(f, "the gradient of {group} is not finite"),
            Self::GradientTooLong => f.write_str("the gradient is far longer than those before it"),
        }
    }
}

/// What an update did.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Why the update was not applied, if it was not.
    pub refused: Option<Refusal>,
    /// The loss before the update.
    pub loss: f64,
    /// Its terms by name, before they are weighted.
    pub terms: Vec<(&'static str, f64)>,
    /// Mean of û over the window's frames, as the first view sees them. (The loss's own mean is that of samples where creation
    /// is sampled.)
    pub mean_new_probability: f64,
    /// Categories created within the window.
    pub created: usize,
    /// Slots of the learning memory in use.
    pub in_use: usize,
    /// Spread of the embeddings: see [`spread`].
    pub spread: f64,
    /// ‖∂L/∂weights‖.
    pub gradient_norm: f64,
    /// The encoder's learning rate.
    pub learning_rate: f64,
    /// Where the time went.
    pub times: Times,
}

impl Update {
    /// An update of which nothing is known yet.
    pub fn unknown(terms: &[&'static str], learning_rate: f64) -> Self {
        let unknown = f64::NAN;
        Self {
            refused: None,
            loss: unknown,
            terms: terms.iter().map(|name| (*name, unknown)).collect(),
            mean_new_probability: unknown,
            created: 0,
            in_use: 0,
            spread: unknown,
            gradient_norm: unknown,
            learning_rate,
            times: Times::default(),
        }
    }

    /// A term of the loss by its name; NaN if the objective has no such term.
    pub fn term(&self, name: &str) -> f64 {
        self.terms.iter().find(|(known, _)| *known == name).map_or(f64::NAN, |(_, value)| *value)
    }
}

/// How long an update took, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// Making the views, where the update began with frames.
    pub views: Duration,
    /// The encoder's forward pass over all views.
    pub encode: Duration,
    /// The memory's window, its losses and their gradient.
    pub memory: Duration,
    /// The encoder's backward pass.
    pub backward: Duration,
    /// The optimiser.
    pub adam: Duration,
}

impl Times {
    /// All parts together.
    pub fn total(&self) -> Duration {
        self.views + self.encode + self.memory + self.backward + self.adam
    }
}

/// How far embeddings spread: the standard deviation of the normalised embeddings, averaged over the dimensions and scaled
/// by √D. 1 if they point everywhere alike, 0 if they have collapsed to one point.
pub fn spread(embeddings: &[f32], dimension: usize) -> f64 {
    let count = embeddings.len() / dimension.max(1);
    if count == 0 {
        return 0.0;
    }
    let mut mean = vec![0.0; dimension];
    let mut square = vec![0.0; dimension];
    for embedding in embeddings.chunks_exact(dimension) {
        let norm = embedding.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        for ((mean, square), x) in mean.iter_mut().zip(&mut square).zip(embedding) {
            let x = f64::from(*x) / norm;
            *mean += x / count as f64;
            *square += x * x / count as f64;
        }
    }
    let deviations = mean.iter().zip(&square).map(|(mean, square)| (square - mean * mean).max(0.0).sqrt());
    deviations.sum::<f64>() / (dimension as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_one_for_all_directions_and_zero_for_one() {
        let axes = [1.0, 0.0, -1.0, 0.0, 0.0, 2.0, 0.0, -2.0];
        assert!((spread(&axes, 2) - 1.0).abs() < 1e-12);
        assert!(spread(&[3.0, 4.0, 0.3, 0.4, 30.0, 40.0], 2) < 1e-7);
        assert_eq!(spread(&[], 2), 0.0);
    }
}

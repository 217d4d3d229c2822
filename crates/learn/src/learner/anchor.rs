//! The pull back: after each of Adam's steps the weights move a part of the way to an anchor, the weights of the start.
//!
//! Adam's steps do not get shorter by themselves, so at a constant rate the weights wander ever further from the start and
//! lose what it knew. With θ ← θ + pull·(anchor − θ) after each step they stay within about rate/pull of the anchor,
//! however long a run lasts. The anchor itself may follow slowly, anchor ← anchor + rate·(θ − anchor), so that
//! what holds for hours is not pulled back for ever.

use crate::config::Settings;
use crate::{Error, Result};

/// The anchor's state and how strong it is.
#[derive(Clone, Debug)]
pub(super) struct Anchor {
    pull: f32,
    rate: f32,
    /// Where the weights are pulled to; none if nothing is pulled.
    weights: Option<Vec<f32>>,
}

impl Anchor {
    /// An anchor at these weights, as strong as the settings say.
    pub(super) fn new(settings: &Settings, start: &[f32]) -> Self {
        #[allow(clippy::cast_possible_truncation)]
        let (pull, rate) = (settings.anchor_pull as f32, settings.anchor_rate as f32);
        Self { pull, rate, weights: (pull > 0.0).then(|| start.to_vec()) }
    }

    /// Where it is, for a checkpoint; none if nothing is pulled.
    pub(super) fn weights(&self) -> Option<&[f32]> {
        self.weights.as_deref()
    }

    /// Goes on from a saved anchor. Without one it begins at the weights that were saved: those of a start, or of a run that
    /// had no anchor.
    ///
    /// # Errors
    /// If it is of another network.
    pub(super) fn restore(&mut self, saved: Option<Vec<f32>>, weights: &[f32]) -> Result<()> {
        if saved.as_ref().is_some_and(|saved| saved.len() != weights.len()) {
            return Err(Error::input("an anchor of another network"));
        }
        if self.weights.is_some() {
            self.weights = Some(saved.unwrap_or_else(|| weights.to_vec()));
        }
        Ok(())
    }

    /// After a step: pulls the weights back, then lets the anchor follow.
    pub(super) fn pull(&mut self, weights: &mut [f32]) {
        let Some(anchor) = &mut self.weights else { return };
        for (weight, anchor) in weights.iter_mut().zip(anchor) {
            *weight += self.pull * (*anchor - *weight);
            *anchor += self.rate * (*weight - *anchor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;

    fn anchor(pull: f64, rate: f64, start: &[f32]) -> Anchor {
        let settings = Settings { anchor_pull: pull, anchor_rate: rate, ..Preset::Omniglot.settings() };
        Anchor::new(&settings, start)
    }

    /// Constant steps of s under a pull of λ end at s·(1 − λ)/λ from the anchor: the fixed point of x ← (1 − λ)(x + s).
    #[test]
    fn constant_steps_stay_near_a_fixed_anchor() {
        let (mut anchor, mut weights) = (anchor(0.02, 0.0, &[1.0, -2.0]), [1.0f32, -2.0]);
        for _ in 0..1000 {
            weights[0] += 1e-3;
            anchor.pull(&mut weights);
        }
        assert!((weights[0] - 1.0 - 1e-3 * 0.98 / 0.02).abs() < 1e-4, "{}", weights[0]);
        assert_eq!(weights[1], -2.0);
        assert_eq!(anchor.weights().unwrap(), [1.0, -2.0]);
    }

    /// With weights held at 1 above the anchor's start, what is left of the distance is (1 − rate)ⁿ.
    #[test]
    fn a_slow_anchor_follows() {
        let mut anchor = anchor(1e-9, 0.1, &[0.0]);
        for _ in 0..10 {
            anchor.pull(&mut [1.0]);
        }
        let expected = 1.0 - 0.9f32.powi(10);
        assert!((anchor.weights().unwrap()[0] - expected).abs() < 1e-5);
    }

    #[test]
    fn without_a_pull_nothing_changes_and_nothing_is_kept() {
        let (mut anchor, mut weights) = (anchor(0.0, 0.5, &[1.0]), [0.1f32]);
        anchor.pull(&mut weights);
        anchor.restore(Some(vec![3.0]), &weights).unwrap();
        anchor.pull(&mut weights);
        assert_eq!((weights, anchor.weights()), ([0.1], None));
    }

    #[test]
    fn a_checkpoint_without_an_anchor_is_its_own() {
        let mut anchor = anchor(0.5, 0.0, &[0.0]);
        anchor.restore(None, &[2.0]).unwrap();
        assert_eq!(anchor.weights().unwrap(), [2.0]);
        anchor.restore(Some(vec![4.0]), &[2.0]).unwrap();
        assert_eq!(anchor.weights().unwrap(), [4.0]);
        assert!(anchor.restore(Some(vec![4.0, 5.0]), &[2.0]).is_err());
    }
}

//! The three losses of a window and their sum.

use super::super::rules::Rules;

/// The loss terms of one window, averaged over its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Losses {
    /// L_self: cross entropy between one view's pseudo-label and the other view's prediction.
    pub self_supervised: f64,
    /// L_ent: entropy of ŷ before the write, of the frames that [`EntropyOf`](crate::memory::EntropyOf) counts.
    pub entropy: f64,
    /// L_new: −log of the Beta prior at the mean of the creation variable.
    pub creation: f64,
    /// The mean of the creation variable: û, or its samples where sampling is on.
    pub mean_creation: f64,
    /// The weighted sum that the gradients belong to.
    pub total: f64,
}

impl Losses {
    /// Adds `factor` times other losses.
    pub fn add_scaled(&mut self, factor: f64, other: &Self) {
        let Self { self_supervised, entropy, creation, mean_creation, total } = other;
        self.self_supervised += factor * self_supervised;
        self.entropy += factor * entropy;
        self.creation += factor * creation;
        self.mean_creation += factor * mean_creation;
        self.total += factor * total;
    }
}

/// −log Beta(mean; 4μ, 4−4μ) and its derivative. The mean is clipped to [1e-3, 1−1e-3]; the derivative passes the clip.
pub(super) fn creation_loss(rules: &Rules, mean: f64) -> (f64, f64) {
    let a = 4.0 * rules.prior_mean;
    let b = 4.0 - a;
    let mean = mean.clamp(1e-3, 1.0 - 1e-3);
    let log_normaliser = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let loss = -((a - 1.0) * mean.ln() + (b - 1.0) * (1.0 - mean).ln() - log_normaliser);
    (loss, -((a - 1.0) / mean - (b - 1.0) / (1.0 - mean)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{EntropyOf, PseudoLabel, Variant};

    fn rules(prior_mean: f64) -> Rules {
        Rules {
            variant: Variant::Reference,
            decay: 0.99,
            threshold: 0.5,
            prior_mean,
            entropy_weight: 1.0,
            entropy_of: EntropyOf::All,
            creation_weight: 1.0,
            pseudo_label: PseudoLabel::OneHot,
            straight_through: false,
            symmetric: false,
        }
    }

    /// Values of the Beta density from its closed form.
    #[test]
    fn the_prior_has_the_published_values() {
        for (prior_mean, mean, loss) in [
            (0.5, 0.5, -0.405465),
            (0.5, 0.9, 0.616186),
            (0.6, 0.5, -0.301198),
            (0.6, 0.6, -0.422562),
            (0.6, 0.7, -0.465763),
        ] {
            let (value, slope) = creation_loss(&rules(prior_mean), mean);
            assert!((value - loss).abs() < 1e-6, "{value} {loss}");
            let h = 1e-6;
            let (up, _) = creation_loss(&rules(prior_mean), mean + h);
            let (down, _) = creation_loss(&rules(prior_mean), mean - h);
            assert!((slope - (up - down) / (2.0 * h)).abs() < 1e-5);
        }
    }
}

//! Linear read-out: how well one layer on top of frozen features tells the classes apart.
//!
//! Softmax regression from zero weights on shuffled batches of the features as they are, without weight decay. [`Optimiser`] has the
//! two ways in which the paper trains it. The order of the batches follows from the seed.

use crate::random::{Purpose, Random};
use crate::{Error, Result};

/// How the weights of a read-out are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Optimiser {
    /// Adam at this rate.
    Adam(f32),
    /// Plain gradient descent at this rate, without momentum.
    Sgd(f32),
}

/// One training of a read-out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// What moves the weights.
    pub optimiser: Optimiser,
    /// Passes over the rows.
    pub epochs: usize,
    /// Rows of a step.
    pub batch: usize,
    /// Start of the random order of the rows.
    pub seed: u64,
}

/// A trained read-out.
#[derive(Clone, Debug)]
pub struct LinearReadout {
    dimension: usize,
    /// A row of weights and an offset for each class.
    weights: Vec<f32>,
}

impl LinearReadout {
    /// Trains on rows of `dimension` numbers with labels below `classes`.
    ///
    /// # Errors
    /// If the sizes do not fit, a label is too large, or a batch has no rows.
    pub fn train(
        features: &[f32],
        dimension: usize,
        labels: &[usize],
        classes: usize,
        fit: &Fit,
    ) -> Result<Self> {
        if dimension == 0 || labels.is_empty() || fit.batch == 0 || features.len() != labels.len() * dimension
        {
            return Err(Error::input(format!(
                "a linear read-out of {} numbers in rows of {dimension} with {} labels, in batches of {}",
                features.len(),
                labels.len(),
                fit.batch
            )));
        }
        if let Some(label) = labels.iter().find(|label| **label >= classes) {
            return Err(Error::input(format!("label {label} is none of {classes} classes")));
        }
        let mut readout = Self { dimension, weights: vec![0.0; classes * (dimension + 1)] };
        let mut mover = Mover::new(fit.optimiser, readout.weights.len());
        let mut order: Vec<usize> = (0..labels.len()).collect();
        let mut gradient = vec![0.0f32; readout.weights.len()];
        for epoch in 0..fit.epochs as u64 {
            Random::new(fit.seed, Purpose::Episodes, epoch).shuffle(&mut order);
            for batch in order.chunks(fit.batch) {
                readout.gradient(features, labels, batch, &mut gradient);
                mover.step(&mut readout.weights, &gradient);
            }
        }
        Ok(readout)
    }

    /// The gradient of the batch's mean cross-entropy.
    fn gradient(&self, features: &[f32], labels: &[usize], batch: &[usize], gradient: &mut [f32]) {
        gradient.fill(0.0);
        for &index in batch {
            let row = &features[index * self.dimension..][..self.dimension];
            let mut shares = self.logits(row);
            let largest = shares.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            shares.iter_mut().for_each(|share| *share = (*share - largest).exp());
            let sum: f32 = shares.iter().sum();
            let rows = gradient.chunks_exact_mut(self.dimension + 1);
            for (class, (share, gradient)) in shares.iter().zip(rows).enumerate() {
                let error = share / sum - f32::from(u8::from(class == labels[index]));
                let error = error / batch.len() as f32;
                gradient.iter_mut().zip(row.iter().chain(&[1.0])).for_each(|(g, x)| *g += error * x);
            }
        }
    }

    /// The class of each row.
    pub fn classify(&self, features: &[f32]) -> Vec<usize> {
        let best = |row: &[f32]| {
            let logits = self.logits(row);
            (0..logits.len()).fold(0, |best, class| if logits[class] > logits[best] { class } else { best })
        };
        features.chunks_exact(self.dimension).map(best).collect()
    }

    fn logits(&self, row: &[f32]) -> Vec<f32> {
        let class = |weights: &[f32]| {
            crate::kernels::vector::dot(&weights[..self.dimension], row) + weights[self.dimension]
        };
        self.weights.chunks_exact(self.dimension + 1).map(class).collect()
    }
}

/// An optimiser with what it remembers.
struct Mover {
    optimiser: Optimiser,
    first: Vec<f32>,
    second: Vec<f32>,
    steps: i32,
}

impl Mover {
    fn new(optimiser: Optimiser, length: usize) -> Self {
        let length = if matches!(optimiser, Optimiser::Adam(_)) { length } else { 0 };
        Self { optimiser, first: vec![0.0; length], second: vec![0.0; length], steps: 0 }
    }

    fn step(&mut self, weights: &mut [f32], gradient: &[f32]) {
        self.steps += 1;
        match self.optimiser {
            Optimiser::Sgd(rate) => weights.iter_mut().zip(gradient).for_each(|(w, g)| *w -= rate * g),
            Optimiser::Adam(rate) => {
                let correction =
                    rate * (1.0 - 0.999f32.powi(self.steps)).sqrt() / (1.0 - 0.9f32.powi(self.steps));
                let moments = self.first.iter_mut().zip(&mut self.second);
                for ((weight, g), (first, second)) in weights.iter_mut().zip(gradient).zip(moments) {
                    *first += 0.1 * (g - *first);
                    *second += 0.001 * (g * g - *second);
                    *weight -= correction * *first / (second.sqrt() + 1e-7);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(optimiser: Optimiser, epochs: usize, batch: usize) -> Fit {
        Fit { optimiser, epochs, batch, seed: 0 }
    }

    /// Classes that a line separates are told apart by both optimisers; without an epoch, nothing is known.
    #[test]
    fn separable_classes_are_separated() {
        let mut random = Random::new(1, Purpose::World, 0);
        let labels: Vec<usize> = (0..300).map(|_| random.below(3)).collect();
        let row = |label: usize, random: &mut Random| {
            let (sin, cos) = (label as f32 * 2.1).sin_cos();
            [cos + random.between(-0.3, 0.3), sin + random.between(-0.3, 0.3)]
        };
        let features: Vec<f32> = labels.iter().flat_map(|&label| row(label, &mut random)).collect();
        for optimiser in [Optimiser::Adam(1e-2), Optimiser::Sgd(1.0)] {
            let how = fit(optimiser, 60, 32);
            let readout = LinearReadout::train(&features[..400], 2, &labels[..200], 3, &how).unwrap();
            let found = readout.classify(&features[400..]);
            let right = found.iter().zip(&labels[200..]).filter(|(a, b)| a == b).count();
            assert!(right >= 98, "{optimiser:?}: {right} of 100");
        }
        let none = fit(Optimiser::Adam(1e-3), 0, 128);
        assert_eq!(
            LinearReadout::train(&features, 2, &labels, 3, &none).unwrap().classify(&features[..2]),
            [0]
        );
    }

    /// From zero weights every class has the same share, so the first step is known in closed form.
    #[test]
    fn the_first_step_is_the_one_on_paper() {
        let (features, labels) = ([1.0, 2.0, -3.0, 0.5], [0, 1]);
        let sgd = LinearReadout::train(&features, 2, &labels, 2, &fit(Optimiser::Sgd(0.1), 1, 2)).unwrap();
        // Mean over the rows of (share − truth)·(x, 1), with shares of one half, times −0.1.
        let expected = [0.1, 0.0375, 0.0, -0.1, -0.0375, 0.0];
        for (found, expected) in sgd.weights.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-7, "{found} {expected}");
        }
        // Adam's first step has the length of its rate, whatever the gradient is.
        let adam = LinearReadout::train(&features, 2, &labels, 2, &fit(Optimiser::Adam(1e-3), 1, 2)).unwrap();
        for (found, sgd) in adam.weights.iter().zip(expected) {
            let expected = if sgd == 0.0 { 0.0 } else { 1e-3 * f32::signum(sgd) };
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let how = fit(Optimiser::Sgd(1.0), 1, 1);
        assert!(LinearReadout::train(&[1.0, 2.0], 2, &[3], 3, &how).is_err());
        assert!(LinearReadout::train(&[1.0], 2, &[0], 3, &how).is_err());
        assert!(LinearReadout::train(&[], 0, &[], 3, &how).is_err());
        assert!(LinearReadout::train(&[1.0], 1, &[0], 3, &fit(Optimiser::Sgd(1.0), 1, 0)).is_err());
    }
}

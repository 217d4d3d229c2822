//! Linear read-out: how well one layer on top of frozen features tells the classes apart.
//!
//! Softmax regression from zero weights by Adam on shuffled batches, features brought to mean 0 and deviation 1 by the
//! labelled rows' own statistics. The order of the batches follows from the seed.

use crate::random::{Purpose, Random};
use crate::{Error, Result};

const RATE: f32 = 1e-2;
const BATCH: usize = 256;

/// A trained read-out.
#[derive(Clone, Debug)]
pub struct LinearReadout {
    dimension: usize,
    classes: usize,
    mean: Vec<f32>,
    scale: Vec<f32>,
    /// A row of weights and an offset for each class.
    weights: Vec<f32>,
}

impl LinearReadout {
    /// Trains on rows of `dimension` numbers with labels below `classes`.
    ///
    /// # Errors
    /// If the sizes do not fit or a label is too large.
    pub fn train(
        features: &[f32],
        dimension: usize,
        labels: &[usize],
        classes: usize,
        epochs: usize,
        seed: u64,
    ) -> Result<Self> {
        if dimension == 0 || labels.is_empty() || features.len() != labels.len() * dimension {
            return Err(Error::input(format!(
                "a linear read-out of {} numbers in rows of {dimension} with {} labels",
                features.len(),
                labels.len()
            )));
        }
        if let Some(label) = labels.iter().find(|label| **label >= classes) {
            return Err(Error::input(format!("label {label} is none of {classes} classes")));
        }
        let count = labels.len() as f32;
        let mut mean = vec![0.0f32; dimension];
        let mut square = vec![0.0f32; dimension];
        for row in features.chunks_exact(dimension) {
            for ((mean, square), x) in mean.iter_mut().zip(&mut square).zip(row) {
                *mean += x / count;
                *square += x * x / count;
            }
        }
        let scale =
            mean.iter().zip(&square).map(|(m, s)| 1.0 / (s - m * m).max(1e-12).sqrt()).collect::<Vec<_>>();
        let mut readout =
            Self { dimension, classes, mean, scale, weights: vec![0.0; classes * (dimension + 1)] };
        readout.fit(features, labels, epochs, seed);
        Ok(readout)
    }

    fn fit(&mut self, features: &[f32], labels: &[usize], epochs: usize, seed: u64) {
        let stride = self.dimension + 1;
        let mut order: Vec<usize> = (0..labels.len()).collect();
        let (mut first, mut second) = (vec![0.0f32; self.weights.len()], vec![0.0f32; self.weights.len()]);
        let mut gradient = vec![0.0f32; self.weights.len()];
        let mut step = 0i32;
        for epoch in 0..epochs as u64 {
            Random::new(seed, Purpose::Episodes, epoch).shuffle(&mut order);
            for batch in order.chunks(BATCH) {
                gradient.fill(0.0);
                for &index in batch {
                    let row = self.standard(&features[index * self.dimension..][..self.dimension]);
                    let mut shares = self.logits(&row);
                    let largest = shares.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                    shares.iter_mut().for_each(|share| *share = (*share - largest).exp());
                    let sum: f32 = shares.iter().sum();
                    for (class, (share, gradient)) in
                        shares.iter().zip(gradient.chunks_exact_mut(stride)).enumerate()
                    {
                        let error = share / sum - f32::from(u8::from(class == labels[index]));
                        let error = error / batch.len() as f32;
                        gradient.iter_mut().zip(&row).for_each(|(g, x)| *g += error * x);
                    }
                }
                step += 1;
                let correction = RATE * (1.0 - 0.999f32.powi(step)).sqrt() / (1.0 - 0.9f32.powi(step));
                let moments = first.iter_mut().zip(&mut second);
                for ((weight, g), (first, second)) in self.weights.iter_mut().zip(&gradient).zip(moments) {
                    *first += 0.1 * (g - *first);
                    *second += 0.001 * (g * g - *second);
                    *weight -= correction * *first / (second.sqrt() + 1e-7);
                }
            }
        }
    }

    /// The class of each row.
    pub fn classify(&self, features: &[f32]) -> Vec<usize> {
        let best = |row: &[f32]| {
            let logits = self.logits(&self.standard(row));
            (0..self.classes).fold(0, |best, class| if logits[class] > logits[best] { class } else { best })
        };
        features.chunks_exact(self.dimension).map(best).collect()
    }

    /// A row brought to the labelled rows' scale, with a 1 for the offset.
    fn standard(&self, row: &[f32]) -> Vec<f32> {
        let scaled = row.iter().zip(&self.mean).zip(&self.scale).map(|((x, mean), scale)| (x - mean) * scale);
        scaled.chain([1.0]).collect()
    }

    fn logits(&self, row: &[f32]) -> Vec<f32> {
        let stride = self.dimension + 1;
        self.weights.chunks_exact(stride).map(|w| crate::kernels::vector::dot(w, row)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Classes that a line separates are told apart, and a row that the line cannot separate is not claimed to be.
    #[test]
    fn separable_classes_are_separated() {
        let mut random = Random::new(1, Purpose::World, 0);
        let labels: Vec<usize> = (0..300).map(|_| random.below(3)).collect();
        let row = |label: usize, random: &mut Random| {
            let angle = label as f32 * 2.1;
            [5.0 + angle.cos() + random.between(-0.3, 0.3), angle.sin() * 100.0 + random.between(-30.0, 30.0)]
        };
        let features: Vec<f32> = labels.iter().flat_map(|&label| row(label, &mut random)).collect();
        let readout = LinearReadout::train(&features[..400], 2, &labels[..200], 3, 50, 0).unwrap();
        let found = readout.classify(&features[400..]);
        let right = found.iter().zip(&labels[200..]).filter(|(a, b)| a == b).count();
        assert!(right >= 98, "{right} of 100");
        assert_eq!(
            LinearReadout::train(&features, 2, &labels, 3, 0, 0).unwrap().classify(&features[..2]),
            [0]
        );
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        assert!(LinearReadout::train(&[1.0, 2.0], 2, &[3], 3, 1, 0).is_err());
        assert!(LinearReadout::train(&[1.0], 2, &[0], 3, 1, 0).is_err());
        assert!(LinearReadout::train(&[], 0, &[], 3, 1, 0).is_err());
    }
}

//! Training with values in half precision: keeps gradients within f16's range.
//!
//! f16 reaches down to 6·10⁻⁸ only. A loss averaged over a window and over pixels has smaller gradients than that, and
//! they would vanish. The backward pass is linear, so it can run on gradients multiplied by any number and be divided by
//! it at the end; a power of two makes both exact. Parameter gradients are f32 throughout.

use super::{NormMode, Parameters, Statistics, TrainingEncoder};
use crate::Result;

/// The largest gradient of a feature is brought to this size or down to half of it: a mean over 7×7 pixels then leaves
/// it near 1, with four decades of f16's range above it and as many below.
const TARGET: f32 = 64.0;

/// An encoder whose backward pass runs on scaled gradients.
#[derive(Debug)]
pub struct ScaledGradients<E> {
    encoder: E,
    scaled: Vec<f32>,
}

impl<E: TrainingEncoder> ScaledGradients<E> {
    /// Scales the gradients that `encoder` sees.
    pub fn new(encoder: E) -> Self {
        Self { encoder, scaled: Vec::new() }
    }
}

/// The power of two that brings the largest of these numbers to [`TARGET`]; 1 where there is nothing to scale.
fn scale_of(gradients: &[f32]) -> f32 {
    let largest = gradients.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let exponent = (TARGET / largest).log2().floor();
    // Both the scale and its inverse must be normal numbers.
    if exponent.is_finite() { exponent.clamp(-120.0, 120.0).exp2() } else { 1.0 }
}

impl<E: TrainingEncoder> TrainingEncoder for ScaledGradients<E> {
    fn forward(
        &mut self,
        parameters: &Parameters,
        statistics: &mut Statistics,
        images: &[f32],
        count: usize,
        norm: NormMode,
        features: &mut [f32],
    ) -> Result<()> {
        self.encoder.forward(parameters, statistics, images, count, norm, features)
    }

    fn backward(
        &mut self,
        parameters: &Parameters,
        images: &[f32],
        d_features: &[f32],
        gradients: &mut Parameters,
        mut d_images: Option<&mut [f32]>,
    ) -> Result<()> {
        let scale = scale_of(d_features);
        self.scaled.clear();
        self.scaled.extend(d_features.iter().map(|x| x * scale));
        self.encoder.backward(parameters, images, &self.scaled, gradients, d_images.as_deref_mut())?;
        let inverse = 1.0 / scale;
        gradients.values.iter_mut().chain(d_images.into_iter().flatten()).for_each(|x| *x *= inverse);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_a_power_of_two_that_brings_the_largest_to_the_target() {
        for largest in [1e-30f32, 3.7e-6, 0.5, 64.0, 129.0, 1e20] {
            let scale = scale_of(&[0.0, -largest, largest / 3.0]);
            assert_eq!(scale.to_bits() & 0x007f_ffff, 0, "{scale} is no power of two");
            let scaled = largest * scale;
            assert!(scaled <= TARGET && scaled > TARGET / 2.0, "{largest} becomes {scaled}");
        }
    }

    #[test]
    fn nothing_is_scaled_where_nothing_can_be() {
        for odd in [0.0, f32::INFINITY, f32::NAN] {
            assert_eq!(scale_of(&[odd]), 1.0);
        }
        assert!(scale_of(&[1e-45]).is_normal() && (1.0 / scale_of(&[1e-45])).is_normal());
    }
}

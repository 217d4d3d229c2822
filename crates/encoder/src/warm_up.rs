//! The question that a device must answer before it trains: does it compute what the processor computes?
//!
//! Two tiny windows with made-up numbers go through both. It also does what the first window would otherwise pay for: kernels
//! are compiled, libraries loaded, and a device without memory says so while there is still somebody at the console.

use super::init::random_parameters;
use super::plan::{Activation, ConvKind};
use super::probe::relative_difference;
use super::{Architecture, NormMode, Parameters, Plan, TrainingEncoder};
use crate::random::{Purpose, Random};
use crate::{Error, Result};

/// Images of a window.
const IMAGES: usize = 4;

/// How far apart the two may be, relative to the size of what is compared. A kernel that is wrong is off by about 1; what
/// rounding does is some orders below these, but for activations that it carries across a bend, and those show in gradients.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Of features.
    pub features: f64,
    /// Of all gradients together.
    pub gradients: f64,
}

impl Tolerance {
    /// Of values in f32.
    pub const SINGLE: Self = Self { features: 1e-3, gradients: 2e-2 };
    /// Of values in f16, each rounded to 2⁻¹¹ of itself.
    pub const HALF: Self = Self { features: 5e-2, gradients: 2e-1 };
}

/// Features and gradients of one window.
pub(super) fn window(
    plan: &Plan,
    encoder: &mut dyn TrainingEncoder,
    norm: NormMode,
) -> Result<(Vec<f32>, Vec<f32>)> {
    // The distribution is MobileNet's whatever the network is: it need not learn, only keep its numbers in range.
    let mut parameters = random_parameters(Architecture::MobileNetV2 { width: 1.0 }, plan, 0);
    if norm == NormMode::Running {
        keep_in_range(plan, &mut parameters);
    }
    let mut random = Random::new(0, Purpose::World, 0);
    let images: Vec<f32> = (0..IMAGES * plan.image.len()).map(|_| random.between(-1.0, 1.0)).collect();
    let cotangent: Vec<f32> = (0..IMAGES * plan.features).map(|_| random.between(-1.0, 1.0)).collect();
    let mut features = vec![0.0; IMAGES * plan.features];
    let mut gradients = plan.zero_parameters();
    let mut statistics = plan.fresh_statistics();
    encoder.forward(&parameters, &mut statistics, &images, IMAGES, norm, &mut features)?;
    encoder.backward(&parameters, &images, &cotangent, &mut gradients, None)?;
    Ok((features, gradients.values))
}

/// Fresh statistics normalise nothing, so values would shrink from unit to unit, beyond what f16 can hold: each unit's γ makes up
/// for what its convolution takes away. A weight's variance is 2 / (taps · (from + to)), and ReLU has taken half of what comes in.
fn keep_in_range(plan: &Plan, parameters: &mut Parameters) {
    for unit in &plan.units {
        let (from, to) = (unit.in_shape.channels, unit.conv_shape.channels);
        let power = match unit.conv {
            ConvKind::Depthwise => 2.0 / (from + 1) as f32,
            ConvKind::Pointwise | ConvKind::Full => 2.0 * from as f32 / (from + to) as f32,
        };
        let before = unit.input.checked_sub(1).map(|before| plan.units[before].activation);
        let half = if before.is_none_or(|before| before == Activation::None) { 1.0 } else { 0.5 };
        parameters.tensor_mut(unit.gamma).fill((half * power).sqrt().recip());
    }
}

/// Runs both and refuses the device if it is too far from the host. Returns how far it is.
pub fn compare(
    plan: &Plan,
    device: &mut dyn TrainingEncoder,
    host: &mut dyn TrainingEncoder,
    tolerance: Tolerance,
) -> Result<f64> {
    let mut worst = 0.0f64;
    for norm in [NormMode::Running, NormMode::Window] {
        let (found, right) = (window(plan, device, norm)?, window(plan, host, norm)?);
        let apart = (relative_difference(&found.0, &right.0), relative_difference(&found.1, &right.1));
        // Statistics of so few images can make rounding larger without end where an image has shrunk to a pixel, so with
        // them only the features count, and less strictly.
        let (features, gradients) = match norm {
            NormMode::Running => (tolerance.features, tolerance.gradients),
            NormMode::Window => (10.0 * tolerance.features, f64::MAX),
        };
        // Written so that a difference which is not a number counts as too large.
        if !(apart.0 < features && apart.1 < gradients) {
            return Err(Error::Device(format!(
                "the GPU computes other numbers than the CPU: features differ by {:.1e}, gradients by {:.1e}",
                apart.0, apart.1
            )));
        }
        worst = worst.max(apart.0);
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::host_ops::HostOps;
    use crate::stepwise::StepwiseEncoder;
    use crate::{BatchNorm, Fused, Padding, Statistics, TrainingOptions};

    /// A device that is right but for one thing.
    struct Wrong<E> {
        inside: E,
        feature: f32,
        gradient: f32,
    }

    impl<E: TrainingEncoder> TrainingEncoder for Wrong<E> {
        fn forward(
            &mut self,
            parameters: &Parameters,
            statistics: &mut Statistics,
            images: &[f32],
            count: usize,
            norm: NormMode,
            features: &mut [f32],
        ) -> Result<()> {
            self.inside.forward(parameters, statistics, images, count, norm, features)?;
            features.iter_mut().for_each(|x| *x *= self.feature);
            Ok(())
        }

        fn backward(
            &mut self,
            parameters: &Parameters,
            images: &[f32],
            d_features: &[f32],
            gradients: &mut Parameters,
            d_images: Option<&mut [f32]>,
        ) -> Result<()> {
            self.inside.backward(parameters, images, d_features, gradients, d_images)?;
            gradients.values.iter_mut().for_each(|x| *x *= self.gradient);
            Ok(())
        }
    }

    #[test]
    fn values_stay_where_half_precision_can_hold_them() {
        let batch_norm = BatchNorm { epsilon: 1e-3, momentum: 0.1 };
        for (architecture, side) in [
            (Architecture::MobileNetV2 { width: 1.0 }, 32),
            (Architecture::MobileNetV2 { width: 0.35 }, 48),
            (Architecture::ResNet12 { channels: 3, strides: [2, 2, 2, 2] }, 16),
            (Architecture::conv4(3, false), 32),
        ] {
            let plan = Arc::new(architecture.plan(side, side, Padding::Same, batch_norm).unwrap());
            let mut host = Fused::new(Arc::clone(&plan), TrainingOptions::default(), 1).unwrap();
            for norm in [NormMode::Running, NormMode::Window] {
                let (features, _) = window(&plan, &mut host, norm).unwrap();
                let square: f32 = features.iter().map(|x| x * x).sum::<f32>() / features.len() as f32;
                // f16 goes from 6·10⁻⁵ to 6·10⁴, and values inside a network are some times larger than at its end.
                assert!((1e-2..1e3).contains(&square.sqrt()), "{architecture}, {norm:?}: {}", square.sqrt());
            }
        }
    }

    #[test]
    fn executors_that_agree_are_accepted_and_others_refused() {
        let batch_norm = BatchNorm { epsilon: 1e-3, momentum: 0.1 };
        for (architecture, side) in
            [(Architecture::MobileNetV2 { width: 0.35 }, 48), (Architecture::conv4(3, false), 32)]
        {
            let plan = Arc::new(architecture.plan(side, side, Padding::Same, batch_norm).unwrap());
            let options = TrainingOptions::default();
            let mut host = Fused::new(Arc::clone(&plan), options, 1).unwrap();
            for (feature, gradient, good) in
                [(1.0, 1.0, true), (1.01, 1.0, false), (1.0, 1.1, false), (f32::NAN, 1.0, false)]
            {
                let ops = HostOps::<f32>::default();
                let inside = StepwiseEncoder::new(Arc::clone(&plan), ops, options).unwrap();
                let mut device = Wrong { inside, feature, gradient };
                let outcome = compare(&plan, &mut device, &mut host, Tolerance::SINGLE);
                assert_eq!(outcome.is_ok(), good, "{architecture} {feature} {gradient}: {outcome:?}");
                if let Ok(worst) = outcome {
                    assert!(worst < 1e-3, "{architecture}: {worst:e}");
                }
            }
        }
    }
}

//! Random weights to start from, the same for the same seed on every machine.
//!
//! MobileNet-V2 starts as Keras starts it, from a uniform distribution whose width depends on the numbers of connections in
//! and out (Glorot & Bengio 2010). The small encoders start as the paper's code starts them: a normal distribution cut
//! off at two deviations, of variance 2 / (connections out). Batch norm starts at scale 1, shift 0, running mean 0 and
//! running variance 1. The paper's code starts that variance at 0 for its small encoders; a network that is evaluated
//! before its slow average has moved would then divide by √ε, so this project does not.

use super::plan::{ConvKind, Plan};
use super::{Architecture, Parameters};
use crate::random::{Purpose, Random};

/// Random parameters for a plan of this architecture. Statistics start with [`Plan::fresh_statistics`].
pub fn random_parameters(architecture: Architecture, plan: &Plan, seed: u64) -> Parameters {
    let mut parameters = plan.zero_parameters();
    for unit in &plan.units {
        let taps = if unit.conv == ConvKind::Pointwise { 1 } else { 9 };
        let (from, to) = match unit.conv {
            // Keras counts a depthwise kernel as one of `channels` inputs and one output.
            ConvKind::Depthwise => (unit.conv_shape.channels, 1),
            ConvKind::Pointwise | ConvKind::Full => (unit.in_shape.channels, unit.conv_shape.channels),
        };
        // A stream of its own for each tensor: a change in one layer leaves the others alone.
        let mut random = Random::new(seed, Purpose::Weights, unit.weight as u64);
        let weight = parameters.tensor_mut(unit.weight);
        match architecture {
            Architecture::MobileNetV2 { .. } => {
                let limit = (6.0 / (taps * (from + to)) as f64).sqrt();
                weight.fill_with(|| (limit * (2.0 * random.unit() - 1.0)) as f32);
            }
            Architecture::ResNet12 { .. } | Architecture::Conv4 { .. } => {
                let deviation = (2.0 / (taps * to) as f64).sqrt();
                weight.fill_with(|| (deviation * cut_normal(&mut random)) as f32);
            }
        }
        parameters.tensor_mut(unit.gamma).fill(1.0);
    }
    parameters
}

/// Standard normal, drawn again while it lies beyond two deviations.
fn cut_normal(random: &mut Random) -> f64 {
    loop {
        let normal = random.normal();
        if normal.abs() <= 2.0 {
            return normal;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchNorm, Padding};

    const NORM: BatchNorm = BatchNorm { epsilon: 1e-3, momentum: 0.1 };

    fn start(architecture: Architecture, seed: u64) -> (Plan, Parameters) {
        let plan = architecture.plan(32, 32, Padding::Same, NORM).unwrap();
        let parameters = random_parameters(architecture, &plan, seed);
        (plan, parameters)
    }

    fn spread(values: &[f32]) -> (f64, f64) {
        let square = |value: &f32| f64::from(*value).powi(2);
        let deviation = (values.iter().map(square).sum::<f64>() / values.len() as f64).sqrt();
        (deviation, values.iter().fold(0.0, |most, value| f64::from(value.abs()).max(most)))
    }

    #[test]
    fn the_seed_decides() {
        let architecture = Architecture::conv4(1, true);
        assert!(start(architecture, 1).1 == start(architecture, 1).1);
        let (one, two) = (start(architecture, 1).1, start(architecture, 2).1);
        let same = one.values.iter().zip(&two.values).filter(|(a, b)| a == b).count();
        assert_eq!(same, 2 * 4 * 64, "only the scales and shifts of batch norm are alike");
    }

    #[test]
    fn mobilenet_is_uniform_in_keras_bounds() {
        let (plan, parameters) = start(Architecture::MobileNetV2 { width: 1.0 }, 3);
        // A uniform distribution on ±limit has deviation limit/√3. The stem: 864 numbers, so ±5 % is two deviations.
        for (unit, limit) in [
            (0, (6.0f64 / (27.0 + 288.0)).sqrt()),
            (1, (6.0f64 / (288.0 + 9.0)).sqrt()),
            (51, (6.0f64 / (320.0 + 1280.0)).sqrt()),
        ] {
            let (deviation, most) = spread(parameters.tensor(plan.units[unit].weight));
            assert!(most <= limit && most > 0.95 * limit, "unit {unit}: {most} of {limit}");
            assert!((deviation * 3f64.sqrt() / limit - 1.0).abs() < 0.1, "unit {unit}: {deviation}");
        }
    }

    #[test]
    fn small_encoders_are_normal_and_cut_at_two_deviations() {
        let (plan, parameters) = start(Architecture::ResNet12 { channels: 3, strides: [2; 4] }, 4);
        let (deviation, most) = spread(parameters.tensor(plan.units.last().unwrap().weight));
        let sigma = (2.0f64 / (9.0 * 256.0)).sqrt();
        assert!(most <= 2.0 * sigma && most > 1.99 * sigma);
        // Cutting a normal distribution at two deviations leaves 0.8796 of its deviation.
        assert!((deviation / sigma - 0.8796).abs() < 0.003, "{}", deviation / sigma);
    }
}

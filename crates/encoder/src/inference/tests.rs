//! Folded evaluation against the stepwise oracle on all three encoders, and its independence of threads.

use std::sync::Arc;

use super::*;
use crate::host_ops::HostOps;
use crate::init::random_parameters;
use crate::plan::{BatchNorm, Padding, Pooling};
use crate::random::{Purpose, Random};
use crate::stepwise::StepwiseEncoder;
use crate::{Architecture, TrainingOptions};

/// An encoder with statistics and shifts away from their starting values, and two images.
fn example(
    architecture: Architecture,
    height: usize,
    width: usize,
    padding: Padding,
) -> (Plan, Parameters, Statistics, Vec<f32>) {
    let batch_norm = BatchNorm { epsilon: 1e-3, momentum: 0.1 };
    let plan = architecture.plan(height, width, padding, batch_norm).unwrap();
    let mut parameters = random_parameters(architecture, &plan, 5);
    let mut statistics = plan.fresh_statistics();
    let mut random = Random::new(9, Purpose::World, 0);
    for unit in &plan.units {
        statistics.tensor_mut(unit.mean).iter_mut().for_each(|m| *m = random.between(-0.3, 0.3));
        statistics.tensor_mut(unit.variance).iter_mut().for_each(|v| *v = random.between(0.2, 1.5));
        parameters.tensor_mut(unit.gamma).iter_mut().for_each(|g| *g = random.between(0.5, 1.5));
        parameters.tensor_mut(unit.beta).iter_mut().for_each(|b| *b = random.between(-0.2, 0.5));
    }
    let images = (0..2 * plan.image.len()).map(|_| random.between(0.0, 1.0)).collect();
    (plan, parameters, statistics, images)
}

/// f32 sums in another order, through up to 53 layers: a relative error of 1e-5.
#[test]
fn features_are_those_of_the_oracle() {
    for (architecture, height, width, padding) in [
        (Architecture::MobileNetV2 { width: 0.35 }, 64, 64, Padding::Same),
        (Architecture::MobileNetV2 { width: 0.35 }, 70, 45, Padding::Symmetric),
        (Architecture::ResNet12 { channels: 4, strides: [2, 2, 2, 2] }, 30, 40, Padding::Same),
        (Architecture::ResNet12 { channels: 3, strides: [2, 2, 2, 1] }, 21, 21, Padding::Same),
        (Architecture::conv4(1, false), 28, 28, Padding::Same),
        (
            Architecture::Conv4 { channels: 1, last_relu: false, widths: [20, 12, 33, 72] },
            28,
            28,
            Padding::Same,
        ),
    ] {
        let (plan, parameters, statistics, images) = example(architecture, height, width, padding);
        // Odd widths look at the middle.
        let pooling = if width % 2 == 1 { Pooling::Centre } else { Pooling::Mean };
        let plan = plan.with_pooling(pooling);
        let mut oracle = StepwiseEncoder::new(
            Arc::new(plan.clone()),
            HostOps::<f32>::default(),
            TrainingOptions::default(),
        )
        .unwrap();
        let mut expected = vec![0.0; 2 * plan.features];
        oracle.evaluate(&parameters, &statistics, &images, &mut expected).unwrap();
        let folded = Arc::new(Folded::new(&plan, &parameters, &statistics).unwrap());
        let mut reference: Option<Vec<f32>> = None;
        for threads in [1, 2, 5] {
            let mut inference = Inference::new(Arc::clone(&folded), threads).unwrap();
            let mut features = vec![0.0; 2 * plan.features];
            // The second image must not see anything of the first one.
            for (image, features) in
                images.chunks_exact(plan.image.len()).zip(features.chunks_exact_mut(plan.features))
            {
                inference.embed(image, features).unwrap();
            }
            let error = crate::probe::relative_difference(&features, &expected);
            assert!(error < 1e-5, "{architecture:?} {height}x{width} on {threads} threads: {error:.1e}");
            assert_eq!(
                reference.get_or_insert_with(|| features.clone()),
                &features,
                "threads change nothing"
            );
        }
    }
}

#[test]
fn other_weights_take_over_and_other_encoders_do_not() {
    let conv = Architecture::conv4(1, false);
    let (plan, mut parameters, statistics, images) = example(conv, 28, 28, Padding::Same);
    let mut inference =
        Inference::new(Arc::new(Folded::new(&plan, &parameters, &statistics).unwrap()), 1).unwrap();
    let mut before = vec![0.0; plan.features];
    inference.embed(&images[..plan.image.len()], &mut before).unwrap();
    parameters.values.iter_mut().for_each(|value| *value *= 0.9);
    inference.replace(Arc::new(Folded::new(&plan, &parameters, &statistics).unwrap())).unwrap();
    let mut after = vec![0.0; plan.features];
    inference.embed(&images[..plan.image.len()], &mut after).unwrap();
    assert_ne!(before, after);

    let (other, parameters, statistics, _) = example(Architecture::conv4(3, false), 28, 28, Padding::Same);
    assert!(Folded::new(&plan, &parameters, &statistics).is_err());
    assert!(inference.replace(Arc::new(Folded::new(&other, &parameters, &statistics).unwrap())).is_err());
    assert!(inference.embed(&images[1..plan.image.len()], &mut after).is_err());
    assert!(inference.embed(&images[..plan.image.len()], &mut after[1..]).is_err());
}

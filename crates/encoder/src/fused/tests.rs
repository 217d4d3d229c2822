//! The executor against PyTorch's numbers, against plain loops in f64, and against itself under other options.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::host_ops::HostOps;
use crate::probe::{Probe, relative_difference};
use crate::stepwise::StepwiseEncoder;
use crate::tensors::{Tensor, TensorFile};
use crate::{Architecture, BatchNorm, Padding};

type Tensors = BTreeMap<String, Tensor>;

fn golden(name: &str) -> TensorFile {
    TensorFile::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)).unwrap()
}

fn fused(probe: &Probe, options: TrainingOptions, threads: usize) -> Fused {
    Fused::new(Arc::clone(&probe.plan), options, threads).unwrap()
}

/// The largest relative difference, with the name of the tensor. The shift of a linear bottleneck is taken away again by
/// the next batch norm: its gradient is zero, every computed one is rounding noise, and there is nothing to be relative to.
fn worst(outcome: &Tensors, right: &Tensors, which: impl Fn(&str) -> bool) -> (f64, String) {
    let differences = outcome
        .iter()
        .filter(|(name, _)| which(name))
        .filter(|(name, _)| *name != "grad.features.1.conv.2.bias" && !name.ends_with(".conv.3.bias"))
        .map(|(name, tensor)| (relative_difference(&tensor.values, &right[name].values), name.clone()));
    differences.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

/// PyTorch's numbers, in double precision: features, running statistics, every gradient. f32 reproduces features to about
/// 2e-5 here, where the last layers see 24 pixels. A gradient is off by as little, unless an activation lands on the other
/// side of 0 or 6: that changes everything below it by up to 1e-2 (PyTorch's own f32 is off by 8e-3 on the second file). A
/// wrong sign or a missing term is off by a good part of 1.
#[test]
fn mobilenet_agrees_with_pytorch() {
    for (name, tolerance) in [("mobilenet-same.safetensors", 1e-2), ("mobilenet-symmetric.safetensors", 1e-2)]
    {
        let file = golden(name);
        let probe = Probe::read(&file).unwrap();
        let outcome = probe.run(&mut fused(&probe, TrainingOptions::default(), 2)).unwrap();
        let check = |tolerance: f64, which: &dyn Fn(&str) -> bool| {
            let (difference, tensor) = worst(&outcome, file.tensors(), which);
            assert!(difference < tolerance, "{name}: {tensor} is off by {difference:e}");
        };
        check(1e-4, &|name| name.ends_with(".features"));
        check(1e-5, &|name| name.contains(".running_"));
        check(tolerance, &|name| name.starts_with("grad."));
    }
}

/// Numbers in (−1, 1) without a pattern.
fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / 8_388_608.0 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// A small encoder with weights and statistics of sensible sizes.
fn probe(architecture: Architecture, height: usize, width: usize, padding: Padding, count: usize) -> Probe {
    let batch_norm = BatchNorm { epsilon: 1e-3, momentum: 0.1 };
    let plan = Arc::new(architecture.plan(height, width, padding, batch_norm).unwrap());
    let mut parameters = plan.zero_parameters();
    for (index, spec) in plan.parameter_specs().iter().enumerate() {
        let random = numbers(index as u32, spec.len());
        let fan_in = spec.shape.iter().skip(1).product::<usize>();
        for (value, random) in parameters.tensor_mut(index).iter_mut().zip(random) {
            *value = match spec.shape.len() {
                1 if spec.name.ends_with("weight") => 1.0 + 0.5 * random,
                1 => 0.3 * random,
                _ => random * (6.0 / fan_in as f32).sqrt(),
            };
        }
    }
    let images: Vec<f32> =
        numbers(9, count * plan.image.len()).iter().map(|value| 0.5 + 0.5 * value).collect();
    // Running statistics near those of the images, as training makes them.
    let follow = BatchNorm { momentum: 0.9, ..batch_norm };
    let mut encoder = Fused::new(
        Arc::new(architecture.plan(height, width, padding, follow).unwrap()),
        TrainingOptions::default(),
        2,
    )
    .unwrap();
    let mut statistics = plan.fresh_statistics();
    let mut features = vec![0.0; count * plan.features];
    encoder.forward(&parameters, &mut statistics, &images, count, NormMode::Window, &mut features).unwrap();
    let cotangent = numbers(10, count * plan.features);
    Probe { architecture, plan, parameters, statistics, count, images, cotangent }
}

/// All that a training call makes.
fn train(probe: &Probe, encoder: &mut dyn TrainingEncoder, mode: NormMode, images: bool) -> Tensors {
    let mut statistics = probe.statistics.clone();
    let mut features = vec![9.0; probe.count * probe.plan.features];
    let mut gradients = probe.plan.zero_parameters();
    gradients.values.fill(9.0);
    let mut d_images = vec![9.0; if images { probe.images.len() } else { 0 }];
    encoder
        .forward(&probe.parameters, &mut statistics, &probe.images, probe.count, mode, &mut features)
        .unwrap();
    let wanted = images.then_some(&mut d_images[..]);
    encoder.backward(&probe.parameters, &probe.images, &probe.cotangent, &mut gradients, wanted).unwrap();
    let tensor = |values: &[f32]| Tensor { shape: vec![values.len()], values: values.to_vec() };
    let mut outcome = Tensors::new();
    outcome.insert("features".to_owned(), tensor(&features));
    outcome.insert("statistics".to_owned(), tensor(&statistics.values));
    outcome.insert("grad.images".to_owned(), tensor(&d_images));
    for (index, spec) in gradients.specs().iter().enumerate() {
        outcome.insert(format!("grad.{}", spec.name), tensor(gradients.tensor(index)));
    }
    outcome
}

/// A Conv-4 whose blocks differ, with numbers of channels that fill no panel.
fn narrowing_and_widening() -> Architecture {
    Architecture::Conv4 { channels: 1, last_relu: false, widths: [20, 12, 33, 72] }
}

/// The same network with an eye for the middle.
fn centred(mut probe: Probe) -> Probe {
    probe.plan = Arc::new(Plan::clone(&probe.plan).with_pooling(Pooling::Centre));
    probe
}

/// One of each kind of network: odd sizes, panels that are not full, pools that cut, both paddings.
fn small_probes() -> Vec<Probe> {
    vec![
        probe(Architecture::conv4(1, false), 28, 28, Padding::Same, 5),
        probe(Architecture::conv4(2, true), 33, 37, Padding::Same, 3),
        probe(narrowing_and_widening(), 28, 28, Padding::Same, 4),
        probe(Architecture::ResNet12 { channels: 4, strides: [2; 4] }, 20, 26, Padding::Same, 4),
        probe(Architecture::ResNet12 { channels: 3, strides: [2, 2, 2, 1] }, 21, 21, Padding::Same, 3),
        probe(Architecture::MobileNetV2 { width: 0.75 }, 70, 58, Padding::Same, 3),
        probe(Architecture::MobileNetV2 { width: 0.3 }, 97, 130, Padding::Symmetric, 4),
        centred(probe(Architecture::MobileNetV2 { width: 0.3 }, 130, 97, Padding::Same, 3)),
        centred(probe(Architecture::ResNet12 { channels: 3, strides: [2; 4] }, 40, 52, Padding::Same, 3)),
    ]
}

/// Every network, with the statistics of the window and with running ones, against plain loops that round nothing.
/// Tolerance: f32, and in fifty layers now and then an activation on the other side of its bend, which moves the gradients
/// below it by a few per cent where layers have as few pixels as here, and the last block's by much less.
#[test]
fn every_network_agrees_with_plain_loops() {
    for probe in small_probes() {
        for mode in [NormMode::Window, NormMode::Running] {
            let plan = Arc::clone(&probe.plan);
            let mut oracle =
                StepwiseEncoder::new(plan, HostOps::<f64>::default(), TrainingOptions::default()).unwrap();
            let right = train(&probe, &mut oracle, mode, true);
            let outcome = train(&probe, &mut fused(&probe, TrainingOptions::default(), 2), mode, true);
            let deep = matches!(probe.architecture, Architecture::MobileNetV2 { .. });
            let gradients = if deep { 0.1 } else { 5e-3 };
            let parts =
                [("features", 2e-5), ("statistics", 1e-5), ("grad.", gradients), ("grad.features.18", 1e-2)];
            for (part, tolerance) in parts.into_iter().take(if deep { 4 } else { 3 }) {
                let (difference, tensor) = worst(&outcome, &right, |name| name.starts_with(part));
                let name = probe.architecture;
                assert!(difference < tolerance, "{name}, {mode:?}: {tensor} is off by {difference:e}");
            }
        }
    }
}

/// In a very narrow MobileNet-V2 the first block has a residual connection too, from the stem, which the filter reads as
/// well. Against differences of the loss along a direction in which only the stem changes. The loss bends, and f32 leaves
/// it five digits: a few per cent is what the difference is good for, a missing path would be off by a third.
#[test]
fn a_value_that_is_both_added_and_read_gets_both_gradients() {
    let probe = probe(Architecture::MobileNetV2 { width: 0.1 }, 64, 96, Padding::Symmetric, 4);
    let mut encoder = fused(&probe, TrainingOptions::default(), 2);
    let gradient = train(&probe, &mut encoder, NormMode::Window, false);
    for index in 0..3 {
        let name = &probe.plan.parameter_specs()[index].name;
        let direction = &gradient[&format!("grad.{name}")].values;
        let square: f64 = direction.iter().map(|value| f64::from(*value).powi(2)).sum();
        let mut loss = |step: f64| {
            let mut parameters = probe.parameters.clone();
            for (value, direction) in parameters.tensor_mut(index).iter_mut().zip(direction) {
                *value += (step / square.sqrt()) as f32 * direction;
            }
            let mut features = vec![0.0; probe.count * probe.plan.features];
            let mut statistics = probe.statistics.clone();
            encoder
                .forward(&parameters, &mut statistics, &probe.images, 4, NormMode::Window, &mut features)
                .unwrap();
            features.iter().zip(&probe.cotangent).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
        };
        let step = 1e-4;
        let slope = (loss(step) - loss(-step)) / (2.0 * step);
        assert!((slope / square.sqrt() - 1.0).abs() < 0.05, "{name}: {slope} instead of {}", square.sqrt());
    }
}

/// Threads decide when something is computed, the budget how often: neither may show, not in a single bit.
#[test]
fn neither_threads_nor_budget_change_a_bit() {
    for probe in small_probes() {
        for mode in [NormMode::Window, NormMode::Running] {
            let whole = train(&probe, &mut fused(&probe, TrainingOptions::default(), 1), mode, true);
            for threads in [2, 5] {
                let outcome =
                    train(&probe, &mut fused(&probe, TrainingOptions::default(), threads), mode, true);
                assert!(outcome == whole, "{threads} threads");
            }
            let budget = |memory_budget| TrainingOptions { memory_budget, ..TrainingOptions::default() };
            let fits = |options: &TrainingOptions| fused(&probe, *options, 1).prepare(probe.count).is_ok();
            let least = (1..).map(|step| budget(step << 18)).find(fits).unwrap().memory_budget;
            for memory_budget in [least, least + least / 16, least + least / 4] {
                let mut encoder = fused(&probe, budget(memory_budget), 1);
                assert!(train(&probe, &mut encoder, mode, true) == whole, "{memory_budget} bytes");
                assert!(encoder.held_bytes() <= memory_budget);
            }
        }
    }
}

#[test]
fn frozen_blocks_get_no_gradient_and_the_others_the_same() {
    for probe in small_probes() {
        let whole = train(&probe, &mut fused(&probe, TrainingOptions::default(), 2), NormMode::Window, false);
        let blocks = probe.plan.blocks.len();
        for frozen_blocks in [1, 2, blocks - 1, blocks] {
            let options = TrainingOptions { frozen_blocks, ..TrainingOptions::default() };
            let outcome = train(&probe, &mut fused(&probe, options, 2), NormMode::Window, false);
            assert_eq!(outcome["features"], whole["features"]);
            for (index, spec) in probe.plan.parameter_specs().iter().enumerate() {
                let values = &outcome[&format!("grad.{}", spec.name)];
                if index < probe.plan.first_parameter(frozen_blocks) {
                    assert!(values.values.iter().all(|value| *value == 0.0), "{}", spec.name);
                } else {
                    assert_eq!(*values, whole[&format!("grad.{}", spec.name)], "{}", spec.name);
                }
            }
        }
    }
}

/// f16 rounds to 5e-4, bf16 to 4e-3, once a block; a few activations change sides on the way.
#[test]
fn half_precision_is_close_and_takes_half() {
    let probe = probe(Architecture::MobileNetV2 { width: 0.35 }, 96, 96, Padding::Same, 6);
    let mut full = fused(&probe, TrainingOptions::default(), 2);
    let right = train(&probe, &mut full, NormMode::Window, false);
    for (storage, features, gradients) in [(Storage::F16, 3e-2, 0.3), (Storage::Bf16, 0.2, 0.8)] {
        let options = TrainingOptions { storage, ..TrainingOptions::default() };
        let outcome = train(&probe, &mut fused(&probe, options, 2), NormMode::Window, false);
        let difference = worst(&outcome, &right, |name| name == "features");
        assert!(difference.0 > 1e-5 && difference.0 < features, "{storage:?}: {difference:?}");
        let difference = worst(&outcome, &right, |name| name.starts_with("grad.features.17"));
        assert!(difference.0 < gradients, "{storage:?}: {difference:?}");
    }
    assert_eq!(kept::frame_length(Storage::F16, 10, 20) * 2, kept::frame_length(Storage::F32, 10, 20));
}

#[test]
fn calls_that_do_not_fit_are_refused() {
    let probe = probe(Architecture::conv4(1, false), 28, 28, Padding::Same, 2);
    let mut encoder = fused(&probe, TrainingOptions::default(), 1);
    let mut gradients = probe.plan.zero_parameters();
    let error = encoder.backward(&probe.parameters, &probe.images, &probe.cotangent, &mut gradients, None);
    assert!(error.unwrap_err().to_string().contains("forward pass before it"));
    let mut statistics = probe.statistics.clone();
    let mut features = vec![0.0; 2 * probe.plan.features];
    let mut forward = |encoder: &mut Fused, images: &[f32], count, features: &mut [f32]| {
        let outcome =
            encoder.forward(&probe.parameters, &mut statistics, images, count, NormMode::Window, features);
        outcome.unwrap_err().to_string()
    };
    assert!(forward(&mut encoder, &probe.images, 3, &mut features).contains("3 images of 28x28x1"));
    assert!(forward(&mut encoder, &[], 0, &mut []).contains("0 images"));
    assert!(forward(&mut encoder, &probe.images, 2, &mut []).contains("room for 0"));
    let options = TrainingOptions { memory_budget: 1000, ..TrainingOptions::default() };
    let message = forward(&mut fused(&probe, options, 1), &probe.images, 2, &mut features);
    assert!(message.contains("memory budget of 0 MiB is too small"), "{message}");
    let options = TrainingOptions { frozen_blocks: 5, ..TrainingOptions::default() };
    assert!(Fused::new(Arc::clone(&probe.plan), options, 1).is_err());
}

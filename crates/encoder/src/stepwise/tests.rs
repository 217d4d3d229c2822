//! The executor over plain loops: against PyTorch's numbers, and against itself under other options.
//!
//! Its parts are compared with candle's layers in `tests/learning/encoder_against_candle.rs`.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::Storage;
use crate::host_ops::HostOps;
use crate::kernels::Real;
use crate::probe::{Probe, relative_difference};
use crate::tensors::{Tensor, TensorFile};

type Tensors = BTreeMap<String, Tensor>;

const SAME: &str = "mobilenet-same.safetensors";
const SYMMETRIC: &str = "mobilenet-symmetric.safetensors";

fn golden(name: &str) -> TensorFile {
    TensorFile::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)).unwrap()
}

fn encoder<T: Real + Default>(probe: &Probe, options: TrainingOptions) -> StepwiseEncoder<HostOps<T>> {
    StepwiseEncoder::new(Arc::clone(&probe.plan), HostOps::default(), options).unwrap()
}

fn run<T: Real + Default>(probe: &Probe, options: TrainingOptions) -> Tensors {
    probe.run(&mut encoder::<T>(probe, options)).unwrap()
}

/// The largest relative difference among tensors whose name `which` accepts, with the name.
fn worst(outcome: &Tensors, right: &Tensors, which: impl Fn(&str) -> bool) -> (f64, String) {
    let names = |name: &str| which(name) && !vanishes(name);
    let differences = outcome.iter().filter(|(name, _)| names(name)).map(|(name, tensor)| {
        let right = &right[name];
        assert_eq!(tensor.shape, right.shape, "{name}");
        (relative_difference(&tensor.values, &right.values), name.clone())
    });
    differences.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

/// The shift of a linear bottleneck has no effect that the next batch norm does not take away again. So its gradient is
/// zero, every computed one is rounding noise (PyTorch's about 1e-13), and there is nothing to be relative to.
fn vanishes(name: &str) -> bool {
    name == "grad.features.1.conv.2.bias" || name.ends_with(".conv.3.bias")
}

fn is_statistic(name: &str) -> bool {
    name.contains(".running_")
}

#[test]
fn unrounded_it_is_what_pytorch_computes() {
    for name in [SAME, SYMMETRIC] {
        let file = golden(name);
        let outcome = run::<f64>(&Probe::read(&file).unwrap(), TrainingOptions::default());
        let expected: Vec<_> = file.tensors().keys().filter(|name| !name.starts_with("in.")).collect();
        assert_eq!(outcome.keys().collect::<Vec<_>>(), expected);
        // Both sides compute in f64 and round the outcome to f32, whose half last bit is 6e-8; the outcome of a sum is
        // rounded on both sides.
        let difference = worst(&outcome, file.tensors(), |_| true);
        assert!(difference.0 < 2e-7, "{name}: {difference:?}");
        for (name, tensor) in outcome.iter().filter(|(name, _)| vanishes(name)) {
            assert!(tensor.values.iter().all(|value| value.abs() < 1e-9), "{name}: {:?}", tensor.values);
        }
    }
}

#[test]
fn in_f32_it_is_pytorch_up_to_rounding() {
    let f32_differences = |name| {
        let file = golden(name);
        let outcome = run::<f32>(&Probe::read(&file).unwrap(), TrainingOptions::default());
        let part = |which: fn(&str) -> bool| worst(&outcome, file.tensors(), which);
        (part(is_statistic), part(|name| name.ends_with(".features")), part(|name| name.starts_with("grad.")))
    };
    // The network amplifies rounding: batch norm over few pixels, fifty times. Measured 1e-8, 6e-6, 5e-5.
    let (statistics, features, gradients) = f32_differences(SAME);
    assert!(statistics.0 < 1e-6, "{statistics:?}");
    assert!(features.0 < 1e-4, "{features:?}");
    assert!(gradients.0 < 1e-3, "{gradients:?}");
    // With an epsilon of 1e-5 it amplifies more, and two activations lie 2e-6 and 3e-5 from a bend of ReLU6. Rounded to
    // f32 they fall on its other side, in PyTorch's own f32 as well, and one pixel more or less that passes its
    // gradient on is a difference of 8e-3.
    let (statistics, features, gradients) = f32_differences(SYMMETRIC);
    assert!(statistics.0 < 1e-5, "{statistics:?}");
    assert!(features.0 < 1e-4, "{features:?}");
    assert!(gradients.0 < 2e-2, "{gradients:?}");
}

fn layout(probe: &Probe, memory_budget: usize) -> Result<Layout> {
    let options = TrainingOptions { memory_budget, ..TrainingOptions::default() };
    Layout::new(&probe.plan, probe.count, options, 4)
}

#[test]
fn the_budget_does_not_show_in_the_outcome() {
    for name in [SAME, SYMMETRIC] {
        let probe = Probe::read(&golden(name)).unwrap();
        let whole = run::<f32>(&probe, TrainingOptions::default());
        let least = (1..).map(|step| step << 16).find(|&budget| layout(&probe, budget).is_ok()).unwrap();
        let mut partly_held = 0;
        for memory_budget in [least, least + least / 8, least + least / 4] {
            let layout = layout(&probe, memory_budget).unwrap();
            assert!(
                layout.chunk[0] < probe.count,
                "{memory_budget} bytes should not do for all frames at once"
            );
            partly_held += layout.resident.iter().filter(|&&held| held > 0 && held < probe.count).count();
            let chunked = run::<f32>(&probe, TrainingOptions { memory_budget, ..TrainingOptions::default() });
            let difference = worst(&chunked, &whole, |_| true);
            assert!(difference.0 < 1e-5, "{name} in {memory_budget} bytes: {difference:?}");
        }
        assert!(partly_held > 0, "no budget of this test holds a part of the frames");
    }
}

/// Features and gradients of a probe with the given statistics.
fn train(probe: &Probe, norm: NormMode, options: TrainingOptions) -> (Vec<f32>, Parameters, Statistics) {
    let mut encoder = encoder::<f32>(probe, options);
    let mut statistics = probe.statistics.clone();
    let mut features = vec![0.0; probe.cotangent.len()];
    let Probe { parameters, images, cotangent, count, .. } = probe;
    encoder.forward(parameters, &mut statistics, images, *count, norm, &mut features).unwrap();
    let mut gradients = parameters.clone();
    encoder.backward(parameters, images, cotangent, &mut gradients, None).unwrap();
    (features, gradients, statistics)
}

#[test]
fn frozen_blocks_change_nothing_above_them() {
    let probe = Probe::read(&golden(SAME)).unwrap();
    for norm in [NormMode::Window, NormMode::Running] {
        let (features, all, statistics) = train(&probe, norm, TrainingOptions::default());
        for frozen_blocks in [1, 2, 9, 17, 18] {
            let options = TrainingOptions { frozen_blocks, ..TrainingOptions::default() };
            let (same_features, gradients, same_statistics) = train(&probe, norm, options);
            assert_eq!(features, same_features);
            assert!(statistics == same_statistics);
            let first = probe.plan.first_parameter(frozen_blocks);
            let offset = all.specs().get(first).map_or(all.values.len(), |spec| spec.offset);
            assert!(gradients.values[..offset].iter().all(|&gradient| gradient == 0.0));
            assert_eq!(gradients.values[offset..], all.values[offset..], "{frozen_blocks} frozen");
        }
    }
}

#[test]
fn running_statistics_are_used_and_left_alone() {
    let file = golden(SAME);
    let probe = Probe::read(&file).unwrap();
    let (features, _, statistics) = train(&probe, NormMode::Running, TrainingOptions::default());
    assert!(statistics == probe.statistics);
    assert!(relative_difference(&features, &file.require("eval.features").unwrap().values) < 1e-6);
    let mut evaluated = vec![0.0; features.len()];
    let mut encoder = encoder::<f32>(&probe, TrainingOptions::default());
    encoder.evaluate(&probe.parameters, &probe.statistics, &probe.images, &mut evaluated).unwrap();
    assert_eq!(features, evaluated);
}

#[test]
fn half_precision_storage_costs_what_it_rounds() {
    let probe = Probe::read(&golden(SAME)).unwrap();
    let train = |norm, storage| {
        let options = TrainingOptions { storage, ..TrainingOptions::default() };
        let (features, gradients, _) = train(&probe, norm, options);
        (features, gradients.values)
    };
    // Each of 17 block outputs is rounded to 2⁻¹² (f16) or 2⁻⁹ (bf16) of itself. With fixed statistics that is about
    // what comes out: measured 5e-5 and 2e-4 for f16, 5e-4 and 7e-3 for bf16, features and gradients.
    // With the statistics of the window, this network of random weights and 24 pixels a channel at its end makes 200
    // times as much of any rounding, f32's too; only features are then worth a bound.
    for (norm, storage, features, gradients) in [
        (NormMode::Running, Storage::F16, 2e-4, 1e-3),
        (NormMode::Running, Storage::Bf16, 2e-3, 2e-2),
        (NormMode::Window, Storage::F16, 0.03, 1.0),
        (NormMode::Window, Storage::Bf16, 0.2, 1.0),
    ] {
        let (exact, rounded) = (train(norm, Storage::F32), train(norm, storage));
        let found = (relative_difference(&rounded.0, &exact.0), relative_difference(&rounded.1, &exact.1));
        assert!(found.0 < features && found.1 < gradients, "{norm:?} {storage:?}: {found:?}");
        assert!(found.0 > features / 100.0, "{storage:?} should round something: {found:?}");
    }
}

#[test]
fn misuse_is_an_error() {
    let probe = Probe::read(&golden(SAME)).unwrap();
    let frozen = TrainingOptions { frozen_blocks: 1, ..TrainingOptions::default() };
    let mut encoder = encoder::<f32>(&probe, frozen);
    let mut gradients = probe.parameters.clone();
    let mut d_images = vec![0.0; probe.images.len()];
    let Probe { parameters, images, cotangent, count, .. } = &probe;
    let early = encoder.backward(parameters, images, cotangent, &mut gradients, None);
    assert!(early.unwrap_err().to_string().contains("forward call"));
    let mut features = vec![0.0; cotangent.len()];
    let mut statistics = probe.statistics.clone();
    let short =
        encoder.forward(parameters, &mut statistics, images, count + 1, NormMode::Window, &mut features);
    assert!(short.unwrap_err().to_string().contains("as images but needs"));
    encoder.forward(parameters, &mut statistics, images, *count, NormMode::Window, &mut features).unwrap();
    let below = encoder.backward(parameters, images, cotangent, &mut gradients, Some(&mut d_images));
    assert!(below.unwrap_err().to_string().contains("frozen"));
    let many = TrainingOptions { frozen_blocks: 19, ..TrainingOptions::default() };
    let refused = StepwiseEncoder::new(Arc::clone(&probe.plan), HostOps::<f32>::default(), many);
    assert!(refused.is_err_and(|error| error.to_string().contains("the encoder has 18")));
}

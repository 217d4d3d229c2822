use std::path::Path;

use super::*;
use crate::encoder::{Architecture, BatchNorm, Padding};
use crate::tensors::TensorFile;

/// ‖a − b‖ / ‖b‖
fn distance(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let square = |v: f64| v * v;
    let difference: f64 = a.iter().zip(b).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    let size: f64 = b.iter().map(|b| square(f64::from(*b))).sum();
    (difference / size.max(1e-30)).sqrt()
}

/// A golden MobileNet-V2: everything that goes in, and the file with what comes out.
struct Golden {
    file: TensorFile,
    plan: Plan,
    parameters: Parameters,
    statistics: Statistics,
    images: Vec<f32>,
    count: usize,
    cotangent: Vec<f32>,
}

/// `[n][channels][pixels]` to `[n][pixels][channels]`, or back.
fn transpose(values: &[f32], outer: usize, inner: usize) -> Vec<f32> {
    values
        .chunks_exact(outer * inner)
        .flat_map(|frame| (0..inner).flat_map(move |i| (0..outer).map(move |o| frame[o * inner + i])))
        .collect()
}

fn golden(name: &str) -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let file = TensorFile::read(path).unwrap();
    let images = file.require("in.images").unwrap();
    let [count, channels, height, width] = images.shape[..] else { panic!("images have four axes") };
    let padding = if name.contains("same") { Padding::Same } else { Padding::Symmetric };
    let batch_norm = BatchNorm {
        epsilon: file.setting("bn_eps").unwrap(),
        momentum: file.setting("bn_momentum").unwrap(),
    };
    let architecture = Architecture::MobileNetV2 { width: file.setting("width").unwrap() };
    let plan = architecture.plan(height, width, padding, batch_norm).unwrap();
    let mut parameters = plan.zero_parameters();
    let mut statistics = plan.fresh_statistics();
    for (index, spec) in plan.parameter_specs().iter().enumerate() {
        let values = file.finite(&format!("in.{}", spec.name), &spec.shape).unwrap();
        parameters.tensor_mut(index).copy_from_slice(values);
    }
    for (index, spec) in plan.statistic_specs().iter().enumerate() {
        let values = file.finite(&format!("in.{}", spec.name), &spec.shape).unwrap();
        statistics.tensor_mut(index).copy_from_slice(values);
    }
    let images = transpose(&images.values, channels, height * width);
    let cotangent = file.require("in.cotangent").unwrap().values.clone();
    Golden { plan, parameters, statistics, images, count, cotangent, file }
}

struct Outcome {
    features: Vec<f32>,
    statistics: Statistics,
    gradients: Parameters,
    d_images: Vec<f32>,
}

impl Golden {
    fn run(&self, options: TrainingOptions, threads: usize, mode: NormMode) -> Outcome {
        let mut encoder = Fused::new(self.plan.clone(), options, threads).unwrap();
        let mut statistics = self.statistics.clone();
        let mut features = vec![9.0; self.count * self.plan.features];
        let mut gradients = self.plan.zero_parameters();
        let mut d_images = vec![9.0; self.images.len()];
        encoder
            .forward(&self.parameters, &mut statistics, &self.images, self.count, mode, &mut features)
            .unwrap();
        encoder
            .backward(&self.parameters, &self.images, &self.cotangent, &mut gradients, Some(&mut d_images))
            .unwrap();
        Outcome { features, statistics, gradients, d_images }
    }
}

/// PyTorch's numbers, in double precision: features, running statistics, every gradient. f32 reproduces features to about
/// 2e-5 here, where the last layers see 24 pixels. A gradient is off by as little, unless an activation lands on the other
/// side of 0 or 6: one that does changes everything below it by up to 1e-2 (PyTorch's own f32 is off by 8e-3 on these
/// files). A wrong sign or a missing term is off by a good part of 1. A bias before a batch norm has no gradient at all, so
/// the size of all gradients is what its rounding is compared with.
#[test]
fn mobilenet_agrees_with_pytorch() {
    for name in ["mobilenet-same.safetensors", "mobilenet-symmetric.safetensors"] {
        let golden = golden(name);
        let outcome = golden.run(TrainingOptions::default(), 2, NormMode::Window);
        let expected = |name: &str| &golden.file.require(name).unwrap().values;
        let check = |name: &str, values: &[f32], tolerance: f64| {
            let distance = distance(values, expected(name));
            assert!(distance < tolerance, "{name} is off by {distance:e}");
        };
        check("train.features", &outcome.features, 1e-4);
        for (index, spec) in golden.plan.statistic_specs().iter().enumerate() {
            check(&format!("train.{}", spec.name), outcome.statistics.tensor(index), 1e-5);
        }
        let size: f64 =
            outcome.gradients.values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        for (index, spec) in golden.plan.parameter_specs().iter().enumerate() {
            let exact = expected(&format!("grad.{}", spec.name));
            let square = |(a, b): (&f32, &f32)| (f64::from(*a) - f64::from(*b)).powi(2);
            let error = outcome.gradients.tensor(index).iter().zip(exact).map(square).sum::<f64>().sqrt();
            let own: f64 = exact.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
            assert!(
                error < 1e-2 * own + 1e-7 * size,
                "gradient of {} is off by {error:e} of {own:e}",
                spec.name
            );
        }
        let pixels = golden.plan.image.pixels();
        let d_images = transpose(&outcome.d_images, pixels, golden.plan.image.channels);
        check("grad.images", &d_images, 1e-2);
    }
}

//! Whole encoders on the emulated device: forward, statistics, backward, chunk by chunk, through the same executor that a
//! graphics card would run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use oupn_cuda::{Argument, Element, Gemm, Geometry, Gpu};
use oupn_edge::Result;
use oupn_edge::encoder::examination::{WindowSize, examine};
use oupn_edge::encoder::gpu_ops::{GpuOps, gpu_encoder};
use oupn_edge::encoder::host_ops::HostOps;
use oupn_edge::encoder::ops::Ops;
use oupn_edge::encoder::probe::{Probe, relative_difference};
use oupn_edge::encoder::stepwise::StepwiseEncoder;
use oupn_edge::encoder::{Architecture, BatchNorm, NormMode, Padding, TrainingEncoder, TrainingOptions};
use oupn_edge::tensors::{Tensor, TensorFile};

use crate::case::numbers;
use crate::device::{Build, Emulated, Order, executable};

type Tensors = BTreeMap<String, Tensor>;

fn run<O: Ops>(probe: &Probe, ops: O, memory_budget: usize) -> Tensors {
    let options = TrainingOptions { memory_budget, ..TrainingOptions::default() };
    let mut encoder = StepwiseEncoder::new(Arc::clone(&probe.plan), ops, options).unwrap();
    probe.run(&mut encoder).unwrap_or_else(|error| panic!("{error}"))
}

fn emulate(probe: &Probe, order: Order, memory_budget: usize) -> Option<Tensors> {
    let device = Emulated::start(&executable(Build::Sound)?, order);
    Some(run(probe, GpuOps::new(device, Element::F32).unwrap(), memory_budget))
}

/// The largest relative difference among tensors whose names begin so.
fn worst(outcome: &Tensors, right: &Tensors, prefix: &str) -> (f64, String) {
    outcome
        .iter()
        .filter(|(name, _)| name.starts_with(prefix) && !vanishes(name))
        .map(|(name, tensor)| (relative_difference(&tensor.values, &right[name].values), name.clone()))
        // A NaN is the worst of all, and `total_cmp` says so.
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap()
}

/// A shift that the next batch norm takes away again has a gradient of zero, of which only rounding noise is left.
fn vanishes(name: &str) -> bool {
    name == "grad.features.1.conv.2.bias" || name.ends_with(".conv.3.bias")
}

/// PyTorch's numbers, in the least whole number of mebibytes that will do: blocks work in chunks and compute values again.
#[test]
fn mobilenet_trains_as_in_pytorch() {
    // The second network stands so near to bends of ReLU6 that f32 falls on their other side, PyTorch's own as well.
    for (name, order, memory_budget, gradients) in [
        ("mobilenet-same", Order::Forward, 3 << 20, 1e-3),
        ("mobilenet-symmetric", Order::Reverse, 2 << 20, 2e-2),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.safetensors"));
        let golden = TensorFile::read(path).unwrap();
        let Some(outcome) = emulate(&Probe::read(&golden).unwrap(), order, memory_budget) else { return };
        for (prefix, tolerance) in
            [("eval.features", 1e-4), ("train.features", 1e-3), ("train.", 1e-3), ("grad.", gradients)]
        {
            let worst = worst(&outcome, golden.tensors(), prefix);
            assert!(worst.0 < tolerance, "{name}: {worst:?}");
        }
        let statistics: Tensors = outcome
            .iter()
            .filter(|(name, _)| name.contains(".running_"))
            .map(|(n, t)| (n.clone(), t.clone()))
            .collect();
        let worst = worst(&statistics, golden.tensors(), "train.");
        assert!(worst.0 < 1e-5, "{name}: {worst:?}");
    }
}

/// Features and gradients with fixed statistics, where a network passes rounding on without making it larger.
fn train(probe: &Probe, encoder: &mut dyn TrainingEncoder) -> (Vec<f32>, Vec<f32>) {
    let Probe { parameters, images, count, .. } = probe;
    let mut features = vec![0.0; probe.cotangent.len()];
    let mut gradients = probe.plan.zero_parameters();
    let mut statistics = probe.statistics.clone();
    encoder.forward(parameters, &mut statistics, images, *count, NormMode::Running, &mut features).unwrap();
    // As small as those of a mean over a window and its pixels: below what f16 can represent.
    let cotangent: Vec<f32> = probe.cotangent.iter().map(|x| x * 1e-7).collect();
    encoder.backward(parameters, images, &cotangent, &mut gradients, None).unwrap();
    (features, gradients.values)
}

/// f16 rounds every value of 52 units to 2⁻¹¹ of itself, and every gradient.
#[test]
fn mobilenet_trains_in_half_precision() {
    let Some(program) = executable(Build::Sound) else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/mobilenet-same.safetensors");
    let probe = Probe::read(&TensorFile::read(path).unwrap()).unwrap();
    let plan = || Arc::clone(&probe.plan);
    let options = TrainingOptions::default();
    let mut host = StepwiseEncoder::new(plan(), HostOps::<f32>::default(), options).unwrap();
    let device = Emulated::start(&program, Order::Forward);
    let mut halves = gpu_encoder(plan(), device, Element::F16, options).unwrap();
    let (right, found) = (train(&probe, &mut host), train(&probe, halves.as_mut()));
    let differences = (relative_difference(&found.0, &right.0), relative_difference(&found.1, &right.1));
    assert!(differences.0 < 2e-3 && differences.1 < 1e-2, "{differences:?}");
}

/// A probe of made-up numbers.
fn probe(architecture: Architecture, height: usize, width: usize, count: usize) -> Probe {
    let batch_norm = BatchNorm { epsilon: 1e-3, momentum: 0.1 };
    let plan = Arc::new(architecture.plan(height, width, Padding::Same, batch_norm).unwrap());
    let mut parameters = plan.zero_parameters();
    let made_up = numbers(parameters.values.len(), 1);
    parameters.values.copy_from_slice(&made_up);
    Probe {
        architecture,
        parameters,
        statistics: plan.fresh_statistics(),
        count,
        images: numbers(count * plan.image.len(), 2),
        cotangent: numbers(count * plan.features, 3),
        plan,
    }
}

/// The encoders with full convolutions, pools and shortcuts, against the host; both orders of threads to the bit.
#[test]
fn small_encoders_train_as_on_the_host() {
    for (architecture, side, memory_budget) in [
        (Architecture::conv4(1, false), 17, 1 << 20),
        (Architecture::ResNet12 { channels: 4, strides: [2, 2, 2, 1] }, 9, 1 << 20),
    ] {
        let probe = probe(architecture, side, side + 2, 3);
        let right = run(&probe, HostOps::<f64>::default(), 1 << 30);
        let Some(forward) = emulate(&probe, Order::Forward, memory_budget) else { return };
        let reverse = emulate(&probe, Order::Reverse, memory_budget);
        let bits = |tensors: Tensors| -> Vec<u32> {
            tensors.into_values().flat_map(|tensor| tensor.values).map(f32::to_bits).collect()
        };
        let worst = worst(&forward, &right, "");
        assert!(worst.0 < 1e-3, "{architecture}: {worst:?}");
        assert!(bits(forward) == reverse.map(bits).unwrap_or_default(), "{architecture}: the order shows");
    }
}

/// A device of which a hair is wrong: its products are added to what was there.
struct Careless(Emulated);

impl Gpu for Careless {
    type Buffer = <Emulated as Gpu>::Buffer;

    fn allocate(&mut self, element: Element, len: usize) -> Result<Self::Buffer> {
        let mut buffer = self.0.allocate(element, len)?;
        self.0.upload(&vec![0.5; len], &mut buffer)?;
        Ok(buffer)
    }

    fn upload(&mut self, from: &[f32], to: &mut Self::Buffer) -> Result<()> {
        self.0.upload(from, to)
    }

    fn download(&mut self, from: &Self::Buffer, offset: usize, to: &mut [f32]) -> Result<()> {
        self.0.download(from, offset, to)
    }

    fn launch(
        &mut self,
        kernel: &str,
        geometry: Geometry,
        arguments: &mut [Argument<'_, Self::Buffer>],
    ) -> Result<()> {
        self.0.launch(kernel, geometry, arguments)
    }

    fn gemm(
        &mut self,
        gemm: &Gemm,
        a: (&Self::Buffer, usize),
        b: (&Self::Buffer, usize),
        c: (&mut Self::Buffer, usize),
    ) -> Result<()> {
        self.0.gemm(&Gemm { beta: 1.0, ..*gemm }, a, b, c)
    }
}

#[test]
fn an_examination_finds_what_is_right_and_what_is_wrong() {
    let Some(program) = executable(Build::Sound) else { return };
    let open = || Ok(Emulated::start(&program, Order::Forward));
    let size = WindowSize { width: 0.35, side: 32, images: 2 };
    let found = examine(open, size).unwrap();
    assert_eq!(found.networks.len(), 6);
    for network in &found.networks {
        assert!(network.agrees, "{network:?}");
        // f16 rounds to a thousandth, which must show; if it does not, it was not f16.
        let half = network.network.ends_with("f16");
        assert_eq!(network.features > 1e-5, half, "{network:?}");
    }
    let spent = |name: &str| {
        let of = found.spendings.iter().filter(|(key, _)| key.starts_with(name));
        of.fold((0, 0), |sum, (_, spent)| (sum.0 + spent.calls, sum.1 + spent.bytes))
    };
    // 17 depthwise convolutions, 35 products forward and two backward for each, at the least.
    assert!(spent("depthwise").0 >= 17 && spent("product").0 >= 3 * 35, "{:?}", found.spendings);
    assert!(spent("upload").1 >= 2 * 32 * 32 * 3 * 4 && spent("allocate").1 > 0 && spent("wait").0 == 10);
    assert!(found.seconds > 0.0 && found.spendings.values().all(|spent| spent.seconds >= 0.0));

    let careless = || Ok(Careless(Emulated::start(&program, Order::Forward)));
    let found = examine(careless, size).unwrap();
    assert!(found.networks.iter().all(|network| !network.agrees), "{:?}", found.networks);
}

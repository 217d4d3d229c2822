//! The module against the executor below it: the same numbers, whatever way they go.

use candle_nn::Optimizer;

use super::*;
use crate::init::random_parameters;
use crate::plan::Shape;
use crate::probe::channels_first;
use crate::random::{Purpose, Random};
use crate::{Architecture, BatchNorm, Error, Fused, Padding, TrainingEncoder, TrainingOptions};

const COUNT: usize = 3;
const CPU: Device = Device::Cpu;

struct Case {
    plan: Arc<Plan>,
    parameters: Parameters,
    statistics: Statistics,
    /// Channels last.
    images: Vec<f32>,
    cotangent: Vec<f32>,
}

/// What a window gives: features, statistics after it, gradients, the images' gradient.
type Outcome = (Vec<f32>, Vec<f32>, Vec<f32>, Vec<f32>);

impl Case {
    fn new(architecture: Architecture, side: usize) -> Self {
        let norm = BatchNorm { epsilon: 1e-3, momentum: 0.1 };
        let plan = Arc::new(architecture.plan(side, side, Padding::Same, norm).unwrap());
        let mut random = Random::new(3, Purpose::World, 0);
        let mut numbers = |len: usize| (0..len).map(|_| random.between(-1.0, 1.0)).collect::<Vec<f32>>();
        let mut statistics = plan.fresh_statistics();
        statistics.values.iter_mut().for_each(|value| *value += 0.25);
        Self {
            parameters: random_parameters(architecture, &plan, 5),
            statistics,
            images: numbers(COUNT * plan.image.len()),
            cotangent: numbers(COUNT * plan.features),
            plan,
        }
    }

    fn all() -> [(&'static str, Self); 3] {
        let strides = [2, 2, 1, 1];
        [
            ("MobileNet-V2", Self::new(Architecture::MobileNetV2 { width: 0.35 }, 32)),
            ("ResNet-12", Self::new(Architecture::ResNet12 { channels: 3, strides }, 16)),
            ("Conv-4", Self::new(Architecture::conv4(3, false), 16)),
        ]
    }

    fn fused(&self, options: TrainingOptions) -> Fused {
        Fused::new(Arc::clone(&self.plan), options, 2).unwrap()
    }

    fn executor(&self) -> Executor {
        Box::new(self.fused(TrainingOptions::default()))
    }

    /// By the executor alone.
    fn direct(&self, norm: NormMode) -> Outcome {
        let mut executor = self.fused(TrainingOptions::default());
        let mut statistics = self.statistics.clone();
        let mut features = vec![0.0; self.cotangent.len()];
        let mut gradients = self.plan.zero_parameters();
        let mut d_images = vec![0.0; self.images.len()];
        let (parameters, images) = (&self.parameters, &self.images[..]);
        executor.forward(parameters, &mut statistics, images, COUNT, norm, &mut features).unwrap();
        executor.backward(parameters, images, &self.cotangent, &mut gradients, Some(&mut d_images)).unwrap();
        (features, statistics.values, gradients.values, channels_first(&d_images, self.plan.image))
    }

    /// Images as candle has them: channels first in memory.
    fn tensor(&self) -> Var {
        let Shape { height, width, channels } = self.plan.image;
        let numbers = channels_first(&self.images, self.plan.image);
        Var::from_vec(numbers, (COUNT, channels, height, width), &CPU).unwrap()
    }

    fn map(&self) -> VarMap {
        var_map(&self.parameters, &self.statistics, &CPU).unwrap()
    }

    fn encoder(&self, map: &VarMap, executor: Executor) -> Encoder {
        let builder = VarBuilder::from_varmap(map, DType::F32, &CPU);
        Encoder::new(Arc::clone(&self.plan), executor, &builder).unwrap()
    }

    /// A loss whose gradient at the features is the cotangent.
    fn loss(&self, features: &Tensor) -> Tensor {
        let cotangent = Tensor::from_slice(&self.cotangent, features.shape(), &CPU).unwrap();
        (features * cotangent).unwrap().sum_all().unwrap()
    }
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

/// Bit for bit, but that candle adds gradients to zeros: −0 becomes 0.
#[track_caller]
fn assert_same(found: &[f32], right: &[f32], what: &str) {
    let bits = |x: &f32| (x + 0.0).to_bits();
    assert_eq!(found.len(), right.len(), "{what}");
    let other = found.iter().zip(right).position(|(a, b)| bits(a) != bits(b));
    assert_eq!(other, None, "{what}: {:?} {:?}", other.map(|at| found[at]), other.map(|at| right[at]));
}

/// The gradients of all variables in the plan's order.
fn named_gradients(case: &Case, map: &VarMap, gradients: &candle_core::backprop::GradStore) -> Vec<f32> {
    let data = map.data().lock().unwrap();
    let of = |spec: &TensorSpec| values(gradients.get(&data[&spec.name]).unwrap());
    case.plan.parameter_specs().iter().flat_map(of).collect()
}

#[test]
fn features_statistics_and_every_gradient_are_the_executors() {
    for (what, case) in Case::all() {
        for (train, norm) in [(true, NormMode::Window), (false, NormMode::Running)] {
            let what = format!("{what}, {norm:?}");
            let (features, statistics, gradients, d_images) = case.direct(norm);
            assert!(gradients.iter().any(|g| *g != 0.0));
            let map = case.map();
            let encoder = case.encoder(&map, case.executor());
            let images = case.tensor();
            let found = encoder.forward_t(&images, train).unwrap();
            assert_eq!(found.dims(), [COUNT, case.plan.features]);
            let found_gradients = case.loss(&found).backward().unwrap();
            assert_same(&values(&found), &features, &what);
            assert_same(&encoder.statistics().unwrap().values, &statistics, &what);
            assert_same(&named_gradients(&case, &map, &found_gradients), &gradients, &what);
            assert_same(&values(found_gradients.get(&images).unwrap()), &d_images, &what);
        }
    }
}

#[test]
fn a_backward_pass_is_right_after_other_calls_and_a_second_time() {
    let (_, case) = Case::all().into_iter().next_back().unwrap();
    let (.., gradients, _) = case.direct(NormMode::Window);
    let map = case.map();
    let encoder = case.encoder(&map, case.executor());
    let images = case.tensor();
    let first = encoder.forward_t(&images, true).unwrap();
    let other = encoder.forward_t(&images.affine(0.5, 0.1).unwrap(), true).unwrap();
    for time in ["after another call", "again"] {
        let found = case.loss(&first).backward().unwrap();
        assert_same(&named_gradients(&case, &map, &found), &gradients, time);
    }
    // One backward pass through both: the sum of their gradients.
    let both = (case.loss(&first) + case.loss(&other)).unwrap().backward().unwrap();
    let other = case.loss(&other).backward().unwrap();
    let sum: Vec<f32> =
        gradients.iter().zip(named_gradients(&case, &map, &other)).map(|(a, b)| a + b).collect();
    assert_same(&named_gradients(&case, &map, &both), &sum, "both");
}

#[test]
fn images_lent_channels_last_are_read_where_they_are() {
    let (_, mut case) = Case::all().into_iter().next_back().unwrap();
    let (features, statistics, gradients, _) = case.direct(NormMode::Window);
    let session = Session::new(Arc::clone(&case.plan), case.executor());
    let Shape { height, width, channels } = case.plan.image;
    let (weights, len) = (case.parameters.values.clone(), case.parameters.values.len());
    let places = (case.images.as_ptr(), case.parameters.values.as_ptr());
    let mut found_statistics = case.statistics.clone();
    let cotangent = case.cotangent.clone();
    {
        let images = Lent::constant(&mut case.images, &[COUNT, height, width, channels]).unwrap();
        let theta = Lent::variable(&mut case.parameters.values, &[len]).unwrap();
        let turned = images.tensor().permute((0, 3, 1, 2)).unwrap();
        let found = session.encode(&turned, theta.tensor(), &mut found_statistics, NormMode::Window).unwrap();
        assert_same(&values(&found), &features, "features");
        let cotangent = Tensor::from_vec(cotangent, found.shape(), &CPU).unwrap();
        let found = (found * cotangent).unwrap().sum_all().unwrap().backward().unwrap();
        assert_same(&values(found.get(theta.tensor()).unwrap()), &gradients, "gradients");
    }
    assert_same(&found_statistics.values, &statistics, "statistics");
    assert_eq!((case.images.as_ptr(), case.parameters.values.as_ptr()), places);
    assert_eq!(case.parameters.values, weights);
}

#[test]
fn what_was_lent_comes_back() {
    let mut home = vec![1.0, 2.0, 3.0];
    assert!(Lent::constant(&mut home, &[2, 2]).is_err());
    assert_eq!(home.len(), 3);
    let kept = Lent::variable(&mut home, &[3]).unwrap().tensor().clone();
    assert_eq!(home, [1.0, 2.0, 3.0]);
    // A handle that outlives the loan is empty, and says so.
    assert!(read(&kept, <[f32]>::len).is_err());
}

#[test]
fn a_head_and_an_optimiser_of_candles_learn_on_top() {
    let (_, case) = Case::all().into_iter().next_back().unwrap();
    let map = case.map();
    let encoder = case.encoder(&map, case.executor());
    let builder = VarBuilder::from_varmap(&map, DType::F32, &CPU);
    let head = candle_nn::linear(case.plan.features, 2, builder.pp("head")).unwrap();
    let labels = Tensor::new(&[0u32, 1, 0], &CPU).unwrap();
    let mut adam = candle_nn::AdamW::new_lr(map.all_vars(), 1e-2).unwrap();
    let mut losses = Vec::new();
    for _ in 0..10 {
        let features = encoder.forward_t(&case.tensor(), true).unwrap();
        let logits = candle_nn::Module::forward(&head, &features).unwrap();
        let loss = candle_nn::loss::cross_entropy(&logits, &labels).unwrap();
        adam.backward_step(&loss).unwrap();
        losses.push(loss.to_scalar::<f32>().unwrap());
    }
    assert!(losses[9] < 0.1 * losses[0], "{losses:?}");
    // The module follows its variables, and they are what is saved.
    let (weights, statistics) = (encoder.parameters().unwrap(), encoder.statistics().unwrap());
    assert_ne!(weights.values, case.parameters.values);
    let data = map.data().lock().unwrap();
    let same = |specs: &[TensorSpec], all: &[f32]| {
        let found: Vec<f32> = specs.iter().flat_map(|spec| values(&data[&spec.name])).collect();
        assert_eq!(found, all);
    };
    same(case.plan.parameter_specs(), &weights.values);
    same(case.plan.statistic_specs(), &statistics.values);
}

#[test]
fn frozen_blocks_get_no_gradient_and_pass_none_on() {
    let (_, case) = Case::all().into_iter().next_back().unwrap();
    let frozen = || Box::new(case.fused(TrainingOptions { frozen_blocks: 2, ..Default::default() }));
    let (.., right, _) = case.direct(NormMode::Window);
    let map = case.map();
    let encoder = case.encoder(&map, frozen());
    let images = case.tensor();
    let features = encoder.forward_t(images.as_detached_tensor().as_ref(), true).unwrap();
    let found = case.loss(&features).backward().unwrap();
    let found = named_gradients(&case, &map, &found);
    let first = case.plan.parameter_specs()[case.plan.units[2].weight].offset;
    assert!(found[..first].iter().all(|g| *g == 0.0));
    assert_same(&found[first..], &right[first..], "what is trained");
    // Who asks for the images' gradient is told that there is none.
    let features = encoder.forward_t(&images, true).unwrap();
    let error = case.loss(&features).backward().unwrap_err();
    assert!(error.to_string().contains("frozen"), "{error}");
}

#[test]
fn bad_tensors_are_refused() {
    let (_, case) = Case::all().into_iter().next_back().unwrap();
    let encoder = case.encoder(&case.map(), case.executor());
    let images = case.tensor();
    for (bad, word) in [
        (images.permute((0, 2, 3, 1)).unwrap(), "takes [N, 3, 16, 16]"),
        (images.narrow(0, 0, 0).unwrap(), "takes [N, 3, 16, 16]"),
        (images.get(0).unwrap(), "takes [N, 3, 16, 16]"),
        (images.to_dtype(DType::F64).unwrap(), "expected F32"),
    ] {
        let error = encoder.forward_t(&bad, true).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    let session = Session::new(Arc::clone(&case.plan), case.executor());
    let theta = Tensor::zeros(7, DType::F32, &CPU).unwrap();
    let mut statistics = case.statistics.clone();
    let error = session.encode(&images, &theta, &mut statistics, NormMode::Window).unwrap_err();
    assert!(error.to_string().contains("7 weights"), "{error}");
    assert_eq!(statistics, case.statistics);

    let empty = VarBuilder::from_tensors(std::collections::HashMap::new(), DType::F32, &CPU);
    let error = Encoder::new(Arc::clone(&case.plan), case.executor(), &empty).unwrap_err();
    assert!(error.to_string().contains("blocks.0.conv.weight"), "{error}");
}

/// An executor that fails.
struct Gone;

impl TrainingEncoder for Gone {
    fn forward(
        &mut self,
        _: &Parameters,
        _: &mut Statistics,
        _: &[f32],
        _: usize,
        _: NormMode,
        _: &mut [f32],
    ) -> crate::Result<()> {
        Err(Error::Device("the device is gone".into()))
    }

    fn backward(
        &mut self,
        _: &Parameters,
        _: &[f32],
        _: &[f32],
        _: &mut Parameters,
        _: Option<&mut [f32]>,
    ) -> crate::Result<()> {
        Err(Error::Device("the device is gone".into()))
    }
}

#[test]
fn an_executors_error_comes_out_as_it_was() {
    let (_, case) = Case::all().into_iter().next_back().unwrap();
    let session = Session::new(Arc::clone(&case.plan), Box::new(Gone));
    let theta = Tensor::from_slice(&case.parameters.values, case.parameters.values.len(), &CPU).unwrap();
    let mut statistics = case.statistics.clone();
    let error = session.encode(&case.tensor(), &theta, &mut statistics, NormMode::Window).unwrap_err();
    assert!(error.to_string().contains("the device is gone"), "{error}");
    assert!(matches!(session.error(error), Error::Device(words) if words == "the device is gone"));
    // What was not the executor's is candle's.
    let error = session.encode(&theta, &theta, &mut statistics, NormMode::Window).unwrap_err();
    assert!(matches!(session.error(error), Error::Input(words) if words.contains("takes [N, 3, 16, 16]")));
}

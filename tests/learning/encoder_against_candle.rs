//! The encoder's operations and its small networks against candle's layers and candle's derivatives, in f64.

use std::collections::HashMap;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor, Var};
use candle_nn::{ModuleT, VarBuilder};
use oupn_edge::encoder::candle::{Encoder, var_map};
use oupn_edge::encoder::host_ops::HostOps;
use oupn_edge::encoder::ops::{At, AtMut, Ops, Product, Tail, Windows};
use oupn_edge::encoder::plan::{Activation, ConvKind, Pool, PoolEdge, Shape};
use oupn_edge::encoder::probe::{channels_first, channels_last, relative_difference};
use oupn_edge::encoder::stepwise::StepwiseEncoder;
use oupn_edge::encoder::{
    Architecture, BatchNorm, NormMode, Padding, Parameters, Plan, Statistics, TrainingEncoder,
    TrainingOptions,
};

/// Numbers from −1 to 1 that look random and are the same every time.
fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..len).map(next).collect()
}

fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
    Tensor::from_slice(values, shape, &Device::Cpu).unwrap().to_dtype(DType::F64).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_dtype(DType::F32).unwrap().to_vec1().unwrap()
}

/// Kernels of one group, from `[channel, tap]` to `[tap, channel]`.
fn taps_first(kernels: &[f32], channels: usize) -> Vec<f64> {
    (0..9 * channels).map(|at| f64::from(kernels[at % channels * 9 + at / channels])).collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&value| value as f32).collect()
}

/// Both sides compute in f64 and are compared in f32. A gradient that vanishes is rounding noise on both sides.
fn assert_close(found: &[f32], right: &[f32], what: &str) {
    assert_eq!(found.len(), right.len(), "{what}");
    if found.iter().chain(right).all(|value| value.abs() < 1e-9) {
        return;
    }
    let difference = relative_difference(found, right);
    assert!(difference < 1e-6, "{what}: {difference}");
}

/// Frames with zeros around them, as far as the windows reach.
fn padded(x: &Tensor, windows: &Windows) -> candle_core::Result<Tensor> {
    let Windows { image, output, stride, pad, .. } = *windows;
    let after =
        |output: usize, size: usize, pad: usize| ((output - 1) * stride + 3).saturating_sub(size + pad);
    x.pad_with_zeros(2, pad.0, after(output.height, image.height, pad.0))?.pad_with_zeros(
        3,
        pad.1,
        after(output.width, image.width, pad.1),
    )
}

/// A padded 3×3 convolution of candle, and its derivatives from a cotangent: output, input gradient, weight gradient.
fn candle_convolution(
    x: &Tensor,
    w: &Tensor,
    windows: &Windows,
    groups: usize,
    cotangent: impl FnOnce(&[usize]) -> Tensor,
) -> (Tensor, Tensor, Tensor) {
    let (x, w) = (Var::from_tensor(x).unwrap(), Var::from_tensor(w).unwrap());
    let Windows { image, output, stride, pad, .. } = *windows;
    let after =
        |output: usize, size: usize, pad: usize| ((output - 1) * stride + 3).saturating_sub(size + pad);
    let padded = x
        .pad_with_zeros(2, pad.0, after(output.height, image.height, pad.0))
        .and_then(|x| x.pad_with_zeros(3, pad.1, after(output.width, image.width, pad.1)))
        .unwrap();
    let z = padded.conv2d(&w, 0, stride, 1, groups).unwrap();
    let gradients = (&z * cotangent(z.dims())).unwrap().sum_all().unwrap().backward().unwrap();
    let gradient = |var: &Var| gradients.get(var).unwrap().clone();
    (z, gradient(&x), gradient(&w))
}

/// Every way in which a 3×3 window can lie on a frame: even, odd and tiny sizes, both strides, both paddings.
fn all_windows(from: usize, to: usize) -> Vec<Windows> {
    let mut all = Vec::new();
    for (height, width) in [(6, 8), (7, 5), (1, 2), (3, 1)] {
        for stride in [1, 2] {
            for padding in [Padding::Same, Padding::Symmetric] {
                all.push(Windows {
                    frames: 2,
                    image: Shape { height, width, channels: from },
                    output: Shape {
                        height: height.div_ceil(stride),
                        width: width.div_ceil(stride),
                        channels: to,
                    },
                    stride,
                    pad: (padding.before(height, stride), padding.before(width, stride)),
                });
            }
        }
    }
    all
}

#[test]
fn depthwise_convolutions_and_their_gradients() {
    let mut ops = HostOps::<f64>::default();
    for (seed, windows) in all_windows(3, 3).into_iter().enumerate() {
        let seed = seed as u64;
        let what = format!("{windows:?}");
        let Windows { frames, image, output, .. } = windows;
        let (x, w) = (numbers(frames * image.len(), seed + 1), numbers(27, seed + 2));
        let dz = numbers(frames * output.len(), seed + 3);
        let (z, dx, dw) = candle_convolution(
            &tensor(&x, &[frames, 3, image.height, image.width]),
            &tensor(&w, &[3, 1, 3, 3]),
            &windows,
            3,
            |shape| tensor(&dz, shape),
        );

        let (x, dz) = (wide(&channels_last(&x, image)), wide(&channels_last(&dz, output)));
        let weight = taps_first(&w, 3);
        let mut found = vec![0.0; dz.len()];
        let (x_at, dz_at) = (At { buffer: &x, offset: 0 }, At { buffer: &dz, offset: 0 });
        ops.depthwise(x_at, &weight, AtMut { buffer: &mut found, offset: 0 }, &windows).unwrap();
        assert_close(&channels_first(&narrow(&found), output), &values(&z), &what);
        let mut found = vec![0.0; x.len()];
        let to = AtMut { buffer: &mut found, offset: 0 };
        ops.depthwise_input_gradient(dz_at, &weight, to, &windows).unwrap();
        assert_close(&channels_first(&narrow(&found), image), &values(&dx), &what);
        let mut found = vec![1.0; 27];
        ops.depthwise_weight_gradient(dz_at, x_at, &mut found, &windows).unwrap();
        found.iter_mut().for_each(|found| *found -= 1.0);
        assert_close(&narrow(&found), &narrow(&taps_first(&values(&dw), 3)), &what);
    }
}

#[test]
fn full_convolutions_and_their_gradients() {
    let mut ops = HostOps::<f64>::default();
    for (seed, windows) in all_windows(2, 3).into_iter().enumerate() {
        let seed = 100 + seed as u64;
        let what = format!("{windows:?}");
        let Windows { frames, image, output, .. } = windows;
        let (x, w) = (numbers(frames * image.len(), seed + 1), numbers(3 * 18, seed + 2));
        let dz = numbers(frames * output.len(), seed + 3);
        let (z, dx, dw) = candle_convolution(
            &tensor(&x, &[frames, 2, image.height, image.width]),
            &tensor(&w, &[3, 2, 3, 3]),
            &windows,
            1,
            |shape| tensor(&dz, shape),
        );

        let by_output = |kernels: &[f32]| -> Vec<f64> {
            kernels.chunks_exact(18).flat_map(|kernel| taps_first(kernel, 2)).collect()
        };
        let size = Product { rows: frames * output.pixels(), from: 18, to: 3 };
        let (x, dz) = (wide(&channels_last(&x, image)), wide(&channels_last(&dz, output)));
        let weight = by_output(&w);
        let dz_at = At { buffer: &dz, offset: 0 };
        let mut columns = vec![f64::NAN; size.rows * 18];
        ops.gather(At { buffer: &x, offset: 0 }, &mut columns, &windows).unwrap();
        let columns_at = At { buffer: &columns, offset: 0 };
        let mut found = vec![0.0; dz.len()];
        ops.product(columns_at, &weight, AtMut { buffer: &mut found, offset: 0 }, size).unwrap();
        assert_close(&channels_first(&narrow(&found), output), &values(&z), &what);
        let mut found = vec![1.0; 54];
        ops.product_weight_gradient(dz_at, columns_at, &mut found, size).unwrap();
        found.iter_mut().for_each(|found| *found -= 1.0);
        assert_close(&narrow(&found), &narrow(&by_output(&values(&dw))), &what);
        let mut found = vec![0.0; x.len()];
        ops.product_input_gradient(dz_at, &weight, AtMut { buffer: &mut columns, offset: 0 }, size).unwrap();
        ops.scatter(&columns, AtMut { buffer: &mut found, offset: 0 }, &windows).unwrap();
        assert_close(&channels_first(&narrow(&found), image), &values(&dx), &what);
    }
}

/// A network written with candle's layers.
struct Candle {
    vars: HashMap<String, Var>,
    statistics: HashMap<String, Tensor>,
    norm: NormMode,
    epsilon: f64,
}

impl Candle {
    fn new(parameters: &Parameters, statistics: &Statistics, norm: NormMode, epsilon: f64) -> Self {
        let vars = parameters.specs().iter().enumerate().map(|(index, spec)| {
            let var = Var::from_tensor(&tensor(parameters.tensor(index), &spec.shape)).unwrap();
            (spec.name.clone(), var)
        });
        let statistics = statistics
            .specs()
            .iter()
            .enumerate()
            .map(|(index, spec)| (spec.name.clone(), tensor(statistics.tensor(index), &spec.shape)));
        Self { vars: vars.collect(), statistics: statistics.collect(), norm, epsilon }
    }

    /// A convolution of stride 1 and its batch norm.
    fn conv_norm(&self, x: &Tensor, conv: &str, bn: &str) -> candle_core::Result<Tensor> {
        let weight = &self.vars[&format!("{conv}.weight")];
        self.norm(&x.conv2d(weight, weight.dim(3)? / 2, 1, 1, 1)?, bn)
    }

    fn norm(&self, z: &Tensor, bn: &str) -> candle_core::Result<Tensor> {
        let channels = (1, z.dim(1)?, 1, 1);
        let (mean, variance) = match self.norm {
            NormMode::Window => {
                let rows = z.transpose(0, 1)?.flatten_from(1)?;
                let mean = rows.mean(1)?;
                let variance = rows.broadcast_sub(&mean.unsqueeze(1)?)?.sqr()?.mean(1)?;
                (mean, variance)
            }
            NormMode::Running => {
                let of = |part: &str| self.statistics[&format!("{bn}.{part}")].clone();
                (of("running_mean"), of("running_var"))
            }
        };
        let scale = (&*self.vars[&format!("{bn}.weight")] / (variance + self.epsilon)?.sqrt()?)?;
        let shift = (&*self.vars[&format!("{bn}.bias")] - (mean * &scale)?)?;
        z.broadcast_mul(&scale.reshape(channels)?)?.broadcast_add(&shift.reshape(channels)?)
    }

    /// Any plan without pools, unit by unit.
    fn by_plan(&self, plan: &Plan, images: &Tensor) -> candle_core::Result<Tensor> {
        let mut made = vec![images.clone()];
        for unit in &plan.units {
            let name = |index: usize| &plan.parameter_specs()[index].name;
            let (x, weight) = (&made[unit.input], &self.vars[name(unit.weight)]);
            let groups = if unit.conv == ConvKind::Depthwise { unit.conv_shape.channels } else { 1 };
            let windows = Windows {
                frames: 1,
                image: unit.in_shape,
                output: unit.conv_shape,
                stride: unit.stride,
                pad: unit.pad,
            };
            let z = match unit.conv {
                ConvKind::Pointwise => x.conv2d(weight, 0, 1, 1, 1)?,
                ConvKind::Depthwise | ConvKind::Full => {
                    padded(x, &windows)?.conv2d(weight, 0, unit.stride, 1, groups)?
                }
            };
            let mut value = self.norm(&z, name(unit.gamma).trim_end_matches(".weight"))?;
            if let Some(add) = unit.add {
                value = (value + &made[add])?;
            }
            if unit.activation == Activation::Relu6 {
                value = value.clamp(0.0, 6.0)?;
            }
            made.push(value);
        }
        made[plan.units.len()].mean(3)?.mean(2)
    }

    fn resnet12(&self, images: &Tensor, strides: [usize; 4]) -> candle_core::Result<Tensor> {
        let mut x = images.clone();
        for (block, stride) in strides.into_iter().enumerate() {
            let layer = |x: &Tensor, conv: &str, bn: &str| {
                self.conv_norm(x, &format!("blocks.{block}.{conv}"), &format!("blocks.{block}.{bn}"))
            };
            let shortcut = layer(&x, "shortcut.conv", "shortcut.bn")?;
            let inner = layer(&layer(&x, "conv1", "bn1")?.relu()?, "conv2", "bn2")?.relu()?;
            x = (layer(&inner, "conv3", "bn3")? + shortcut)?;
            if stride > 1 {
                x = max_pool(&x, stride)?;
            }
            if block < 3 {
                x = x.relu()?;
            }
        }
        x.mean(3)?.mean(2)
    }

    fn conv4(&self, images: &Tensor, last_relu: bool) -> candle_core::Result<Tensor> {
        let mut x = images.clone();
        for block in 0..4 {
            x = self.conv_norm(&x, &format!("blocks.{block}.conv"), &format!("blocks.{block}.bn"))?;
            if block < 3 || last_relu {
                x = x.relu()?;
            }
            x = max_pool(&x, 2)?;
        }
        // Features lie as values do, channels last.
        x.permute((0, 2, 3, 1))?.flatten_from(1)
    }
}

/// A max pool out of reductions. The derivative of candle's own `max_pool2d` (0.11.1) is too small by the window's area.
fn max_pool(x: &Tensor, size: usize) -> candle_core::Result<Tensor> {
    let (count, channels, height, width) = x.dims4()?;
    let (down, across) = (height / size, width / size);
    x.narrow(2, 0, down * size)?
        .narrow(3, 0, across * size)?
        .reshape((count, channels, down, size, across, size))?
        .max(5)?
        .max(3)
}

/// Runs a plan and its candle twin on the same numbers and compares features and every gradient.
fn compare(plan: Plan, twin: impl Fn(&Candle, &Tensor) -> candle_core::Result<Tensor>, what: &str) {
    const COUNT: usize = 3;
    let plan = Arc::new(plan);
    let mut parameters = plan.zero_parameters();
    let mut statistics = plan.fresh_statistics();
    for (index, spec) in Arc::clone(plan.parameter_specs()).iter().enumerate() {
        let fan_in: usize = spec.shape[1..].iter().product();
        let (size, around) = if spec.shape.len() > 1 {
            ((3.0 / fan_in as f32).sqrt(), 0.0)
        } else if spec.name.ends_with("weight") {
            (0.5, 1.0)
        } else {
            (0.5, 0.0)
        };
        let random = numbers(spec.len(), index as u64 + 1000);
        parameters.tensor_mut(index).iter_mut().zip(random).for_each(|(to, x)| *to = around + size * x);
    }
    for unit in &plan.units {
        let random = numbers(unit.conv_shape.channels, unit.mean as u64 + 2000);
        statistics.tensor_mut(unit.mean).iter_mut().zip(&random).for_each(|(to, x)| *to = 0.2 * x);
        statistics.tensor_mut(unit.variance).iter_mut().zip(&random).for_each(|(to, x)| *to = 1.0 + 0.3 * x);
    }
    let images = numbers(COUNT * plan.image.len(), 7);
    let cotangent = numbers(COUNT * plan.features, 8);
    for norm in [NormMode::Window, NormMode::Running] {
        let what = format!("{what}, {norm:?}");
        let candle = Candle::new(&parameters, &statistics, norm, f64::from(plan.batch_norm.epsilon));
        let shape = [COUNT, plan.image.channels, plan.image.height, plan.image.width];
        let candle_images = Var::from_tensor(&tensor(&channels_first(&images, plan.image), &shape)).unwrap();
        let right = twin(&candle, &candle_images).unwrap();
        let loss = (&right * tensor(&cotangent, right.dims())).unwrap().sum_all().unwrap();
        let right_gradients = loss.backward().unwrap();

        let mut encoder =
            StepwiseEncoder::new(Arc::clone(&plan), HostOps::<f64>::default(), TrainingOptions::default())
                .unwrap();
        let mut features = vec![0.0; cotangent.len()];
        encoder.forward(&parameters, &mut statistics.clone(), &images, COUNT, norm, &mut features).unwrap();
        assert_close(&features, &values(&right), &what);
        let mut gradients = plan.zero_parameters();
        let mut d_images = vec![0.0; images.len()];
        encoder.backward(&parameters, &images, &cotangent, &mut gradients, Some(&mut d_images)).unwrap();
        let right = values(right_gradients.get(&candle_images).unwrap());
        assert_close(&channels_first(&d_images, plan.image), &right, &what);
        for (index, spec) in gradients.specs().iter().enumerate() {
            let right = right_gradients.get(&candle.vars[&spec.name]).unwrap();
            assert_close(gradients.tensor(index), &values(right), &format!("{what}, {}", spec.name));
        }

        // The same as a module of candle's: one operation in the place of all its layers.
        let map = var_map(&parameters, &statistics, &Device::Cpu).unwrap();
        let builder = VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu);
        let module = Encoder::new(Arc::clone(&plan), Box::new(encoder), &builder).unwrap();
        let images = Var::from_tensor(&candle_images.detach().to_dtype(DType::F32).unwrap()).unwrap();
        let found = module.forward_t(&images, norm == NormMode::Window).unwrap();
        assert_eq!(values(&found), features, "{what}");
        let cotangent = Tensor::from_slice(&cotangent, found.shape(), &Device::Cpu).unwrap();
        let found = (found * cotangent).unwrap().sum_all().unwrap().backward().unwrap();
        assert_close(
            &values(found.get(&images).unwrap()),
            &values(right_gradients.get(&candle_images).unwrap()),
            &what,
        );
        let data = map.data().lock().unwrap();
        for spec in gradients.specs() {
            let right = right_gradients.get(&candle.vars[&spec.name]).unwrap();
            let found = found.get(&data[&spec.name]).unwrap();
            assert_close(&values(found), &values(right), &format!("{what}, module, {}", spec.name));
        }
    }
}

const NORM: BatchNorm = BatchNorm { epsilon: 1e-3, momentum: 0.1 };

#[test]
fn resnet12_and_its_gradients() {
    for (channels, strides) in [(4, [2, 2, 1, 1]), (3, [1, 2, 2, 1])] {
        let plan = Architecture::ResNet12 { channels, strides }.plan(8, 8, Padding::Same, NORM).unwrap();
        compare(plan, |candle, images| candle.resnet12(images, strides), &format!("{strides:?}"));
    }
}

#[test]
fn the_narrowest_mobilenet_and_its_gradients() {
    // Up to width 0.25 the stem and the first inverted residual both have 8 channels, so that it adds its input.
    let plan = Architecture::MobileNetV2 { width: 0.1 }.plan(35, 32, Padding::Same, NORM).unwrap();
    assert!(plan.units[2].add.is_some());
    let twin = plan.clone();
    compare(plan, |candle, images| candle.by_plan(&twin, images), "MobileNet-V2");
}

#[test]
fn conv4_and_its_gradients() {
    for (last_relu, widths, height, width) in
        [(false, [64; 4], 28, 28), (true, [64; 4], 16, 35), (false, [5, 12, 20, 33], 28, 28)]
    {
        let plan = Architecture::Conv4 { channels: 1, last_relu, widths };
        let plan = plan.plan(height, width, Padding::Same, NORM).unwrap();
        let what = format!("{widths:?}, relu {last_relu}");
        compare(plan, |candle, images| candle.conv4(images, last_relu), &what);
    }
}

#[test]
fn pools_cut_or_shorten_their_last_windows() {
    let mut ops = HostOps::<f64>::default();
    let shape = Shape { height: 3, width: 3, channels: 1 };
    // Scale 1, shift 0; the other rows of the batch norm are not looked at.
    let norm = vec![1.0, 0.0, f64::NAN, f64::NAN, f64::NAN, f64::NAN];
    let z = vec![1.0, 5.0, 2.0, 3.0, 4.0, 9.0, -7.0, -8.0, -1.0];
    for (edge, side, expected, winners) in
        [(PoolEdge::Same, 2, vec![5.0, 6.0, 0.0, 0.0], vec![1]), (PoolEdge::Valid, 1, vec![5.0], vec![1])]
    {
        let tail = Tail {
            frames: 1,
            shape,
            output: Shape { height: side, width: side, channels: 1 },
            pool: Some(Pool { size: 2, edge }),
            activation: Activation::Relu6,
        };
        let z = At { buffer: &z, offset: 0 };
        let mut y = vec![f64::NAN; side * side];
        ops.normalise(z, &norm, None, AtMut { buffer: &mut y, offset: 0 }, &tail).unwrap();
        assert_eq!(y, expected);
        // Only 5 lies between the bends of ReLU6: its place alone passes a gradient.
        let dy = vec![1.0; side * side];
        let mut d = vec![f64::NAN; 9];
        let dy = At { buffer: &dy, offset: 0 };
        ops.tail_gradient(dy, z, &norm, None, AtMut { buffer: &mut d, offset: 0 }, &tail).unwrap();
        let passed: Vec<usize> = (0..9).filter(|&at| d[at] != 0.0).collect();
        assert_eq!(passed, winners);
    }
}

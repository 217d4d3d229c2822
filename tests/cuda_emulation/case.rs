//! One operation on made-up operands, on any backend: what the emulated device and the host are both asked to do.

use oupn_edge::Result;
use oupn_edge::encoder::Storage;
use oupn_edge::encoder::ops::{At, AtMut, Moments, NormRow, NormSize, NormSums, Ops, Product, Tail, Windows};
use oupn_edge::encoder::plan::{Pooling, Shape};

/// One operation on given extents; [`Case::run`] performs it on any backend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Case {
    Product(Product),
    ProductInputGradient(Product),
    ProductWeightGradient(Product),
    Gather(Windows),
    Scatter(Windows),
    Depthwise(Windows),
    DepthwiseInputGradient(Windows),
    DepthwiseWeightGradient(Windows),
    Moments { rows: usize, channels: usize, mean: f32 },
    Normalise { tail: Tail, add: bool },
    TailGradient { tail: Tail, add: bool },
    NormSums(NormSize),
    NormInputGradient(NormSize),
    MeanPool { frames: usize, shape: Shape, pooling: Pooling },
    MeanPoolGradient { frames: usize, shape: Shape, pooling: Pooling },
    Add { len: usize },
    Kept { len: usize, storage: Storage },
}

/// Where operands begin in their buffers: not at 0, so that an offset that gets lost shows.
const OFFSET: usize = 6;

/// Numbers in [-1, 1] that f16 represents exactly, so that both precisions start from the same. The golden-ratio sequence
/// never repeats and covers the interval evenly.
pub(crate) fn numbers(len: usize, seed: usize) -> Vec<f32> {
    let fraction = |i: usize| (i as f64 * 0.618_033_988_749_894_9 + seed as f64 * 0.414_213_562).fract();
    (0..len).map(|i| half::f16::from_f64(2.0 * fraction(i + 1) - 1.0).to_f32()).collect()
}

/// A buffer of values with `numbers` from [`OFFSET`] on.
fn given<O: Ops>(ops: &mut O, numbers: &[f32]) -> Result<O::Values> {
    let mut shifted = vec![f32::NAN; OFFSET];
    shifted.extend(numbers);
    let mut buffer = ops.values(shifted.len())?;
    ops.upload(&shifted, &mut buffer)?;
    Ok(buffer)
}

fn given_params<O: Ops>(ops: &mut O, numbers: &[f32]) -> Result<O::Params> {
    let mut buffer = ops.params(numbers.len())?;
    ops.upload_params(numbers, &mut buffer)?;
    Ok(buffer)
}

fn at<B>(buffer: &B) -> At<'_, B> {
    At { buffer, offset: OFFSET }
}

/// Runs an operation that fills `len` values, and returns them.
fn values_of<O: Ops>(
    ops: &mut O,
    len: usize,
    operation: impl FnOnce(&mut O, AtMut<'_, O::Values>) -> Result<()>,
) -> Result<Vec<f32>> {
    let mut buffer = ops.values(OFFSET + len)?;
    operation(ops, AtMut { buffer: &mut buffer, offset: OFFSET })?;
    let mut values = vec![0.0; len];
    ops.download(at(&buffer), &mut values)?;
    Ok(values)
}

/// Runs an operation that adds to `len` parameters, which start at one, and returns them.
fn params_of<O: Ops>(
    ops: &mut O,
    len: usize,
    operation: impl FnOnce(&mut O, &mut O::Params) -> Result<()>,
) -> Result<Vec<f32>> {
    let mut buffer = given_params(ops, &vec![1.0; len])?;
    operation(ops, &mut buffer)?;
    let mut values = vec![0.0; len];
    ops.download_params(&buffer, &mut values)?;
    Ok(values)
}

/// Rows of a batch norm with every number different; scales of both signs.
fn norm<O: Ops>(ops: &mut O, channels: usize) -> Result<O::Params> {
    let mut rows: Vec<f64> = numbers(NormRow::COUNT * channels, 7).into_iter().map(f64::from).collect();
    rows.iter_mut().take(2 * channels).for_each(|x| *x *= 4.0);
    let mut buffer = ops.params(rows.len())?;
    ops.upload_norm(&rows, &mut buffer)?;
    Ok(buffer)
}

impl Case {
    pub(crate) fn run<O: Ops>(self, ops: &mut O) -> Result<Vec<f32>> {
        match self {
            Self::Product(size) => {
                let x = given(ops, &numbers(size.rows * size.from, 1))?;
                let w = given_params(ops, &numbers(size.from * size.to, 2))?;
                values_of(ops, size.rows * size.to, |ops, z| ops.product(at(&x), &w, z, size))
            }
            Self::ProductInputGradient(size) => {
                let dz = given(ops, &numbers(size.rows * size.to, 1))?;
                let w = given_params(ops, &numbers(size.from * size.to, 2))?;
                values_of(ops, size.rows * size.from, |ops, dx| {
                    ops.product_input_gradient(at(&dz), &w, dx, size)
                })
            }
            Self::ProductWeightGradient(size) => {
                let dz = given(ops, &numbers(size.rows * size.to, 1))?;
                let x = given(ops, &numbers(size.rows * size.from, 2))?;
                params_of(ops, size.from * size.to, |ops, dw| {
                    ops.product_weight_gradient(at(&dz), at(&x), dw, size)
                })
            }
            Self::Gather(windows) => {
                let x = given(ops, &numbers(windows.frames * windows.image.len(), 1))?;
                let len = windows.frames * windows.output.pixels() * 9 * windows.image.channels;
                let mut columns = ops.values(len)?;
                ops.gather(at(&x), &mut columns, &windows)?;
                let mut values = vec![0.0; len];
                ops.download(At { buffer: &columns, offset: 0 }, &mut values)?;
                Ok(values)
            }
            Self::Scatter(windows) => {
                let len = windows.frames * windows.output.pixels() * 9 * windows.image.channels;
                let mut columns = ops.values(len)?;
                ops.upload(&numbers(len, 1), &mut columns)?;
                values_of(ops, windows.frames * windows.image.len(), |ops, dx| {
                    ops.scatter(&columns, dx, &windows)
                })
            }
            Self::Depthwise(windows) => {
                let x = given(ops, &numbers(windows.frames * windows.image.len(), 1))?;
                let w = given_params(ops, &numbers(9 * windows.image.channels, 2))?;
                values_of(ops, windows.frames * windows.output.len(), |ops, z| {
                    ops.depthwise(at(&x), &w, z, &windows)
                })
            }
            Self::DepthwiseInputGradient(windows) => {
                let dz = given(ops, &numbers(windows.frames * windows.output.len(), 1))?;
                let w = given_params(ops, &numbers(9 * windows.image.channels, 2))?;
                values_of(ops, windows.frames * windows.image.len(), |ops, dx| {
                    ops.depthwise_input_gradient(at(&dz), &w, dx, &windows)
                })
            }
            Self::DepthwiseWeightGradient(windows) => {
                let dz = given(ops, &numbers(windows.frames * windows.output.len(), 1))?;
                let x = given(ops, &numbers(windows.frames * windows.image.len(), 2))?;
                params_of(ops, 9 * windows.image.channels, |ops, dw| {
                    ops.depthwise_weight_gradient(at(&dz), at(&x), dw, &windows)
                })
            }
            Self::Moments { rows, channels, mean } => {
                let z: Vec<f32> = numbers(rows * channels, 1)
                    .into_iter()
                    .map(|x| half::f16::from_f32(mean + x).to_f32())
                    .collect();
                let z = given(ops, &z)?;
                let mut moments = Moments { mean: vec![0.0; channels], spread: vec![0.0; channels] };
                ops.moments(at(&z), rows, &mut moments)?;
                // All of size one. The mean comes as f32, so beside 100 it can be no better than 4e-6.
                let means = moments.mean.iter().map(|x| (x / f64::from(mean.max(1.0))) as f32);
                Ok(means.chain(moments.spread.iter().map(|x| (x / rows as f64) as f32)).collect())
            }
            Self::Normalise { tail, add } => {
                let z = given(ops, &numbers(tail.frames * tail.shape.len(), 1))?;
                let norm = norm(ops, tail.shape.channels)?;
                let added = given(ops, &numbers(tail.frames * tail.shape.len(), 2))?;
                let added = add.then_some(at(&added));
                values_of(ops, tail.frames * tail.output.len(), |ops, y| {
                    ops.normalise(at(&z), &norm, added, y, &tail)
                })
            }
            Self::TailGradient { tail, add } => {
                let dy = given(ops, &numbers(tail.frames * tail.output.len(), 3))?;
                let z = given(ops, &numbers(tail.frames * tail.shape.len(), 1))?;
                let norm = norm(ops, tail.shape.channels)?;
                let added = given(ops, &numbers(tail.frames * tail.shape.len(), 2))?;
                let added = add.then_some(at(&added));
                values_of(ops, tail.frames * tail.shape.len(), |ops, d| {
                    ops.tail_gradient(at(&dy), at(&z), &norm, added, d, &tail)
                })
            }
            Self::NormSums(size) => {
                let dy = given(ops, &numbers(size.rows * size.channels, 1))?;
                let z = given(ops, &numbers(size.rows * size.channels, 2))?;
                let norm = norm(ops, size.channels)?;
                let mut sums = NormSums { shift: vec![0.0; size.channels], scale: vec![0.0; size.channels] };
                ops.norm_sums(at(&dy), at(&z), &norm, size, &mut sums)?;
                Ok(sums.shift.iter().chain(&sums.scale).map(|&x| (x / size.rows as f64) as f32).collect())
            }
            Self::NormInputGradient(size) => {
                let dy = given(ops, &numbers(size.rows * size.channels, 1))?;
                let z = given(ops, &numbers(size.rows * size.channels, 2))?;
                let norm = norm(ops, size.channels)?;
                values_of(ops, size.rows * size.channels, |ops, dz| {
                    ops.norm_input_gradient(at(&dy), at(&z), &norm, dz, size)
                })
            }
            Self::MeanPool { frames, shape, pooling } => {
                let x = given(ops, &numbers(frames * shape.len(), 1))?;
                let len = frames * shape.channels;
                let mut y = ops.values(len)?;
                ops.mean_pool(at(&x), &mut y, frames, shape, pooling)?;
                let mut values = vec![0.0; len];
                ops.download(At { buffer: &y, offset: 0 }, &mut values)?;
                Ok(values)
            }
            Self::MeanPoolGradient { frames, shape, pooling } => {
                let mut dy = ops.values(frames * shape.channels)?;
                ops.upload(&numbers(frames * shape.channels, 1), &mut dy)?;
                values_of(ops, frames * shape.len(), |ops, dx| {
                    ops.mean_pool_gradient(&dy, dx, frames, shape, pooling)
                })
            }
            Self::Add { len } => {
                let x = given(ops, &numbers(len, 1))?;
                let mut y = given(ops, &numbers(len, 2))?;
                ops.add(at(&x), AtMut { buffer: &mut y, offset: OFFSET }, len)?;
                let mut values = vec![0.0; len];
                ops.download(at(&y), &mut values)?;
                Ok(values)
            }
            Self::Kept { len, storage } => {
                let mut values = ops.values(len)?;
                let exotic = [0.0, -0.0, 60000.0, -1e-7, 6e-8, 3e-5, f32::INFINITY];
                let mut original = numbers(len, 1);
                original.iter_mut().zip(exotic).for_each(|(to, x)| *to = x);
                ops.upload(&original, &mut values)?;
                let mut packed = ops.packed(OFFSET + len, storage)?;
                ops.pack(&values, AtMut { buffer: &mut packed, offset: OFFSET }, len)?;
                let mut back = ops.values(len)?;
                ops.unpack(At { buffer: &packed, offset: OFFSET }, &mut back, len)?;
                let mut values = vec![0.0; len];
                ops.download(At { buffer: &back, offset: 0 }, &mut values)?;
                Ok(values)
            }
        }
    }
}

//! [`Ops`] on a graphics device: which kernel each operation launches, over which threads, with which arguments.
//!
//! Written over [`Gpu`], so that the same launches run on a CUDA device and on the emulated one of the tests. Only the
//! device behind it is exchanged; nothing here knows which it is.
//!
//! Values are f32 or f16, arithmetic is f32 in both; weights, their gradients and batch norms are always f32. With f16
//! the weights are rounded for the matrix products alone, as cuBLAS multiplies numbers of one kind.

use std::sync::Arc;

use super::ops::{At, AtMut, Moments, NormSize, NormSums, Ops, Product, Tail, Windows};
use super::plan::{Activation, Plan, Pooling, Shape};
use super::scaled::ScaledGradients;
use super::stepwise::StepwiseEncoder;
use super::{Storage, TrainingEncoder, TrainingOptions};
use crate::cuda::Argument::{Input, Int, Output};
use crate::cuda::geometry::{Groups, int};
use crate::cuda::{Argument, Element, Gemm, Geometry, Gpu};
use crate::{Error, Result};

/// The operations on one device, in one precision.
#[derive(Debug)]
pub struct GpuOps<G: Gpu> {
    gpu: G,
    element: Element,
    /// Partial results of a reduction's groups.
    partial: Scratch<G::Buffer>,
    /// Sums that go to the host.
    totals: Scratch<G::Buffer>,
    /// The weight of a product, rounded to `element` where that is not f32.
    weight: Scratch<G::Buffer>,
}

/// An executor of `plan` on a device, with values stored as `element`: f32, or f16 for half the memory traffic and the
/// tensor cores. With f16 a gradient can leave the range of the format: the caller must look whether it is finite.
pub fn gpu_encoder<G>(
    plan: Arc<Plan>,
    gpu: G,
    element: Element,
    options: TrainingOptions,
) -> Result<Box<dyn TrainingEncoder + Send>>
where
    G: Gpu<Buffer: Send> + Send + 'static,
{
    let encoder = StepwiseEncoder::new(plan, GpuOps::new(gpu, element)?, options)?;
    Ok(match element {
        Element::F32 => Box::new(encoder),
        Element::F16 | Element::Bf16 => Box::new(ScaledGradients::new(encoder)),
    })
}

/// A buffer that grows to the largest need and is then used again and again.
#[derive(Debug)]
struct Scratch<B> {
    element: Element,
    buffer: Option<(B, usize)>,
}

impl<B> Scratch<B> {
    fn new(element: Element) -> Self {
        Self { element, buffer: None }
    }

    fn at_least<'a, G: Gpu<Buffer = B>>(&'a mut self, gpu: &mut G, len: usize) -> Result<&'a mut B> {
        let old = self.buffer.take().filter(|(_, capacity)| *capacity >= len);
        let kept = match old {
            Some(kept) => kept,
            None => (gpu.allocate(self.element, len)?, len),
        };
        Ok(&mut self.buffer.insert(kept).0)
    }
}

impl<G: Gpu> GpuOps<G> {
    /// Operations on `gpu` with values stored as `element`, which is f32 or f16.
    pub fn new(gpu: G, element: Element) -> Result<Self> {
        if element == Element::Bf16 {
            return Err(Error::input("the CUDA kernels compute on f32 or f16 values, not on bf16"));
        }
        Ok(Self {
            gpu,
            element,
            partial: Scratch::new(Element::F32),
            totals: Scratch::new(Element::F32),
            weight: Scratch::new(element),
        })
    }

    /// Launches the version of `kernel` for this precision.
    fn launch(
        &mut self,
        kernel: &str,
        geometry: Geometry,
        arguments: &mut [Argument<'_, G::Buffer>],
    ) -> Result<()> {
        self.gpu.launch(&format!("{kernel}_{}", self.element.suffix()), geometry, arguments)
    }

    /// Both products with a weight: `out = x · op(w)`, w as cuBLAS's A.
    fn product_with_weight(
        &mut self,
        gemm: &Gemm,
        x: At<'_, G::Buffer>,
        w: &G::Buffer,
        weights: usize,
        out: AtMut<'_, G::Buffer>,
    ) -> Result<()> {
        let w = if self.element == Element::F32 {
            w
        } else {
            let rounded = self.weight.at_least(&mut self.gpu, weights)?;
            let arguments = &mut [Input(w, 0), Output(rounded, 0), Int(int(weights)?)];
            self.gpu.launch("pack_to_f16_f32", Geometry::elements(weights)?, arguments)?;
            rounded
        };
        self.gpu.gemm(gemm, (w, 0), (x.buffer, x.offset), (out.buffer, out.offset))
    }

    /// Launches what follows or undoes a convolution: the same extents for all four kernels, with a pool more of them.
    fn launch_tail(
        &mut self,
        kernel: &str,
        mut arguments: Vec<Argument<'_, G::Buffer>>,
        tail: &Tail,
        adds: i32,
        rows: usize,
    ) -> Result<()> {
        let Tail { frames, shape, output, pool, activation } = *tail;
        int(frames * shape.len())?;
        let extents = match pool {
            Some(pool) => {
                let Shape { height, width, channels } = shape;
                vec![frames, height, width, channels, output.height, output.width, pool.size]
            }
            None => vec![tail.rows(), shape.channels],
        };
        arguments.extend(extents.into_iter().map(|extent| Int(extent as i32)));
        arguments.extend([Int(adds), Int(code(activation))]);
        self.launch(kernel, Geometry::tile(shape.channels, rows)?, &mut arguments)
    }

    /// Joins `partial`, which holds two numbers a group and channel, and brings the result to the host.
    fn two_totals(
        &mut self,
        kernel: &str,
        columns: usize,
        extents: &[i32],
        shared: usize,
        outcome: [&mut [f64]; 2],
    ) -> Result<()> {
        let channels = outcome[0].len();
        let Self { gpu, partial, totals, .. } = self;
        let partial = partial.at_least(gpu, 0)?;
        let totals = totals.at_least(gpu, 2 * channels)?;
        let mut arguments = vec![Input(partial, 0), Output(totals, 0)];
        arguments.extend(extents.iter().map(|&extent| Int(extent)));
        gpu.launch(kernel, Geometry::join(columns, shared)?, &mut arguments)?;
        let mut host = vec![0.0; 2 * channels];
        gpu.download(totals, 0, &mut host)?;
        for (outcome, host) in outcome.into_iter().zip(host.chunks_exact(channels.max(1))) {
            outcome.iter_mut().zip(host).for_each(|(to, &from)| *to = f64::from(from));
        }
        Ok(())
    }
}

/// Values kept for the whole window, and in what.
#[derive(Debug)]
pub struct GpuPacked<B> {
    element: Element,
    buffer: B,
}

/// How the kernels number the activations; see common.cuh.
fn code(activation: Activation) -> i32 {
    match activation {
        Activation::None => 0,
        Activation::Relu => 1,
        Activation::Relu6 => 2,
    }
}

/// The optional addend of a tail: a kernel that adds nothing gets some other buffer, which it does not read, and a 0.
fn addend<'a, B>(add: Option<At<'a, B>>, other: At<'a, B>) -> (Argument<'a, B>, i32) {
    let At { buffer, offset } = add.unwrap_or(other);
    (Input(buffer, offset), i32::from(add.is_some()))
}

fn input<B>(operand: At<'_, B>) -> Argument<'_, B> {
    Input(operand.buffer, operand.offset)
}

fn output<B>(operand: AtMut<'_, B>) -> Argument<'_, B> {
    Output(operand.buffer, operand.offset)
}

/// The extents of windows as every kernel over them takes them.
fn window_extents(windows: &Windows) -> Result<[i32; 9]> {
    let Windows { frames, image, output, stride, pad } = *windows;
    // Both operands can be counted in 32 bits, and then so can their extents.
    int(frames * image.len())?;
    int(frames * output.pixels() * image.channels)?;
    let (top, left) = pad;
    let Shape { height, width, channels } = image;
    Ok([frames, height, width, channels, output.height, output.width, stride, top, left]
        .map(|extent| extent as i32))
}

impl<G: Gpu> Ops for GpuOps<G> {
    type Values = G::Buffer;
    type Params = G::Buffer;
    type Packed = GpuPacked<G::Buffer>;

    fn value_bytes(&self) -> usize {
        self.element.bytes()
    }

    fn values(&mut self, len: usize) -> Result<G::Buffer> {
        self.gpu.allocate(self.element, len)
    }

    fn params(&mut self, len: usize) -> Result<G::Buffer> {
        let mut buffer = self.gpu.allocate(Element::F32, len)?;
        self.gpu.clear(&mut buffer, len)?;
        Ok(buffer)
    }

    fn packed(&mut self, len: usize, storage: Storage) -> Result<GpuPacked<G::Buffer>> {
        let element = match storage {
            Storage::F32 => Element::F32,
            Storage::F16 => Element::F16,
            Storage::Bf16 => Element::Bf16,
        };
        Ok(GpuPacked { element, buffer: self.gpu.allocate(element, len)? })
    }

    fn upload(&mut self, from: &[f32], to: &mut G::Buffer) -> Result<()> {
        self.gpu.upload(from, to)
    }

    fn download(&mut self, from: At<'_, G::Buffer>, to: &mut [f32]) -> Result<()> {
        self.gpu.download(from.buffer, from.offset, to)
    }

    fn upload_params(&mut self, from: &[f32], to: &mut G::Buffer) -> Result<()> {
        self.gpu.upload(from, to)
    }

    fn upload_norm(&mut self, rows: &[f64], to: &mut G::Buffer) -> Result<()> {
        let rows: Vec<f32> = rows.iter().map(|&x| x as f32).collect();
        self.gpu.upload(&rows, to)
    }

    fn download_params(&mut self, from: &G::Buffer, to: &mut [f32]) -> Result<()> {
        self.gpu.download(from, 0, to)
    }

    fn upload_all_params(&mut self, pairs: &mut [(&[f32], &mut G::Buffer)]) -> Result<()> {
        self.gpu.upload_all(pairs)
    }

    fn download_all_params(&mut self, pairs: &mut [(&G::Buffer, &mut [f32])]) -> Result<()> {
        self.gpu.download_all(pairs)
    }

    fn clear_params(&mut self, to: &mut G::Buffer, len: usize) -> Result<()> {
        self.gpu.clear(to, len)
    }

    fn pack(&mut self, from: &G::Buffer, to: AtMut<'_, GpuPacked<G::Buffer>>, len: usize) -> Result<()> {
        let AtMut { buffer: GpuPacked { element, buffer }, offset } = to;
        let kernel = format!("pack_to_{}", element.suffix());
        let arguments = &mut [Input(from, 0), Output(buffer, offset), Int(int(len)?)];
        self.launch(&kernel, Geometry::elements(len)?, arguments)
    }

    fn unpack(&mut self, from: At<'_, GpuPacked<G::Buffer>>, to: &mut G::Buffer, len: usize) -> Result<()> {
        let At { buffer: GpuPacked { element, buffer }, offset } = from;
        let kernel = format!("unpack_from_{}", element.suffix());
        let arguments = &mut [Input(buffer, offset), Output(to, 0), Int(int(len)?)];
        self.launch(&kernel, Geometry::elements(len)?, arguments)
    }

    fn product(
        &mut self,
        x: At<'_, G::Buffer>,
        w: &G::Buffer,
        z: AtMut<'_, G::Buffer>,
        size: Product,
    ) -> Result<()> {
        let Product { rows, from, to } = size;
        self.product_with_weight(&Gemm::forward(rows, from, to)?, x, w, from * to, z)
    }

    fn product_input_gradient(
        &mut self,
        dz: At<'_, G::Buffer>,
        w: &G::Buffer,
        dx: AtMut<'_, G::Buffer>,
        size: Product,
    ) -> Result<()> {
        let Product { rows, from, to } = size;
        self.product_with_weight(&Gemm::input_gradient(rows, from, to)?, dz, w, from * to, dx)
    }

    fn product_weight_gradient(
        &mut self,
        dz: At<'_, G::Buffer>,
        x: At<'_, G::Buffer>,
        dw: &mut G::Buffer,
        size: Product,
    ) -> Result<()> {
        let gemm = Gemm::weight_gradient(size.rows, size.from, size.to)?;
        self.gpu.gemm(&gemm, (x.buffer, x.offset), (dz.buffer, dz.offset), (dw, 0))
    }

    fn gather(&mut self, x: At<'_, G::Buffer>, columns: &mut G::Buffer, windows: &Windows) -> Result<()> {
        let rows = windows.frames * windows.output.pixels() * 9;
        int(rows * windows.image.channels)?;
        let mut arguments = vec![input(x), Output(columns, 0)];
        arguments.extend(window_extents(windows)?.map(Int));
        self.launch("im2col", Geometry::tile(windows.image.channels, rows)?, &mut arguments)
    }

    fn scatter(&mut self, columns: &G::Buffer, dx: AtMut<'_, G::Buffer>, windows: &Windows) -> Result<()> {
        let pixels = windows.frames * windows.image.pixels();
        int(windows.frames * windows.output.pixels() * 9 * windows.image.channels)?;
        let mut arguments = vec![Input(columns, 0), output(dx)];
        arguments.extend(window_extents(windows)?.map(Int));
        self.launch("col2im", Geometry::tile(windows.image.channels, pixels)?, &mut arguments)
    }

    fn depthwise(
        &mut self,
        x: At<'_, G::Buffer>,
        w: &G::Buffer,
        z: AtMut<'_, G::Buffer>,
        windows: &Windows,
    ) -> Result<()> {
        let Windows { frames, image, output: out, .. } = *windows;
        let mut arguments = vec![input(x), Input(w, 0), output(z)];
        arguments.extend(window_extents(windows)?.map(Int));
        let geometry = Geometry::strips(image.channels, frames * out.height, out.width)?;
        self.launch("depthwise_forward", geometry, &mut arguments)
    }

    fn depthwise_input_gradient(
        &mut self,
        dz: At<'_, G::Buffer>,
        w: &G::Buffer,
        dx: AtMut<'_, G::Buffer>,
        windows: &Windows,
    ) -> Result<()> {
        let Windows { frames, image, stride, .. } = *windows;
        let mut arguments = vec![input(dz), Input(w, 0), output(dx)];
        arguments.extend(window_extents(windows)?.map(Int));
        // At stride 1 the gradient is a convolution like the forward one and walks along strips like it.
        let (kernel, geometry) = if stride == 1 {
            ("stride1", Geometry::strips(image.channels, frames * image.height, image.width)?)
        } else {
            ("stride2", Geometry::tile(image.channels, frames * image.pixels())?)
        };
        self.launch(&format!("depthwise_input_gradient_{kernel}"), geometry, &mut arguments)
    }

    fn depthwise_weight_gradient(
        &mut self,
        dz: At<'_, G::Buffer>,
        x: At<'_, G::Buffer>,
        dw: &mut G::Buffer,
        windows: &Windows,
    ) -> Result<()> {
        let channels = windows.image.channels;
        let groups = Groups::of(windows.frames * windows.output.height, channels);
        let kernel = format!("depthwise_weight_gradient_{}", self.element.suffix());
        let Self { gpu, partial, .. } = self;
        let partial = partial.at_least(gpu, groups.count * 9 * channels)?;
        let mut arguments = vec![input(x), input(dz), Output(partial, 0)];
        arguments.extend(window_extents(windows)?.map(Int));
        arguments.push(Int(int(groups.rows)?));
        gpu.launch(&kernel, Geometry::groups(channels, groups, 9)?, &mut arguments)?;
        let columns = 9 * channels;
        let arguments =
            &mut [Input(partial, 0), Output(dw, 0), Int(int(groups.count)?), Int(int(columns)?), Int(1)];
        gpu.launch("sum_groups", Geometry::join(columns, 1)?, arguments)
    }

    fn moments(&mut self, z: At<'_, G::Buffer>, rows: usize, moments: &mut Moments) -> Result<()> {
        let channels = moments.mean.len();
        int(rows * channels)?;
        let groups = Groups::of(rows, channels);
        let kernel = format!("moments_{}", self.element.suffix());
        let partial = self.partial.at_least(&mut self.gpu, groups.count * 2 * channels)?;
        let extents = [rows, channels, groups.rows].map(|extent| Int(extent as i32));
        let [rows_of_all, columns, rows_of_group] = extents;
        let arguments = &mut [input(z), Output(partial, 0), rows_of_all, columns, rows_of_group];
        self.gpu.launch(&kernel, Geometry::groups(channels, groups, 3)?, arguments)?;
        let extents = [groups.count, rows, channels, groups.rows].map(|extent| extent as i32);
        self.two_totals("merge_moments", channels, &extents, 3, [&mut moments.mean, &mut moments.spread])
    }

    fn normalise(
        &mut self,
        z: At<'_, G::Buffer>,
        norm: &G::Buffer,
        add: Option<At<'_, G::Buffer>>,
        y: AtMut<'_, G::Buffer>,
        tail: &Tail,
    ) -> Result<()> {
        let (added, adds) = addend(add, z);
        let operands = vec![input(z), Input(norm, 0), added, output(y)];
        let rows = tail.frames * tail.output.pixels();
        let kernel = if tail.pool.is_some() { "normalise_pool" } else { "normalise" };
        self.launch_tail(kernel, operands, tail, adds, rows)
    }

    fn tail_gradient(
        &mut self,
        dy: At<'_, G::Buffer>,
        z: At<'_, G::Buffer>,
        norm: &G::Buffer,
        add: Option<At<'_, G::Buffer>>,
        d: AtMut<'_, G::Buffer>,
        tail: &Tail,
    ) -> Result<()> {
        let (added, adds) = addend(add, z);
        let operands = vec![input(dy), input(z), Input(norm, 0), added, output(d)];
        let kernel = if tail.pool.is_some() { "pool_gradient" } else { "activation_gradient" };
        self.launch_tail(kernel, operands, tail, adds, tail.rows())
    }

    fn norm_sums(
        &mut self,
        dy: At<'_, G::Buffer>,
        z: At<'_, G::Buffer>,
        norm: &G::Buffer,
        size: NormSize,
        sums: &mut NormSums,
    ) -> Result<()> {
        let NormSize { rows, channels, activation } = size;
        int(rows * channels)?;
        let groups = Groups::of(rows, channels);
        let kernel = format!("norm_sums_{}", self.element.suffix());
        let partial = self.partial.at_least(&mut self.gpu, groups.count * 2 * channels)?;
        let mut arguments = vec![input(dy), input(z), Input(norm, 0), Output(partial, 0)];
        let extents = [rows as i32, channels as i32, code(activation), groups.rows as i32];
        arguments.extend(extents.map(Int));
        self.gpu.launch(&kernel, Geometry::groups(channels, groups, 2)?, &mut arguments)?;
        let columns = 2 * channels;
        let extents = [groups.count as i32, int(columns)?, 0];
        self.two_totals("sum_groups", columns, &extents, 1, [&mut sums.shift, &mut sums.scale])
    }

    fn norm_input_gradient(
        &mut self,
        dy: At<'_, G::Buffer>,
        z: At<'_, G::Buffer>,
        norm: &G::Buffer,
        dz: AtMut<'_, G::Buffer>,
        size: NormSize,
    ) -> Result<()> {
        let NormSize { rows, channels, activation } = size;
        int(rows * channels)?;
        let mut arguments = vec![input(dy), input(z), Input(norm, 0), output(dz)];
        arguments.extend([rows as i32, channels as i32, code(activation)].map(Int));
        self.launch("norm_input_gradient", Geometry::tile(channels, rows)?, &mut arguments)
    }

    fn mean_pool(
        &mut self,
        x: At<'_, G::Buffer>,
        y: &mut G::Buffer,
        frames: usize,
        shape: Shape,
        pooling: Pooling,
    ) -> Result<()> {
        int(frames * shape.len())?;
        let mut arguments = vec![input(x), Output(y, 0)];
        arguments.extend(pool_extents(frames, shape, pooling).into_iter().map(Int));
        self.launch(
            pooled(pooling, ["mean_pool", "centre_pool"]),
            Geometry::tile(shape.channels, frames)?,
            &mut arguments,
        )
    }

    fn mean_pool_gradient(
        &mut self,
        dy: &G::Buffer,
        dx: AtMut<'_, G::Buffer>,
        frames: usize,
        shape: Shape,
        pooling: Pooling,
    ) -> Result<()> {
        int(frames * shape.len())?;
        let mut arguments = vec![Input(dy, 0), output(dx)];
        arguments.extend(pool_extents(frames, shape, pooling).into_iter().map(Int));
        let geometry = Geometry::tile(shape.channels, frames * shape.pixels())?;
        let kernel = pooled(pooling, ["mean_pool_gradient", "centre_pool_gradient"]);
        self.launch(kernel, geometry, &mut arguments)
    }

    fn add(&mut self, x: At<'_, G::Buffer>, y: AtMut<'_, G::Buffer>, len: usize) -> Result<()> {
        let arguments = &mut [input(x), output(y), Int(int(len)?)];
        self.launch("add", Geometry::elements(len)?, arguments)
    }
}

/// The name for a pooling: of the mean, or of the middle.
fn pooled(pooling: Pooling, [mean, centre]: [&'static str; 2]) -> &'static str {
    match pooling {
        Pooling::Mean => mean,
        Pooling::Centre => centre,
    }
}

/// What the kernels of a pooling are told of sizes; the caller has checked that they fit.
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)]
fn pool_extents(frames: usize, shape: Shape, pooling: Pooling) -> Vec<i32> {
    let extents = match pooling {
        Pooling::Mean => vec![frames, shape.pixels(), shape.channels],
        Pooling::Centre => vec![frames, shape.height, shape.width, shape.channels],
    };
    extents.into_iter().map(|extent| extent as i32).collect()
}

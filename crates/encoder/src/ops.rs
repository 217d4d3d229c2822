//! The operations that the [stepwise executor](super::stepwise) is written in, and nothing beyond them.
//!
//! A backend implements [`Ops`] over memory of its own kind; the executor decides what is computed, for which frames
//! and where it is put. [`HostOps`](super::host_ops::HostOps) is the readable one against which every other is tested.
//!
//! Each operation is one launch over a chunk of frames. Operands are device buffers with offsets. Only what is small
//! comes back to the host: sums over a chunk, one or two numbers per channel, which the executor adds up in f64. So a
//! backend needs no state between calls, and the number of chunks does not show in the statistics.
//!
//! Values are laid out frame after frame, row after row, channels last. Offsets and lengths count numbers, not bytes.
//! The executor guarantees that operands lie within their buffers and that inputs and outputs do not overlap.

use super::Storage;
use super::plan::{Activation, Pool, Pooling, Shape};
use crate::Result;

/// An operand that is read: a buffer from `offset` on.
#[derive(Debug)]
pub struct At<'a, B> {
    /// Where it lies.
    pub buffer: &'a B,
    /// Index of its first number.
    pub offset: usize,
}

impl<B> Clone for At<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for At<'_, B> {}

/// An operand that is written: a buffer from `offset` on.
#[derive(Debug)]
pub struct AtMut<'a, B> {
    /// Where it lies.
    pub buffer: &'a mut B,
    /// Index of its first number.
    pub offset: usize,
}

/// Extents of a matrix product: `rows` pixels, `from` channels each, become `to` channels each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Pixels of the chunk.
    pub rows: usize,
    /// Channels before.
    pub from: usize,
    /// Channels after.
    pub to: usize,
}

/// Where the 3×3 windows of a chunk of frames lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Frames of the chunk.
    pub frames: usize,
    /// Shape of a frame that the windows lie on.
    pub image: Shape,
    /// Windows down and across; `channels` is that of the result.
    pub output: Shape,
    /// Pixels from one window to the next.
    pub stride: usize,
    /// Zero rows above and zero columns left of the frame. What lies beyond its bottom and right is zero too.
    pub pad: (usize, usize),
}

/// What follows a convolution on a chunk of frames: batch norm, addition, pool, activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Frames of the chunk.
    pub frames: usize,
    /// Shape of a frame before the pool.
    pub shape: Shape,
    /// Shape of a frame after the pool.
    pub output: Shape,
    /// The pool; where several numbers of a window are the largest, the first in reading order counts.
    pub pool: Option<Pool>,
    /// The last step. Its derivative is 0 at the bends, as PyTorch's is.
    pub activation: Activation,
}

impl Tail {
    /// Pixels of the chunk before the pool.
    pub fn rows(&self) -> usize {
        self.frames * self.shape.pixels()
    }
}

/// Extents of a batch norm without pool or addition, and its activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormSize {
    /// Pixels of the chunk.
    pub rows: usize,
    /// Numbers of a pixel.
    pub channels: usize,
    /// The activation after batch norm.
    pub activation: Activation,
}

/// Mean and sum of squared distances from it, of each channel over the rows of a chunk.
#[derive(Clone, Debug, Default)]
pub struct Moments {
    /// The mean of each channel.
    pub mean: Vec<f64>,
    /// Σ(z − mean)² of each channel. About the mean, not zero: a channel whose mean is large keeps its digits.
    pub spread: Vec<f64>,
}

/// The two sums over a chunk that the backward pass of batch norm needs, of each channel. `d` is the gradient with
/// respect to the normalised, scaled and shifted value.
#[derive(Clone, Debug, Default)]
pub struct NormSums {
    /// Σd, the gradient of the shift β.
    pub shift: Vec<f64>,
    /// Σd·x̂, the gradient of the scale γ.
    pub scale: Vec<f64>,
}

impl NormSums {
    /// Adds the sums of a chunk.
    pub fn add(&mut self, part: &Self) {
        self.shift.iter_mut().zip(&part.shift).for_each(|(sum, part)| *sum += part);
        self.scale.iter_mut().zip(&part.scale).for_each(|(sum, part)| *sum += part);
    }
}

/// Rows of the buffer that holds one batch norm, each as long as the channels are many.
///
/// The normalised value is x̂ = (z − mean)·inverse and the outcome scale·z + shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormRow {
    /// γ / √(variance + ε)
    Scale,
    /// β − mean · scale
    Shift,
    /// The mean that is subtracted.
    Mean,
    /// 1 / √(variance + ε)
    Inverse,
    /// Σd over all rows of the call, divided by their number; 0 where the statistics are fixed.
    MeanShiftGradient,
    /// Σd·x̂ over all rows of the call, divided by their number; 0 where the statistics are fixed.
    MeanScaleGradient,
}

impl NormRow {
    /// Number of rows.
    pub const COUNT: usize = 6;
}

/// A backend. See the [module](self) for what is common to all operations.
pub trait Ops {
    /// Values of frames and gradients with respect to them, in the precision that the backend computes in.
    type Values;
    /// Weights, their gradients and the rows of batch norms: f32, also where [`Values`](Self::Values) are narrower.
    type Params;
    /// Values that are kept for the whole window, in the precision of a [`Storage`].
    type Packed;

    /// Bytes of one number of [`Values`](Self::Values).
    fn value_bytes(&self) -> usize;
    /// A buffer of `len` numbers whose content does not matter.
    fn values(&mut self, len: usize) -> Result<Self::Values>;
    /// A buffer of `len` zeros.
    fn params(&mut self, len: usize) -> Result<Self::Params>;
    /// A buffer of `len` numbers whose content does not matter.
    fn packed(&mut self, len: usize, storage: Storage) -> Result<Self::Packed>;

    /// Copies numbers of the host to the start of `to`.
    fn upload(&mut self, from: &[f32], to: &mut Self::Values) -> Result<()>;
    /// Copies numbers to the host, as many as `to` has room for.
    fn download(&mut self, from: At<'_, Self::Values>, to: &mut [f32]) -> Result<()>;
    /// Copies numbers of the host over the first ones of `to`.
    fn upload_params(&mut self, from: &[f32], to: &mut Self::Params) -> Result<()>;
    /// Sets all rows of a batch norm, in the order of [`NormRow`].
    fn upload_norm(&mut self, rows: &[f64], to: &mut Self::Params) -> Result<()>;
    /// Copies numbers to the host, as many as `to` has room for.
    fn download_params(&mut self, from: &Self::Params, to: &mut [f32]) -> Result<()>;
    /// [`upload_params`](Self::upload_params) of several buffers; a device that has to be waited for is waited for once.
    fn upload_all_params(&mut self, pairs: &mut [(&[f32], &mut Self::Params)]) -> Result<()> {
        pairs.iter_mut().try_for_each(|(from, to)| self.upload_params(from, to))
    }
    /// [`download_params`](Self::download_params) of several buffers, likewise.
    fn download_all_params(&mut self, pairs: &mut [(&Self::Params, &mut [f32])]) -> Result<()> {
        pairs.iter_mut().try_for_each(|(from, to)| self.download_params(from, to))
    }
    /// Sets the first `len` numbers to zero.
    fn clear_params(&mut self, to: &mut Self::Params, len: usize) -> Result<()> {
        self.upload_params(&vec![0.0; len], to)
    }
    /// Rounds `len` numbers at the start of `from` into `to`.
    fn pack(&mut self, from: &Self::Values, to: AtMut<'_, Self::Packed>, len: usize) -> Result<()>;
    /// The way back, to the start of `to`.
    fn unpack(&mut self, from: At<'_, Self::Packed>, to: &mut Self::Values, len: usize) -> Result<()>;

    /// `z[rows, to] = x[rows, from] · w[to, from]ᵀ`
    fn product(
        &mut self,
        x: At<'_, Self::Values>,
        w: &Self::Params,
        z: AtMut<'_, Self::Values>,
        size: Product,
    ) -> Result<()>;
    /// `dx[rows, from] = dz[rows, to] · w[to, from]`
    fn product_input_gradient(
        &mut self,
        dz: At<'_, Self::Values>,
        w: &Self::Params,
        dx: AtMut<'_, Self::Values>,
        size: Product,
    ) -> Result<()>;
    /// `dw[to, from] += dz[rows, to]ᵀ · x[rows, from]`
    fn product_weight_gradient(
        &mut self,
        dz: At<'_, Self::Values>,
        x: At<'_, Self::Values>,
        dw: &mut Self::Params,
        size: Product,
    ) -> Result<()>;

    /// `columns[window, tap, channel] = x[pixel of the window's tap, channel]`, 0 outside the frame; taps in reading
    /// order. A full 3×3 convolution is the product of these rows with `w[to, tap, channel]`.
    fn gather(
        &mut self,
        x: At<'_, Self::Values>,
        columns: &mut Self::Values,
        windows: &Windows,
    ) -> Result<()>;
    /// The transposed way: `dx[pixel] = Σ columns[window, tap]` over the windows and taps that lie on the pixel.
    fn scatter(
        &mut self,
        columns: &Self::Values,
        dx: AtMut<'_, Self::Values>,
        windows: &Windows,
    ) -> Result<()>;

    /// Depthwise 3×3: `z[window, c] = Σ_tap w[tap, c] · x[pixel of the window's tap, c]`.
    fn depthwise(
        &mut self,
        x: At<'_, Self::Values>,
        w: &Self::Params,
        z: AtMut<'_, Self::Values>,
        windows: &Windows,
    ) -> Result<()>;
    /// `dx` of [`depthwise`](Self::depthwise) from its `dz`.
    fn depthwise_input_gradient(
        &mut self,
        dz: At<'_, Self::Values>,
        w: &Self::Params,
        dx: AtMut<'_, Self::Values>,
        windows: &Windows,
    ) -> Result<()>;
    /// Adds the weight gradient of [`depthwise`](Self::depthwise) to `dw[tap, c]`.
    fn depthwise_weight_gradient(
        &mut self,
        dz: At<'_, Self::Values>,
        x: At<'_, Self::Values>,
        dw: &mut Self::Params,
        windows: &Windows,
    ) -> Result<()>;

    /// Overwrites `moments`, whose vectors have the length of the channels, with those of `z[rows, channels]`.
    fn moments(&mut self, z: At<'_, Self::Values>, rows: usize, moments: &mut Moments) -> Result<()>;
    /// `y = activation(pool(scale · z + shift + add))`
    fn normalise(
        &mut self,
        z: At<'_, Self::Values>,
        norm: &Self::Params,
        add: Option<At<'_, Self::Values>>,
        y: AtMut<'_, Self::Values>,
        tail: &Tail,
    ) -> Result<()>;
    /// Back through pool and activation alone: `d`, the gradient with respect to `scale · z + shift + add`, from `dy`.
    /// Used where there is a pool or an addition before an activation; elsewhere the two operations below undo the
    /// activation as they go.
    fn tail_gradient(
        &mut self,
        dy: At<'_, Self::Values>,
        z: At<'_, Self::Values>,
        norm: &Self::Params,
        add: Option<At<'_, Self::Values>>,
        d: AtMut<'_, Self::Values>,
        tail: &Tail,
    ) -> Result<()>;
    /// Overwrites `sums`, whose vectors have the length of the channels, with those of `d[rows, channels]`, where
    /// `d = dy · activation'(scale · z + shift)`.
    fn norm_sums(
        &mut self,
        dy: At<'_, Self::Values>,
        z: At<'_, Self::Values>,
        norm: &Self::Params,
        size: NormSize,
        sums: &mut NormSums,
    ) -> Result<()>;
    /// `dz = scale · (d − mean_shift_gradient − x̂ · mean_scale_gradient)`, with `d` as in [`norm_sums`](Self::norm_sums)
    /// and the rest from the rows of `norm`.
    fn norm_input_gradient(
        &mut self,
        dy: At<'_, Self::Values>,
        z: At<'_, Self::Values>,
        norm: &Self::Params,
        dz: AtMut<'_, Self::Values>,
        size: NormSize,
    ) -> Result<()>;

    /// `y[frame, c] = sum of share[pixel] · x[frame, pixel, c]`, to the start of `y`.
    fn mean_pool(
        &mut self,
        x: At<'_, Self::Values>,
        y: &mut Self::Values,
        frames: usize,
        shape: Shape,
        pooling: Pooling,
    ) -> Result<()>;
    /// `dx[frame, pixel, c] = share[pixel] · dy[frame, c]`, from the start of `dy`.
    fn mean_pool_gradient(
        &mut self,
        dy: &Self::Values,
        dx: AtMut<'_, Self::Values>,
        frames: usize,
        shape: Shape,
        pooling: Pooling,
    ) -> Result<()>;
    /// `y += x`, `len` numbers.
    fn add(&mut self, x: At<'_, Self::Values>, y: AtMut<'_, Self::Values>, len: usize) -> Result<()>;
}

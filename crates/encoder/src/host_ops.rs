//! [`Ops`] as plain loops on the host: what the operations mean, written to be read.
//!
//! Everything is computed in f64. Values are stored in f32, to be compared with a backend that does so too, or in f64:
//! then nothing is rounded between the images and the features, and what comes out is the reference of the whole
//! encoder. Nothing here is tuned; the fast CPU executor does not use it.

use std::marker::PhantomData;

use half::{bf16, f16};

use super::Storage;
use super::ops::{At, AtMut, Moments, NormRow, NormSize, NormSums, Ops, Product, Tail, Windows};
use super::plan::{Activation, Pool, Pooling, Shape};
use crate::Result;
use crate::kernels::Real;

/// The backend of plain loops, storing values as `T`.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostOps<T>(PhantomData<T>);

/// Values kept in one of the [`Storage`] formats.
#[derive(Debug)]
pub enum HostPacked<T> {
    /// As computed.
    Unrounded(Vec<T>),
    /// IEEE half precision.
    F16(Vec<f16>),
    /// Upper halves of f32.
    Bf16(Vec<bf16>),
}

impl Activation {
    fn apply(self, x: f64) -> f64 {
        match self {
            Self::None => x,
            Self::Relu => x.max(0.0),
            Self::Relu6 => x.clamp(0.0, 6.0),
        }
    }

    /// Whether a gradient passes at `x`, the activation's argument.
    fn passes(self, x: f64) -> bool {
        match self {
            Self::None => true,
            Self::Relu => x > 0.0,
            Self::Relu6 => x > 0.0 && x < 6.0,
        }
    }
}

/// One row of a batch norm's buffer.
fn row<T>(norm: &[T], row: NormRow) -> &[T] {
    let channels = norm.len() / NormRow::COUNT;
    &norm[row as usize * channels..][..channels]
}

fn from<T>(operand: At<'_, Vec<T>>, len: usize) -> &[T] {
    &operand.buffer[operand.offset..operand.offset + len]
}

fn into<T>(operand: AtMut<'_, Vec<T>>, len: usize) -> &mut [T] {
    &mut operand.buffer[operand.offset..operand.offset + len]
}

impl Windows {
    /// Calls `visit(window, tap, pixel)` for every tap of every window that lies inside its frame, all three counted over
    /// the whole chunk.
    fn each_tap(&self, mut visit: impl FnMut(usize, usize, usize)) {
        let Self { frames, image, output, stride, pad } = *self;
        for frame in 0..frames {
            for (y, x) in positions(output) {
                let window = (frame * output.height + y) * output.width + x;
                for tap in 0..9 {
                    let down = (y * stride + tap / 3).checked_sub(pad.0).filter(|&at| at < image.height);
                    let across = (x * stride + tap % 3).checked_sub(pad.1).filter(|&at| at < image.width);
                    if let (Some(down), Some(across)) = (down, across) {
                        visit(window, tap, (frame * image.height + down) * image.width + across);
                    }
                }
            }
        }
    }

    fn rows(&self) -> usize {
        self.frames * self.output.pixels()
    }

    fn pixels(&self) -> usize {
        self.frames * self.image.pixels()
    }
}

fn positions(shape: Shape) -> impl Iterator<Item = (usize, usize)> {
    (0..shape.height).flat_map(move |y| (0..shape.width).map(move |x| (y, x)))
}

impl Tail {
    /// For every number of the output: its index and the indices before the pool that it is the largest of.
    fn each_output(&self, mut visit: impl FnMut(usize, &[usize])) {
        let Self { frames, shape, output, pool, .. } = *self;
        let Some(Pool { size, .. }) = pool else {
            return (0..frames * shape.len()).for_each(|index| visit(index, &[index]));
        };
        let mut window = Vec::with_capacity(size * size);
        for frame in 0..frames {
            for (y, x) in positions(output) {
                for channel in 0..shape.channels {
                    window.clear();
                    for down in y * size..((y + 1) * size).min(shape.height) {
                        for across in x * size..((x + 1) * size).min(shape.width) {
                            let pixel = (frame * shape.height + down) * shape.width + across;
                            window.push(pixel * shape.channels + channel);
                        }
                    }
                    let pixel = (frame * output.height + y) * output.width + x;
                    visit(pixel * output.channels + channel, &window);
                }
            }
        }
    }

    /// The largest of a window's numbers, and the first index where it stands.
    fn largest(window: &[usize], value: impl Fn(usize) -> f64) -> (usize, f64) {
        let mut best = (window[0], value(window[0]));
        for &index in &window[1..] {
            let candidate = value(index);
            if candidate > best.1 || candidate.is_nan() {
                best = (index, candidate);
            }
        }
        best
    }
}

/// `scale · z + shift + add` of one number.
fn affine<'a, T: Real>(z: &'a [T], norm: &'a [T], add: Option<&'a [T]>) -> impl Fn(usize) -> f64 + 'a {
    let (scale, shift) = (row(norm, NormRow::Scale), row(norm, NormRow::Shift));
    move |index| {
        let channel = index % scale.len();
        let added = add.map_or(0.0, |add| add[index].to_f64());
        scale[channel].to_f64() * z[index].to_f64() + shift[channel].to_f64() + added
    }
}

impl<T: Real> Ops for HostOps<T> {
    type Values = Vec<T>;
    type Params = Vec<T>;
    type Packed = HostPacked<T>;

    fn value_bytes(&self) -> usize {
        size_of::<T>()
    }

    fn values(&mut self, len: usize) -> Result<Vec<T>> {
        Ok(vec![T::from_f64(0.0); len])
    }

    fn params(&mut self, len: usize) -> Result<Vec<T>> {
        Ok(vec![T::from_f64(0.0); len])
    }

    fn packed(&mut self, len: usize, storage: Storage) -> Result<HostPacked<T>> {
        Ok(match storage {
            Storage::F32 => HostPacked::Unrounded(vec![T::from_f64(0.0); len]),
            Storage::F16 => HostPacked::F16(vec![f16::ZERO; len]),
            Storage::Bf16 => HostPacked::Bf16(vec![bf16::ZERO; len]),
        })
    }

    fn upload(&mut self, from: &[f32], to: &mut Vec<T>) -> Result<()> {
        widen(from, to);
        Ok(())
    }

    fn download(&mut self, operand: At<'_, Vec<T>>, to: &mut [f32]) -> Result<()> {
        narrow(from(operand, to.len()), to);
        Ok(())
    }

    fn upload_params(&mut self, from: &[f32], to: &mut Vec<T>) -> Result<()> {
        widen(from, to);
        Ok(())
    }

    fn upload_norm(&mut self, rows: &[f64], to: &mut Vec<T>) -> Result<()> {
        store(to, rows);
        Ok(())
    }

    fn download_params(&mut self, from: &Vec<T>, to: &mut [f32]) -> Result<()> {
        narrow(from, to);
        Ok(())
    }

    fn pack(&mut self, from: &Vec<T>, to: AtMut<'_, HostPacked<T>>, len: usize) -> Result<()> {
        let range = to.offset..to.offset + len;
        match to.buffer {
            HostPacked::Unrounded(to) => to[range].copy_from_slice(&from[..len]),
            HostPacked::F16(to) => {
                to[range].iter_mut().zip(from).for_each(|(to, x)| *to = f16::from_f64(x.to_f64()));
            }
            HostPacked::Bf16(to) => {
                to[range].iter_mut().zip(from).for_each(|(to, x)| *to = bf16::from_f64(x.to_f64()));
            }
        }
        Ok(())
    }

    fn unpack(&mut self, from: At<'_, HostPacked<T>>, to: &mut Vec<T>, len: usize) -> Result<()> {
        let range = from.offset..from.offset + len;
        let to = to.iter_mut();
        match from.buffer {
            HostPacked::Unrounded(from) => to.zip(&from[range]).for_each(|(to, x)| *to = *x),
            HostPacked::F16(from) => to.zip(&from[range]).for_each(|(to, x)| *to = T::from_f64(x.to_f64())),
            HostPacked::Bf16(from) => to.zip(&from[range]).for_each(|(to, x)| *to = T::from_f64(x.to_f64())),
        }
        Ok(())
    }

    fn product(&mut self, x: At<'_, Vec<T>>, w: &Vec<T>, z: AtMut<'_, Vec<T>>, size: Product) -> Result<()> {
        let x = from(x, size.rows * size.from);
        let z = into(z, size.rows * size.to);
        for (x, z) in x.chunks_exact(size.from).zip(z.chunks_exact_mut(size.to)) {
            for (z, w) in z.iter_mut().zip(w.chunks_exact(size.from)) {
                *z = T::from_f64(x.iter().zip(w).map(|(x, w)| x.to_f64() * w.to_f64()).sum());
            }
        }
        Ok(())
    }

    fn product_input_gradient(
        &mut self,
        dz: At<'_, Vec<T>>,
        w: &Vec<T>,
        dx: AtMut<'_, Vec<T>>,
        size: Product,
    ) -> Result<()> {
        let dz = from(dz, size.rows * size.to);
        let dx = into(dx, size.rows * size.from);
        let mut sums = vec![0.0; size.from];
        for (dz, dx) in dz.chunks_exact(size.to).zip(dx.chunks_exact_mut(size.from)) {
            sums.fill(0.0);
            for (dz, w) in dz.iter().zip(w.chunks_exact(size.from)) {
                add_scaled(&mut sums, dz.to_f64(), w);
            }
            store(dx, &sums);
        }
        Ok(())
    }

    fn product_weight_gradient(
        &mut self,
        dz: At<'_, Vec<T>>,
        x: At<'_, Vec<T>>,
        dw: &mut Vec<T>,
        size: Product,
    ) -> Result<()> {
        let dz = from(dz, size.rows * size.to);
        let x = from(x, size.rows * size.from);
        let mut sums: Vec<f64> = dw.iter().map(|dw| dw.to_f64()).collect();
        for (dz, x) in dz.chunks_exact(size.to).zip(x.chunks_exact(size.from)) {
            for (dz, sums) in dz.iter().zip(sums.chunks_exact_mut(size.from)) {
                add_scaled(sums, dz.to_f64(), x);
            }
        }
        store(dw, &sums);
        Ok(())
    }

    fn gather(&mut self, x: At<'_, Vec<T>>, columns: &mut Vec<T>, windows: &Windows) -> Result<()> {
        let channels = windows.image.channels;
        let x = from(x, windows.pixels() * channels);
        columns[..windows.rows() * 9 * channels].fill(T::from_f64(0.0));
        windows.each_tap(|window, tap, pixel| {
            let column = &mut columns[(window * 9 + tap) * channels..][..channels];
            column.copy_from_slice(&x[pixel * channels..][..channels]);
        });
        Ok(())
    }

    fn scatter(&mut self, columns: &Vec<T>, dx: AtMut<'_, Vec<T>>, windows: &Windows) -> Result<()> {
        let channels = windows.image.channels;
        let mut sums = vec![0.0; windows.pixels() * channels];
        windows.each_tap(|window, tap, pixel| {
            let column = &columns[(window * 9 + tap) * channels..][..channels];
            add_scaled(&mut sums[pixel * channels..][..channels], 1.0, column);
        });
        store(into(dx, sums.len()), &sums);
        Ok(())
    }

    fn depthwise(
        &mut self,
        x: At<'_, Vec<T>>,
        w: &Vec<T>,
        z: AtMut<'_, Vec<T>>,
        windows: &Windows,
    ) -> Result<()> {
        let channels = windows.image.channels;
        let x = from(x, windows.pixels() * channels);
        let mut sums = vec![0.0; windows.rows() * channels];
        windows.each_tap(|window, tap, pixel| {
            for channel in 0..channels {
                let weight = w[tap * channels + channel].to_f64();
                sums[window * channels + channel] += weight * x[pixel * channels + channel].to_f64();
            }
        });
        store(into(z, sums.len()), &sums);
        Ok(())
    }

    fn depthwise_input_gradient(
        &mut self,
        dz: At<'_, Vec<T>>,
        w: &Vec<T>,
        dx: AtMut<'_, Vec<T>>,
        windows: &Windows,
    ) -> Result<()> {
        let channels = windows.image.channels;
        let dz = from(dz, windows.rows() * channels);
        let mut sums = vec![0.0; windows.pixels() * channels];
        windows.each_tap(|window, tap, pixel| {
            for channel in 0..channels {
                let weight = w[tap * channels + channel].to_f64();
                sums[pixel * channels + channel] += weight * dz[window * channels + channel].to_f64();
            }
        });
        store(into(dx, sums.len()), &sums);
        Ok(())
    }

    fn depthwise_weight_gradient(
        &mut self,
        dz: At<'_, Vec<T>>,
        x: At<'_, Vec<T>>,
        dw: &mut Vec<T>,
        windows: &Windows,
    ) -> Result<()> {
        let channels = windows.image.channels;
        let dz = from(dz, windows.rows() * channels);
        let x = from(x, windows.pixels() * channels);
        let mut sums: Vec<f64> = dw.iter().map(|dw| dw.to_f64()).collect();
        windows.each_tap(|window, tap, pixel| {
            for channel in 0..channels {
                let dz = dz[window * channels + channel].to_f64();
                sums[tap * channels + channel] += dz * x[pixel * channels + channel].to_f64();
            }
        });
        store(dw, &sums);
        Ok(())
    }

    fn moments(&mut self, z: At<'_, Vec<T>>, rows: usize, moments: &mut Moments) -> Result<()> {
        let Moments { mean, spread } = moments;
        let z = from(z, rows * mean.len());
        mean.fill(0.0);
        spread.fill(0.0);
        z.chunks_exact(mean.len()).for_each(|z| add_scaled(mean, 1.0 / rows as f64, z));
        for z in z.chunks_exact(mean.len()) {
            for ((spread, mean), z) in spread.iter_mut().zip(&*mean).zip(z) {
                *spread += (z.to_f64() - mean).powi(2);
            }
        }
        Ok(())
    }

    fn normalise(
        &mut self,
        z: At<'_, Vec<T>>,
        norm: &Vec<T>,
        add: Option<At<'_, Vec<T>>>,
        y: AtMut<'_, Vec<T>>,
        tail: &Tail,
    ) -> Result<()> {
        let len = tail.frames * tail.shape.len();
        let value = affine(from(z, len), norm, add.map(|add| from(add, len)));
        let y = into(y, tail.frames * tail.output.len());
        tail.each_output(|output, window| {
            y[output] = T::from_f64(tail.activation.apply(Tail::largest(window, &value).1));
        });
        Ok(())
    }

    fn tail_gradient(
        &mut self,
        dy: At<'_, Vec<T>>,
        z: At<'_, Vec<T>>,
        norm: &Vec<T>,
        add: Option<At<'_, Vec<T>>>,
        d: AtMut<'_, Vec<T>>,
        tail: &Tail,
    ) -> Result<()> {
        let len = tail.frames * tail.shape.len();
        let value = affine(from(z, len), norm, add.map(|add| from(add, len)));
        let dy = from(dy, tail.frames * tail.output.len());
        let d = into(d, len);
        d.fill(T::from_f64(0.0));
        tail.each_output(|output, window| {
            let (index, largest) = Tail::largest(window, &value);
            if tail.activation.passes(largest) {
                d[index] = dy[output];
            }
        });
        Ok(())
    }

    fn norm_sums(
        &mut self,
        dy: At<'_, Vec<T>>,
        z: At<'_, Vec<T>>,
        norm: &Vec<T>,
        size: NormSize,
        sums: &mut NormSums,
    ) -> Result<()> {
        let len = size.rows * size.channels;
        let (dy, z) = (from(dy, len), from(z, len));
        let (mean, inverse) = (row(norm, NormRow::Mean), row(norm, NormRow::Inverse));
        let value = affine(z, norm, None);
        sums.shift.fill(0.0);
        sums.scale.fill(0.0);
        for index in (0..len).filter(|&index| size.activation.passes(value(index))) {
            let channel = index % size.channels;
            let normalised = (z[index].to_f64() - mean[channel].to_f64()) * inverse[channel].to_f64();
            sums.shift[channel] += dy[index].to_f64();
            sums.scale[channel] += dy[index].to_f64() * normalised;
        }
        Ok(())
    }

    fn norm_input_gradient(
        &mut self,
        dy: At<'_, Vec<T>>,
        z: At<'_, Vec<T>>,
        norm: &Vec<T>,
        dz: AtMut<'_, Vec<T>>,
        size: NormSize,
    ) -> Result<()> {
        let len = size.rows * size.channels;
        let (dy, z, dz) = (from(dy, len), from(z, len), into(dz, len));
        let value = affine(z, norm, None);
        for index in 0..len {
            let of = |which| row(norm, which)[index % size.channels].to_f64();
            let d = if size.activation.passes(value(index)) { dy[index].to_f64() } else { 0.0 };
            let normalised = (z[index].to_f64() - of(NormRow::Mean)) * of(NormRow::Inverse);
            let fed_back = of(NormRow::MeanShiftGradient) + normalised * of(NormRow::MeanScaleGradient);
            dz[index] = T::from_f64(of(NormRow::Scale) * (d - fed_back));
        }
        Ok(())
    }

    fn mean_pool(
        &mut self,
        x: At<'_, Vec<T>>,
        y: &mut Vec<T>,
        frames: usize,
        shape: Shape,
        pooling: Pooling,
    ) -> Result<()> {
        let x = from(x, frames * shape.len());
        let mut sums = vec![0.0; shape.channels];
        for (x, y) in x.chunks_exact(shape.len()).zip(y.chunks_exact_mut(shape.channels)) {
            sums.fill(0.0);
            for (pixel, x) in x.chunks_exact(shape.channels).enumerate() {
                add_scaled(&mut sums, pooling.share(shape, pixel / shape.width, pixel % shape.width), x);
            }
            store(y, &sums);
        }
        Ok(())
    }

    fn mean_pool_gradient(
        &mut self,
        dy: &Vec<T>,
        dx: AtMut<'_, Vec<T>>,
        frames: usize,
        shape: Shape,
        pooling: Pooling,
    ) -> Result<()> {
        let dx = into(dx, frames * shape.len());
        for (dy, dx) in dy.chunks_exact(shape.channels).zip(dx.chunks_exact_mut(shape.len())) {
            for (pixel, dx) in dx.chunks_exact_mut(shape.channels).enumerate() {
                let share = pooling.share(shape, pixel / shape.width, pixel % shape.width);
                dx.iter_mut().zip(dy).for_each(|(dx, dy)| *dx = T::from_f64(dy.to_f64() * share));
            }
        }
        Ok(())
    }

    fn add(&mut self, x: At<'_, Vec<T>>, y: AtMut<'_, Vec<T>>, len: usize) -> Result<()> {
        into(y, len)
            .iter_mut()
            .zip(from(x, len))
            .for_each(|(y, x)| *y = T::from_f64(y.to_f64() + x.to_f64()));
        Ok(())
    }
}

fn add_scaled<T: Real>(sums: &mut [f64], factor: f64, x: &[T]) {
    sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += factor * x.to_f64());
}

fn store<T: Real>(to: &mut [T], numbers: &[f64]) {
    to.iter_mut().zip(numbers).for_each(|(to, &number)| *to = T::from_f64(number));
}

fn widen<T: Real>(from: &[f32], to: &mut [T]) {
    to.iter_mut().zip(from).for_each(|(to, &x)| *to = T::from_f64(f64::from(x)));
}

fn narrow<T: Real>(from: &[T], to: &mut [f32]) {
    to.iter_mut().zip(from).for_each(|(to, x)| *to = x.to_f64() as f32);
}

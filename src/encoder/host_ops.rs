//! [`Ops`] as plain loops on the host: what the operations mean, written to be read.
//!
//! Sums run in f64, so that a faster backend is compared with the right number and not with another rounding of it.
//! Nothing here is tuned; the fast CPU executor does not use it.

use half::{bf16, f16};

use super::Storage;
use super::ops::{At, AtMut, Moments, NormRow, NormSize, NormSums, Ops, Product, Tail, Windows};
use super::plan::{Activation, Shape};
use crate::Result;

/// The backend of plain loops.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostOps;

/// Values kept in one of the [`Storage`] formats.
#[derive(Debug)]
pub enum HostPacked {
    /// As computed.
    F32(Vec<f32>),
    /// IEEE half precision.
    F16(Vec<f16>),
    /// Upper halves of f32.
    Bf16(Vec<bf16>),
}

type Values = Vec<f32>;

impl Activation {
    fn apply(self, x: f32) -> f32 {
        match self {
            Self::None => x,
            Self::Relu => x.max(0.0),
            Self::Relu6 => x.clamp(0.0, 6.0),
        }
    }

    /// Whether a gradient passes at `x`, the activation's argument.
    fn passes(self, x: f32) -> bool {
        match self {
            Self::None => true,
            Self::Relu => x > 0.0,
            Self::Relu6 => x > 0.0 && x < 6.0,
        }
    }
}

/// One row of a batch norm's buffer.
fn row(norm: &[f32], row: NormRow) -> &[f32] {
    let channels = norm.len() / NormRow::COUNT;
    &norm[row as usize * channels..][..channels]
}

fn from<'a>(operand: At<'a, Values>, len: usize) -> &'a [f32] {
    &operand.buffer[operand.offset..operand.offset + len]
}

fn into<'a>(operand: AtMut<'a, Values>, len: usize) -> &'a mut [f32] {
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
        let size = pool.map_or(1, |pool| pool.size);
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
    fn largest(window: &[usize], value: impl Fn(usize) -> f32) -> (usize, f32) {
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
fn affine<'a>(
    z: &'a [f32],
    norm: &'a [f32],
    add: Option<At<'a, Values>>,
    len: usize,
) -> impl Fn(usize) -> f32 + 'a {
    let (scale, shift) = (row(norm, NormRow::Scale), row(norm, NormRow::Shift));
    let add = add.map(|add| from(add, len));
    move |index| {
        let channel = index % scale.len();
        scale[channel] * z[index] + shift[channel] + add.map_or(0.0, |add| add[index])
    }
}

impl Ops for HostOps {
    type Values = Values;
    type Params = Vec<f32>;
    type Packed = HostPacked;

    fn value_bytes(&self) -> usize {
        size_of::<f32>()
    }

    fn values(&mut self, len: usize) -> Result<Values> {
        Ok(vec![0.0; len])
    }

    fn params(&mut self, len: usize) -> Result<Vec<f32>> {
        Ok(vec![0.0; len])
    }

    fn packed(&mut self, len: usize, storage: Storage) -> Result<HostPacked> {
        Ok(match storage {
            Storage::F32 => HostPacked::F32(vec![0.0; len]),
            Storage::F16 => HostPacked::F16(vec![f16::ZERO; len]),
            Storage::Bf16 => HostPacked::Bf16(vec![bf16::ZERO; len]),
        })
    }

    fn upload(&mut self, from: &[f32], to: &mut Values) -> Result<()> {
        to[..from.len()].copy_from_slice(from);
        Ok(())
    }

    fn download(&mut self, operand: At<'_, Values>, to: &mut [f32]) -> Result<()> {
        to.copy_from_slice(from(operand, to.len()));
        Ok(())
    }

    fn upload_params(&mut self, from: &[f32], to: &mut Vec<f32>) -> Result<()> {
        to[..from.len()].copy_from_slice(from);
        Ok(())
    }

    fn download_params(&mut self, from: &Vec<f32>, to: &mut [f32]) -> Result<()> {
        to.copy_from_slice(&from[..to.len()]);
        Ok(())
    }

    fn pack(&mut self, from: &Values, to: AtMut<'_, HostPacked>, len: usize) -> Result<()> {
        let range = to.offset..to.offset + len;
        let numbers = from[..len].iter();
        match to.buffer {
            HostPacked::F32(to) => to[range].copy_from_slice(&from[..len]),
            HostPacked::F16(to) => {
                to[range].iter_mut().zip(numbers).for_each(|(to, &x)| *to = f16::from_f32(x))
            }
            HostPacked::Bf16(to) => {
                to[range].iter_mut().zip(numbers).for_each(|(to, &x)| *to = bf16::from_f32(x))
            }
        }
        Ok(())
    }

    fn unpack(&mut self, from: At<'_, HostPacked>, to: &mut Values, len: usize) -> Result<()> {
        let range = from.offset..from.offset + len;
        let to = &mut to[..len];
        match from.buffer {
            HostPacked::F32(from) => to.copy_from_slice(&from[range]),
            HostPacked::F16(from) => to.iter_mut().zip(&from[range]).for_each(|(to, x)| *to = x.to_f32()),
            HostPacked::Bf16(from) => to.iter_mut().zip(&from[range]).for_each(|(to, x)| *to = x.to_f32()),
        }
        Ok(())
    }

    fn product(
        &mut self,
        x: At<'_, Values>,
        w: &Vec<f32>,
        z: AtMut<'_, Values>,
        size: Product,
    ) -> Result<()> {
        let x = from(x, size.rows * size.from);
        let z = into(z, size.rows * size.to);
        for (x, z) in x.chunks_exact(size.from).zip(z.chunks_exact_mut(size.to)) {
            for (z, w) in z.iter_mut().zip(w.chunks_exact(size.from)) {
                *z = x.iter().zip(w).map(|(&x, &w)| f64::from(x) * f64::from(w)).sum::<f64>() as f32;
            }
        }
        Ok(())
    }

    fn product_input_gradient(
        &mut self,
        dz: At<'_, Values>,
        w: &Vec<f32>,
        dx: AtMut<'_, Values>,
        size: Product,
    ) -> Result<()> {
        let dz = from(dz, size.rows * size.to);
        let dx = into(dx, size.rows * size.from);
        let mut sums = vec![0.0; size.from];
        for (dz, dx) in dz.chunks_exact(size.to).zip(dx.chunks_exact_mut(size.from)) {
            sums.fill(0.0);
            for (&dz, w) in dz.iter().zip(w.chunks_exact(size.from)) {
                add_scaled(&mut sums, f64::from(dz), w);
            }
            dx.iter_mut().zip(&sums).for_each(|(dx, &sum)| *dx = sum as f32);
        }
        Ok(())
    }

    fn product_weight_gradient(
        &mut self,
        dz: At<'_, Values>,
        x: At<'_, Values>,
        dw: &mut Vec<f32>,
        size: Product,
    ) -> Result<()> {
        let dz = from(dz, size.rows * size.to);
        let x = from(x, size.rows * size.from);
        let mut sums = vec![0.0; size.to * size.from];
        for (dz, x) in dz.chunks_exact(size.to).zip(x.chunks_exact(size.from)) {
            for (&dz, sums) in dz.iter().zip(sums.chunks_exact_mut(size.from)) {
                add_scaled(sums, f64::from(dz), x);
            }
        }
        add_sums(dw, &sums);
        Ok(())
    }

    fn gather(&mut self, x: At<'_, Values>, columns: &mut Values, windows: &Windows) -> Result<()> {
        let channels = windows.image.channels;
        let x = from(x, windows.pixels() * channels);
        columns[..windows.rows() * 9 * channels].fill(0.0);
        windows.each_tap(|window, tap, pixel| {
            columns[(window * 9 + tap) * channels..][..channels]
                .copy_from_slice(&x[pixel * channels..][..channels]);
        });
        Ok(())
    }

    fn scatter(&mut self, columns: &Values, dx: AtMut<'_, Values>, windows: &Windows) -> Result<()> {
        let channels = windows.image.channels;
        let dx = into(dx, windows.pixels() * channels);
        dx.fill(0.0);
        windows.each_tap(|window, tap, pixel| {
            let column = &columns[(window * 9 + tap) * channels..][..channels];
            dx[pixel * channels..][..channels].iter_mut().zip(column).for_each(|(dx, column)| *dx += column);
        });
        Ok(())
    }

    fn depthwise(
        &mut self,
        x: At<'_, Values>,
        w: &Vec<f32>,
        z: AtMut<'_, Values>,
        windows: &Windows,
    ) -> Result<()> {
        let channels = windows.image.channels;
        let x = from(x, windows.pixels() * channels);
        let z = into(z, windows.rows() * channels);
        z.fill(0.0);
        windows.each_tap(|window, tap, pixel| {
            for channel in 0..channels {
                z[window * channels + channel] += w[tap * channels + channel] * x[pixel * channels + channel];
            }
        });
        Ok(())
    }

    fn depthwise_input_gradient(
        &mut self,
        dz: At<'_, Values>,
        w: &Vec<f32>,
        dx: AtMut<'_, Values>,
        windows: &Windows,
    ) -> Result<()> {
        let channels = windows.image.channels;
        let dz = from(dz, windows.rows() * channels);
        let dx = into(dx, windows.pixels() * channels);
        dx.fill(0.0);
        windows.each_tap(|window, tap, pixel| {
            for channel in 0..channels {
                dx[pixel * channels + channel] +=
                    w[tap * channels + channel] * dz[window * channels + channel];
            }
        });
        Ok(())
    }

    fn depthwise_weight_gradient(
        &mut self,
        dz: At<'_, Values>,
        x: At<'_, Values>,
        dw: &mut Vec<f32>,
        windows: &Windows,
    ) -> Result<()> {
        let channels = windows.image.channels;
        let dz = from(dz, windows.rows() * channels);
        let x = from(x, windows.pixels() * channels);
        let mut sums = vec![0.0; 9 * channels];
        windows.each_tap(|window, tap, pixel| {
            for channel in 0..channels {
                let product = dz[window * channels + channel] * x[pixel * channels + channel];
                sums[tap * channels + channel] += f64::from(product);
            }
        });
        add_sums(dw, &sums);
        Ok(())
    }

    fn moments(&mut self, z: At<'_, Values>, rows: usize, moments: &mut Moments) -> Result<()> {
        let Moments { mean, spread } = moments;
        let z = from(z, rows * mean.len());
        mean.fill(0.0);
        spread.fill(0.0);
        for z in z.chunks_exact(mean.len()) {
            mean.iter_mut().zip(z).for_each(|(mean, &z)| *mean += f64::from(z));
        }
        mean.iter_mut().for_each(|mean| *mean /= rows as f64);
        for z in z.chunks_exact(mean.len()) {
            for ((spread, mean), &z) in spread.iter_mut().zip(&*mean).zip(z) {
                *spread += (f64::from(z) - mean).powi(2);
            }
        }
        Ok(())
    }

    fn normalise(
        &mut self,
        z: At<'_, Values>,
        norm: &Vec<f32>,
        add: Option<At<'_, Values>>,
        y: AtMut<'_, Values>,
        tail: &Tail,
    ) -> Result<()> {
        let len = tail.frames * tail.shape.len();
        let value = affine(from(z, len), norm, add, len);
        let y = into(y, tail.frames * tail.output.len());
        tail.each_output(|output, window| y[output] = tail.activation.apply(Tail::largest(window, &value).1));
        Ok(())
    }

    fn tail_gradient(
        &mut self,
        dy: At<'_, Values>,
        z: At<'_, Values>,
        norm: &Vec<f32>,
        add: Option<At<'_, Values>>,
        d: AtMut<'_, Values>,
        tail: &Tail,
    ) -> Result<()> {
        let len = tail.frames * tail.shape.len();
        let value = affine(from(z, len), norm, add, len);
        let dy = from(dy, tail.frames * tail.output.len());
        let d = into(d, len);
        d.fill(0.0);
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
        dy: At<'_, Values>,
        z: At<'_, Values>,
        norm: &Vec<f32>,
        size: NormSize,
        sums: &mut NormSums,
    ) -> Result<()> {
        let len = size.rows * size.channels;
        let (dy, z) = (from(dy, len), from(z, len));
        let (mean, inverse) = (row(norm, NormRow::Mean), row(norm, NormRow::Inverse));
        let value = affine(z, norm, None, len);
        sums.shift.fill(0.0);
        sums.scale.fill(0.0);
        for index in (0..len).filter(|&index| size.activation.passes(value(index))) {
            let channel = index % size.channels;
            sums.shift[channel] += f64::from(dy[index]);
            sums.scale[channel] +=
                f64::from(dy[index]) * f64::from((z[index] - mean[channel]) * inverse[channel]);
        }
        Ok(())
    }

    fn norm_input_gradient(
        &mut self,
        dy: At<'_, Values>,
        z: At<'_, Values>,
        norm: &Vec<f32>,
        dz: AtMut<'_, Values>,
        size: NormSize,
    ) -> Result<()> {
        let len = size.rows * size.channels;
        let (dy, z, dz) = (from(dy, len), from(z, len), into(dz, len));
        let [scale, mean, inverse, mean_shift, mean_scale] = [
            NormRow::Scale,
            NormRow::Mean,
            NormRow::Inverse,
            NormRow::MeanShiftGradient,
            NormRow::MeanScaleGradient,
        ]
        .map(|which| row(norm, which));
        let value = affine(z, norm, None, len);
        for index in 0..len {
            let channel = index % size.channels;
            let d = if size.activation.passes(value(index)) { dy[index] } else { 0.0 };
            let normalised = (z[index] - mean[channel]) * inverse[channel];
            dz[index] = scale[channel] * (d - mean_shift[channel] - normalised * mean_scale[channel]);
        }
        Ok(())
    }

    fn mean_pool(&mut self, x: At<'_, Values>, y: &mut Values, frames: usize, shape: Shape) -> Result<()> {
        let x = from(x, frames * shape.len());
        let mut sums = vec![0.0; shape.channels];
        for (x, y) in x.chunks_exact(shape.len()).zip(y.chunks_exact_mut(shape.channels)) {
            sums.fill(0.0);
            x.chunks_exact(shape.channels).for_each(|x| add_scaled(&mut sums, 1.0, x));
            y.iter_mut().zip(&sums).for_each(|(y, &sum)| *y = (sum / shape.pixels() as f64) as f32);
        }
        Ok(())
    }

    fn mean_pool_gradient(
        &mut self,
        dy: &Values,
        dx: AtMut<'_, Values>,
        frames: usize,
        shape: Shape,
    ) -> Result<()> {
        let dx = into(dx, frames * shape.len());
        let share = 1.0 / shape.pixels() as f32;
        for (dy, dx) in dy.chunks_exact(shape.channels).zip(dx.chunks_exact_mut(shape.len())) {
            for dx in dx.chunks_exact_mut(shape.channels) {
                dx.iter_mut().zip(dy).for_each(|(dx, &dy)| *dx = dy * share);
            }
        }
        Ok(())
    }

    fn add(&mut self, x: At<'_, Values>, y: AtMut<'_, Values>, len: usize) -> Result<()> {
        into(y, len).iter_mut().zip(from(x, len)).for_each(|(y, x)| *y += x);
        Ok(())
    }
}

fn add_scaled(sums: &mut [f64], factor: f64, x: &[f32]) {
    sums.iter_mut().zip(x).for_each(|(sum, &x)| *sum += factor * f64::from(x));
}

fn add_sums(to: &mut [f32], sums: &[f64]) {
    to.iter_mut().zip(sums).for_each(|(to, &sum)| *to = (f64::from(*to) + sum) as f32);
}

//! Blurs: a Gaussian one, and that of a moving camera. Outside the image all is 0.

use crate::kernels::image::Pixel;
use crate::kernels::vector::add_scaled;
use crate::random::Random;

/// Blurs are sized by the image: the widest reaches over a twentieth of its height.
const HEIGHT_PER_REACH: usize = 20;

/// A motion blur: the path of a point during the exposure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Motion {
    /// Pixels to either side of the middle.
    pub(super) half_length: usize,
    /// Direction of the path, in degrees.
    pub(super) angle: f32,
    /// How the exposure is spread over the path, from all at one end (−1) over evenly (0) to all at the other (1).
    pub(super) lean: f32,
}

impl Motion {
    /// A random motion for images of this height; none where a twentieth of it is less than two pixels.
    pub(super) fn draw(height: usize, random: &mut Random) -> Option<Self> {
        let longest = (height / HEIGHT_PER_REACH).checked_sub(1).filter(|&longest| longest > 0)?;
        Some(Self {
            half_length: 1 + random.below(longest),
            angle: random.between(0.0, 360.0),
            lean: (0.5 * random.normal() as f32).clamp(-1.0, 1.0),
        })
    }

    /// The kernel: a vertical line of weights from (1+lean)/2 to (1−lean)/2, rotated about its middle. A rotated cell
    /// takes the nearest cell of the line, so the path stays one pixel wide.
    fn fill(&self, kernel: &mut Kernel) {
        let reach = self.half_length as isize;
        let (sin, cos) = self.angle.to_radians().sin_cos();
        let first = (1.0 + self.lean) / 2.0;
        let slope = (1.0 - 2.0 * first) / (2.0 * self.half_length as f32);
        kernel.clear();
        for down in -reach..=reach {
            for right in -reach..=reach {
                let x = cos * right as f32 - sin * down as f32;
                let y = sin * right as f32 + cos * down as f32;
                if x.round() == 0.0 && y.round().abs() <= reach as f32 {
                    kernel.push((down, right, first + slope * (y.round() + reach as f32)));
                }
            }
        }
        let sum: f32 = kernel.iter().map(|tap| tap.2).sum();
        kernel.iter_mut().for_each(|tap| tap.2 /= sum);
    }
}

/// Places, down and right of a pixel, that are added up for it, and their weights.
pub(super) type Kernel = Vec<(isize, isize, f32)>;

/// σ of a random Gaussian blur.
pub(super) fn draw_sigma(random: &mut Random) -> f32 {
    random.between(0.1, 1.2)
}

/// Blurs `image` with a Gaussian of width `sigma`, cut off where the published preprocessing does. `other` is scratch of
/// the same size; `kernel` is too.
pub(super) fn gaussian(
    image: &mut [Pixel],
    other: &mut [Pixel],
    width: usize,
    sigma: f32,
    kernel: &mut Kernel,
) {
    let radius = (image.len() / width / HEIGHT_PER_REACH / 2) as isize;
    let weight = |distance: isize| (-((distance * distance) as f32) / (2.0 * sigma * sigma)).exp();
    let sum: f32 = (-radius..=radius).map(weight).sum();
    kernel.clear();
    kernel.extend((-radius..=radius).map(|right| (0, right, weight(right) / sum)));
    convolve(image, other, width, kernel);
    kernel.iter_mut().for_each(|tap| *tap = (tap.1, 0, tap.2));
    convolve(other, image, width, kernel);
}

/// Blurs `image` along a path into `out`.
pub(super) fn motion(image: &[Pixel], out: &mut [Pixel], width: usize, motion: &Motion, kernel: &mut Kernel) {
    motion.fill(kernel);
    convolve(image, out, width, kernel);
}

/// Adds up the kernel's places for every pixel, row by row: each place is a shifted row.
fn convolve(image: &[Pixel], out: &mut [Pixel], width: usize, kernel: &Kernel) {
    for (row, out) in out.chunks_exact_mut(width).enumerate() {
        out.fill([0.0; 4]);
        for &(down, right, weight) in kernel {
            let source = row.checked_add_signed(down).and_then(|row| image.chunks_exact(width).nth(row));
            let Some(source) = source else { continue };
            let shift = right.unsigned_abs().min(width);
            let (out, source) = match right >= 0 {
                true => (&mut out[..width - shift], &source[shift..]),
                false => (&mut out[shift..], &source[..width - shift]),
            };
            add_scaled(out.as_flattened_mut(), weight, source.as_flattened());
        }
    }
}

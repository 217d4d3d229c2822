//! Batch norm and activations on pixels of one panel: moments, the normalisation itself, and the way back.
//!
//! Batch norm in training is `y = γ·(z − μ)/σ + β` with μ and σ over everything in the window, which to a pixel is a scale
//! and a shift once they are known ([`affine`]). Backward, with `dy` the gradient of `y`,
//!
//! `dz = γ/σ · (dy − mean(dy) − ẑ·mean(dy·ẑ))`,
//!
//! needs two sums over the window ([`activation_backward`] makes them on the way) and is then a weighted sum of `dy` and
//! `z` ([`combine`]).
//!
//! Sums of pixels run in `f32` over short blocks and in `f64` across them. Variances are taken about a value of the block
//! itself and merged by Chan's formula, so a mean far from zero costs no digits.

use super::gemm::PANEL;
use super::simd::fma;

/// One number for each channel of a panel.
pub type Lane = [f32; PANEL];

/// Pixels that are summed in `f32`.
const BLOCK: usize = 256;

/// Number, mean and summed squared deviations of each channel of a panel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// Pixels seen.
    pub count: f64,
    /// Their mean.
    pub mean: [f64; PANEL],
    /// Sum of the squared distances from the mean.
    pub squares: [f64; PANEL],
}

impl Moments {
    /// Takes in pixels, `[n][16]`.
    pub fn add(&mut self, pixels: &[f32]) {
        for block in pixels.chunks(BLOCK * PANEL) {
            let Some((first, _)) = block.split_first_chunk::<PANEL>() else { continue };
            let (sums, squares) = deviations(block, first);
            let count = (block.len() / PANEL) as f64;
            let mut part = Self { count, ..Self::default() };
            for lane in 0..PANEL {
                let offset = f64::from(sums[lane]) / count;
                part.mean[lane] = f64::from(first[lane]) + offset;
                part.squares[lane] = (f64::from(squares[lane]) - offset * offset * count).max(0.0);
            }
            self.merge(&part);
        }
    }

    /// Takes in what another has seen.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0.0 {
            return;
        }
        let count = self.count + other.count;
        let share = other.count / count;
        for lane in 0..PANEL {
            let distance = other.mean[lane] - self.mean[lane];
            self.mean[lane] += distance * share;
            self.squares[lane] += other.squares[lane] + distance * distance * self.count * share;
        }
        self.count = count;
    }
}

vectorised! {
    /// Sums of `x − about` and of its square.
    fn deviations(pixels: &[f32], about: &Lane) -> (Lane, Lane) {
        // Two sets of sums, for even and odd pixels, hide the latency of the additions.
        let mut sums = [[0.0f32; PANEL]; 2];
        let mut squares = [[0.0f32; PANEL]; 2];
        let (pairs, rest) = pixels.as_chunks::<{ 2 * PANEL }>();
        for pair in pairs {
            for half in 0..2 {
                for lane in 0..PANEL {
                    let distance = pair[half * PANEL + lane] - about[lane];
                    sums[half][lane] += distance;
                    squares[half][lane] = fma::<FMA>(distance, distance, squares[half][lane]);
                }
            }
        }
        for pixel in rest.as_chunks::<PANEL>().0 {
            for lane in 0..PANEL {
                let distance = pixel[lane] - about[lane];
                sums[0][lane] += distance;
                squares[0][lane] = fma::<FMA>(distance, distance, squares[0][lane]);
            }
        }
        for lane in 0..PANEL {
            sums[0][lane] += sums[1][lane];
            squares[0][lane] += squares[1][lane];
        }
        (sums[0], squares[0])
    }
}

/// Sums over pixels.
pub fn sums(pixels: &[f32]) -> Lane {
    deviations(pixels, &[0.0; PANEL]).0
}

vectorised! {
    /// `to = clamp(from · scale + shift)`: batch norm and activation.
    pub fn affine(to: &mut [f32], from: &[f32], scale: &Lane, shift: &Lane, range: (f32, f32)) {
        let (scale, shift) = (*scale, *shift);
        for (to, from) in to.as_chunks_mut::<PANEL>().0.iter_mut().zip(from.as_chunks::<PANEL>().0) {
            for lane in 0..PANEL {
                to[lane] = fma::<FMA>(from[lane], scale[lane], shift[lane]).max(range.0).min(range.1);
            }
        }
    }
}

vectorised! {
    /// `values = clamp(values · scale + shift)`.
    pub fn affine_in_place(values: &mut [f32], scale: &Lane, shift: &Lane, range: (f32, f32)) {
        let (scale, shift) = (*scale, *shift);
        for value in values.as_chunks_mut::<PANEL>().0 {
            for lane in 0..PANEL {
                value[lane] = fma::<FMA>(value[lane], scale[lane], shift[lane]).max(range.0).min(range.1);
            }
        }
    }
}

vectorised! {
    /// `to = a · scale_a + b · scale_b + shift`.
    pub fn combine(to: &mut [f32], a: &[f32], scale_a: &Lane, b: &[f32], scale_b: &Lane, shift: &Lane) {
        let (scale_a, scale_b, shift) = (*scale_a, *scale_b, *shift);
        let (a, b) = (a.as_chunks::<PANEL>().0, b.as_chunks::<PANEL>().0);
        for ((to, a), b) in to.as_chunks_mut::<PANEL>().0.iter_mut().zip(a).zip(b) {
            for lane in 0..PANEL {
                to[lane] = fma::<FMA>(a[lane], scale_a[lane], fma::<FMA>(b[lane], scale_b[lane], shift[lane]));
            }
        }
    }
}

vectorised! {
    /// `to += from`.
    pub fn add(to: &mut [f32], from: &[f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            *to += from;
        }
    }
}

/// What [`activation_backward`] needs to know of a batch norm and the activation after it.
#[derive(Clone, Copy, Debug)]
pub struct Gate<'a> {
    /// γ/σ.
    pub scale: &'a Lane,
    /// β − μ·γ/σ.
    pub shift: &'a Lane,
    /// μ.
    pub mean: &'a Lane,
    /// The gradient passes where the normalised value lies strictly within.
    pub range: (f32, f32),
}

/// Sums over pixels of a gradient `dy` and of `dy·(z − μ)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GradientSums {
    /// Σ dy
    pub plain: [f64; PANEL],
    /// Σ dy·(z − μ)
    pub with_value: [f64; PANEL],
}

impl GradientSums {
    /// Takes in the sums of other pixels.
    pub fn merge(&mut self, other: &Self) {
        for lane in 0..PANEL {
            self.plain[lane] += other.plain[lane];
            self.with_value[lane] += other.with_value[lane];
        }
    }
}

/// Turns the gradient `d` of an activated value into that of the normalised one, in place, and adds to the sums that batch
/// norm's own gradient needs. `z` is what was normalised.
pub fn activation_backward(d: &mut [f32], z: &[f32], gate: &Gate<'_>, sums: &mut GradientSums) {
    for (d, z) in d.chunks_mut(BLOCK * PANEL).zip(z.chunks(BLOCK * PANEL)) {
        let (plain, with_value) = gate_block(d, z, gate);
        for lane in 0..PANEL {
            sums.plain[lane] += f64::from(plain[lane]);
            sums.with_value[lane] += f64::from(with_value[lane]);
        }
    }
}

vectorised! {
    fn gate_block(d: &mut [f32], z: &[f32], gate: &Gate<'_>) -> (Lane, Lane) {
        let (scale, shift, mean, (low, high)) = (*gate.scale, *gate.shift, *gate.mean, gate.range);
        let mut plain = [0.0f32; PANEL];
        let mut with_value = [0.0f32; PANEL];
        for (d, z) in d.as_chunks_mut::<PANEL>().0.iter_mut().zip(z.as_chunks::<PANEL>().0) {
            for lane in 0..PANEL {
                let value = fma::<FMA>(z[lane], scale[lane], shift[lane]);
                let passed = if value > low && value < high { d[lane] } else { 0.0 };
                d[lane] = passed;
                plain[lane] += passed;
                with_value[lane] = fma::<FMA>(passed, z[lane] - mean[lane], with_value[lane]);
            }
        }
        (plain, with_value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: usize, count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0).collect()
    }

    fn lane(seed: usize) -> Lane {
        numbers(seed, PANEL).try_into().unwrap()
    }

    /// Values around 1000 with a deviation near 0.6: a plain sum of squares in f32 would keep no digit of the variance.
    #[test]
    fn moments_survive_a_mean_far_from_zero() {
        for pixels in [1, 2, 3, 255, 256, 257, 1000] {
            let values: Vec<f32> = numbers(1, pixels * PANEL).iter().map(|v| 1000.0 + v).collect();
            let mut whole = Moments::default();
            whole.add(&values);
            let (mut first, mut second) = (Moments::default(), Moments::default());
            first.add(&values[..pixels / 3 * PANEL]);
            second.add(&values[pixels / 3 * PANEL..]);
            first.merge(&second);
            for c in 0..PANEL {
                let channel: Vec<f64> = values.iter().skip(c).step_by(PANEL).map(|v| f64::from(*v)).collect();
                let mean = channel.iter().sum::<f64>() / pixels as f64;
                let squares: f64 = channel.iter().map(|v| (v - mean).powi(2)).sum();
                for moments in [&whole, &first] {
                    assert_eq!(moments.count, pixels as f64);
                    assert!((moments.mean[c] - mean).abs() < 1e-6, "mean of {pixels}");
                    // f32 sums of up to 256 squares.
                    let error = (moments.squares[c] - squares).abs();
                    assert!(error <= 1e-5 * squares.max(1e-3), "squares of {pixels}: off by {error}");
                }
            }
        }
    }

    #[test]
    fn affine_and_combine_are_what_they_say() {
        let (a, b) = (numbers(1, 5 * PANEL), numbers(2, 5 * PANEL));
        let (f, g, c) = (lane(3), lane(4), lane(5));
        let mut to = vec![9.0; a.len()];
        affine(&mut to, &a, &f, &c, (0.0, 0.5));
        for i in 0..a.len() {
            let l = i % PANEL;
            assert!((to[i] - (a[i] * f[l] + c[l]).clamp(0.0, 0.5)).abs() < 1e-6);
        }
        let mut in_place = a.clone();
        affine_in_place(&mut in_place, &f, &c, (0.0, 0.5));
        assert_eq!(in_place, to);
        combine(&mut to, &a, &f, &b, &g, &c);
        for i in 0..a.len() {
            let l = i % PANEL;
            assert!((to[i] - (a[i] * f[l] + b[i] * g[l] + c[l])).abs() < 1e-6);
        }
        add(&mut to, &a);
        assert!((to[7] - (a[7] * f[7] + b[7] * g[7] + c[7] + a[7])).abs() < 1e-6);
    }

    #[test]
    fn the_activation_gates_and_the_sums_follow() {
        let pixels = 300;
        let (z, gradient) = (numbers(1, pixels * PANEL), numbers(2, pixels * PANEL));
        let (scale, shift, mean) = (lane(3), lane(4), lane(5));
        let gate = Gate { scale: &scale, shift: &shift, mean: &mean, range: (0.0, 0.6) };
        let mut d = gradient.clone();
        let mut sums = GradientSums::default();
        activation_backward(&mut d, &z, &gate, &mut sums);
        let mut exact = GradientSums::default();
        for i in 0..z.len() {
            let l = i % PANEL;
            let value = z[i].mul_add(scale[l], shift[l]);
            let passed = if value > 0.0 && value < 0.6 { gradient[i] } else { 0.0 };
            assert_eq!(d[i], passed);
            exact.plain[l] += f64::from(passed);
            exact.with_value[l] += f64::from(passed) * f64::from(z[i] - mean[l]);
        }
        let mut twice = sums;
        twice.merge(&sums);
        for l in 0..PANEL {
            // f32 sums of 256 numbers of size 1.
            assert!((sums.plain[l] - exact.plain[l]).abs() < 1e-4);
            assert!((sums.with_value[l] - exact.with_value[l]).abs() < 1e-4);
            assert_eq!(twice.plain[l], 2.0 * sums.plain[l]);
        }
    }
}

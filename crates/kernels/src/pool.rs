//! Pools on the plane of one panel: the largest value of each window, and means of all pixels.

use super::gemm::PANEL;
use super::norm::Lane;

/// A max pool over windows that do not overlap. Windows at the bottom and right edge may be smaller; pixels beyond the last
/// window are left out.
#[derive(Clone, Copy, Debug)]
pub struct MaxPool {
    /// Side of a window.
    pub size: usize,
    /// Lines and pixels in a line of the input.
    pub input: (usize, usize),
    /// Lines and pixels in a line of the output.
    pub output: (usize, usize),
}

impl MaxPool {
    /// The pixels of the window of output pixel `(y, x)`, line by line.
    fn window(&self, y: usize, x: usize) -> impl Iterator<Item = usize> + use<> {
        let (height, width) = self.input;
        let lines = y * self.size..((y + 1) * self.size).min(height);
        let columns = x * self.size..((x + 1) * self.size).min(width);
        lines.flat_map(move |line| columns.clone().map(move |column| line * width + column))
    }

    /// The largest of each window, clamped to `range`, which is the activation after the pool.
    pub fn forward(&self, input: &[f32], range: (f32, f32), output: &mut [f32]) {
        max_forward(self, input, range, output);
    }

    /// Hands the gradient of each output, where the activation lets it pass, to the first largest pixel of its window; all
    /// other pixels get zero.
    pub fn backward(&self, input: &[f32], range: (f32, f32), d_output: &[f32], d_input: &mut [f32]) {
        max_backward(self, input, range, d_output, d_input);
    }
}

vectorised! {
    fn max_forward(pool: &MaxPool, input: &[f32], range: (f32, f32), output: &mut [f32]) {
        let input = input.as_chunks::<PANEL>().0;
        let output = output.as_chunks_mut::<PANEL>().0;
        for (index, output) in output.iter_mut().take(pool.output.0 * pool.output.1).enumerate() {
            let mut largest = [f32::NEG_INFINITY; PANEL];
            for pixel in pool.window(index / pool.output.1, index % pool.output.1) {
                for lane in 0..PANEL {
                    largest[lane] = largest[lane].max(input[pixel][lane]);
                }
            }
            for lane in 0..PANEL {
                output[lane] = largest[lane].max(range.0).min(range.1);
            }
        }
    }
}

vectorised! {
    fn max_backward(pool: &MaxPool, input: &[f32], range: (f32, f32), d_output: &[f32], d_input: &mut [f32]) {
        let input = input.as_chunks::<PANEL>().0;
        let d_input = d_input.as_chunks_mut::<PANEL>().0;
        d_input.fill([0.0; PANEL]);
        let d_output = d_output.as_chunks::<PANEL>().0;
        for (index, d_output) in d_output.iter().take(pool.output.0 * pool.output.1).enumerate() {
            let (y, x) = (index / pool.output.1, index % pool.output.1);
            let mut largest = [f32::NEG_INFINITY; PANEL];
            for pixel in pool.window(y, x) {
                for lane in 0..PANEL {
                    largest[lane] = largest[lane].max(input[pixel][lane]);
                }
            }
            let mut left = [0.0f32; PANEL];
            for lane in 0..PANEL {
                left[lane] = if largest[lane] > range.0 && largest[lane] < range.1 { d_output[lane] } else { 0.0 };
            }
            for pixel in pool.window(y, x) {
                for lane in 0..PANEL {
                    let taken = input[pixel][lane] == largest[lane];
                    d_input[pixel][lane] = if taken { left[lane] } else { 0.0 };
                    left[lane] = if taken { 0.0 } else { left[lane] };
                }
            }
        }
    }
}

vectorised! {
    /// The mean over pixels of the activated `z · scale + shift`.
    pub fn mean(z: &[f32], scale: &Lane, shift: &Lane, range: (f32, f32)) -> Lane {
        let pixels = z.as_chunks::<PANEL>().0;
        let (scale, shift) = (*scale, *shift);
        let mut sums = [0.0f32; PANEL];
        for pixel in pixels {
            for lane in 0..PANEL {
                let value = super::simd::fma::<FMA>(pixel[lane], scale[lane], shift[lane]);
                sums[lane] += value.max(range.0).min(range.1);
            }
        }
        sums.map(|sum| sum / pixels.len().max(1) as f32)
    }
}

vectorised! {
    /// The sum over pixels, each weighed by its share.
    pub fn weighted_sum(z: &[f32], shares: &[f32]) -> Lane {
        let pixels = z.as_chunks::<PANEL>().0;
        let mut sums = [0.0f32; PANEL];
        for (pixel, share) in pixels.iter().zip(shares) {
            for lane in 0..PANEL {
                sums[lane] = super::simd::fma::<FMA>(pixel[lane], *share, sums[lane]);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: usize, count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0).collect()
    }

    /// Against the definition, pixel by pixel: even and odd sizes, windows cut at the edge, pixels left out.
    #[test]
    fn max_pool_forward_and_backward() {
        for (size, input, output) in [
            (2, (4, 6), (2, 3)),
            (2, (5, 7), (3, 4)),
            (2, (5, 7), (2, 3)),
            (3, (7, 9), (3, 3)),
            (2, (3, 3), (1, 1)),
        ] {
            let pool = MaxPool { size, input, output };
            let mut values = numbers(1, input.0 * input.1 * PANEL);
            // A tie: the first of the two must win alone.
            values[PANEL] = 5.0;
            values[0] = 5.0;
            let range = (0.0, 6.0);
            let mut fast = vec![9.0; output.0 * output.1 * PANEL];
            pool.forward(&values, range, &mut fast);
            let d_output = numbers(2, fast.len());
            let mut d_fast = vec![9.0; values.len()];
            pool.backward(&values, range, &d_output, &mut d_fast);

            let mut d_exact = vec![0.0; values.len()];
            for (index, gradient) in d_output.iter().enumerate() {
                let (y, x, c) = (index / PANEL / output.1, index / PANEL % output.1, index % PANEL);
                let mut best: Option<usize> = None;
                for line in y * size..((y + 1) * size).min(input.0) {
                    for column in x * size..((x + 1) * size).min(input.1) {
                        let at = (line * input.1 + column) * PANEL + c;
                        if best.is_none_or(|best| values[at] > values[best]) {
                            best = Some(at);
                        }
                    }
                }
                let best = best.unwrap();
                assert_eq!(fast[index], values[best].clamp(0.0, 6.0));
                if values[best] > 0.0 {
                    d_exact[best] = *gradient;
                }
            }
            assert_eq!(d_fast, d_exact);
        }
    }

    #[test]
    fn a_weighted_sum_weighs_each_pixel() {
        let (z, shares) = (numbers(3, 35 * PANEL), numbers(4, 35));
        for (c, fast) in weighted_sum(&z, &shares).into_iter().enumerate() {
            let of_channel = z.iter().skip(c).step_by(PANEL).zip(&shares);
            let exact: f64 = of_channel.map(|(z, share)| f64::from(*z) * f64::from(*share)).sum();
            assert!((f64::from(fast) - exact).abs() < 1e-5);
        }
    }

    #[test]
    fn the_mean_is_of_activated_values() {
        let z = numbers(1, 49 * PANEL);
        let (scale, shift): (Lane, Lane) = ([1.5; PANEL], [0.25; PANEL]);
        let fast = mean(&z, &scale, &shift, (0.0, 1.0));
        for (c, fast) in fast.into_iter().enumerate() {
            let exact: f64 = z
                .iter()
                .skip(c)
                .step_by(PANEL)
                .map(|z| f64::from((z * 1.5 + 0.25).clamp(0.0, 1.0)))
                .sum::<f64>()
                / 49.0;
            assert!((f64::from(fast) - exact).abs() < 1e-6);
        }
    }
}

//! Vector primitives of the prototype memory: dot product, scaled sums.
//!
//! [`Real`] lets the memory's mathematics be compiled in `f64` as well, for the comparison of its gradients with
//! finite differences; the device runs `f32`.

use super::simd::fma;

/// Independent partial sums of a reduction: enough to hide the latency of a fused multiply-add at any vector width.
const LANES: usize = 64;

vectorised! {
    /// Σ aᵢ·bᵢ over the shorter of the two.
    pub fn dot(a: &[f32], b: &[f32]) -> f32 {
        let mut sums = [0.0f32; LANES];
        let (a_blocks, a_rest) = a.as_chunks::<LANES>();
        let (b_blocks, b_rest) = b.as_chunks::<LANES>();
        for (a, b) in a_blocks.iter().zip(b_blocks) {
            for lane in 0..LANES {
                sums[lane] = fma::<FMA>(a[lane], b[lane], sums[lane]);
            }
        }
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                sums[lane] += sums[lane + half];
            }
            half /= 2;
        }
        sums[0] + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
    }
}

vectorised! {
    /// y ← y + factor·x over the shorter of the two.
    pub fn add_scaled(y: &mut [f32], factor: f32, x: &[f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = fma::<FMA>(factor, *x, *y);
        }
    }
}

vectorised! {
    /// y ← keep·y + factor·x, returning the new ‖y‖²: the prototype write and its norm in one pass.
    pub fn blend(y: &mut [f32], keep: f32, factor: f32, x: &[f32]) -> f32 {
        let mut sums = [0.0f32; LANES];
        let (y_blocks, y_rest) = y.as_chunks_mut::<LANES>();
        let (x_blocks, x_rest) = x.as_chunks::<LANES>();
        for (y, x) in y_blocks.iter_mut().zip(x_blocks) {
            for lane in 0..LANES {
                y[lane] = fma::<FMA>(factor, x[lane], keep * y[lane]);
                sums[lane] = fma::<FMA>(y[lane], y[lane], sums[lane]);
            }
        }
        let mut rest = 0.0;
        for (y, x) in y_rest.iter_mut().zip(x_rest) {
            *y = keep * *y + factor * x;
            rest += *y * *y;
        }
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                sums[lane] += sums[lane + half];
            }
            half /= 2;
        }
        sums[0] + rest
    }
}

vectorised! {
    /// out ← keep·x + gain·y: how a write changes a row of inner products.
    pub fn combine(out: &mut [f64], keep: f64, x: &[f64], gain: f64, y: &[f64]) {
        let _ = FMA; // rounding must not depend on the instruction set here: no fused operation
        for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
            *out = keep * x + gain * y;
        }
    }
}

/// Independent partial sums of an `f64` reduction.
const WIDE_LANES: usize = 16;

vectorised! {
    /// The reverse of [`combine`] from the gradient `d_out`: d_x ← keep·d_out, d_y ← d_y + gain·d_out, and the gradients of
    /// `keep` and `gain` returned.
    pub fn combine_backward(
        d_x: &mut [f64], d_y: &mut [f64], d_out: &[f64], keep: f64, x: &[f64], gain: f64, y: &[f64],
    ) -> (f64, f64) {
        let _ = FMA; // as in `combine`
        let length = d_out.len().min(d_x.len()).min(d_y.len()).min(x.len()).min(y.len());
        let (mut d_keep, mut d_gain) = ([0.0; WIDE_LANES], [0.0; WIDE_LANES]);
        let (d_x, d_x_rest) = d_x[..length].as_chunks_mut::<WIDE_LANES>();
        let (d_y, d_y_rest) = d_y[..length].as_chunks_mut::<WIDE_LANES>();
        let (d_out, d_out_rest) = d_out[..length].as_chunks::<WIDE_LANES>();
        let (x, x_rest) = x[..length].as_chunks::<WIDE_LANES>();
        let (y, y_rest) = y[..length].as_chunks::<WIDE_LANES>();
        for ((((d_x, d_y), d_out), x), y) in d_x.iter_mut().zip(d_y).zip(d_out).zip(x).zip(y) {
            for lane in 0..WIDE_LANES {
                d_keep[lane] += d_out[lane] * x[lane];
                d_gain[lane] += d_out[lane] * y[lane];
                d_x[lane] = keep * d_out[lane];
                d_y[lane] += gain * d_out[lane];
            }
        }
        for ((((d_x, d_y), d_out), x), y) in d_x_rest.iter_mut().zip(d_y_rest).zip(d_out_rest).zip(x_rest).zip(y_rest) {
            d_keep[0] += d_out * x;
            d_gain[0] += d_out * y;
            *d_x = keep * d_out;
            *d_y += gain * d_out;
        }
        (d_keep.iter().sum(), d_gain.iter().sum())
    }
}

/// The scalar type of embeddings: `f32` on the device, `f64` where exactness is put to the test.
pub trait Real: Copy + Send + Sync + 'static {
    /// Widens to the type in which the window's recurrences are computed.
    fn to_f64(self) -> f64;
    /// Rounds from that type.
    fn from_f64(value: f64) -> Self;
    /// Σ aᵢ·bᵢ over the shorter of the two.
    fn dot(a: &[Self], b: &[Self]) -> f64;
    /// y ← y + factor·x over the shorter of the two.
    fn add_scaled(y: &mut [Self], factor: f64, x: &[Self]);
}

impl Real for f32 {
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[allow(clippy::cast_possible_truncation)]
    fn from_f64(value: f64) -> Self {
        value as f32
    }
    fn dot(a: &[Self], b: &[Self]) -> f64 {
        f64::from(dot(a, b))
    }
    fn add_scaled(y: &mut [Self], factor: f64, x: &[Self]) {
        add_scaled(y, Self::from_f64(factor), x);
    }
}

impl Real for f64 {
    fn to_f64(self) -> f64 {
        self
    }
    fn from_f64(value: f64) -> Self {
        value
    }
    fn dot(a: &[Self], b: &[Self]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }
    fn add_scaled(y: &mut [Self], factor: f64, x: &[Self]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y += factor * x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lengths around the block size, where a remainder is easily lost. Tolerance: f32 sums of ~200 terms of size 1.
    #[test]
    fn the_vector_versions_agree_with_plain_sums() {
        for length in [0, 1, 7, 63, 64, 65, 127, 128, 200] {
            let a: Vec<f32> = (0..length).map(|i| (i as f32 * 0.37).sin()).collect();
            let b: Vec<f32> = (0..length).map(|i| (i as f32 * 0.91).cos()).collect();
            let plain: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            assert!((f64::from(dot(&a, &b)) - plain).abs() < 1e-5, "dot of {length}");

            let mut sum = a.clone();
            add_scaled(&mut sum, 0.3, &b);
            let mut blended = a.clone();
            let square = blend(&mut blended, 0.7, 0.3, &b);
            let mut plain_square = 0.0;
            for i in 0..length {
                assert!((sum[i] - (a[i] + 0.3 * b[i])).abs() < 1e-6);
                let value = 0.7 * a[i] + 0.3 * b[i];
                assert!((blended[i] - value).abs() < 1e-6);
                plain_square += f64::from(value) * f64::from(value);
            }
            assert!((f64::from(square) - plain_square).abs() < 1e-4, "blend of {length}");
        }
    }
}

//! Second moments of a value's channels over the window, and what they say of a pointwise convolution.
//!
//! The output `e = W·x` of a pointwise convolution has mean `W·mean(x)` and variances `diag(W·Cov(x)·Wᵀ)`: batch norm's
//! statistics follow from the *input's* second moments. An expansion has six times as many channels as its input, so those
//! are a sixth of the work of computing `e` only to measure it.
//!
//! The digits: the covariance is summed about a centre near the mean, in f32 over blocks of pixels and in f64 across
//! frames. What the square of a long vector loses in the direction of a short one is bounded by [`Second::measure`], which
//! says so when a variance is too small beside its terms to be trusted; the caller then measures it directly.

use super::norm::lane;
use super::workers::{Group, merge_exact};
use crate::kernels::gemm::{
    Columns, Finish, Lines, PANEL, Rows, outer, pack, packed_index, padded, panel_segments, panels, product,
};
use crate::kernels::norm::sums;

/// A variance below this part of its terms is computed again in f64, and below the second is not trusted at all.
const SUSPECT: f64 = 1e-3;
const LOST: f64 = 1e-6;

/// Mean and covariance of the channels of a value.
#[derive(Debug, Default)]
pub(super) struct Second {
    channels: usize,
    /// Pixels that were summed.
    pub(super) count: f64,
    /// A fixed point near the mean that is subtracted whenever the value is read, filled up to whole panels.
    pub(super) centre: Vec<f32>,
    /// The mean, counted from the centre.
    pub(super) offset: Vec<f64>,
    /// Covariance (the biased one), row by row.
    covariance: Vec<f64>,
}

/// Mean and variance of one output channel.
pub(super) struct Measured {
    /// Counted from the output at the centre.
    pub(super) offset: f64,
    pub(super) mean: f64,
    pub(super) variance: f64,
    /// Whether the variance still has the digits that it needs.
    pub(super) trusted: bool,
}

impl Second {
    /// Nothing measured and the centre at zero: for running statistics.
    pub(super) fn none(channels: usize) -> Self {
        Self { channels, centre: vec![0.0; padded(channels)], offset: vec![0.0; channels], ..Self::default() }
    }

    /// With the centre at the mean of these pixels, which are those of any frame.
    pub(super) fn centred(channels: usize, pixels: &[f32]) -> Self {
        let mut second = Self::none(channels);
        let per_panel = pixels.len() / panels(channels);
        for (panel, pixels) in pixels.chunks_exact(per_panel).enumerate() {
            let count = (per_panel / PANEL) as f32;
            second.centre[panel * PANEL..(panel + 1) * PANEL]
                .copy_from_slice(&sums(pixels).map(|sum| sum / count));
        }
        // The lanes beyond the last channel are zero in every pixel, and so are their sums.
        second
    }

    /// How many numbers a group needs: sums of products in f32, and the same with plain sums in f64.
    pub(super) fn lengths(channels: usize) -> (usize, usize) {
        let products = padded(channels) * channels;
        (products, products + padded(channels))
    }

    /// Adds centred pixels, which are panels, to a group's sums. Products stay in f32 until [`Self::end_frame`].
    pub(super) fn add(channels: usize, pixels: &[f32], group: &mut Group) {
        let count = pixels.len() / padded(channels);
        let segments = panel_segments(channels, count);
        let rows = Rows::of_panels(pixels, &segments, channels);
        outer(count, &rows, &Columns::of_panels(channels, count), pixels, &mut group.weights);
        let plain = Self::lengths(channels).0;
        for (panel, pixels) in pixels.chunks_exact(count * PANEL).enumerate() {
            for (to, sum) in group.exact[plain + panel * PANEL..].iter_mut().zip(sums(pixels)) {
                *to += f64::from(sum);
            }
        }
    }

    /// Moves a group's products from f32 to f64.
    pub(super) fn end_frame(channels: usize, group: &mut Group) {
        for (exact, sum) in group.exact.iter_mut().zip(&mut group.weights[..Self::lengths(channels).0]) {
            *exact += f64::from(std::mem::take(sum));
        }
    }

    /// Takes in the sums of all groups over `count` pixels.
    pub(super) fn finish(&mut self, groups: &[Group], count: f64) {
        let c = self.channels;
        let (products, total) = Self::lengths(c);
        let merged = merge_exact(groups, 0..total);
        self.count = count;
        self.offset = (0..c).map(|k| merged[products + k] / count).collect();
        self.covariance = (0..c * c)
            .map(|index| {
                let (k, n) = (index / c, index % c);
                merged[packed_index(c, k, n)] / count - self.offset[k] * self.offset[n]
            })
            .collect();
    }

    /// `matrix · covariance`, rows of `channels` numbers: `[panel][row][16]`.
    pub(super) fn times_covariance(&self, matrix: &[f32]) -> Vec<f32> {
        let c = self.channels;
        let rows = matrix.len() / c;
        let right = pack(c, c, |k, n| self.covariance[k * c + n] as f32);
        let left = Rows { data: matrix, lines: Lines::contiguous(c), segments: &[0], length: c, last: c };
        let mut result = vec![0.0; padded(c) * rows];
        product(rows, &left, &right, &Columns::of_panels(c, rows), &mut result, Finish::Store);
        result
    }

    /// Mean and variance of the outputs of `matrix`, whose rows are output channels.
    pub(super) fn measure(&self, matrix: &[f32], epsilon: f64) -> Vec<Measured> {
        let c = self.channels;
        let rows = matrix.len() / c;
        let deviation: Vec<f64> = (0..c).map(|k| self.covariance[k * c + k].max(0.0).sqrt()).collect();
        let products = self.times_covariance(matrix);
        matrix
            .chunks_exact(c)
            .enumerate()
            .map(|(row, weights)| {
                let exact: Vec<f64> = weights.iter().map(|weight| f64::from(*weight)).collect();
                let dot = |values: &dyn Fn(usize) -> f64| -> f64 {
                    exact.iter().enumerate().map(|(k, weight)| weight * values(k)).sum()
                };
                let offset = dot(&|k| self.offset[k]);
                let mean = offset + dot(&|k| f64::from(self.centre[k]));
                let mut variance =
                    dot(&|k| f64::from(products[(k / PANEL * rows + row) * PANEL + k % PANEL]));
                let terms = exact.iter().zip(&deviation).map(|(w, d)| (w * d).abs()).sum::<f64>().powi(2);
                if variance + epsilon < SUSPECT * terms {
                    let line = |k: usize| &self.covariance[k * c..(k + 1) * c];
                    variance =
                        dot(&|k| line(k).iter().zip(&exact).map(|(value, weight)| value * weight).sum());
                }
                let trusted = variance + epsilon >= LOST * terms;
                Measured { offset, mean, variance: variance.max(0.0), trusted }
            })
            .collect()
    }

    /// The centre of one panel.
    pub(super) fn centre(&self, panel: usize) -> &crate::kernels::norm::Lane {
        lane(&self.centre, panel)
    }
}

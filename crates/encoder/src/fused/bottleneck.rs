//! The inverted residual: a wide pointwise convolution, a depthwise one, a narrow pointwise one, each with batch norm.
//!
//! The wide values are six times the size of what enters and leaves the block, so none of them is ever held whole: the
//! expansion is computed band by band, normalised, filtered and forgotten, every time that it is needed. What is held, if
//! the budget allows, is the filter's output `Z2`. MobileNet-V2's first block has the stem in the place of the expansion:
//! the same thing, with the windows of the image for pixels.
//!
//! Forward, each pass over all frames, since statistics must be complete before they are used:
//! - *measure*: second moments of the input, from which the statistics of the expansion follow ([`super::second`]);
//! - *filter*: expansion → batch norm 1 → depthwise → `Z2`, and its moments;
//! - *project*: batch norm 2 → projection → `Z3`, which is kept, and its moments;
//! - *add*, if the block has a residual connection: batch norm 3 of `Z3` plus the input, which is kept.
//!
//! Backward, from the gradient of the output:
//! - *sum*: the sums of batch norm 3;
//! - *unproject*: weight gradient of the projection, the gradient of `Z2` after its batch norm, the sums of batch norm 2;
//! - *unfilter*: the depthwise gradients and the expansion's. Its batch norm needs no pass of its own. The gradient
//!   `dE = s·(dy − mean(dy) − ê·mean(dy·ê))` is linear in `dy` up to terms in `ê = (W·(x − μ))/σ`, and these are linear in
//!   `x`. So `dyᵀ·x` and `dy·(s·W)` are taken with `dy` alone, and the rest follows from the input's second moments:
//!   `Σ dy·ê` is the product of `W` with `dyᵀ·x`, and the gradient of the input lacks only `(x − μ)·M` with the small
//!   matrix `M = −Wᵀ·diag(s/σ·mean(dy·ê))·W`;
//! - *correct*: adds that.

mod backward;
mod forward;

use std::ops::Range;

use super::kept::Kept;
use super::norm::{Mixture, Norm, range};
use super::second::Second;
use crate::kernels::Aligned;
use crate::kernels::depthwise::FILTER;
use crate::kernels::gemm::{PANEL, pack, padded, panels};
use crate::kernels::norm::affine_in_place;
use crate::kernels::patches::Windows;
use crate::parameters::Parameters;
use crate::plan::{Activation, ConvKind, Plan, Shape, Unit};

/// Bytes of a core's second cache that a band may fill.
const BAND_BYTES: usize = 256 << 10;

/// One inverted residual.
#[derive(Debug)]
pub(super) struct Bottleneck {
    expand: Unit,
    filter: Unit,
    project: Unit,
    /// Where the pixels of the expansion come from.
    windows: Option<Windows>,
    /// Numbers of such a pixel.
    depth: usize,
    weights: Weights,
    norms: [Norm; 3],
    /// Shift of the expansion's batch norm, for pixels less their centre.
    expand_shift: Vec<f32>,
    second: Second,
    /// How the gradient of `Z3` is made, and that of `Z2`.
    project_mixture: Mixture,
    filter_mixture: Mixture,
    /// Weights of the expansion towards its input, by batch norm's scale.
    unexpand: Aligned,
}

/// The weights in the orders in which they are needed.
#[derive(Debug, Default)]
struct Weights {
    /// `[wide][depth]`
    matrix: Vec<f32>,
    /// The expansion, packed.
    expand: Aligned,
    /// A filter for each panel.
    filters: Vec<[f32; FILTER]>,
    /// The projection, packed.
    project: Aligned,
    /// The projection towards its input, packed.
    unproject: Aligned,
}

/// What a block reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Input<'a> {
    /// The images themselves.
    Images(&'a [f32]),
    /// The output of the block before.
    Kept(Kept<'a>),
}

impl Bottleneck {
    /// The block of these units, if it is one.
    pub(super) fn recognise(plan: &Plan, units: Range<usize>) -> Option<Self> {
        let (input, first) = (units.start, units.start);
        let [expand, filter, project] = plan.units.get(units)? else { return None };
        let plain = |unit: &Unit| unit.add.is_none() && unit.pool.is_none();
        let windows = (expand.conv == ConvKind::Full && input == 0).then(|| windows(expand));
        let matches = (windows.is_some() || expand.conv == ConvKind::Pointwise)
            && filter.conv == ConvKind::Depthwise
            && project.conv == ConvKind::Pointwise
            && (expand.input, filter.input, project.input) == (input, first + 1, first + 2)
            && plain(expand)
            && plain(filter)
            && project.pool.is_none()
            && project.activation == Activation::None
            && (project.add.is_none() || (project.add == Some(input) && input > 0));
        matches.then(|| Self {
            depth: windows.map_or(expand.in_shape.channels, |windows| windows.depth()),
            windows,
            expand: expand.clone(),
            filter: filter.clone(),
            project: project.clone(),
            weights: Weights::default(),
            norms: Default::default(),
            expand_shift: Vec::new(),
            second: Second::default(),
            project_mixture: Mixture::default(),
            filter_mixture: Mixture::default(),
            unexpand: Aligned::default(),
        })
    }

    /// Whether the input is added to the output.
    pub(super) fn residual(&self) -> bool {
        self.project.add.is_some()
    }

    /// Shape of the output.
    pub(super) fn output(&self) -> Shape {
        self.project.out_shape
    }

    /// The batch norm of the output, where it is kept without.
    pub(super) fn output_norm(&self) -> (&[f32], &[f32]) {
        (&self.norms[2].scale, &self.norms[2].shift)
    }

    /// Numbers of a frame that is held forward, and what more backward.
    pub(super) fn held_lengths(&self) -> (usize, usize) {
        let length = padded(self.wide()) * self.filter.conv_shape.pixels();
        (length, length)
    }

    /// Longest list of weight sums of a group.
    pub(super) fn sums_length(&self) -> usize {
        let expand = padded(self.wide()) * self.depth + panels(self.wide()) * FILTER;
        let project = padded(self.wide()) * self.narrow();
        expand.max(project).max(Second::lengths(self.depth).0)
    }

    /// Multiply-adds that holding a frame saves.
    pub(super) fn recomputed(&self) -> usize {
        self.expand.multiply_adds() + self.filter.multiply_adds()
    }

    /// Channels of the expansion.
    fn wide(&self) -> usize {
        self.filter.conv_shape.channels
    }

    /// Channels of the output.
    fn narrow(&self) -> usize {
        self.project.conv_shape.channels
    }

    /// The plane on which the expansion works.
    fn plane(&self) -> Shape {
        self.expand.conv_shape
    }

    /// Columns of the plane with the border that the filter needs.
    fn bordered_width(&self) -> usize {
        (self.filter.conv_shape.width - 1) * self.filter.stride + 3
    }

    /// Puts the weights into the orders in which they are needed.
    fn take_weights(&mut self, parameters: &Parameters) {
        let (wide, narrow, depth) = (self.wide(), self.narrow(), self.depth);
        let weight = parameters.tensor(self.expand.weight);
        let channels = self.expand.in_shape.channels;
        self.weights.matrix = match self.windows {
            None => weight.to_vec(),
            // The windows go tap by tap, PyTorch's weights channel by channel.
            Some(_) => (0..wide * depth)
                .map(|index| {
                    let (row, k) = (index / depth, index % depth);
                    weight[row * depth + k % channels * 9 + k / channels]
                })
                .collect(),
        };
        let matrix = &self.weights.matrix;
        self.weights.expand = pack(depth, wide, |k, n| matrix[n * depth + k]);
        self.weights.filters = filters(parameters.tensor(self.filter.weight), wide);
        let project = parameters.tensor(self.project.weight);
        self.weights.project = pack(wide, narrow, |k, n| project[n * wide + k]);
        self.weights.unproject = pack(narrow, wide, |k, n| project[k * wide + n]);
    }

    /// Reads some lines of the expansion's pixels, less their centre.
    fn load(&self, input: &Input<'_>, frame: usize, lines: Range<usize>, to: &mut [f32]) {
        let width = self.plane().width;
        match (input, &self.windows) {
            (Input::Images(images), Some(windows)) => {
                let length = self.expand.in_shape.len();
                windows.gather(&images[frame * length..(frame + 1) * length], lines, to);
                let count = to.len() / panels(self.depth);
                for (panel, to) in to.chunks_exact_mut(count).enumerate() {
                    let less = self.second.centre(panel).map(|value| -value);
                    affine_in_place(to, &[1.0; PANEL], &less, super::kept::UNBOUNDED);
                }
            }
            (Input::Kept(kept), _) => {
                kept.load(frame, lines.start * width..lines.end * width, Some(&self.second.centre), to);
            }
            (Input::Images(_), None) => unreachable!("a pointwise expansion reads a block's output"),
        }
    }

    fn expand_range(&self) -> (f32, f32) {
        range(self.expand.activation)
    }

    fn filter_range(&self) -> (f32, f32) {
        range(self.filter.activation)
    }
}

/// PyTorch's depthwise filters, panel by panel.
pub(super) fn filters(weight: &[f32], channels: usize) -> Vec<[f32; FILTER]> {
    (0..panels(channels))
        .map(|panel| {
            std::array::from_fn(|index| {
                let (tap, channel) = (index / PANEL, panel * PANEL + index % PANEL);
                if channel < channels { weight[channel * 9 + tap] } else { 0.0 }
            })
        })
        .collect()
}

/// The windows of a 3×3 convolution over images.
pub(super) fn windows(unit: &Unit) -> Windows {
    Windows {
        height: unit.in_shape.height,
        width: unit.in_shape.width,
        channels: unit.in_shape.channels,
        stride: unit.stride,
        pad: unit.pad,
        columns: unit.conv_shape.width,
    }
}

/// Cuts `total` into parts as equal as can be, of at most `most`.
pub(super) fn parts(total: usize, most: usize) -> impl Iterator<Item = Range<usize>> {
    let count = total.div_ceil(most.max(1));
    (0..count).map(move |part| part * total / count..(part + 1) * total / count)
}

//! The plan of an encoder: which units are computed, on which shapes, with which parameters.
//!
//! A plan is data. It knows the geometry and the names of every tensor and computes nothing; the executors
//! walk it, forwards and backwards, each in its own way. [`super::architecture`] builds the three known plans.
//!
//! Every network here is a chain of one kind of step, the [`Unit`]: a convolution without bias, batch norm, an
//! optional addition of an earlier value, an optional max pool, an activation. Units are grouped into blocks. A
//! unit reads only its block's input or values of its own block, so an executor that keeps the block outputs can
//! recompute everything else, block by block. The block's input may be read by several units; a value inside a block is
//! read by exactly one, which makes its gradient a single term.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::parameters::{Parameters, Statistics, TensorSpec};

/// How a strided 3×3 convolution places its window on the image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Padding {
    /// TensorFlow's: as even as possible, the odd pixel at the bottom and right. A stride of 2 on an even size
    /// pads nothing at the top and left and one pixel at the bottom and right.
    #[default]
    Same,
    /// PyTorch's: one pixel on every side, whatever the size.
    Symmetric,
}

impl Padding {
    /// Pixels of zeros before the first pixel of an axis of `size` pixels, for a 3-wide window moved by `stride`.
    /// What lies beyond the last pixel follows from the output size.
    pub fn before(self, size: usize, stride: usize) -> usize {
        match self {
            Self::Symmetric => 1,
            Self::Same => ((size.div_ceil(stride) - 1) * stride + 3).saturating_sub(size) / 2,
        }
    }
}

impl fmt::Display for Padding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Same => "same",
            Self::Symmetric => "symmetric",
        })
    }
}

/// What follows normalisation, addition and pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// Nothing: the value stays linear.
    None,
    /// max(x, 0)
    Relu,
    /// min(max(x, 0), 6)
    Relu6,
}

/// The three convolutions that the networks use; none has a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvKind {
    /// 1×1, all channels: a matrix product. Weight `[out, in, 1, 1]`, stride 1.
    Pointwise,
    /// 3×3, each channel by itself. Weight `[channels, 1, 3, 3]`.
    Depthwise,
    /// 3×3, all channels. Weight `[out, in, 3, 3]`.
    Full,
}

/// A max pool whose stride equals its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Side of the square window, at least 2.
    pub size: usize,
    /// What happens to rows and columns that do not fill a window.
    pub edge: PoolEdge,
}

/// What a pool does with rows and columns at the bottom and right that do not fill a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolEdge {
    /// They are left out: the output size is rounded down.
    Valid,
    /// They make smaller windows: the output size is rounded up.
    Same,
}

impl Pool {
    /// Output size of an axis of `size` pixels.
    pub fn output(self, size: usize) -> usize {
        match self.edge {
            PoolEdge::Valid => size / self.size,
            PoolEdge::Same => size.div_ceil(self.size),
        }
    }
}

/// Extent of one frame's value, stored row by row, pixel by pixel, channels last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows.
    pub height: usize,
    /// Pixels in a row.
    pub width: usize,
    /// Numbers in a pixel.
    pub channels: usize,
}

impl Shape {
    /// Pixels of one frame.
    pub fn pixels(self) -> usize {
        self.height * self.width
    }

    /// Numbers of one frame.
    pub fn len(self) -> usize {
        self.pixels() * self.channels
    }

    /// Whether a frame of this shape holds nothing.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// One step: `value = activation(pool(batch_norm(convolution(value[input])) + value[add]))`.
///
/// Values are numbered: 0 is the images, `u + 1` the output of unit `u`.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Kind of convolution.
    pub conv: ConvKind,
    /// Stride of the convolution in both directions.
    pub stride: usize,
    /// The value that is convolved.
    pub input: usize,
    /// The value that is added after batch norm; it has `conv_shape`.
    pub add: Option<usize>,
    /// The max pool after the addition.
    pub pool: Option<Pool>,
    /// The last thing done.
    pub activation: Activation,
    /// Shape of `value[input]`.
    pub in_shape: Shape,
    /// Shape after the convolution, and so of batch norm and addition.
    pub conv_shape: Shape,
    /// Shape of the unit's value, after the pool.
    pub out_shape: Shape,
    /// Zero rows above and zero columns left of the image, for the 3×3 kinds.
    pub pad: (usize, usize),
    /// Index of the convolution's weight among the parameters.
    pub weight: usize,
    /// Index of batch norm's scale γ among the parameters.
    pub gamma: usize,
    /// Index of batch norm's shift β among the parameters.
    pub beta: usize,
    /// Index of the running mean among the statistics.
    pub mean: usize,
    /// Index of the running variance among the statistics.
    pub variance: usize,
}

impl Unit {
    /// Multiply-adds of the convolution for one frame.
    pub fn multiply_adds(&self) -> usize {
        let taps = match self.conv {
            ConvKind::Pointwise => self.in_shape.channels,
            ConvKind::Depthwise => 9,
            ConvKind::Full => 9 * self.in_shape.channels,
        };
        self.conv_shape.len() * taps
    }
}

/// How the pixels of the last value are weighed against each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pooling {
    /// All alike, as the published networks have it.
    #[default]
    Mean,
    /// The middle more than the border: people turn a head camera to what they look at. A pixel's weight is a
    /// parabola in each direction, 1 in the middle of the picture and 0 at its edge.
    Centre,
}

impl Pooling {
    /// The share of a pixel of a picture; all of them add up to 1.
    pub fn share(self, shape: Shape, row: usize, column: usize) -> f64 {
        match self {
            Self::Mean => 1.0 / shape.pixels() as f64,
            Self::Centre => parabola(shape.height, row) * parabola(shape.width, column),
        }
    }

    /// The shares of all pixels, line by line.
    #[allow(clippy::cast_possible_truncation)]
    pub fn shares(self, shape: Shape) -> Vec<f32> {
        let places = (0..shape.pixels()).map(|pixel| (pixel / shape.width, pixel % shape.width));
        places.map(|(row, column)| self.share(shape, row, column) as f32).collect()
    }
}

/// The weight of place `at` among `length`, `1 − u²` with u from −1 to 1; the sum over all places is 1. In whole numbers until the
/// last division, as the CUDA kernels have it.
fn parabola(length: usize, at: usize) -> f64 {
    let from_middle = (2 * at + 1).abs_diff(length);
    let weight = length * length - from_middle * from_middle;
    (3 * weight) as f64 / (length * (2 * length * length + 1)) as f64
}

/// How the last value becomes the feature vector of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readout {
    /// A mean over its pixels.
    Pool(Pooling),
    /// All numbers of the value, as they are stored; the known plans end in one pixel, where it is the value itself.
    Flatten,
}

/// Numbers of batch norm that are not learned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNorm {
    /// Added to the variance before its root is taken.
    pub epsilon: f32,
    /// Weight of a window's statistics in the running ones, PyTorch's convention: `running += momentum · (window − running)`.
    pub momentum: f32,
}

/// A whole encoder for images of one size.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Shape of an input image.
    pub image: Shape,
    /// The steps, each reading only earlier values.
    pub units: Vec<Unit>,
    /// The units of each block, in order and without gaps. The value of a block is that of its last unit.
    pub blocks: Vec<Range<usize>>,
    /// How features are read out of the last value.
    pub readout: Readout,
    /// Length of a feature vector.
    pub features: usize,
    /// Where strided windows lie.
    pub padding: Padding,
    /// The fixed numbers of batch norm.
    pub batch_norm: BatchNorm,
    pub(super) parameters: Arc<[TensorSpec]>,
    pub(super) statistics: Arc<[TensorSpec]>,
}

impl Plan {
    /// The same with its pixels weighed in this way, where it has a mean over pixels.
    #[must_use]
    pub fn with_pooling(mut self, pooling: Pooling) -> Self {
        if let Readout::Pool(own) = &mut self.readout {
            *own = pooling;
        }
        self
    }

    /// Shape of a value, by its number.
    pub fn value_shape(&self, value: usize) -> Shape {
        if value == 0 { self.image } else { self.units[value - 1].out_shape }
    }

    /// Number of the value that block `block` reads: the images, or the value of the block before it.
    pub fn block_input(&self, block: usize) -> usize {
        self.blocks[block].start
    }

    /// Number of the value that block `block` makes.
    pub fn block_output(&self, block: usize) -> usize {
        self.blocks[block].end
    }

    /// Shape of the value that the read-out sees.
    pub fn last_shape(&self) -> Shape {
        self.value_shape(self.units.len())
    }

    /// Names and shapes of what is trained.
    pub fn parameter_specs(&self) -> &Arc<[TensorSpec]> {
        &self.parameters
    }

    /// Names and shapes of batch norm's running statistics.
    pub fn statistic_specs(&self) -> &Arc<[TensorSpec]> {
        &self.statistics
    }

    /// Parameters of this plan, all zero: also what gradients start from.
    pub fn zero_parameters(&self) -> Parameters {
        Parameters::zeros(&self.parameters)
    }

    /// Statistics of this plan: mean 0, variance 1.
    pub fn fresh_statistics(&self) -> Statistics {
        let mut statistics = Statistics::zeros(&self.statistics);
        for unit in &self.units {
            statistics.tensor_mut(unit.variance).fill(1.0);
        }
        statistics
    }

    /// The first parameter, in the order of the specifications, that belongs to block `block` or a later one.
    /// Parameters are laid out in the order of the blocks, so everything before it belongs to the blocks below.
    pub fn first_parameter(&self, block: usize) -> usize {
        self.blocks.get(block).map_or(self.parameters.len(), |units| self.units[units.start].weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_has_the_largest_share_and_all_add_up_to_one() {
        for (height, width) in [(7, 7), (4, 4), (3, 5), (1, 1), (6, 1)] {
            let shape = Shape { height, width, channels: 8 };
            for pooling in [Pooling::Mean, Pooling::Centre] {
                let shares = pooling.shares(shape);
                assert!((shares.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{height}x{width} {pooling:?}");
                assert!(shares.iter().all(|share| *share > 0.0));
            }
        }
        // 1 − u² at u = 0, 2/7, 4/7, 6/7, over the sum of a line.
        let line: Vec<f64> = (0..7).map(|at| parabola(7, at)).collect();
        let weights = [13.0, 33.0, 45.0, 49.0, 45.0, 33.0, 13.0].map(|weight| weight / 231.0);
        assert!(line.iter().zip(weights).all(|(share, weight)| (share - weight).abs() < 1e-15), "{line:?}");
    }
}

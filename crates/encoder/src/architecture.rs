//! The three encoders of the paper as plans: MobileNet-V2, ResNet-12, Conv-4.
//!
//! MobileNet-V2 (Sandler et al. 2018) carries torchvision's parameter names, so that its weight files fit as they are.
//! The small encoders exist nowhere as published weights; their names follow the same habit:
//! `blocks.{i}.conv.weight`, `blocks.{i}.bn.{weight,bias,running_mean,running_var}` for Conv-4, and for ResNet-12
//! `blocks.{i}.conv{1,2,3}.weight`, `blocks.{i}.bn{1,2,3}.…`, `blocks.{i}.shortcut.{conv,bn}.…`.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::parameters::SpecList;
use super::plan::{
    Activation, BatchNorm, ConvKind, Padding, Plan, Pool, PoolEdge, Pooling, Readout, Shape, Unit,
};
use crate::{Error, Result};

/// Which network, with what the network itself leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields)]
pub enum Architecture {
    /// MobileNet-V2 without its classifier, 3 channels in, 1280 features (more for widths above 1).
    #[serde(rename = "mobilenet-v2")]
    MobileNetV2 {
        /// Multiplies every number of channels, which is then rounded to a multiple of 8.
        width: f64,
    },
    /// Four residual blocks of 32, 64, 128 and 256 channels, 256 features.
    #[serde(rename = "resnet-12")]
    ResNet12 {
        /// Channels of the image: 3, or 4 with a mask.
        channels: usize,
        /// Window and stride of each block's max pool; 1 does not pool.
        strides: [usize; 4],
    },
    /// Four convolutions, each with a 2×2 max pool; as many features from a 28×28 image as the last one has channels.
    #[serde(rename = "conv-4")]
    Conv4 {
        /// Channels of the image.
        channels: usize,
        /// Whether the last block ends in a ReLU.
        last_relu: bool,
        /// Channels of the four blocks; the paper's are 64 each, and those of a card that does not say.
        #[serde(default = "paper_widths", skip_serializing_if = "are_paper_widths")]
        widths: [usize; 4],
    },
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MobileNetV2 { width } => write!(f, "MobileNet-V2 width {width:?}"),
            Self::ResNet12 { channels, strides: [a, b, c, d] } => {
                write!(f, "ResNet-12, {channels} channels, pools {a},{b},{c},{d}")
            }
            Self::Conv4 { channels, last_relu, widths } => {
                let end = if *last_relu { "" } else { ", linear end" };
                let [a, b, c, d] = widths;
                let blocks =
                    if are_paper_widths(widths) { String::new() } else { format!(" of {a}-{b}-{c}-{d}") };
                write!(f, "Conv-4{blocks}, {channels} channels{end}")
            }
        }
    }
}

/// Largest side of an image and largest width multiplier: beyond them a setting is a slip, and sizes could overflow.
const LARGEST_SIDE: usize = 4096;
const LARGEST_WIDTH: f64 = 4.0;
/// The most channels of a block of Conv-4, for the same reason.
const MOST_CHANNELS: usize = 1024;

/// Channels of the blocks of the paper's Conv-4.
fn paper_widths() -> [usize; 4] {
    [64; 4]
}

fn are_paper_widths(widths: &[usize; 4]) -> bool {
    *widths == paper_widths()
}

impl Architecture {
    /// How names of files spell it.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::MobileNetV2 { .. } => "mobilenet_v2",
            Self::ResNet12 { .. } => "resnet12",
            Self::Conv4 { .. } => "conv4",
        }
    }

    /// The paper's Conv-4.
    pub fn conv4(channels: usize, last_relu: bool) -> Self {
        Self::Conv4 { channels, last_relu, widths: paper_widths() }
    }

    /// Channels of the images that the network reads.
    pub fn image_channels(&self) -> usize {
        match *self {
            Self::MobileNetV2 { .. } => 3,
            Self::ResNet12 { channels, .. } | Self::Conv4 { channels, .. } => channels,
        }
    }

    /// The plan of this network for images of `height` × `width` pixels.
    pub fn plan(&self, height: usize, width: usize, padding: Padding, batch_norm: BatchNorm) -> Result<Plan> {
        let sides = 1..=LARGEST_SIDE;
        if !sides.contains(&height) || !sides.contains(&width) {
            return Err(Error::input(format!(
                "an image of {width}x{height} pixels does not suit an encoder: each side must lie between 1 and {LARGEST_SIDE}"
            )));
        }
        if !(batch_norm.epsilon > 0.0 && batch_norm.epsilon.is_finite()) {
            return Err(Error::input(format!(
                "batch norm's epsilon is {} but must be a positive number",
                batch_norm.epsilon
            )));
        }
        if !(0.0..=1.0).contains(&batch_norm.momentum) {
            return Err(Error::input(format!(
                "batch norm's momentum is {} but must lie between 0 and 1",
                batch_norm.momentum
            )));
        }
        let channels = self.image_channels();
        if !(1..=64).contains(&channels) {
            return Err(Error::input(format!("an encoder reads 1 to 64 image channels, not {channels}")));
        }
        let builder = Builder::new(Shape { height, width, channels }, padding);
        let builder = match *self {
            Self::MobileNetV2 { width } => mobilenet_v2(builder, width)?,
            Self::ResNet12 { strides, .. } => resnet12(builder, strides)?,
            Self::Conv4 { last_relu, widths, .. } => conv4(builder, last_relu, widths)?,
        };
        let readout = match self {
            Self::Conv4 { .. } => Readout::Flatten,
            Self::MobileNetV2 { .. } | Self::ResNet12 { .. } => Readout::Pool(Pooling::Mean),
        };
        Ok(builder.finish(readout, batch_norm))
    }
}

/// Repeated inverted residuals: expansion, channels at width 1, repeats, stride of the first.
pub(super) const MOBILENET_V2: [(usize, f64, usize, usize); 7] = [
    (1, 16.0, 1, 1),
    (6, 24.0, 2, 2),
    (6, 32.0, 3, 2),
    (6, 64.0, 4, 2),
    (6, 96.0, 3, 1),
    (6, 160.0, 3, 2),
    (6, 320.0, 1, 1),
];

fn mobilenet_v2(mut net: Builder, width: f64) -> Result<Builder> {
    if !(width > 0.0 && width <= LARGEST_WIDTH) {
        return Err(Error::input(format!(
            "MobileNet-V2's width is {width} but must lie above 0 and not above {LARGEST_WIDTH}"
        )));
    }
    let stem_channels = rounded_channels(32.0 * width);
    net.unit(Step {
        channels: stem_channels,
        stride: 2,
        activation: Activation::Relu6,
        ..Step::new(ConvKind::Full, "features.0.0", "features.0.1")
    });
    // The stem shares a block with the first inverted residual, which has no expansion: the full-size output of the
    // stem is the largest value of the network, and so it need not be kept. In networks of width 0.25 and less both have
    // 8 channels and the first inverted residual adds its input, which then must be the value of a block.
    if stem_channels == rounded_channels(16.0 * width) {
        net.end_block();
    }
    let mut layer = 1;
    for (expansion, channels, repeats, first_stride) in MOBILENET_V2 {
        let channels = rounded_channels(channels * width);
        for repeat in 0..repeats {
            let input = net.last();
            let from = net.shape(input).channels;
            let stride = if repeat == 0 { first_stride } else { 1 };
            let name = |part: &str| format!("features.{layer}.conv.{part}");
            let mut part = 0;
            if expansion > 1 {
                net.unit(Step {
                    channels: from * expansion,
                    activation: Activation::Relu6,
                    ..Step::new(ConvKind::Pointwise, name("0.0"), name("0.1"))
                });
                part = 1;
            }
            net.unit(Step {
                channels: from * expansion,
                stride,
                activation: Activation::Relu6,
                ..Step::new(ConvKind::Depthwise, name(&format!("{part}.0")), name(&format!("{part}.1")))
            });
            let residual = stride == 1 && from == channels;
            net.unit(Step {
                channels,
                add: residual.then_some(input),
                ..Step::new(
                    ConvKind::Pointwise,
                    name(&format!("{}", part + 1)),
                    name(&format!("{}", part + 2)),
                )
            });
            net.end_block();
            layer += 1;
        }
    }
    net.unit(Step {
        channels: rounded_channels(1280.0 * width.max(1.0)),
        activation: Activation::Relu6,
        ..Step::new(ConvKind::Pointwise, "features.18.0", "features.18.1")
    });
    net.end_block();
    Ok(net)
}

/// The nearest multiple of 8, at least 8, but never less than nine tenths of what was asked for.
fn rounded_channels(channels: f64) -> usize {
    let nearest = (((channels + 4.0) / 8.0).floor() * 8.0).max(8.0);
    let rounded = if nearest < 0.9 * channels { nearest + 8.0 } else { nearest };
    rounded as usize
}

fn resnet12(mut net: Builder, strides: [usize; 4]) -> Result<Builder> {
    for (block, (stride, channels)) in strides.into_iter().zip([32, 64, 128, 256]).enumerate() {
        if !(1..=8).contains(&stride) {
            return Err(Error::input(format!(
                "the stride of ResNet-12's block {block} is {stride} but must lie between 1 and 8"
            )));
        }
        let input = net.last();
        let step = |conv: &str, bn: &str| {
            let name = |part: &str| format!("blocks.{block}.{part}");
            Step { channels, input: Some(input), ..Step::new(ConvKind::Full, name(conv), name(bn)) }
        };
        let first = net.unit(Step { activation: Activation::Relu, ..step("conv1", "bn1") });
        let second =
            net.unit(Step { activation: Activation::Relu, input: Some(first), ..step("conv2", "bn2") });
        let shortcut = net.unit(Step { conv: ConvKind::Pointwise, ..step("shortcut.conv", "shortcut.bn") });
        net.unit(Step {
            input: Some(second),
            add: Some(shortcut),
            pool: (stride > 1).then_some(Pool { size: stride, edge: PoolEdge::Same }),
            activation: if block == 3 { Activation::None } else { Activation::Relu },
            ..step("conv3", "bn3")
        });
        net.end_block();
    }
    Ok(net)
}

fn conv4(mut net: Builder, last_relu: bool, widths: [usize; 4]) -> Result<Builder> {
    for (block, channels) in widths.into_iter().enumerate() {
        if !(1..=MOST_CHANNELS).contains(&channels) {
            return Err(Error::input(format!(
                "Conv-4's block {block} has {channels} channels but must have 1 to {MOST_CHANNELS}"
            )));
        }
        net.unit(Step {
            channels,
            pool: Some(Pool { size: 2, edge: PoolEdge::Valid }),
            activation: if block < 3 || last_relu { Activation::Relu } else { Activation::None },
            ..Step::new(ConvKind::Full, format!("blocks.{block}.conv"), format!("blocks.{block}.bn"))
        });
        net.end_block();
    }
    if net.shape(net.last()).is_empty() {
        return Err(Error::input("Conv-4 halves the image four times: each side needs 16 pixels or more"));
    }
    Ok(net)
}

/// What a unit is made from; what is left at its default reads the value before it with stride 1.
struct Step {
    conv: ConvKind,
    conv_name: String,
    norm_name: String,
    channels: usize,
    stride: usize,
    input: Option<usize>,
    add: Option<usize>,
    pool: Option<Pool>,
    activation: Activation,
}

impl Step {
    fn new(conv: ConvKind, conv_name: impl Into<String>, norm_name: impl Into<String>) -> Self {
        Self {
            conv,
            conv_name: conv_name.into(),
            norm_name: norm_name.into(),
            channels: 0,
            stride: 1,
            input: None,
            add: None,
            pool: None,
            activation: Activation::None,
        }
    }
}

/// Works out shapes, places and indices while units are added one after another.
struct Builder {
    image: Shape,
    padding: Padding,
    units: Vec<Unit>,
    blocks: Vec<std::ops::Range<usize>>,
    parameters: SpecList,
    statistics: SpecList,
}

impl Builder {
    fn new(image: Shape, padding: Padding) -> Self {
        Self {
            image,
            padding,
            units: Vec::new(),
            blocks: Vec::new(),
            parameters: SpecList::default(),
            statistics: SpecList::default(),
        }
    }

    /// Number of the newest value.
    fn last(&self) -> usize {
        self.units.len()
    }

    fn shape(&self, value: usize) -> Shape {
        if value == 0 { self.image } else { self.units[value - 1].out_shape }
    }

    /// Adds a unit and returns the number of its value.
    fn unit(&mut self, step: Step) -> usize {
        let input = step.input.unwrap_or_else(|| self.last());
        let in_shape = self.shape(input);
        let Shape { height, width, channels: from } = in_shape;
        let conv_shape = Shape {
            height: height.div_ceil(step.stride),
            width: width.div_ceil(step.stride),
            channels: step.channels,
        };
        let out_shape = step.pool.map_or(conv_shape, |pool| Shape {
            height: pool.output(conv_shape.height),
            width: pool.output(conv_shape.width),
            channels: step.channels,
        });
        let (pad, weight_shape) = match step.conv {
            ConvKind::Pointwise => ((0, 0), [step.channels, from, 1, 1]),
            ConvKind::Depthwise | ConvKind::Full => {
                let pad = |size| self.padding.before(size, step.stride);
                let from = if step.conv == ConvKind::Depthwise { 1 } else { from };
                ((pad(height.max(1)), pad(width.max(1))), [step.channels, from, 3, 3])
            }
        };
        let channels = [step.channels];
        let weight = self.parameters.push(format!("{}.weight", step.conv_name), &weight_shape);
        let gamma = self.parameters.push(format!("{}.weight", step.norm_name), &channels);
        let beta = self.parameters.push(format!("{}.bias", step.norm_name), &channels);
        let mean = self.statistics.push(format!("{}.running_mean", step.norm_name), &channels);
        let variance = self.statistics.push(format!("{}.running_var", step.norm_name), &channels);
        self.units.push(Unit {
            conv: step.conv,
            stride: step.stride,
            input,
            add: step.add,
            pool: step.pool,
            activation: step.activation,
            in_shape,
            conv_shape,
            out_shape,
            pad,
            weight,
            gamma,
            beta,
            mean,
            variance,
        });
        self.last()
    }

    /// Everything since the last block becomes a block.
    fn end_block(&mut self) {
        let start = self.blocks.last().map_or(0, |block| block.end);
        self.blocks.push(start..self.units.len());
    }

    fn finish(self, readout: Readout, batch_norm: BatchNorm) -> Plan {
        let last = self.shape(self.last());
        let features = match readout {
            Readout::Pool(_) => last.channels,
            Readout::Flatten => last.len(),
        };
        Plan {
            image: self.image,
            units: self.units,
            blocks: self.blocks,
            readout,
            features,
            padding: self.padding,
            batch_norm,
            parameters: self.parameters.finish(),
            statistics: self.statistics.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NORM: BatchNorm = BatchNorm { epsilon: 1e-3, momentum: 1e-3 };

    fn plan(architecture: Architecture, height: usize, width: usize) -> Plan {
        architecture.plan(height, width, Padding::Same, NORM).unwrap()
    }

    #[test]
    fn parameter_counts_are_the_published_ones() {
        let count =
            |architecture, height, width| plan(architecture, height, width).zero_parameters().values.len();
        assert_eq!(count(Architecture::MobileNetV2 { width: 1.0 }, 224, 224), 2_223_872);
        let rooms = Architecture::ResNet12 { channels: 4, strides: [2; 4] };
        assert_eq!(count(rooms, 120, 160), 2_001_920);
        let imagenet = Architecture::ResNet12 { channels: 3, strides: [2, 2, 2, 1] };
        assert_eq!(count(imagenet, 84, 84), 2_001_600);
        assert_eq!(count(Architecture::conv4(1, false), 28, 28), 111_680);
    }

    #[test]
    fn last_values_have_the_published_shapes() {
        let last = |architecture, height, width| {
            let Shape { height, width, channels } = plan(architecture, height, width).last_shape();
            (height, width, channels)
        };
        assert_eq!(last(Architecture::MobileNetV2 { width: 0.35 }, 224, 224), (7, 7, 1280));
        assert_eq!(last(Architecture::MobileNetV2 { width: 1.4 }, 97, 33), (4, 2, 1792));
        assert_eq!(last(Architecture::ResNet12 { channels: 4, strides: [2; 4] }, 120, 160), (8, 10, 256));
        assert_eq!(
            last(Architecture::ResNet12 { channels: 3, strides: [2, 2, 2, 1] }, 84, 84),
            (11, 11, 256)
        );
        assert_eq!(last(Architecture::conv4(1, true), 28, 28), (1, 1, 64));
        let widths = [5, 12, 20, 33];
        assert_eq!(last(Architecture::Conv4 { channels: 1, last_relu: false, widths }, 28, 28), (1, 1, 33));
    }

    #[test]
    fn channels_round_as_torchvision_rounds_them() {
        // 32·0.35 = 11.2 would round to 8, which is less than nine tenths of it.
        assert_eq!(rounded_channels(11.2), 16);
        assert_eq!(rounded_channels(1.0), 8);
        assert_eq!(rounded_channels(33.6), 32);
        assert_eq!(rounded_channels(44.8), 48);
    }

    #[test]
    fn same_padding_is_uneven_only_where_a_stride_meets_an_even_size() {
        assert_eq!(Padding::Same.before(224, 2), 0);
        assert_eq!(Padding::Same.before(7, 2), 1);
        assert_eq!(Padding::Same.before(1, 2), 1);
        assert_eq!(Padding::Same.before(224, 1), 1);
        assert_eq!(Padding::Symmetric.before(224, 2), 1);
    }

    #[test]
    fn units_read_only_their_block_and_each_value_once() {
        for architecture in [
            Architecture::MobileNetV2 { width: 0.5 },
            Architecture::MobileNetV2 { width: 0.25 },
            Architecture::ResNet12 { channels: 3, strides: [2, 2, 2, 1] },
            Architecture::conv4(3, true),
        ] {
            let plan = plan(architecture, 32, 32);
            assert_eq!(plan.blocks.last().map(|block| block.end), Some(plan.units.len()));
            for (block, units) in plan.blocks.iter().enumerate() {
                for unit in units.clone() {
                    let readable = plan.block_input(block)..=unit;
                    let Unit { input, add, .. } = plan.units[unit];
                    assert!(readable.contains(&input), "unit {unit} of {architecture} reads {input}");
                    assert!(add.is_none_or(|add| readable.contains(&add)));
                    if let Some(add) = add {
                        assert_eq!(plan.value_shape(add), plan.units[unit].conv_shape);
                    }
                    let value = unit + 1;
                    let inside = plan.units[units.clone()].iter();
                    let readers =
                        inside.filter(|unit| unit.input == value || unit.add == Some(value)).count();
                    assert_eq!(readers, usize::from(value < units.end), "value {value} of {architecture}");
                }
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = |architecture: Architecture, height, width| {
            architecture.plan(height, width, Padding::Same, NORM).unwrap_err().to_string()
        };
        assert!(refused(Architecture::MobileNetV2 { width: f64::NAN }, 32, 32).contains("width is NaN"));
        assert!(refused(Architecture::MobileNetV2 { width: 1.0 }, 0, 32).contains("32x0 pixels"));
        assert!(refused(Architecture::conv4(1, true), 15, 28).contains("16 pixels"));
        let empty = Architecture::Conv4 { channels: 1, last_relu: true, widths: [64, 0, 64, 64] };
        assert!(refused(empty, 28, 28).contains("block 1 has 0 channels"));
        assert!(refused(Architecture::ResNet12 { channels: 3, strides: [0; 4] }, 8, 8).contains("stride"));
    }
}

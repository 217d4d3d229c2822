//! Any other block: its units one after another, each held whole for a frame.
//!
//! Conv-4, ResNet-12 and the last convolution of MobileNet-V2 are of this kind. A 3×3 convolution reads a plane with a
//! border of zeros, in which the nine pixels of a window are three runs of memory: it is a product whose rows overlap
//! ([`crate::kernels::gemm`]), and nothing is laid out twice. Over images, which have too few channels for that, it is a
//! product over their windows.
//!
//! A block's frame memory holds every unit's output before batch norm (`Z`), and backward the gradients of the values
//! inside the block. Only the last unit may pool or add; its own gradient is made anew from that of the output wherever it
//! is needed, which is cheaper than holding it.

mod backward;
mod forward;

use std::ops::Range;

use super::bottleneck::{Input, filters, windows};
use super::norm::{Mixture, Norm};
use crate::kernels::Aligned;
use crate::kernels::depthwise::FILTER;
use crate::kernels::gemm::{PANEL, pack, padded, panels};
use crate::kernels::patches::Windows;
use crate::kernels::pool::MaxPool;
use crate::parameters::Parameters;
use crate::plan::{ConvKind, Plan, Shape, Unit};
use crate::{Error, Result};

/// A block of units that are held.
#[derive(Debug)]
pub(super) struct Chain {
    links: Vec<Link>,
}

/// Where a unit reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The block's input.
    Input,
    /// A unit of the block, by its place in it.
    Link(usize),
}

/// How a unit's convolution is computed.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Windows(Windows),
    Pointwise,
    Full,
    Depthwise,
}

/// One unit.
#[derive(Debug)]
struct Link {
    unit: Unit,
    kind: Kind,
    from: Source,
    add: Option<Source>,
    /// Where its `Z` begins in a frame's memory, and the gradient of its value.
    value_at: usize,
    gradient_at: usize,
    /// Whether it is the first to hand a gradient to what it reads, and whether it is the last.
    first_reader: bool,
    last_reader: bool,
    forward: Aligned,
    back: Aligned,
    filters: Vec<[f32; FILTER]>,
    norm: Norm,
    mixture: Mixture,
}

impl Chain {
    /// The block of these units.
    pub(super) fn new(plan: &Plan, units: Range<usize>) -> Result<Self> {
        let start = units.start;
        let top = units.len() - 1;
        let source =
            |value: usize| if value == start { Source::Input } else { Source::Link(value - start - 1) };
        let (mut value_at, mut gradient_at) = (0, 0);
        let mut links = Vec::new();
        for (index, unit) in plan.units[units].iter().enumerate() {
            let images = start == 0 && unit.input == 0;
            let kind = match unit.conv {
                ConvKind::Pointwise => Kind::Pointwise,
                ConvKind::Full if images => Kind::Windows(windows(unit)),
                ConvKind::Full if unit.stride == 1 => Kind::Full,
                ConvKind::Depthwise if !images => Kind::Depthwise,
                ConvKind::Full | ConvKind::Depthwise => {
                    return Err(Error::input("the CPU cannot train a strided convolution inside a network"));
                }
            };
            if index < top && (unit.add.is_some() || unit.pool.is_some()) {
                return Err(Error::input(
                    "the CPU can train an addition or a pool only at the end of a block",
                ));
            }
            let length = padded(unit.conv_shape.channels) * unit.conv_shape.pixels();
            links.push(Link {
                unit: unit.clone(),
                kind,
                from: source(unit.input),
                add: unit.add.map(source),
                value_at,
                gradient_at,
                first_reader: true,
                last_reader: true,
                forward: Aligned::default(),
                back: Aligned::default(),
                filters: Vec::new(),
                norm: Norm::default(),
                mixture: Mixture::default(),
            });
            value_at += length;
            gradient_at += if index < top { length } else { 0 };
        }
        let mut chain = Self { links };
        // Gradients are handed down from the last unit to the first.
        for index in 0..chain.links.len() {
            let from = chain.links[index].from;
            let reads = |link: &Link| link.from == from;
            chain.links[index].first_reader =
                !chain.links[index + 1..].iter().any(reads) && chain.top().add != Some(from);
            chain.links[index].last_reader = !chain.links[..index].iter().any(reads);
        }
        Ok(chain)
    }

    /// The unit whose value the last one adds, if nobody else reads it: then the addition alone makes its gradient.
    fn only_added(&self) -> Option<usize> {
        match self.top().add {
            Some(Source::Link(added)) if !self.links.iter().any(|link| link.from == Source::Link(added)) => {
                Some(added)
            }
            _ => None,
        }
    }

    fn top(&self) -> &Link {
        &self.links[self.links.len() - 1]
    }

    /// Shape of the output.
    pub(super) fn output(&self) -> Shape {
        self.top().unit.out_shape
    }

    /// Numbers of a frame that is held forward, and what more backward.
    pub(super) fn held_lengths(&self) -> (usize, usize) {
        let top = self.top();
        (top.value_at + top.length(), top.gradient_at)
    }

    /// Longest list of weight sums of a group.
    pub(super) fn sums_length(&self) -> usize {
        self.links.iter().map(Link::sums_length).max().unwrap_or(0)
    }

    /// Multiply-adds that holding a frame saves.
    pub(super) fn recomputed(&self) -> usize {
        self.links.iter().map(|link| link.unit.multiply_adds()).sum()
    }

    fn pool(&self) -> MaxPool {
        let unit = &self.top().unit;
        MaxPool {
            size: unit.pool.map_or(1, |pool| pool.size),
            input: (unit.conv_shape.height, unit.conv_shape.width),
            output: (unit.out_shape.height, unit.out_shape.width),
        }
    }
}

impl Link {
    /// Numbers of its `Z`.
    fn length(&self) -> usize {
        padded(self.unit.conv_shape.channels) * self.unit.conv_shape.pixels()
    }

    fn values(&self) -> Range<usize> {
        self.value_at..self.value_at + self.length()
    }

    fn gradients(&self) -> Range<usize> {
        self.gradient_at..self.gradient_at + self.length()
    }

    fn panels(&self) -> usize {
        panels(self.unit.conv_shape.channels)
    }

    /// Terms of one output number.
    fn depth(&self) -> usize {
        match self.kind {
            Kind::Windows(windows) => windows.depth(),
            Kind::Pointwise => self.unit.in_shape.channels,
            Kind::Full => 9 * padded(self.unit.in_shape.channels),
            Kind::Depthwise => 9,
        }
    }

    fn sums_length(&self) -> usize {
        padded(self.unit.conv_shape.channels) * self.depth()
    }

    /// Where the weight of term `k` towards output `n` lies in PyTorch's order; terms that only fill up a panel have none.
    fn weight_index(&self, k: usize, n: usize) -> Option<usize> {
        let channels = self.unit.in_shape.channels;
        match self.kind {
            Kind::Windows(_) => Some((n * channels + k % channels) * 9 + k / channels),
            Kind::Pointwise => Some(n * channels + k),
            Kind::Full => {
                let (tap, channel) = (k / PANEL % 9, k / (9 * PANEL) * PANEL + k % PANEL);
                (channel < channels).then_some((n * channels + channel) * 9 + tap)
            }
            Kind::Depthwise => Some(n * 9 + k),
        }
    }

    /// Puts the weights into the orders in which they are needed.
    fn take_weights(&mut self, parameters: &Parameters) {
        let weight = parameters.tensor(self.unit.weight);
        let (channels, out, depth) =
            (self.unit.in_shape.channels, self.unit.conv_shape.channels, self.depth());
        if let Kind::Depthwise = self.kind {
            self.filters = filters(weight, out);
            return;
        }
        let at = |k: usize, n: usize| self.weight_index(k, n).map_or(0.0, |index| weight[index]);
        let forward = pack(depth, out, at);
        self.back = match self.kind {
            // Towards the input the window is turned round.
            Kind::Full => pack(9 * padded(out), channels, |k, n| {
                let (tap, channel) = (8 - k / PANEL % 9, k / (9 * PANEL) * PANEL + k % PANEL);
                if channel < out { weight[(channel * channels + n) * 9 + tap] } else { 0.0 }
            }),
            Kind::Windows(_) | Kind::Pointwise | Kind::Depthwise => pack(out, depth, |k, n| at(n, k)),
        };
        self.forward = forward;
    }

    /// Puts summed weight gradients, `[panel][depth][16]`, into PyTorch's order.
    fn store_gradient(&self, sums: &[f32], gradients: &mut Parameters) {
        let depth = self.depth();
        let weight = gradients.tensor_mut(self.unit.weight);
        for n in 0..self.unit.conv_shape.channels {
            for k in 0..depth {
                if let Some(index) = self.weight_index(k, n) {
                    weight[index] = sums[(n / PANEL * depth + k) * PANEL + n % PANEL];
                }
            }
        }
    }
}

/// A plane of panels with one line and one column of zeros around it.
#[derive(Clone, Copy, Debug)]
struct Border {
    height: usize,
    width: usize,
    /// Zero lines above and zero columns to the left.
    pad: (usize, usize),
    /// Distances of lines and of panels.
    line: usize,
    panel: usize,
}

impl Border {
    /// The border of a 3×3 convolution with stride 1.
    fn of(shape: Shape) -> Self {
        Self::new(shape, (1, 1), shape.height + 2, shape.width + 2)
    }

    fn new(shape: Shape, pad: (usize, usize), lines: usize, columns: usize) -> Self {
        let line = columns * PANEL;
        Self { height: shape.height, width: shape.width, pad, line, panel: lines * line }
    }

    /// Writes the border's zeros, in all panels.
    fn clear(&self, plane: &mut [f32]) {
        for plane in plane.chunks_exact_mut(self.panel) {
            let lines = self.pad.0..self.pad.0 + self.height;
            plane[..lines.start * self.line].fill(0.0);
            plane[lines.end * self.line..].fill(0.0);
            for line in plane[lines.start * self.line..lines.end * self.line].chunks_exact_mut(self.line) {
                line[..self.pad.1 * PANEL].fill(0.0);
                line[(self.pad.1 + self.width) * PANEL..].fill(0.0);
            }
        }
    }

    /// Calls `each(pixels of a line inside the plane, where they lie without a border)` for every line of a panel.
    fn lines(&self, panel: usize, plane: &mut [f32], mut each: impl FnMut(&mut [f32], Range<usize>)) {
        let count = self.width * PANEL;
        for y in 0..self.height {
            let to = panel * self.panel + (y + self.pad.0) * self.line + self.pad.1 * PANEL;
            let from = (panel * self.height + y) * count;
            each(&mut plane[to..to + count], from..from + count);
        }
    }

    /// Where the first pixel inside lies.
    fn origin(&self) -> usize {
        self.pad.0 * self.line + self.pad.1 * PANEL
    }

    /// The pieces of a window of `channels` channels: three lines of three pixels in every panel.
    fn window_segments(&self, channels: usize) -> Vec<usize> {
        (0..panels(channels) * 3).map(|index| index / 3 * self.panel + index % 3 * self.line).collect()
    }
}

/// The block's input, frame by frame, without a centre.
impl Input<'_> {
    /// All pixels of a frame as panels.
    fn load_frame(&self, frame: usize, shape: Shape, to: &mut [f32]) {
        match self {
            Input::Images(images) => {
                let image = &images[frame * shape.len()..(frame + 1) * shape.len()];
                crate::kernels::patches::to_panels(image, shape.channels, to);
            }
            Input::Kept(kept) => kept.load(frame, 0..shape.pixels(), None, to),
        }
    }
}

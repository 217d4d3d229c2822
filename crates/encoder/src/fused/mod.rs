//! The CPU's training executor: MobileNet-V2 in a fraction of the memory and time of an autograd graph.
//!
//! Everything is arranged around two facts. Batch norm's statistics are over all frames of a call, so every unit is a pass
//! over all of them; and memory is slow beside arithmetic, so what can be computed again from something small is not
//! stored. Within a pass frames run in parallel ([`workers`]); within a frame a block works on bands of lines that stay
//! in the second cache. Two kinds of blocks do the work, the [`bottleneck`], which is MobileNet-V2's and the reason for
//! this executor, and the [`chain`], which is every other.
//!
//! Between forward and backward only block outputs are kept ([`kept`]). If the memory budget allows, the one tensor of a
//! block that is dearest to compute again is held as well, and during a block's own passes what they share, for as many
//! frames as fit; the other frames compute it again. Where everything lies is settled before a call begins
//! ([`memory`], [`layout`]).
//!
//! Results depend neither on threads nor on the budget, bit for bit: sums are taken in fixed groups of frames, and what is
//! computed again is computed the same way.

mod bottleneck;
mod chain;
mod kept;
mod layout;
mod memory;
mod norm;
mod second;
mod workers;

use std::ops::Range;
use std::sync::Arc;

use bottleneck::{Bottleneck, Input};
use chain::Chain;
use kept::Kept;
use layout::{BlockPlaces, Layout};
use memory::Arena;
use workers::{Frames, Group, Workers};

use super::plan::{Plan, Pooling, Readout, Shape};
use super::{NormMode, Parameters, Statistics, Storage, TrainingEncoder, TrainingOptions};

use crate::kernels::gemm::{PANEL, padded};
use crate::kernels::norm::sums;
use crate::kernels::pool::weighted_sum;
use crate::{Error, Result};

/// No place in the arena.
const NONE: Range<usize> = 0..0;

/// A plan that trains on the CPU.
#[derive(Debug)]
pub struct Fused {
    plan: Arc<Plan>,
    options: TrainingOptions,
    workers: Workers,
    threads: usize,
    blocks: Vec<Block>,
    groups: Vec<Group>,
    arena: Arena,
    layout: Option<Layout>,
    /// Mode of the forward call that a backward call may follow.
    forward_mode: Option<NormMode>,
}

#[derive(Debug)]
enum Block {
    Bottleneck(Box<Bottleneck>),
    Chain(Chain),
}

/// What all passes of a call share.
struct Call<'a> {
    plan: &'a Plan,
    parameters: &'a Parameters,
    images: &'a [f32],
    count: usize,
    mode: NormMode,
    storage: Storage,
    workers: &'a Workers,
    groups: &'a mut [Group],
    arena: &'a mut Arena,
}

/// A block's tensors, and how its input is to be read.
struct Reading<'a> {
    places: &'a BlockPlaces,
    input: Shape,
    /// Batch norm that the input still lacks.
    norm: Option<(&'a [f32], &'a [f32])>,
}

impl Reading<'_> {
    fn kept<'t>(&'t self, numbers: &'t [f32], images: &'t [f32], storage: Storage) -> Input<'t> {
        if self.places.input.is_empty() {
            return Input::Images(images);
        }
        let Shape { channels, .. } = self.input;
        Input::Kept(Kept { numbers, storage, pixels: self.input.pixels(), channels, norm: self.norm })
    }

    /// The block's input alone.
    fn input<'t>(&'t self, arena: &'t Arena, images: &'t [f32], storage: Storage) -> Input<'t> {
        self.kept(arena.get(&self.places.input), images, storage)
    }

    /// The block's input, and other tensors to be written.
    fn open<'t>(
        &'t self,
        arena: &'t mut Arena,
        images: &'t [f32],
        storage: Storage,
        [a, b, c, d]: [&Range<usize>; 4],
    ) -> (Input<'t>, [&'t mut [f32]; 4]) {
        let [input, a, b, c, d] = arena.split([&self.places.input, a, b, c, d]);
        (self.kept(input, images, storage), [a, b, c, d])
    }

    /// The same with the gradient of the input.
    fn open_backward<'t>(
        &'t self,
        arena: &'t mut Arena,
        images: &'t [f32],
        storage: Storage,
        [a, b, c, d]: [&Range<usize>; 4],
    ) -> (Input<'t>, [&'t mut [f32]; 4], &'t mut [f32]) {
        let [input, a, b, c, d, d_input] =
            arena.split([&self.places.input, a, b, c, d, &self.places.d_input]);
        (self.kept(input, images, storage), [a, b, c, d], d_input)
    }
}

impl Block {
    fn new(plan: &Plan, units: Range<usize>) -> Result<Self> {
        match Bottleneck::recognise(plan, units.clone()) {
            Some(bottleneck) => Ok(Self::Bottleneck(Box::new(bottleneck))),
            None => Ok(Self::Chain(Chain::new(plan, units)?)),
        }
    }

    fn output(&self) -> Shape {
        match self {
            Self::Bottleneck(block) => block.output(),
            Self::Chain(block) => block.output(),
        }
    }

    /// Batch norm that the kept output still lacks.
    fn output_norm(&self) -> Option<(&[f32], &[f32])> {
        match self {
            Self::Bottleneck(block) if !block.residual() => Some(block.output_norm()),
            Self::Bottleneck(_) | Self::Chain(_) => None,
        }
    }
}

impl Fused {
    /// An executor of `plan` on `threads` threads (0 takes as many as the machine has).
    pub fn new(plan: Arc<Plan>, options: TrainingOptions, threads: usize) -> Result<Self> {
        if options.frozen_blocks > plan.blocks.len() {
            return Err(Error::input(format!(
                "{} blocks cannot be frozen: the encoder has {}",
                options.frozen_blocks,
                plan.blocks.len()
            )));
        }
        let blocks =
            plan.blocks.iter().map(|units| Block::new(&plan, units.clone())).collect::<Result<Vec<_>>>()?;
        let workers = Workers::new(threads)?;
        Ok(Self {
            plan,
            options,
            threads: workers.threads(),
            workers,
            blocks,
            groups: Vec::new(),
            arena: Arena::default(),
            layout: None,
            forward_mode: None,
        })
    }

    /// The plan that is executed.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Bytes that are held between calls.
    pub fn held_bytes(&self) -> usize {
        self.arena.bytes()
    }

    fn check(&self, parameters: &Parameters, images: &[f32], count: usize) -> Result<()> {
        if parameters.specs() != &**self.plan.parameter_specs() {
            return Err(Error::input("the parameters are those of another encoder"));
        }
        if count == 0 || images.len() != count * self.plan.image.len() {
            let Shape { height, width, channels } = self.plan.image;
            return Err(Error::input(format!(
                "{count} images of {height}x{width}x{channels} were announced but {} numbers came",
                images.len()
            )));
        }
        Ok(())
    }

    /// Settles where everything lies for calls of `count` images.
    fn prepare(&mut self, count: usize) -> Result<()> {
        if self.layout.as_ref().is_some_and(|layout| layout.count == count) {
            return Ok(());
        }
        self.layout = None;
        self.groups = workers::deal(count);
        let layout =
            Layout::new(&self.blocks, &self.plan, &self.options, count, self.groups.len(), self.threads)?;
        self.arena.reserve(layout.total);
        self.layout = Some(layout);
        Ok(())
    }

    /// The last value, averaged over its pixels or as it is.
    fn read_out(&mut self, layout: &Layout, count: usize, features: &mut [f32]) {
        let Some((last, places)) = self.blocks.last().zip(layout.forward.last()) else { return };
        let shape = last.output();
        let value = Kept {
            numbers: self.arena.get(&layout.last),
            storage: self.options.storage,
            pixels: shape.pixels(),
            channels: shape.channels,
            norm: last.output_norm(),
        };
        debug_assert!(!places.out.is_empty() || !places.pre.is_empty());
        let readout = self.plan.readout;
        let shares = shares_of(readout, shape);
        let views = Frames::deal(features, features_of(readout, shape), &self.groups);
        self.workers.run(&mut self.groups, views, |group, mut features, scratch| {
            for frame in group.frames.clone() {
                let Some(features) = features.get(frame) else { unreachable!("every frame has features") };
                let ([panels], ..) = scratch.parts([padded(shape.channels) * shape.pixels()]);
                value.load(frame, 0..shape.pixels(), None, panels);
                match readout {
                    Readout::Pool(pooling) => {
                        let planes = panels.chunks_exact(shape.pixels() * PANEL);
                        for (features, plane) in features.chunks_mut(PANEL).zip(planes) {
                            let pooled = match pooling {
                                Pooling::Mean => sums(plane).map(|sum| sum / shape.pixels() as f32),
                                Pooling::Centre => weighted_sum(plane, &shares),
                            };
                            features.copy_from_slice(&pooled[..features.len()]);
                        }
                    }
                    Readout::Flatten => {
                        features.fill(0.0);
                        crate::kernels::patches::add_from_panels(panels, shape.channels, features);
                    }
                }
            }
        });
        debug_assert_eq!(count * features_of(readout, shape), self.plan.features * count);
    }

    /// The gradient of the last value, from that of the features.
    fn read_out_backward(&mut self, place: &Range<usize>, d_features: &[f32]) {
        let Some(shape) = self.blocks.last().map(Block::output) else { return };
        let readout = self.plan.readout;
        let (length, shares) = (features_of(readout, shape), shares_of(readout, shape));
        let [d_output] = self.arena.split([place]);
        let views = Frames::deal(d_output, padded(shape.channels) * shape.pixels(), &self.groups);
        self.workers.run(&mut self.groups, views, |group, mut d_output, _| {
            for frame in group.frames.clone() {
                let Some(d_output) = d_output.get(frame) else { unreachable!("every frame has a gradient") };
                let d_features = &d_features[frame * length..(frame + 1) * length];
                match readout {
                    Readout::Pool(pooling) => {
                        let planes = d_output.chunks_exact_mut(shape.pixels() * PANEL);
                        for (d_features, plane) in d_features.chunks(PANEL).zip(planes) {
                            let mut d = [0.0; PANEL];
                            d[..d_features.len()].copy_from_slice(d_features);
                            let pixels = plane.as_chunks_mut::<PANEL>().0;
                            match pooling {
                                Pooling::Mean => pixels.fill(d.map(|d| d / shape.pixels() as f32)),
                                Pooling::Centre => {
                                    let shared = pixels.iter_mut().zip(&shares);
                                    shared.for_each(|(pixel, share)| *pixel = d.map(|d| d * share));
                                }
                            }
                        }
                    }
                    Readout::Flatten => {
                        crate::kernels::patches::to_panels(d_features, shape.channels, d_output);
                    }
                }
            }
        });
    }
}

/// Length of a feature vector.
fn features_of(readout: Readout, shape: Shape) -> usize {
    match readout {
        Readout::Pool(_) => shape.channels,
        Readout::Flatten => shape.len(),
    }
}

/// The shares of the pixels, where they differ.
fn shares_of(readout: Readout, shape: Shape) -> Vec<f32> {
    match readout {
        Readout::Pool(Pooling::Centre) => Pooling::Centre.shares(shape),
        Readout::Pool(Pooling::Mean) | Readout::Flatten => Vec::new(),
    }
}

impl TrainingEncoder for Fused {
    fn forward(
        &mut self,
        parameters: &Parameters,
        statistics: &mut Statistics,
        images: &[f32],
        count: usize,
        norm: NormMode,
        features: &mut [f32],
    ) -> Result<()> {
        self.check(parameters, images, count)?;
        if statistics.specs() != &**self.plan.statistic_specs() {
            return Err(Error::input("the statistics are those of another encoder"));
        }
        if features.len() != count * self.plan.features {
            return Err(Error::input(format!(
                "{count} images make {} features but there is room for {}",
                count * self.plan.features,
                features.len()
            )));
        }
        self.forward_mode = None;
        self.prepare(count)?;
        let Some(layout) = self.layout.take() else { unreachable!("just prepared") };
        let mut call = Call {
            plan: &self.plan,
            parameters,
            images,
            count,
            mode: norm,
            storage: self.options.storage,
            workers: &self.workers,
            groups: &mut self.groups,
            arena: &mut self.arena,
        };
        for (index, places) in layout.forward.iter().enumerate() {
            let (before, rest) = self.blocks.split_at_mut(index);
            let norm = before.last().and_then(Block::output_norm);
            let input = before.last().map_or(self.plan.image, Block::output);
            let reading = Reading { places, input, norm };
            match &mut rest[0] {
                Block::Bottleneck(block) => block.forward(&mut call, statistics, &reading),
                Block::Chain(block) => block.forward(&mut call, statistics, &reading),
            }
        }
        self.read_out(&layout, count, features);
        self.layout = Some(layout);
        self.forward_mode = Some(norm);
        Ok(())
    }

    fn backward(
        &mut self,
        parameters: &Parameters,
        images: &[f32],
        d_features: &[f32],
        gradients: &mut Parameters,
        mut d_images: Option<&mut [f32]>,
    ) -> Result<()> {
        let (Some(mode), Some(layout)) = (self.forward_mode.take(), self.layout.take()) else {
            return Err(Error::input("a backward pass needs a forward pass before it, and each only once"));
        };
        let outcome = self.check(parameters, images, layout.count).and_then(|()| {
            let frozen = self.options.frozen_blocks;
            if gradients.specs() != parameters.specs() {
                return Err(Error::input("the gradients are those of another encoder"));
            }
            if d_features.len() != layout.count * self.plan.features {
                return Err(Error::input(format!(
                    "the gradient of {} features was expected but {} numbers came",
                    layout.count * self.plan.features,
                    d_features.len()
                )));
            }
            if d_images.is_some() && frozen > 0 {
                return Err(Error::input("the gradient of the images cannot be had when blocks are frozen"));
            }
            if d_images.as_ref().is_some_and(|d_images| d_images.len() != images.len()) {
                return Err(Error::input("the gradient of the images needs as much room as the images"));
            }
            gradients.values.fill(0.0);
            let Some(last) = layout.backward.get(frozen..).and_then(<[_]>::last) else { return Ok(()) };
            self.read_out_backward(&last.d_output, d_features);
            let mut call = Call {
                plan: &self.plan,
                parameters,
                images,
                count: layout.count,
                mode,
                storage: self.options.storage,
                workers: &self.workers,
                groups: &mut self.groups,
                arena: &mut self.arena,
            };
            for (index, places) in layout.backward.iter().enumerate().skip(frozen).rev() {
                let (before, rest) = self.blocks.split_at_mut(index);
                let norm = before.last().and_then(Block::output_norm);
                let input = before.last().map_or(self.plan.image, Block::output);
                let reading = Reading { places, input, norm };
                let d_images = if index == 0 { d_images.take() } else { None };
                match &mut rest[0] {
                    Block::Bottleneck(block) => block.backward(&mut call, &reading, gradients, d_images),
                    Block::Chain(block) => block.backward(&mut call, &reading, gradients, d_images),
                }
            }
            Ok(())
        });
        self.layout = Some(layout);
        outcome
    }
}

/// Numbers that a thread's buffers take at most, roughly: bands, and one frame's memory.
fn scratch_numbers(blocks: &[Block]) -> usize {
    let band = 4 << 20;
    let frame = blocks.iter().map(|block| block.held_lengths().0 + block.held_lengths().1).max().unwrap_or(0);
    band / size_of::<f32>() + frame
}

impl Block {
    fn held_lengths(&self) -> (usize, usize) {
        match self {
            Self::Bottleneck(block) => block.held_lengths(),
            Self::Chain(block) => block.held_lengths(),
        }
    }

    fn sums_length(&self) -> usize {
        match self {
            Self::Bottleneck(block) => block.sums_length(),
            Self::Chain(block) => block.sums_length(),
        }
    }

    fn recomputed(&self) -> usize {
        match self {
            Self::Bottleneck(block) => block.recomputed(),
            Self::Chain(block) => block.recomputed(),
        }
    }
}

#[cfg(test)]
mod tests;

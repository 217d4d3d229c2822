//! How a window is fitted into the memory budget: frames worked on at a time, and frames whose values are held.
//!
//! Four things take memory. The *kept* block outputs of all frames and the *gradients* with respect to one block's
//! input and output, for all frames, are needed whatever happens. *Scratch* holds one chunk of frames inside a block; its
//! room decides the chunk. What is left *holds* values inside a block over all its passes, for as many frames as it can;
//! for the others they are computed again. Each block has its own two numbers: the first blocks have large images and
//! get small chunks, the last ones take all frames at once.

use std::ops::Range;

use crate::plan::{Activation, ConvKind, Plan, Unit};
use crate::{Error, Result};
use crate::{Storage, TrainingOptions};

/// How the value of a unit is used inside its block. Every value inside a block is read exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consumer {
    /// It is the value of the block.
    Outside,
    /// The unit at this place in the block convolves it.
    Convolved(usize),
    /// The unit at this place in the block adds it.
    Added(usize),
}

/// What the executor has to know of a block, by the place of a unit in it.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) units: Range<usize>,
    pub(super) consumers: Vec<Consumer>,
    /// Whether the convolution's output is held. An expansion's is not: it is the largest value of its block and comes
    /// cheaply from the block input.
    pub(super) holds_z: Vec<bool>,
    /// Whether the gradient with respect to the unit's value is held. It is not where a depthwise convolution reads the
    /// value: nine products a number cost no more than reading it back.
    pub(super) holds_gradient: Vec<bool>,
}

impl Block {
    fn new(plan: &Plan, units: Range<usize>) -> Self {
        let inside = &plan.units[units.clone()];
        let consumers: Vec<Consumer> = (units.start + 1..=units.end)
            .map(|value| {
                let convolved = inside.iter().position(|unit| unit.input == value).map(Consumer::Convolved);
                let added = inside.iter().position(|unit| unit.add == Some(value)).map(Consumer::Added);
                convolved.or(added).unwrap_or(Consumer::Outside)
            })
            .collect();
        let depthwise_reads = |consumer: &Consumer| matches!(consumer, Consumer::Convolved(at) if inside[*at].conv == ConvKind::Depthwise);
        let holds_z = inside
            .iter()
            .zip(&consumers)
            .map(|(unit, consumer)| unit.conv != ConvKind::Pointwise || !depthwise_reads(consumer))
            .collect();
        let holds_gradient = consumers
            .iter()
            .map(|consumer| matches!(consumer, Consumer::Convolved(_)) && !depthwise_reads(consumer))
            .collect();
        Self { units, consumers, holds_z, holds_gradient }
    }
}

/// Whether pool and activation must be undone before batch norm can be: where a pool or an addition stands between.
pub(super) fn has_tail(unit: &Unit) -> bool {
    unit.pool.is_some() || (unit.add.is_some() && unit.activation != Activation::None)
}

/// Numbers that a buffer needs, by what it is for; `per_unit` by the place of the unit in its block.
#[derive(Clone, Debug, Default)]
pub(super) struct Sizes {
    pub(super) input: usize,
    pub(super) columns: usize,
    pub(super) features: usize,
    pub(super) image_gradient: usize,
    pub(super) per_unit: Vec<UnitSizes>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnitSizes {
    pub(super) z: usize,
    pub(super) value: usize,
    pub(super) gradient: usize,
    pub(super) tail_gradient: usize,
    pub(super) dz: usize,
}

impl Sizes {
    /// Scratch that one frame of a block needs.
    fn of_frame(plan: &Plan, block: &Block) -> Self {
        let inside = &plan.units[block.units.clone()];
        let per_unit = inside.iter().zip(&block.consumers).map(|(unit, consumer)| UnitSizes {
            z: unit.conv_shape.len(),
            value: unit.out_shape.len(),
            gradient: if matches!(consumer, Consumer::Convolved(_)) { unit.out_shape.len() } else { 0 },
            tail_gradient: if has_tail(unit) { unit.conv_shape.len() } else { 0 },
            dz: unit.conv_shape.len(),
        });
        let full = inside.iter().filter(|unit| unit.conv == ConvKind::Full);
        let columns = full.map(|unit| unit.conv_shape.pixels() * 9 * unit.in_shape.channels).max();
        Self {
            input: plan.value_shape(block.units.start).len(),
            columns: columns.unwrap_or(0),
            features: if block.units.end == plan.units.len() { plan.features } else { 0 },
            image_gradient: if block.units.start == 0 { plan.image.len() } else { 0 },
            per_unit: per_unit.collect(),
        }
    }

    fn numbers(&self) -> Vec<usize> {
        let per_unit = self
            .per_unit
            .iter()
            .flat_map(|unit| [unit.z, unit.value, unit.gradient, unit.tail_gradient, unit.dz]);
        [self.input, self.columns, self.features, self.image_gradient].into_iter().chain(per_unit).collect()
    }

    fn from_numbers(numbers: &[usize]) -> Self {
        let per_unit = numbers[4..].as_chunks::<5>().0.iter();
        let per_unit = per_unit.map(|&[z, value, gradient, tail_gradient, dz]| UnitSizes {
            z,
            value,
            gradient,
            tail_gradient,
            dz,
        });
        Self {
            input: numbers[0],
            columns: numbers[1],
            features: numbers[2],
            image_gradient: numbers[3],
            per_unit: per_unit.collect(),
        }
    }
}

/// One group of frames that a block works on at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chunk {
    /// Number of the chunk in its block.
    pub(super) index: usize,
    /// Its first frame.
    pub(super) first: usize,
    /// How many frames it has.
    pub(super) frames: usize,
    /// Whether values of these frames are held over the passes of the block.
    pub(super) resident: bool,
}

/// The outcome: blocks with their chunks, and the size of every buffer.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) count: usize,
    pub(super) blocks: Vec<Block>,
    /// Frames in a chunk of each block.
    pub(super) chunk: Vec<usize>,
    /// Frames of each block, the first ones, whose values are held.
    pub(super) resident: Vec<usize>,
    pub(super) scratch: Sizes,
    /// Sizes of the held outputs of convolutions and gradients, by the place of the unit in its block.
    pub(super) held: Vec<(usize, usize)>,
    /// Buffer that takes the output of each block but the last, and the sizes of those buffers.
    pub(super) kept_slot: Vec<usize>,
    pub(super) kept: Vec<usize>,
    /// Size of the images, which lie beside the budget.
    pub(super) images: usize,
    /// Sizes of the two buffers that take turns as the gradient with respect to a block's output and input.
    pub(super) gradients: [usize; 2],
}

/// Beyond this much scratch, larger chunks no longer make anything faster.
const MOST_SCRATCH: usize = 512 << 20;

impl Layout {
    pub(super) fn new(
        plan: &Plan,
        count: usize,
        options: TrainingOptions,
        value_bytes: usize,
    ) -> Result<Self> {
        let blocks: Vec<Block> = plan.blocks.iter().map(|units| Block::new(plan, units.clone())).collect();
        let (kept_slot, kept) = kept_slots(plan, count, options.frozen_blocks);
        let gradients = gradient_sizes(plan, count, options.frozen_blocks);
        let kept_bytes = match options.storage {
            Storage::F32 => 4,
            Storage::F16 | Storage::Bf16 => 2,
        };
        let fixed = kept.iter().sum::<usize>() * kept_bytes + gradients.iter().sum::<usize>() * value_bytes;

        let frame: Vec<Vec<usize>> =
            blocks.iter().map(|block| Sizes::of_frame(plan, block).numbers()).collect();
        let least = buffer_sizes(&frame, &vec![1; blocks.len()]).iter().sum::<usize>() * value_bytes;
        let Some(free) = options.memory_budget.checked_sub(fixed).filter(|&free| free >= least) else {
            let mebibytes = |bytes: usize| bytes.div_ceil(1 << 20);
            return Err(Error::input(format!(
                "a memory budget of {} MiB is too small: {count} frames of {}x{} pixels need at least {} MiB",
                options.memory_budget >> 20,
                plan.image.width,
                plan.image.height,
                mebibytes(fixed + least)
            )));
        };
        let room = (free / 3).min(MOST_SCRATCH).max(least) / value_bytes;
        let (chunk, scratch) = fit(&frame, count, room, 1);
        let held_room = free / value_bytes - scratch.iter().sum::<usize>();
        let held_frame: Vec<Vec<usize>> = blocks.iter().map(|block| held_numbers(plan, block)).collect();
        let (mut resident, _) = fit(&held_frame, count, held_room, 0);
        for (resident, &chunk) in resident.iter_mut().zip(&chunk) {
            if *resident < count {
                *resident -= *resident % chunk;
            }
        }
        let held = buffer_sizes(&held_frame, &resident);
        Ok(Self {
            images: count * plan.image.len(),
            count,
            blocks,
            chunk,
            resident,
            scratch: Sizes::from_numbers(&scratch),
            held: held.as_chunks::<2>().0.iter().map(|&[z, gradient]| (z, gradient)).collect(),
            kept_slot,
            kept,
            gradients,
        })
    }

    /// The chunks of a block, in the order of the frames.
    pub(super) fn chunks(&self, block: usize) -> impl Iterator<Item = Chunk> + use<> {
        let (count, chunk, resident) = (self.count, self.chunk[block], self.resident[block]);
        (0..count.div_ceil(chunk)).map(move |index| {
            let first = index * chunk;
            let frames = chunk.min(count - first);
            Chunk { index, first, frames, resident: first + frames <= resident }
        })
    }
}

/// Where block outputs go. The output of a block below the lowest trained one is read by the next block and then never
/// again, so those outputs take turns in two buffers.
fn kept_slots(plan: &Plan, count: usize, frozen_blocks: usize) -> (Vec<usize>, Vec<usize>) {
    let mut slots = Vec::new();
    let mut sizes = vec![0; 2];
    for block in 0..plan.blocks.len().saturating_sub(1) {
        let size = count * plan.value_shape(plan.block_output(block)).len();
        if block + 1 < frozen_blocks {
            slots.push(block % 2);
            sizes[block % 2] = size.max(sizes[block % 2]);
        } else {
            slots.push(sizes.len());
            sizes.push(size);
        }
    }
    (slots, sizes)
}

/// The gradient with respect to the output of block `b` lies in buffer `b % 2`.
fn gradient_sizes(plan: &Plan, count: usize, frozen_blocks: usize) -> [usize; 2] {
    let mut sizes = [0; 2];
    for block in frozen_blocks..plan.blocks.len() {
        let output = count * plan.value_shape(plan.block_output(block)).len();
        sizes[block % 2] = output.max(sizes[block % 2]);
    }
    sizes
}

fn held_numbers(plan: &Plan, block: &Block) -> Vec<usize> {
    let units = plan.units[block.units.clone()].iter().enumerate();
    units
        .flat_map(|(at, unit)| {
            let z = if block.holds_z[at] { unit.conv_shape.len() } else { 0 };
            let gradient = if block.holds_gradient[at] { unit.out_shape.len() } else { 0 };
            [z, gradient]
        })
        .collect()
}

/// Sizes of buffers that serve all blocks in turn, when block `b` puts `frames[b]` frames into them.
fn buffer_sizes(per_frame: &[Vec<usize>], frames: &[usize]) -> Vec<usize> {
    let most = per_frame.iter().map(Vec::len).max().unwrap_or(0);
    let mut sizes = vec![0; most];
    for (numbers, frames) in per_frame.iter().zip(frames) {
        for (size, number) in sizes.iter_mut().zip(numbers) {
            *size = (number * frames).max(*size);
        }
    }
    sizes
}

/// As many frames for each block as the buffers may have `room` for in total, from `least` to `count`.
fn fit(per_frame: &[Vec<usize>], count: usize, room: usize, least: usize) -> (Vec<usize>, Vec<usize>) {
    // Buffers are shared by the blocks, each as large as the most demanding one makes it. So together they can come out
    // larger than any one block asks for, and the aim is lowered until they fit.
    let mut aim = room;
    loop {
        let frames: Vec<usize> = per_frame
            .iter()
            .map(|numbers| (aim / numbers.iter().sum::<usize>().max(1)).clamp(least, count))
            .collect();
        let sizes = buffer_sizes(per_frame, &frames);
        if aim == 0 || sizes.iter().sum::<usize>() <= room {
            return (frames, sizes);
        }
        aim -= aim.div_ceil(16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Architecture, BatchNorm, Padding};

    fn mobilenet() -> Plan {
        let batch_norm = BatchNorm { epsilon: 1e-3, momentum: 0.1 };
        Architecture::MobileNetV2 { width: 1.0 }.plan(224, 224, Padding::Same, batch_norm).unwrap()
    }

    fn bytes(layout: &Layout) -> usize {
        let held: usize = layout.held.iter().map(|(z, gradient)| z + gradient).sum();
        let scratch: usize = layout.scratch.numbers().iter().sum();
        4 * (layout.kept.iter().sum::<usize>() + layout.gradients.iter().sum::<usize>() + held + scratch)
    }

    #[test]
    fn the_budget_is_kept_and_used() {
        let plan = mobilenet();
        for mebibytes in [700, 1000, 1500, 4000] {
            let memory_budget = mebibytes << 20;
            let options = TrainingOptions { memory_budget, ..TrainingOptions::default() };
            let layout = Layout::new(&plan, 150, options, 4).unwrap();
            assert!(bytes(&layout) <= memory_budget, "{} of {mebibytes} MiB", bytes(&layout) >> 20);
            let everything_held = layout.resident.iter().all(|&resident| resident == 150);
            assert!(everything_held || bytes(&layout) > memory_budget / 10 * 8);
        }
    }

    #[test]
    fn every_frame_is_in_one_chunk_and_residents_come_first() {
        let options = TrainingOptions { memory_budget: 800 << 20, ..TrainingOptions::default() };
        let layout = Layout::new(&mobilenet(), 149, options, 4).unwrap();
        assert!(layout.resident[0] < 149, "the budget of this test should not hold block 0 whole");
        for block in 0..layout.blocks.len() {
            let mut next = 0;
            for chunk in layout.chunks(block) {
                assert_eq!(chunk.first, next);
                next += chunk.frames;
                assert_eq!(chunk.resident, next <= layout.resident[block]);
            }
            assert_eq!(next, 149);
        }
    }

    #[test]
    fn a_budget_that_cannot_do_is_refused_with_one_that_can() {
        let plan = mobilenet();
        let options = TrainingOptions { memory_budget: 100 << 20, ..TrainingOptions::default() };
        let message = Layout::new(&plan, 150, options, 4).unwrap_err().to_string();
        let enough: usize = message.split(' ').rev().nth(1).unwrap().parse().unwrap();
        let options = TrainingOptions { memory_budget: enough << 20, ..options };
        assert!(Layout::new(&plan, 150, options, 4).is_ok(), "{message}");
    }

    #[test]
    fn frozen_blocks_take_turns_in_two_buffers() {
        let plan = mobilenet();
        let options = TrainingOptions { frozen_blocks: 15, ..TrainingOptions::default() };
        let layout = Layout::new(&plan, 10, options, 4).unwrap();
        assert_eq!(layout.kept_slot[..14], [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(layout.kept_slot[14..], [2, 3, 4]);
    }
}

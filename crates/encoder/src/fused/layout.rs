//! What is kept and held by whom, for how many frames, under a memory budget.
//!
//! Time is counted in steps: block `b` runs forward at step `b` and backward at step `2·blocks − 1 − b`. Three things are
//! decided in this order. Block outputs and gradients between blocks must fit, or the budget is refused. What the passes of
//! one block share is held for as many frames as fit beside them, during that block's step. And with what is then left, a
//! block's forward values are held until its backward step, first where that saves the most work for the memory.

use std::ops::Range;

use super::kept::frame_length;
use super::memory::{Lifetime, peak, place};
use super::{Block, NONE, Storage, TrainingOptions, scratch_numbers};
use crate::kernels::gemm::padded;
use crate::plan::Plan;
use crate::{Error, Result};

/// Where one block's tensors lie during one of its two steps; empty where there is none.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockPlaces {
    /// The output of the block before.
    pub(super) input: Range<usize>,
    /// The last convolution's output before its batch norm, of a bottleneck.
    pub(super) pre: Range<usize>,
    /// The block's output, where it cannot be had from `pre`.
    pub(super) out: Range<usize>,
    /// Forward values that the block's passes share, for the first frames.
    pub(super) values: Range<usize>,
    /// Whether they are still there from the forward step.
    pub(super) values_kept: bool,
    /// Gradients that the block's passes share, for the first frames.
    pub(super) gradients: Range<usize>,
    /// Gradient of the output.
    pub(super) d_output: Range<usize>,
    /// Gradient of the input, if the block before is trained.
    pub(super) d_input: Range<usize>,
}

/// The whole arrangement.
#[derive(Debug)]
pub(super) struct Layout {
    /// Frames of a call.
    pub(super) count: usize,
    /// Length of the arena.
    pub(super) total: usize,
    pub(super) forward: Vec<BlockPlaces>,
    pub(super) backward: Vec<BlockPlaces>,
    /// The last block's output.
    pub(super) last: Range<usize>,
}

/// The sizes of a block, for one frame.
struct Sizes {
    pre: usize,
    out: usize,
    gradient: usize,
    values: usize,
    gradients: usize,
    /// Multiply-adds saved for each number of `values` that is held until the backward step.
    gain: f64,
}

/// What was decided for a block.
#[derive(Clone, Copy, Default)]
struct Choice {
    /// Frames held in the forward and in the backward step.
    forward: usize,
    backward: usize,
    /// Whether values are held from one to the other.
    kept: bool,
}

impl Layout {
    pub(super) fn new(
        blocks: &[Block],
        plan: &Plan,
        options: &TrainingOptions,
        count: usize,
        groups: usize,
        threads: usize,
    ) -> Result<Self> {
        let sizes: Vec<Sizes> = blocks.iter().map(|block| Sizes::of(block, options.storage)).collect();
        let sums = blocks.iter().map(Block::sums_length).max().unwrap_or(0);
        let overhead = groups * sums + threads * scratch_numbers(blocks);
        let budget = (options.memory_budget / size_of::<f32>()).saturating_sub(overhead);
        let frozen = options.frozen_blocks;

        let nothing_held = lifetimes(&sizes, &vec![Choice::default(); sizes.len()], count, frozen);
        let least = peak(&nothing_held);
        // Places have gaps between them: if the first try does not fit, the next aims lower.
        for part in [1.0, 0.97, 0.94, 0.9, 0.85, 0.8, 0.7, 0.5, 0.0] {
            let aim = least.max((budget as f64 * part) as usize);
            let choices = choose(&sizes, count, frozen, aim);
            let (places, total) = place(&lifetimes(&sizes, &choices, count, frozen));
            if total <= budget {
                return Ok(Self::from_places(&sizes, &choices, places, total, count, frozen));
            }
        }
        let (_, total) = place(&nothing_held);
        let needed = (total + overhead) * size_of::<f32>();
        let shape = plan.image;
        Err(Error::input(format!(
            "a memory budget of {} MiB is too small: {count} images of {}x{} need at least {} MiB",
            options.memory_budget >> 20,
            shape.width,
            shape.height,
            needed.div_ceil(1 << 20)
        )))
    }

    /// Gives every block the places of its tensors; the order is that of [`lifetimes`].
    fn from_places(
        sizes: &[Sizes],
        choices: &[Choice],
        places: Vec<Range<usize>>,
        total: usize,
        count: usize,
        frozen: usize,
    ) -> Self {
        let mut forward = Vec::new();
        let mut backward = Vec::new();
        let mut input = NONE;
        let mut d_input = NONE;
        for (index, places) in places.chunks_exact(TENSORS).enumerate() {
            let [pre, out, values, values_back, gradients, d_output] =
                std::array::from_fn(|i| places[i].clone());
            let kept = choices[index].kept;
            let shared = BlockPlaces {
                input: std::mem::replace(
                    &mut input,
                    if sizes[index].out > 0 { out.clone() } else { pre.clone() },
                ),
                pre,
                out,
                values,
                values_kept: false,
                gradients: NONE,
                d_output: NONE,
                d_input: NONE,
            };
            backward.push(BlockPlaces {
                values: if kept { shared.values.clone() } else { values_back },
                values_kept: kept,
                gradients,
                d_output: d_output.clone(),
                d_input: if index > frozen { d_input } else { NONE },
                ..shared.clone()
            });
            forward.push(shared);
            d_input = d_output;
        }
        Self { count, total, forward, backward, last: input }
    }
}

impl Sizes {
    fn of(block: &Block, storage: Storage) -> Self {
        let shape = block.output();
        let kept = frame_length(storage, shape.pixels(), shape.channels);
        let (values, gradients) = block.held_lengths();
        let (pre, out) = match block {
            Block::Bottleneck(block) => (kept, if block.residual() { kept } else { 0 }),
            Block::Chain(_) => (0, kept),
        };
        let gradient = padded(shape.channels) * shape.pixels();
        let gain = block.recomputed() as f64 / values.max(1) as f64;
        Self { pre, out, gradient, values, gradients, gain }
    }
}

/// Tensors of a block.
const TENSORS: usize = 6;

/// The tensors of every block, [`TENSORS`] each: pre, out, values forward, values backward, gradients, gradient of output.
fn lifetimes(sizes: &[Sizes], choices: &[Choice], count: usize, frozen: usize) -> Vec<Lifetime> {
    let blocks = sizes.len();
    let back = |block: usize| 2 * blocks - 1 - block;
    let mut tensors = Vec::new();
    for (index, (size, choice)) in sizes.iter().zip(choices).enumerate() {
        let trained = index >= frozen;
        // The last step that reads the output: the backward step of the next block, if that is trained.
        let read = match index + 1 {
            next if next == blocks => index,
            next if next >= frozen => back(next),
            next => next,
        };
        let own = if trained { back(index) } else { index };
        let (pre_last, out_last) = if size.out > 0 { (own, read) } else { (own.max(read), read) };
        let step = |length, step| Lifetime { length, first: step, last: step };
        let values_last = if choice.kept { back(index) } else { index };
        tensors.push(Lifetime { length: count * size.pre, first: index, last: pre_last });
        tensors.push(Lifetime { length: count * size.out, first: index, last: out_last });
        tensors.push(Lifetime { length: choice.forward * size.values, first: index, last: values_last });
        let again = if choice.kept || !trained { 0 } else { choice.backward * size.values };
        tensors.push(step(again, back(index)));
        tensors.push(step(if trained { choice.backward * size.gradients } else { 0 }, back(index)));
        let d_first = if index + 1 == blocks { back(index) } else { back(index + 1) };
        let d_length = if trained { count * size.gradient } else { 0 };
        tensors.push(Lifetime { length: d_length, first: d_first, last: back(index) });
    }
    tensors
}

/// Decides what is held within `budget` numbers.
fn choose(sizes: &[Sizes], count: usize, frozen: usize, budget: usize) -> Vec<Choice> {
    let blocks = sizes.len();
    let mut choices = vec![Choice::default(); blocks];
    let fits = |choices: &[Choice]| peak(&lifetimes(sizes, choices, count, frozen)) <= budget;
    for index in 0..blocks {
        // The most frames that fit, by halving: a step's peak grows with them.
        let most = |choices: &mut Vec<Choice>, set: &dyn Fn(&mut Choice, usize)| {
            let (mut low, mut high) = (0, count);
            while low < high {
                let middle = (low + high).div_ceil(2);
                set(&mut choices[index], middle);
                if fits(choices) { low = middle } else { high = middle - 1 }
            }
            set(&mut choices[index], low);
        };
        most(&mut choices, &|choice, frames| choice.forward = frames);
        most(&mut choices, &|choice, frames| choice.backward = frames);
    }
    let mut order: Vec<usize> = (frozen..blocks).collect();
    order.sort_by(|a, b| sizes[*b].gain.total_cmp(&sizes[*a].gain));
    for index in order {
        if choices[index].forward == count && choices[index].backward == count {
            choices[index].kept = true;
            choices[index].kept = fits(&choices);
        }
    }
    choices
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> Vec<Sizes> {
        let size = |pre, out, values| Sizes {
            pre,
            out,
            gradient: pre.max(out),
            values,
            gradients: values,
            gain: 1.0 / values as f64,
        };
        vec![size(4096, 0, 40960), size(4096, 4096, 20480), size(0, 2048, 8192)]
    }

    #[test]
    fn a_large_budget_holds_everything_and_a_small_one_nothing() {
        let (sizes, count) = (sizes(), 10);
        let all = choose(&sizes, count, 0, usize::MAX);
        assert!(all.iter().all(|choice| choice.kept && choice.forward == count && choice.backward == count));
        let least = peak(&lifetimes(&sizes, &[Choice::default(); 3], count, 0));
        let none = choose(&sizes, count, 0, least);
        assert!(none.iter().all(|choice| !choice.kept));
        for budget in [least, least + 100_000, least + 300_000, least + 600_000] {
            let choices = choose(&sizes, count, 0, budget);
            assert!(peak(&lifetimes(&sizes, &choices, count, 0)) <= budget);
        }
    }

    #[test]
    fn frozen_blocks_have_no_gradients() {
        let sizes = sizes();
        let choices = choose(&sizes, 10, 2, usize::MAX);
        let tensors = lifetimes(&sizes, &choices, 10, 2);
        for block in 0..2 {
            assert_eq!(tensors[block * TENSORS + 4].length, 0);
            assert_eq!(tensors[block * TENSORS + 5].length, 0);
            assert!(!choices[block].kept);
        }
        // The input of the lowest trained block is still there when it runs backward.
        assert_eq!(tensors[TENSORS + 1].last, 3);
    }
}

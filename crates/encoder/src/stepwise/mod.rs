//! The stepwise executor: a plan carried out operation by operation through [`Ops`], chunk by chunk of frames.
//!
//! It trains within a memory budget on whatever implements [`Ops`]: plain loops ([`HostOps`](super::host_ops::HostOps),
//! the reference of all tests) or a GPU.
//!
//! **Forward.** Block by block. Batch norm needs statistics over all frames before a unit's value exists, so a block of
//! m units takes m passes over the frames for the statistics and one for its output. Outputs of blocks are kept for the
//! window; nothing else is.
//!
//! **Backward.** Block by block from the last. Statistics are known now, so values inside the block come back without
//! waiting; but batch norm's gradient again needs two sums over all frames before it can pass on. Units are taken from
//! the last to the first: one pass over the frames adds up the weight gradient of a unit and the sums of the next one, m
//! + 1 passes in all.
//!
//! What a pass computes is held for the next as far as the budget allows (`layout`); the rest is computed again on
//! demand (`block`).

mod block;
mod buffers;
mod layout;
mod network;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use block::{BlockRun, Site};
use buffers::Buffers;
use layout::{Chunk, Layout};
use network::{Network, WindowMoments};

use super::ops::{At, AtMut, Ops};
use super::plan::{Plan, Readout};
use super::{NormMode, Parameters, Statistics, TrainingEncoder, TrainingOptions};
use crate::{Error, Result};

/// See the [module](self).
pub struct StepwiseEncoder<O: Ops> {
    plan: Arc<Plan>,
    options: TrainingOptions,
    ops: O,
    network: Network<O>,
    /// Buffers for the number of frames of the last call.
    workspace: Option<(Layout, Buffers<O>)>,
    /// Statistics of the last forward call, if a backward call can follow it.
    forwarded: Option<NormMode>,
}

impl<O: Ops> StepwiseEncoder<O> {
    /// An executor of `plan` over `ops`. Memory is taken at the first call, for the number of frames that it has.
    pub fn new(plan: Arc<Plan>, mut ops: O, options: TrainingOptions) -> Result<Self> {
        if options.frozen_blocks > plan.blocks.len() {
            return Err(Error::input(format!(
                "{} blocks cannot be frozen: the encoder has {}",
                options.frozen_blocks,
                plan.blocks.len()
            )));
        }
        let network = Network::new(&mut ops, &plan)?;
        Ok(Self { plan, options, ops, network, workspace: None, forwarded: None })
    }

    /// Encodes images with the running statistics, in evaluation mode, a few at a time: however many there are, memory
    /// is taken for a few. A backward call cannot follow.
    pub fn evaluate(
        &mut self,
        parameters: &Parameters,
        statistics: &Statistics,
        images: &[f32],
        features: &mut [f32],
    ) -> Result<()> {
        const FRAMES: usize = 16;
        let groups = images.chunks(FRAMES * self.plan.image.len());
        for (images, features) in groups.zip(features.chunks_mut(FRAMES * self.plan.features)) {
            let count = images.len() / self.plan.image.len();
            self.encode(parameters, statistics, images, count, NormMode::Running, features)?;
        }
        self.forwarded = None;
        Ok(())
    }

    /// The forward pass. Returns the running statistics after it.
    fn encode(
        &mut self,
        parameters: &Parameters,
        statistics: &Statistics,
        images: &[f32],
        count: usize,
        norm: NormMode,
        features: &mut [f32],
    ) -> Result<Statistics> {
        let plan = &*self.plan;
        if count == 0 {
            return Err(Error::input("there are no images to encode"));
        }
        expect_len("images", images.len(), count * plan.image.len())?;
        expect_len("features", features.len(), count * plan.features)?;
        expect_len("parameters", parameters.values.len(), self.network.parameters)?;
        self.forwarded = None;
        let (layout, buffers) = workspace(&mut self.workspace, &mut self.ops, plan, self.options, count)?;
        self.network.load(&mut self.ops, plan, parameters)?;
        load_images(&mut self.ops, plan, layout, buffers, images)?;
        let mut followed = statistics.clone();
        if norm == NormMode::Running {
            for (at, unit) in plan.units.iter().enumerate() {
                let widen = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
                let (mean, variance) =
                    (widen(statistics.tensor(unit.mean)), widen(statistics.tensor(unit.variance)));
                self.network.set_norm(&mut self.ops, plan, at, parameters, &mean, &variance)?;
            }
        }
        for (number, block) in layout.blocks.iter().enumerate() {
            let read = number.checked_sub(1).map(|before| layout.kept_slot[before]);
            let (source, mut target) =
                kept_pair(&mut buffers.kept, read, layout.kept_slot.get(number).copied());
            buffers.inside.begin_block();
            let mut run = BlockRun {
                site: Site { plan, block, chunk: Chunk::default() },
                ops: &mut self.ops,
                network: &mut self.network,
                inside: &mut buffers.inside,
                source: source.unwrap_or(&buffers.images),
                output_gradient: &buffers.gradients[0],
            };
            if norm == NormMode::Window {
                for at in 0..block.units.len() {
                    let unit = &plan.units[block.units.start + at];
                    let mut window = WindowMoments::new(unit.conv_shape.channels);
                    let mut part = window.empty_part();
                    for chunk in layout.chunks(number) {
                        run.begin(chunk);
                        run.moments(at, &mut part)?;
                        window.add(run.site.rows(at), &part);
                    }
                    window.follow(unit, &mut followed, plan.batch_norm);
                    run.set_norm(at, parameters, &window)?;
                }
            }
            for chunk in layout.chunks(number) {
                run.begin(chunk);
                match &mut target {
                    Some(target) => run.keep_output(target)?,
                    None => run.read_out(&mut buffers.features, features)?,
                }
            }
        }
        self.forwarded = Some(norm);
        Ok(followed)
    }
}

impl<O: Ops> TrainingEncoder for StepwiseEncoder<O> {
    fn forward(
        &mut self,
        parameters: &Parameters,
        statistics: &mut Statistics,
        images: &[f32],
        count: usize,
        norm: NormMode,
        features: &mut [f32],
    ) -> Result<()> {
        *statistics = self.encode(parameters, statistics, images, count, norm, features)?;
        Ok(())
    }

    fn backward(
        &mut self,
        _parameters: &Parameters,
        images: &[f32],
        d_features: &[f32],
        gradients: &mut Parameters,
        mut d_images: Option<&mut [f32]>,
    ) -> Result<()> {
        let plan = &*self.plan;
        let frozen = self.options.frozen_blocks;
        let (Some(norm), Some((layout, buffers))) = (self.forwarded.take(), &mut self.workspace) else {
            return Err(Error::input("a backward call needs a forward call before it"));
        };
        let count = layout.count;
        expect_len("images", images.len(), count * plan.image.len())?;
        expect_len("gradients of features", d_features.len(), count * plan.features)?;
        expect_len("gradients of parameters", gradients.values.len(), self.network.parameters)?;
        if let Some(d_images) = &d_images {
            expect_len("gradients of images", d_images.len(), count * plan.image.len())?;
            if frozen > 0 {
                return Err(Error::input("gradients of images cannot be had while blocks are frozen"));
            }
        }
        let first_unit = plan.blocks.get(frozen).map_or(plan.units.len(), |units| units.start);
        self.network.clear_gradients(&mut self.ops, plan, first_unit)?;
        if frozen < plan.blocks.len() {
            read_out_gradient(&mut self.ops, plan, layout, buffers, d_features)?;
        }
        for (number, block) in layout.blocks.iter().enumerate().skip(frozen).rev() {
            let read = number.checked_sub(1).map(|before| layout.kept_slot[before]);
            let (source, _) = kept_pair(&mut buffers.kept, read, None);
            let [even, odd] = &mut buffers.gradients;
            let (output_gradient, input_gradient) = if number % 2 == 0 { (even, odd) } else { (odd, even) };
            buffers.inside.begin_block();
            let mut run = BlockRun {
                site: Site { plan, block, chunk: Chunk::default() },
                ops: &mut self.ops,
                network: &mut self.network,
                inside: &mut buffers.inside,
                source: source.unwrap_or(&buffers.images),
                output_gradient,
            };
            for done in 0..=block.units.len() {
                // This pass adds up the sums of unit `next` and the weight gradient of the one after it, whose sums the
                // pass before completed.
                let next = (block.units.len() - done).checked_sub(1);
                let mut sums = next.map(|at| run.empty_sums(at));
                for chunk in layout.chunks(number) {
                    run.begin(chunk);
                    if done > 0 {
                        run.weight_gradient(block.units.len() - done)?;
                    }
                    if let (Some(at), Some((total, part))) = (next, &mut sums) {
                        run.norm_sums(at, part)?;
                        total.add(part);
                    } else if number > frozen {
                        let offset = chunk.first * plan.value_shape(block.units.start).len();
                        run.block_input_gradient(input_gradient, offset)?;
                    } else if let Some(d_images) = &mut d_images {
                        run.block_input_gradient(&mut buffers.image_gradient, 0)?;
                        let each = plan.image.len();
                        let to = &mut d_images[chunk.first * each..(chunk.first + chunk.frames) * each];
                        run.ops.download(At { buffer: &buffers.image_gradient, offset: 0 }, to)?;
                    }
                }
                if let (Some(at), Some((total, _))) = (next, &sums) {
                    let rows = count * plan.units[block.units.start + at].conv_shape.pixels();
                    let rows = (norm == NormMode::Window).then_some(rows);
                    run.network.set_sums(run.ops, block.units.start + at, total, rows)?;
                }
            }
        }
        self.network.read_gradients(&mut self.ops, plan, first_unit, gradients)
    }
}

/// The buffers for `count` frames, made anew if those that are there are for another number.
fn workspace<'w, O: Ops>(
    slot: &'w mut Option<(Layout, Buffers<O>)>,
    ops: &mut O,
    plan: &Plan,
    options: TrainingOptions,
    count: usize,
) -> Result<&'w mut (Layout, Buffers<O>)> {
    let fitting = slot.take().filter(|(layout, _)| layout.count == count);
    let workspace = match fitting {
        Some(workspace) => workspace,
        None => {
            let layout = Layout::new(plan, count, options, ops.value_bytes())?;
            let buffers = Buffers::new(ops, &layout, options)?;
            (layout, buffers)
        }
    };
    Ok(slot.insert(workspace))
}

/// Copies the images to the device, through the first block's room for a chunk of them.
fn load_images<O: Ops>(
    ops: &mut O,
    plan: &Plan,
    layout: &Layout,
    buffers: &mut Buffers<O>,
    images: &[f32],
) -> Result<()> {
    let each = plan.image.len();
    layout.chunks(0).try_for_each(|Chunk { first, frames, .. }| {
        let (offset, len) = (first * each, frames * each);
        let scratch = buffers.inside.input.fill_scratch();
        ops.upload(&images[offset..offset + len], scratch)?;
        ops.pack(scratch, AtMut { buffer: &mut buffers.images, offset }, len)
    })
}

/// Two different ones of the kept block outputs, one to read and one to write.
fn kept_pair<P>(kept: &mut [P], read: Option<usize>, write: Option<usize>) -> (Option<&P>, Option<&mut P>) {
    let (mut source, mut target) = (None, None);
    for (slot, buffer) in kept.iter_mut().enumerate() {
        if Some(slot) == read {
            source = Some(&*buffer);
        } else if Some(slot) == write {
            target = Some(buffer);
        }
    }
    (source, target)
}

/// The gradient with respect to the last block's output.
fn read_out_gradient<O: Ops>(
    ops: &mut O,
    plan: &Plan,
    layout: &Layout,
    buffers: &mut Buffers<O>,
    d_features: &[f32],
) -> Result<()> {
    let last = plan.blocks.len() - 1;
    let output_gradient = &mut buffers.gradients[last % 2];
    let shape = plan.last_shape();
    match plan.readout {
        Readout::Flatten => ops.upload(d_features, output_gradient),
        Readout::Pool(pooling) => layout.chunks(last).try_for_each(|Chunk { first, frames, .. }| {
            let part = &d_features[first * plan.features..(first + frames) * plan.features];
            ops.upload(part, &mut buffers.features)?;
            let to = AtMut { buffer: &mut *output_gradient, offset: first * shape.len() };
            ops.mean_pool_gradient(&buffers.features, to, frames, shape, pooling)
        }),
    }
}

fn expect_len(what: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::input(format!("the encoder was given {found} numbers as {what} but needs {expected}")))
    }
}

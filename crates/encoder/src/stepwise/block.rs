//! One block on one chunk of frames: every value and gradient inside it, computed when it is first asked for.
//!
//! Each `need_*` makes sure that something is there, and first what it depends on. The executor asks for what a pass
//! is about; whatever the buffers still hold from an earlier pass ends the chain, and the rest is computed again.

use super::buffers::{Cached, Inside, Spot};
use super::layout::{Block, Chunk, Consumer, has_tail};
use super::network::{Network, WindowMoments};
use crate::Parameters;
use crate::Result;
use crate::ops::{At, AtMut, Moments, NormSize, NormSums, Ops, Product, Tail, Windows};
use crate::plan::{Activation, ConvKind, Plan, Readout, Unit};

/// Which block and which frames: everything that can be said without touching a buffer.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) plan: &'a Plan,
    pub(super) block: &'a Block,
    pub(super) chunk: Chunk,
}

impl<'a> Site<'a> {
    fn unit(self, at: usize) -> &'a Unit {
        &self.plan.units[self.block.units.start + at]
    }

    /// Place in the block of the unit that makes a value, or `None` for the block's input.
    fn maker(self, value: usize) -> Option<usize> {
        (value - self.block.units.start).checked_sub(1)
    }

    fn z_spot(self, at: usize) -> Spot {
        Spot::of(self.chunk, self.block.holds_z[at], self.unit(at).conv_shape.len())
    }

    fn gradient_spot(self, at: usize) -> Spot {
        Spot::of(self.chunk, self.block.holds_gradient[at], self.unit(at).out_shape.len())
    }

    fn product(self, at: usize) -> Product {
        let Unit { conv, in_shape, conv_shape, .. } = *self.unit(at);
        let from = if conv == ConvKind::Full { 9 * in_shape.channels } else { in_shape.channels };
        Product { rows: self.rows(at), from, to: conv_shape.channels }
    }

    fn windows(self, at: usize) -> Windows {
        let Unit { in_shape, conv_shape, stride, pad, .. } = *self.unit(at);
        Windows { frames: self.chunk.frames, image: in_shape, output: conv_shape, stride, pad }
    }

    fn tail(self, at: usize) -> Tail {
        let Unit { conv_shape, out_shape, pool, activation, .. } = *self.unit(at);
        Tail { frames: self.chunk.frames, shape: conv_shape, output: out_shape, pool, activation }
    }

    fn norm_size(self, at: usize) -> NormSize {
        let unit = self.unit(at);
        // Where a tail is undone by itself, its activation is done with.
        let activation = if has_tail(unit) { Activation::None } else { unit.activation };
        NormSize { rows: self.rows(at), channels: unit.conv_shape.channels, activation }
    }

    /// Pixels of the chunk after the convolution of a unit.
    pub(super) fn rows(self, at: usize) -> usize {
        self.chunk.frames * self.unit(at).conv_shape.pixels()
    }
}

/// A block at work on a chunk.
pub(super) struct BlockRun<'a, O: Ops> {
    pub(super) site: Site<'a>,
    pub(super) ops: &'a mut O,
    pub(super) network: &'a mut Network<O>,
    pub(super) inside: &'a mut Inside<O::Values>,
    /// The kept output of the block before, or the images of the call.
    pub(super) source: &'a O::Packed,
    /// Gradient with respect to the block's output, all frames; not looked at in a forward pass.
    pub(super) output_gradient: &'a O::Values,
}

impl<O: Ops> BlockRun<'_, O> {
    /// Goes on to another chunk of the same block.
    pub(super) fn begin(&mut self, chunk: Chunk) {
        self.site.chunk = chunk;
        self.inside.begin_chunk();
    }

    /// Number of a unit in the plan.
    fn number(&self, at: usize) -> usize {
        self.site.block.units.start + at
    }

    fn need_input(&mut self) -> Result<()> {
        if self.inside.input.is_ready(Spot::Scratch) {
            return Ok(());
        }
        let Site { plan, block, chunk } = self.site;
        let each = plan.value_shape(block.units.start).len();
        let (offset, len) = (chunk.first * each, chunk.frames * each);
        let to = self.inside.input.fill_scratch();
        self.ops.unpack(At { buffer: self.source, offset }, to, len)
    }

    /// A value that units of the block read, by its number in the plan.
    fn need_operand(&mut self, value: usize) -> Result<()> {
        match self.site.maker(value) {
            Some(at) => self.need_value(at),
            None => self.need_input(),
        }
    }

    /// The output of a unit's convolution.
    fn need_z(&mut self, at: usize) -> Result<()> {
        let site = self.site;
        let spot = site.z_spot(at);
        if self.inside.z[at].is_ready(spot) {
            return Ok(());
        }
        let unit = site.unit(at);
        self.need_operand(unit.input)?;
        let weight = &self.network.weights[self.site.block.units.start + at];
        let Inside { input, value, z, columns, .. } = &mut *self.inside;
        let x = operand(input, value, site.maker(unit.input));
        let z = z[at].fill(spot);
        match unit.conv {
            ConvKind::Pointwise => self.ops.product(x, weight, z, site.product(at)),
            ConvKind::Depthwise => self.ops.depthwise(x, weight, z, &site.windows(at)),
            ConvKind::Full => {
                self.ops.gather(x, columns, &site.windows(at))?;
                self.ops.product(At { buffer: columns, offset: 0 }, weight, z, site.product(at))
            }
        }
    }

    /// The value of a unit.
    fn need_value(&mut self, at: usize) -> Result<()> {
        if self.inside.value[at].is_ready(Spot::Scratch) {
            return Ok(());
        }
        let site = self.site;
        let unit = site.unit(at);
        self.need_z(at)?;
        if let Some(add) = unit.add {
            self.need_operand(add)?;
        }
        let norm = self.network.norms[self.number(at)].rows();
        let Inside { input, value, z, .. } = &mut *self.inside;
        let (earlier, here) = value.split_at_mut(at);
        let add = unit.add.map(|add| operand(input, earlier, site.maker(add)));
        let z = z[at].at(site.z_spot(at));
        self.ops.normalise(z, norm, add, here[0].fill(Spot::Scratch), &site.tail(at))
    }

    /// Computes the block's value and keeps it.
    pub(super) fn keep_output(&mut self, kept: &mut O::Packed) -> Result<()> {
        let Site { block, plan, chunk } = self.site;
        let last = block.units.len() - 1;
        self.need_value(last)?;
        let each = plan.value_shape(block.units.end).len();
        let to = AtMut { buffer: kept, offset: chunk.first * each };
        self.ops.pack(self.inside.value[last].scratch(), to, chunk.frames * each)
    }

    /// Computes the block's value, which must be the last one, and reads the features of the chunk out of it.
    pub(super) fn read_out(&mut self, pooled: &mut O::Values, features: &mut [f32]) -> Result<()> {
        let Site { block, plan, chunk } = self.site;
        let last = block.units.len() - 1;
        self.need_value(last)?;
        let value = self.inside.value[last].at(Spot::Scratch);
        let features =
            &mut features[chunk.first * plan.features..(chunk.first + chunk.frames) * plan.features];
        match plan.readout {
            Readout::Flatten => self.ops.download(value, features),
            Readout::Pool(pooling) => {
                self.ops.mean_pool(value, pooled, chunk.frames, plan.last_shape(), pooling)?;
                self.ops.download(At { buffer: pooled, offset: 0 }, features)
            }
        }
    }

    /// Gives the batch norm of a unit the statistics of the window.
    pub(super) fn set_norm(
        &mut self,
        at: usize,
        parameters: &Parameters,
        window: &WindowMoments,
    ) -> Result<()> {
        let at = self.number(at);
        self.network.set_norm(self.ops, self.site.plan, at, parameters, window.mean(), &window.variance())
    }

    /// Sums of a unit's batch norm at zero: for the whole window, and for a chunk of it.
    pub(super) fn empty_sums(&self, at: usize) -> (NormSums, NormSums) {
        let zeros = || vec![0.0; self.site.unit(at).conv_shape.channels];
        let sums = || NormSums { shift: zeros(), scale: zeros() };
        (sums(), sums())
    }

    /// Moments of the output of a unit's convolution over the chunk.
    pub(super) fn moments(&mut self, at: usize, moments: &mut Moments) -> Result<()> {
        self.need_z(at)?;
        self.ops.moments(self.inside.z[at].at(self.site.z_spot(at)), self.site.rows(at), moments)
    }

    /// The gradient with respect to the value of a unit.
    fn need_gradient(&mut self, at: usize) -> Result<()> {
        match self.site.block.consumers[at] {
            Consumer::Outside => Ok(()),
            Consumer::Added(by) => self.need_sum_gradient(by),
            Consumer::Convolved(by) => {
                let spot = self.site.gradient_spot(at);
                if self.inside.gradient[at].is_ready(spot) {
                    return Ok(());
                }
                self.need_dz(by)?;
                let Inside { gradient, dz, columns, .. } = &mut *self.inside;
                let weight = &self.network.weights[self.site.block.units.start + by];
                input_gradient(
                    self.ops,
                    self.site,
                    by,
                    dz[by].scratch(),
                    weight,
                    columns,
                    gradient[at].fill(spot),
                )
            }
        }
    }

    /// The gradient with respect to the sum in a unit, between batch norm and the tail of pool and activation. Where there
    /// is no such tail it is the gradient with respect to the unit's value, its activation not yet undone.
    fn need_sum_gradient(&mut self, at: usize) -> Result<()> {
        self.need_gradient(at)?;
        let site = self.site;
        let unit = site.unit(at);
        if !has_tail(unit) || self.inside.tail_gradient[at].is_ready(Spot::Scratch) {
            return Ok(());
        }
        self.need_z(at)?;
        if let Some(add) = unit.add {
            self.need_operand(add)?;
        }
        let norm = self.network.norms[self.number(at)].rows();
        let Inside { input, value, z, gradient, tail_gradient, .. } = &mut *self.inside;
        let (upto, later) = tail_gradient.split_at_mut(at + 1);
        let gradients =
            Gradients { output: self.output_gradient, gradient, tails: later, first_tail: at + 1 };
        let dy = gradients.of_value(site, at);
        let add = unit.add.map(|add| operand(input, value, site.maker(add)));
        let z = z[at].at(site.z_spot(at));
        self.ops.tail_gradient(dy, z, norm, add, upto[at].fill(Spot::Scratch), &site.tail(at))
    }

    /// The two sums of batch norm's backward pass over the chunk.
    pub(super) fn norm_sums(&mut self, at: usize, sums: &mut NormSums) -> Result<()> {
        self.need_sum_gradient(at)?;
        self.need_z(at)?;
        let site = self.site;
        let norm = self.network.norms[self.number(at)].rows();
        let Inside { z, gradient, tail_gradient, .. } = &*self.inside;
        let gradients =
            Gradients { output: self.output_gradient, gradient, tails: tail_gradient, first_tail: 0 };
        let d = gradients.of_sum(site, at);
        self.ops.norm_sums(d, z[at].at(site.z_spot(at)), norm, site.norm_size(at), sums)
    }

    /// The gradient with respect to the output of a unit's convolution. Its sums must be complete.
    fn need_dz(&mut self, at: usize) -> Result<()> {
        if self.inside.dz[at].is_ready(Spot::Scratch) {
            return Ok(());
        }
        self.need_sum_gradient(at)?;
        self.need_z(at)?;
        let site = self.site;
        let norm = self.network.norms[self.number(at)].rows();
        let Inside { z, gradient, tail_gradient, dz, .. } = &mut *self.inside;
        let gradients =
            Gradients { output: self.output_gradient, gradient, tails: tail_gradient, first_tail: 0 };
        let d = gradients.of_sum(site, at);
        let z = z[at].at(site.z_spot(at));
        self.ops.norm_input_gradient(d, z, norm, dz[at].fill(Spot::Scratch), site.norm_size(at))
    }

    /// Adds the chunk's part to the gradient of a unit's weight.
    pub(super) fn weight_gradient(&mut self, at: usize) -> Result<()> {
        let site = self.site;
        let unit = site.unit(at);
        self.need_dz(at)?;
        self.need_operand(unit.input)?;
        let dw = &mut self.network.weight_gradients[self.site.block.units.start + at];
        let Inside { input, value, dz, columns, .. } = &mut *self.inside;
        let x = operand(input, value, site.maker(unit.input));
        let dz = dz[at].at(Spot::Scratch);
        match unit.conv {
            ConvKind::Pointwise => self.ops.product_weight_gradient(dz, x, dw, site.product(at)),
            ConvKind::Depthwise => self.ops.depthwise_weight_gradient(dz, x, dw, &site.windows(at)),
            ConvKind::Full => {
                self.ops.gather(x, columns, &site.windows(at))?;
                let x = At { buffer: &*columns, offset: 0 };
                self.ops.product_weight_gradient(dz, x, dw, site.product(at))
            }
        }
    }

    /// The gradient with respect to the block's input: the sum over the units that read it. The block's input itself is
    /// lost by this, so it is the last thing that can be asked of a chunk.
    pub(super) fn block_input_gradient(&mut self, to: &mut O::Values, offset: usize) -> Result<()> {
        let site = self.site;
        let value = site.block.units.start;
        let readers = |reads: fn(&Unit, usize) -> bool| {
            (0..site.block.units.len()).filter(move |&at| reads(site.unit(at), value))
        };
        let convolved: Vec<usize> = readers(|unit, value| unit.input == value).collect();
        let added: Vec<usize> = readers(|unit, value| unit.add == Some(value)).collect();
        for &at in &convolved {
            self.need_dz(at)?;
        }
        for &at in &added {
            self.need_sum_gradient(at)?;
        }
        let len = site.chunk.frames * site.plan.value_shape(value).len();
        for (turn, &at) in convolved.iter().enumerate() {
            let weight = &self.network.weights[site.block.units.start + at];
            let Inside { input, dz, columns, .. } = &mut *self.inside;
            let dz = dz[at].scratch();
            if turn == 0 {
                input_gradient(self.ops, site, at, dz, weight, columns, AtMut { buffer: to, offset })?;
            } else {
                let room = input.fill(Spot::Scratch);
                input_gradient(self.ops, site, at, dz, weight, columns, room)?;
                self.ops.add(input.at(Spot::Scratch), AtMut { buffer: to, offset }, len)?;
            }
        }
        let Inside { gradient, tail_gradient, .. } = &*self.inside;
        let gradients =
            Gradients { output: self.output_gradient, gradient, tails: tail_gradient, first_tail: 0 };
        for &at in &added {
            self.ops.add(gradients.of_sum(site, at), AtMut { buffer: to, offset }, len)?;
        }
        Ok(())
    }
}

/// A value that units of the block read.
fn operand<'v, V>(input: &'v Cached<V>, value: &'v [Cached<V>], maker: Option<usize>) -> At<'v, V> {
    maker.map_or(input, |at| &value[at]).at(Spot::Scratch)
}

/// Where gradients with respect to values lie, once they are there.
struct Gradients<'v, V> {
    output: &'v V,
    gradient: &'v [Cached<V>],
    /// The tail gradients of the units from `first_tail` on.
    tails: &'v [Cached<V>],
    first_tail: usize,
}

impl<'v, V> Gradients<'v, V> {
    fn of_value(&self, site: Site<'_>, at: usize) -> At<'v, V> {
        match site.block.consumers[at] {
            Consumer::Outside => {
                At { buffer: self.output, offset: site.chunk.first * site.unit(at).out_shape.len() }
            }
            Consumer::Added(by) => self.of_sum(site, by),
            Consumer::Convolved(_) => self.gradient[at].at(site.gradient_spot(at)),
        }
    }

    fn of_sum(&self, site: Site<'_>, at: usize) -> At<'v, V> {
        if has_tail(site.unit(at)) {
            self.tails[at - self.first_tail].at(Spot::Scratch)
        } else {
            self.of_value(site, at)
        }
    }
}

/// Back through the convolution of a unit.
fn input_gradient<O: Ops>(
    ops: &mut O,
    site: Site<'_>,
    at: usize,
    dz: &O::Values,
    weight: &O::Params,
    columns: &mut O::Values,
    dx: AtMut<'_, O::Values>,
) -> Result<()> {
    let dz = At { buffer: dz, offset: 0 };
    match site.unit(at).conv {
        ConvKind::Pointwise => ops.product_input_gradient(dz, weight, dx, site.product(at)),
        ConvKind::Depthwise => ops.depthwise_input_gradient(dz, weight, dx, &site.windows(at)),
        ConvKind::Full => {
            let all = AtMut { buffer: &mut *columns, offset: 0 };
            ops.product_input_gradient(dz, weight, all, site.product(at))?;
            ops.scatter(columns, dx, &site.windows(at))
        }
    }
}

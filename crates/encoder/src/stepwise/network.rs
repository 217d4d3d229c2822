//! What a network is on the device: its weights, their gradients and its batch norms, unit by unit.
//!
//! Weights change their layout on the way: channels come last on the device, also in a kernel (`[out, tap, in]`, and
//! `[tap, channel]` for a depthwise one).

use crate::Result;
use crate::ops::{Moments, NormRow, NormSums, Ops};
use crate::plan::{BatchNorm, ConvKind, Plan, Unit};
use crate::{Parameters, Statistics, TensorSpec};

/// See the [module](self).
pub(super) struct Network<O: Ops> {
    /// How many numbers are trained.
    pub(super) parameters: usize,
    pub(super) weights: Vec<O::Params>,
    pub(super) weight_gradients: Vec<O::Params>,
    pub(super) norms: Vec<Norm<O::Params>>,
}

/// One batch norm: its rows on the device, their copy on the host, and the sums of the backward pass.
pub(super) struct Norm<P> {
    rows: P,
    host: Vec<f64>,
    sums: NormSums,
}

impl<P> Norm<P> {
    pub(super) fn rows(&self) -> &P {
        &self.rows
    }

    fn row_mut(&mut self, row: NormRow) -> &mut [f64] {
        let channels = self.host.len() / NormRow::COUNT;
        &mut self.host[row as usize * channels..][..channels]
    }
}

impl<O: Ops> Network<O> {
    pub(super) fn new(ops: &mut O, plan: &Plan) -> Result<Self> {
        let specs = plan.parameter_specs();
        let mut weights = || plan.units.iter().map(|unit| ops.params(specs[unit.weight].len())).collect();
        let (weights, weight_gradients): (Result<_>, Result<_>) = (weights(), weights());
        let norms = plan.units.iter().map(|unit| {
            let channels = unit.conv_shape.channels;
            Ok(Norm {
                rows: ops.params(NormRow::COUNT * channels)?,
                host: vec![0.0; NormRow::COUNT * channels],
                sums: NormSums { shift: vec![0.0; channels], scale: vec![0.0; channels] },
            })
        });
        let norms = norms.collect::<Result<_>>()?;
        let parameters = specs.iter().map(TensorSpec::len).sum();
        Ok(Self { parameters, weights: weights?, weight_gradients: weight_gradients?, norms })
    }

    /// Copies the weights of the convolutions to the device.
    pub(super) fn load(&mut self, ops: &mut O, plan: &Plan, parameters: &Parameters) -> Result<()> {
        let turned = plan.units.iter().map(|unit| {
            let values = parameters.tensor(unit.weight);
            let mut turned = vec![0.0; values.len()];
            turn(unit, values, &mut turned, Direction::ChannelsLast);
            turned
        });
        let turned: Vec<Vec<f32>> = turned.collect();
        let mut pairs: Vec<_> = turned.iter().map(Vec::as_slice).zip(&mut self.weights).collect();
        ops.upload_all_params(&mut pairs)
    }

    /// Sets the batch norm of unit `at` to fixed statistics.
    pub(super) fn set_norm(
        &mut self,
        ops: &mut O,
        plan: &Plan,
        at: usize,
        parameters: &Parameters,
        mean: &[f64],
        variance: &[f64],
    ) -> Result<()> {
        let unit = &plan.units[at];
        let epsilon = f64::from(plan.batch_norm.epsilon);
        let (gamma, beta) = (parameters.tensor(unit.gamma), parameters.tensor(unit.beta));
        let norm = &mut self.norms[at];
        for channel in 0..unit.conv_shape.channels {
            let inverse = 1.0 / (variance[channel] + epsilon).sqrt();
            let scale = f64::from(gamma[channel]) * inverse;
            norm.row_mut(NormRow::Scale)[channel] = scale;
            norm.row_mut(NormRow::Shift)[channel] = f64::from(beta[channel]) - mean[channel] * scale;
            norm.row_mut(NormRow::Mean)[channel] = mean[channel];
            norm.row_mut(NormRow::Inverse)[channel] = inverse;
            norm.row_mut(NormRow::MeanShiftGradient)[channel] = 0.0;
            norm.row_mut(NormRow::MeanScaleGradient)[channel] = 0.0;
        }
        ops.upload_norm(&norm.host, &mut norm.rows)
    }

    /// Takes the sums of the backward pass of unit `at`. `rows` is the number of pixels that the statistics are means
    /// over, or `None` where they are fixed, and then nothing feeds back through them.
    pub(super) fn set_sums(
        &mut self,
        ops: &mut O,
        at: usize,
        sums: &NormSums,
        rows: Option<usize>,
    ) -> Result<()> {
        let norm = &mut self.norms[at];
        norm.sums.clone_from(sums);
        if let Some(rows) = rows {
            let mean = |sums: &[f64], row: &mut [f64]| {
                row.iter_mut().zip(sums).for_each(|(row, sum)| *row = sum / rows as f64);
            };
            mean(&sums.shift, norm.row_mut(NormRow::MeanShiftGradient));
            mean(&sums.scale, norm.row_mut(NormRow::MeanScaleGradient));
            ops.upload_norm(&norm.host, &mut norm.rows)?;
        }
        Ok(())
    }

    /// Sets the weight gradients of the units from `first` on to zero.
    pub(super) fn clear_gradients(&mut self, ops: &mut O, plan: &Plan, first: usize) -> Result<()> {
        let specs = plan.parameter_specs();
        let mut units = plan.units.iter().zip(&mut self.weight_gradients).skip(first);
        units.try_for_each(|(unit, gradient)| ops.clear_params(gradient, specs[unit.weight].len()))
    }

    /// Writes the gradients of the units from `first` on, and zeros for those before.
    pub(super) fn read_gradients(
        &self,
        ops: &mut O,
        plan: &Plan,
        first: usize,
        gradients: &mut Parameters,
    ) -> Result<()> {
        gradients.values.fill(0.0);
        let specs = plan.parameter_specs();
        let mut found: Vec<Vec<f32>> =
            plan.units.iter().skip(first).map(|unit| vec![0.0; specs[unit.weight].len()]).collect();
        let mut pairs: Vec<_> =
            self.weight_gradients.iter().skip(first).zip(found.iter_mut().map(Vec::as_mut_slice)).collect();
        ops.download_all_params(&mut pairs)?;
        for ((unit, found), norm) in
            plan.units.iter().skip(first).zip(&found).zip(self.norms.iter().skip(first))
        {
            turn(unit, found, gradients.tensor_mut(unit.weight), Direction::ChannelsFirst);
            let round = |to: &mut [f32], sums: &[f64]| {
                to.iter_mut().zip(sums).for_each(|(to, &sum)| *to = sum as f32);
            };
            round(gradients.tensor_mut(unit.gamma), &norm.sums.scale);
            round(gradients.tensor_mut(unit.beta), &norm.sums.shift);
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ChannelsLast,
    ChannelsFirst,
}

/// Turns the kernels of a convolution from PyTorch's layout to the device's, or back.
fn turn(unit: &Unit, from: &[f32], to: &mut [f32], direction: Direction) {
    let channels = match unit.conv {
        ConvKind::Pointwise => return to.copy_from_slice(from),
        ConvKind::Depthwise => unit.conv_shape.channels,
        ConvKind::Full => unit.in_shape.channels,
    };
    for (from, to) in from.chunks_exact(9 * channels).zip(to.chunks_exact_mut(9 * channels)) {
        for channel in 0..channels {
            for tap in 0..9 {
                let (first, last) = (channel * 9 + tap, tap * channels + channel);
                match direction {
                    Direction::ChannelsLast => to[last] = from[first],
                    Direction::ChannelsFirst => to[first] = from[last],
                }
            }
        }
    }
}

/// Moments of all rows of a window, put together from those of its chunks.
///
/// Chan, Golub and LeVeque's update of mean and spread: nothing is subtracted that is large and nearly equal, so the
/// outcome does not depend on how the window was cut beyond the last bits of an f64.
#[derive(Debug)]
pub(super) struct WindowMoments {
    rows: usize,
    total: Moments,
}

impl WindowMoments {
    pub(super) fn new(channels: usize) -> Self {
        Self { rows: 0, total: Moments { mean: vec![0.0; channels], spread: vec![0.0; channels] } }
    }

    /// Moments to be filled with those of a chunk.
    pub(super) fn empty_part(&self) -> Moments {
        self.total.clone()
    }

    pub(super) fn add(&mut self, rows: usize, part: &Moments) {
        let (before, added) = (self.rows as f64, rows as f64);
        self.rows += rows;
        let all = self.rows as f64;
        let Moments { mean, spread } = &mut self.total;
        for channel in 0..mean.len() {
            let apart = part.mean[channel] - mean[channel];
            mean[channel] += apart * added / all;
            spread[channel] += part.spread[channel] + apart * apart * before * added / all;
        }
    }

    pub(super) fn mean(&self) -> &[f64] {
        &self.total.mean
    }

    /// The variance that batch norm divides by.
    pub(super) fn variance(&self) -> Vec<f64> {
        self.total.spread.iter().map(|spread| spread / self.rows as f64).collect()
    }

    /// Moves the running statistics of a unit towards these; the running variance follows the unbiased one.
    pub(super) fn follow(&self, unit: &Unit, statistics: &mut Statistics, batch_norm: BatchNorm) {
        let momentum = f64::from(batch_norm.momentum);
        let step = |running: &mut f32, now: f64| {
            *running = ((1.0 - momentum) * f64::from(*running) + momentum * now) as f32;
        };
        let mean = statistics.tensor_mut(unit.mean);
        mean.iter_mut().zip(&self.total.mean).for_each(|(running, &now)| step(running, now));
        // One pixel alone has no unbiased variance; it is taken as 0 rather than as 0/0.
        let freedom = self.rows.saturating_sub(1).max(1) as f64;
        let variance = statistics.tensor_mut(unit.variance);
        variance.iter_mut().zip(&self.total.spread).for_each(|(running, &now)| step(running, now / freedom));
    }
}

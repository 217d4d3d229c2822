//! The batch norm of one unit during a call: its statistics, and its gradient once the sums over the window are known.

use super::workers::Group;
use crate::kernels::gemm::{PANEL, padded};
use crate::kernels::norm::{Gate, GradientSums, Lane, Moments};
use crate::plan::{Activation, Plan, Unit};
use crate::{NormMode, Parameters, Statistics};

/// The numbers of one panel out of a list that is filled up to whole panels.
pub(super) fn lane(values: &[f32], panel: usize) -> &Lane {
    &values.as_chunks::<PANEL>().0[panel]
}

/// The bounds of an activation.
pub(super) fn range(activation: Activation) -> (f32, f32) {
    match activation {
        Activation::None => super::kept::UNBOUNDED,
        Activation::Relu => (0.0, f32::INFINITY),
        Activation::Relu6 => (0.0, 6.0),
    }
}

/// A batch norm as scale and shift. All lists are filled up to whole panels with zeros.
#[derive(Debug, Default)]
pub(super) struct Norm {
    /// μ
    pub(super) mean: Vec<f32>,
    /// 1/σ
    pub(super) inverse: Vec<f32>,
    /// γ/σ
    pub(super) scale: Vec<f32>,
    /// β − μ·γ/σ
    pub(super) shift: Vec<f32>,
    /// Pixels of the window; 0 if the statistics are the running ones and so do not depend on the window.
    pub(super) count: f64,
}

impl Norm {
    /// Statistics of the window, which also move the running ones.
    pub(super) fn of_window(
        plan: &Plan,
        unit: &Unit,
        parameters: &Parameters,
        statistics: &mut Statistics,
        count: f64,
        mean: &[f64],
        variance: &[f64],
    ) -> Self {
        let momentum = f64::from(plan.batch_norm.momentum);
        let unbiased = count / (count - 1.0).max(1.0);
        let follow = |running: &mut [f32], window: &dyn Fn(usize) -> f64| {
            for (channel, running) in running.iter_mut().enumerate() {
                let before = f64::from(*running);
                *running = (before + momentum * (window(channel) - before)) as f32;
            }
        };
        follow(statistics.tensor_mut(unit.mean), &|channel| mean[channel]);
        follow(statistics.tensor_mut(unit.variance), &|channel| variance[channel] * unbiased);
        Self::new(plan, unit, parameters, count, |channel| (mean[channel], variance[channel]))
    }

    /// Statistics of the window, from its moments by panel.
    pub(super) fn of_moments(
        plan: &Plan,
        unit: &Unit,
        parameters: &Parameters,
        statistics: &mut Statistics,
        moments: &[Moments],
    ) -> Self {
        let count = moments.first().map_or(1.0, |moments| moments.count.max(1.0));
        let mean: Vec<f64> = moments.iter().flat_map(|moments| moments.mean).collect();
        let variance: Vec<f64> =
            moments.iter().flat_map(|moments| moments.squares.map(|squares| squares / count)).collect();
        Self::of_window(plan, unit, parameters, statistics, count, &mean, &variance)
    }

    /// The running statistics.
    pub(super) fn of_running(
        plan: &Plan,
        unit: &Unit,
        parameters: &Parameters,
        statistics: &Statistics,
    ) -> Self {
        let (mean, variance) = (statistics.tensor(unit.mean), statistics.tensor(unit.variance));
        Self::new(plan, unit, parameters, 0.0, |channel| {
            (f64::from(mean[channel]), f64::from(variance[channel]))
        })
    }

    /// Statistics by the call's mode, from the groups' moments where they are the window's.
    pub(super) fn of_groups(
        plan: &Plan,
        unit: &Unit,
        parameters: &Parameters,
        statistics: &mut Statistics,
        mode: NormMode,
        groups: &[Group],
    ) -> Self {
        match mode {
            NormMode::Window => {
                let panels = padded(unit.conv_shape.channels) / PANEL;
                let moments = super::workers::merge_moments(groups, 0..panels);
                Self::of_moments(plan, unit, parameters, statistics, &moments)
            }
            NormMode::Running => Self::of_running(plan, unit, parameters, statistics),
        }
    }

    fn new(
        plan: &Plan,
        unit: &Unit,
        parameters: &Parameters,
        count: f64,
        moments: impl Fn(usize) -> (f64, f64),
    ) -> Self {
        let (gamma, beta) = (parameters.tensor(unit.gamma), parameters.tensor(unit.beta));
        let epsilon = f64::from(plan.batch_norm.epsilon);
        let length = padded(gamma.len());
        let zeros = || vec![0.0; length];
        let mut norm = Self { mean: zeros(), inverse: zeros(), scale: zeros(), shift: zeros(), count };
        for (channel, (gamma, beta)) in gamma.iter().zip(beta).enumerate() {
            let (mean, variance) = moments(channel);
            let inverse = 1.0 / (variance + epsilon).sqrt();
            let scale = f64::from(*gamma) * inverse;
            norm.mean[channel] = mean as f32;
            norm.inverse[channel] = inverse as f32;
            norm.scale[channel] = scale as f32;
            norm.shift[channel] = (f64::from(*beta) - mean * scale) as f32;
        }
        norm
    }

    /// What the way back through the activation needs, for one panel.
    pub(super) fn gate(&self, panel: usize, range: (f32, f32)) -> Gate<'_> {
        Gate {
            scale: lane(&self.scale, panel),
            shift: lane(&self.shift, panel),
            mean: lane(&self.mean, panel),
            range,
        }
    }

    /// From the sums over the window: the gradients of γ and β, and the weights with which `dy` and `z` make `dz`.
    pub(super) fn backward(&self, sums: &[GradientSums], unit: &Unit, gradients: &mut Parameters) -> Mixture {
        let channels = gradients.tensor(unit.gamma).len();
        let mut mixture = Mixture::new(self.scale.len());
        for channel in 0..channels {
            let (panel, lane) = (channel / PANEL, channel % PANEL);
            let (plain, with_value) = (sums[panel].plain[lane], sums[panel].with_value[lane]);
            let [scale, inverse, mean] =
                [&self.scale, &self.inverse, &self.mean].map(|values| f64::from(values[channel]));
            gradients.tensor_mut(unit.gamma)[channel] = (with_value * inverse) as f32;
            gradients.tensor_mut(unit.beta)[channel] = plain as f32;
            mixture.gradient[channel] = scale as f32;
            if self.count > 0.0 {
                let value = -scale * inverse * inverse * with_value / self.count;
                mixture.value[channel] = value as f32;
                mixture.constant[channel] = (-scale * plain / self.count - value * mean) as f32;
            }
        }
        mixture
    }
}

/// `dz = gradient·dy + value·z + constant`, by channel, filled up to whole panels with zeros.
#[derive(Debug, Default)]
pub(super) struct Mixture {
    pub(super) gradient: Vec<f32>,
    pub(super) value: Vec<f32>,
    pub(super) constant: Vec<f32>,
}

impl Mixture {
    fn new(length: usize) -> Self {
        Self { gradient: vec![0.0; length], value: vec![0.0; length], constant: vec![0.0; length] }
    }

    /// `dz` of pixels of one panel.
    pub(super) fn apply(&self, panel: usize, dy: &[f32], z: &[f32], dz: &mut [f32]) {
        crate::kernels::norm::combine(
            dz,
            dy,
            lane(&self.gradient, panel),
            z,
            lane(&self.value, panel),
            lane(&self.constant, panel),
        );
    }
}

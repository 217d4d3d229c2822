//! SimCLR (Chen et al. 2020): among all views of the window, each is to find the other view of its own frame.
//!
//! The loss is NT-Xent on the directions of a projection: the cross-entropy of each view's cosines, divided by a temperature,
//! averaged over the frames and added over the two views, as the paper's released code has it.

use candle_core::{Device, Result as Computed, Tensor as Values};

use super::autograd::{ByAutograd, Loss};
use super::head::{Bound, End, Layout, Mlp, Weights, directions, log_softmax};
use super::widths::Widths;
use crate::config::Settings;

/// Divides the cosines.
const TEMPERATURE: f64 = 0.5;

/// Takes a view out of its own comparison.
const ITSELF: f32 = -1e9;

/// See the [module](self).
pub struct SimClr {
    projector: Mlp,
}

impl SimClr {
    /// The objective for embeddings of so many numbers, with a random head.
    pub fn objective(settings: &Settings, dimension: usize) -> ByAutograd<Self> {
        Self::with(settings, dimension, Widths::of(settings))
    }

    pub(super) fn with(settings: &Settings, dimension: usize, widths: Widths) -> ByAutograd<Self> {
        let mut layout = Layout::default();
        let projector = widths.projector(&mut layout, dimension);
        ByAutograd::new(settings, Self { projector }, Weights::new(layout, settings.seed))
    }
}

impl Widths {
    /// The projector of SimCLR and SwAV.
    pub(super) fn projector(&self, layout: &mut Layout, dimension: usize) -> Mlp {
        let end = if self.normed_end { End::Norm } else { End::Linear };
        Mlp::new(layout, "projector", &[dimension, self.hidden, self.hidden, self.output], end)
    }
}

impl Loss for SimClr {
    fn name(&self) -> &'static str {
        "simclr"
    }

    fn terms(&self) -> &'static [&'static str] {
        &["contrast"]
    }

    fn loss(&mut self, rows: &Values, frames: usize, _step: u64, weights: &Bound) -> Computed<Vec<Values>> {
        let views = directions(&self.projector.forward(weights, rows)?)?;
        let count = 2 * frames;
        let mut mask = vec![0.0; count * count];
        mask.iter_mut().step_by(count + 1).for_each(|own| *own = ITSELF);
        let mask = Values::from_vec(mask, (count, count), &Device::Cpu)?;
        let logits = ((views.matmul(&views.t()?)? / TEMPERATURE)? + mask)?;
        // View i of frame n is to find view 1 − i: a frame's views are `frames` rows apart.
        let others = (0..count).map(|row| ((row + frames) % count) as u32).collect::<Vec<_>>();
        let others = Values::from_vec(others, (count, 1), &Device::Cpu)?;
        let found = log_softmax(&logits)?.gather(&others, 1)?;
        Ok(vec![(found.sum_all()? / -(frames as f64))?])
    }
}

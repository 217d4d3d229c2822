//! SimSiam (Chen and He 2021): from one view of a frame a predictor is to tell the projection of the other.
//!
//! No gradient flows into what is predicted; that keeps all projections from becoming one.

use candle_core::{D, Result as Computed, Tensor as Values};

use super::autograd::{ByAutograd, Loss};
use super::head::{Bound, End, Layout, Mlp, Weights, directions};
use super::widths::Widths;
use crate::config::Settings;

/// See the [module](self).
pub struct SimSiam {
    projector: Mlp,
    predictor: Mlp,
}

impl SimSiam {
    /// The objective for embeddings of so many numbers, with a random head.
    pub fn objective(settings: &Settings, dimension: usize) -> ByAutograd<Self> {
        Self::with(settings, dimension, Widths::of(settings))
    }

    pub(super) fn with(settings: &Settings, dimension: usize, widths: Widths) -> ByAutograd<Self> {
        let Widths { hidden, output, .. } = widths;
        let mut layout = Layout::default();
        let projector = Mlp::new(&mut layout, "projector", &[dimension, hidden, hidden, hidden], End::Norm);
        let predictor = Mlp::new(&mut layout, "predictor", &[hidden, output, hidden], End::Linear);
        ByAutograd::new(settings, Self { projector, predictor }, Weights::new(layout, settings.seed))
    }
}

impl Loss for SimSiam {
    fn name(&self) -> &'static str {
        "simsiam"
    }

    fn terms(&self) -> &'static [&'static str] {
        &["prediction"]
    }

    /// −½ · mean over the frames of cos(h₁, p₂) + cos(h₂, p₁), with the projections h constant.
    fn loss(&mut self, rows: &Values, frames: usize, _step: u64, weights: &Bound) -> Computed<Vec<Values>> {
        let projected = self.projector.forward(weights, rows)?;
        let predicted = directions(&self.predictor.forward(weights, &projected)?)?;
        let targets = directions(&projected)?.detach();
        let view = |rows: &Values, view: usize| rows.narrow(0, view * frames, frames);
        let crossed = Values::cat(&[view(&targets, 1)?, view(&targets, 0)?], 0)?;
        let cosines = (predicted * crossed)?.sum(D::Minus1)?;
        Ok(vec![(cosines.sum_all()? * (-0.5 / frames as f64))?])
    }
}

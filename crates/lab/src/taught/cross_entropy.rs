//! A linear layer tells the class of every view; the loss is its cross-entropy.

use candle_core::{Device, Result as Computed, Tensor as Values};

use super::Labels;
use crate::config::Settings;
use crate::objective::autograd::{ByAutograd, Loss};
use crate::objective::head::{Bound, End, Layout, Mlp, Weights, log_softmax};

/// See the [module](self).
pub(super) struct CrossEntropy {
    classifier: Mlp,
    labels: Labels,
}

impl CrossEntropy {
    pub(super) fn objective(
        settings: &Settings,
        dimension: usize,
        classes: usize,
        labels: Labels,
    ) -> ByAutograd<Self> {
        let mut layout = Layout::default();
        let classifier = Mlp::new(&mut layout, "classifier", &[dimension, classes], End::Linear);
        ByAutograd::new(settings, Self { classifier, labels }, Weights::new(layout, settings.seed))
    }
}

impl Loss for CrossEntropy {
    fn name(&self) -> &'static str {
        "cross-entropy"
    }

    fn terms(&self) -> &'static [&'static str] {
        &["class"]
    }

    fn loss(&mut self, rows: &Values, frames: usize, _step: u64, weights: &Bound) -> Computed<Vec<Values>> {
        let labels = self.labels.of(frames)?;
        // Both views of a frame are of its class.
        let both: Vec<u32> = labels.iter().chain(&labels).map(|&label| label as u32).collect();
        let classes = Values::from_vec(both, (2 * frames, 1), &Device::Cpu)?;
        let told = log_softmax(&self.classifier.forward(weights, rows)?)?.gather(&classes, 1)?;
        Ok(vec![(told.sum_all()? / (-2.0 * frames as f64))?])
    }
}

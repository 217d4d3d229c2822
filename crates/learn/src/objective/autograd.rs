//! Objectives by automatic differentiation: a loss as a graph of candle tensors on the embeddings, with weights of its own.
//!
//! The graph ends at the embeddings: candle gives the gradient there and at the head's weights, the encoder carries it on. The
//! head learns by the encoder's optimiser (Adam) at a rate of its own, which falls with the encoder's.

use std::collections::BTreeMap;

use candle_core::{Device, Result as Computed, Tensor as Values, Var};

use super::head::{Bound, Weights};
use super::{Answer, Embeddings, Objective, Question};
use crate::config::Settings;
use crate::learner::Schedule;
use crate::tensors::Tensor;
use crate::{Error, Result};

/// A loss on the embeddings of a window.
pub trait Loss: Send {
    /// Its name in checkpoints and messages.
    fn name(&self) -> &'static str;

    /// The names of its terms.
    fn terms(&self) -> &'static [&'static str];

    /// The terms, one number each; the loss is their sum. `rows` holds view 1 of all frames, then view 2. Nothing that lasts may
    /// change.
    ///
    /// # Errors
    /// If the tensors do not fit together.
    fn loss(&mut self, rows: &Values, frames: usize, step: u64, weights: &Bound) -> Computed<Vec<Values>>;

    /// The update of the window that was asked about last has been applied, to the head's weights too.
    fn applied(&mut self, _weights: &mut Weights) {}

    /// See [`Objective::put_aside`].
    fn put_aside(&mut self) {}

    /// See [`Objective::take_up`].
    fn take_up(&mut self) {}

    /// What it carries beside the head's weights.
    fn carried(&self) -> BTreeMap<String, Tensor> {
        BTreeMap::new()
    }

    /// Goes on from that.
    ///
    /// # Errors
    /// If it is not of this loss and its settings; then nothing has changed.
    fn carry(&mut self, _from: &BTreeMap<String, Tensor>) -> Result<()> {
        Ok(())
    }
}

/// See the [module](self).
pub struct ByAutograd<L> {
    loss: L,
    weights: Weights,
    schedule: Schedule,
    rate: f64,
    /// Of the head's weights, by the window that was run last, and the updates before it.
    gradient: Vec<f32>,
    step: u64,
}

impl<L: Loss> ByAutograd<L> {
    /// An objective with this loss and these weights of its head.
    pub fn new(settings: &Settings, loss: L, weights: Weights) -> Self {
        Self {
            loss,
            gradient: vec![0.0; weights.len()],
            weights,
            schedule: settings.schedule(),
            rate: settings.head_learning_rate,
            step: 0,
        }
    }

    fn compute(&mut self, embeddings: &Embeddings<'_>, step: u64, d_rows: &mut [f32]) -> Computed<Answer> {
        let Embeddings { values, frames, dimension } = *embeddings;
        let rows = Var::from_slice(values, (values.len() / dimension, dimension), &Device::Cpu)?;
        let weights = self.weights.bind()?;
        let terms = self.loss.loss(&rows, frames, step, &weights)?;
        let mut total = Values::new(0.0f32, &Device::Cpu)?;
        for term in &terms {
            total = (total + term)?;
        }
        let gradients = total.backward()?;
        let copy = |variable: &Var, to: &mut [f32]| match gradients.get(variable) {
            Some(gradient) => {
                to.copy_from_slice(&gradient.flatten_all()?.to_vec1::<f32>()?);
                Computed::Ok(())
            }
            None => {
                to.fill(0.0);
                Ok(())
            }
        };
        copy(&rows, d_rows)?;
        let mut rest = self.gradient.as_mut_slice();
        for variable in weights.variables() {
            let (own, after) = rest.split_at_mut(variable.elem_count());
            copy(variable, own)?;
            rest = after;
        }
        let value = |term: &Values| term.to_scalar::<f32>().map(f64::from);
        let values = terms.iter().map(value).collect::<Computed<Vec<_>>>()?;
        Ok(Answer {
            loss: values.iter().sum(),
            terms: self.loss.terms().iter().copied().zip(values).collect(),
            mean_new_probability: f64::NAN,
            ..Answer::default()
        })
    }

    #[cfg(test)]
    pub(super) fn weights_mut(&mut self) -> &mut Weights {
        &mut self.weights
    }

    /// The gradient at the head's weights, by the window that was run last.
    pub fn gradient(&self) -> &[f32] {
        &self.gradient
    }

    #[cfg(test)]
    pub(super) fn loss_mut(&mut self) -> &mut L {
        &mut self.loss
    }
}

impl<L: Loss> Objective for ByAutograd<L> {
    fn terms(&self) -> &'static [&'static str] {
        self.loss.terms()
    }

    fn run(&mut self, question: &Question<'_>, d_embeddings: &mut [f32]) -> Result<Answer> {
        let embeddings = &question.embeddings;
        if embeddings.values.len() != 2 * embeddings.frames * embeddings.dimension {
            return Err(Error::input(format!(
                "the objective {} compares two views of a frame: leave second_views at 1",
                self.loss.name()
            )));
        }
        self.step = question.step;
        let mut answer = self.compute(embeddings, question.step, d_embeddings).map_err(|error| {
            Error::Device(format!("the objective {} cannot be computed: {error}", self.loss.name()))
        })?;
        if !self.gradient.iter().all(|gradient| gradient.is_finite()) {
            // The head's part of the gradient counts as much as the encoder's: such an update is refused.
            answer.loss = f64::NAN;
        }
        Ok(answer)
    }

    fn commit(&mut self) {
        self.weights.update(&self.gradient, self.step, self.rate * self.schedule.factor(self.step));
        self.loss.applied(&mut self.weights);
    }

    fn put_aside(&mut self) {
        self.loss.put_aside();
    }

    fn take_up(&mut self) {
        self.loss.take_up();
    }

    fn carried(&self) -> BTreeMap<String, Tensor> {
        let mut carried = self.weights.carried(self.loss.name());
        carried.extend(self.loss.carried());
        carried
    }

    fn carry(&mut self, from: &BTreeMap<String, Tensor>) -> Result<()> {
        let mut weights = self.weights.clone();
        weights.carry(self.loss.name(), from)?;
        self.loss.carry(from)?;
        self.weights = weights;
        Ok(())
    }
}

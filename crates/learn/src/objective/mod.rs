//! What is asked of a window's embeddings: the seam at which a method of learning is put in.
//!
//! The [`Trainer`](crate::learner::Trainer) makes views, encodes them, and carries a gradient back through the encoder. What
//! the loss is, and which gradient it has at the embeddings, is the objective's: [`Oupn`] computes both by hand, the others
//! by automatic differentiation on the embeddings ([`autograd`]). An objective that has weights of its own (a projection, a
//! decoder) keeps them to itself, and moves them in [`Objective::commit`]. [`Method`] has them by name.

pub mod autograd;
pub mod head;
mod loss;
mod method;
pub mod oupn;
pub mod simclr;
pub mod simsiam;
pub mod swav;
#[cfg(test)]
mod tests;
mod widths;

use std::collections::BTreeMap;

pub use loss::{Asked, window_loss};
pub use method::Method;
pub use oupn::Oupn;

use crate::memory::Control;
use crate::memory::window::ControlGradient;
use crate::tensors::Tensor;
use crate::{Error, Result};

/// The embeddings of a window: view 1 of all frames, then view 2, then further second views.
#[derive(Clone, Copy, Debug)]
pub struct Embeddings<'a> {
    /// All of them, row after row.
    pub values: &'a [f32],
    /// Frames of the window.
    pub frames: usize,
    /// Numbers of an embedding.
    pub dimension: usize,
}

impl<'a> Embeddings<'a> {
    /// View 1 of all frames.
    pub fn first(&self) -> &'a [f32] {
        &self.values[..self.frames * self.dimension]
    }

    /// The second views, each of all frames.
    pub fn seconds(&self) -> &'a [f32] {
        &self.values[self.frames * self.dimension..]
    }
}

/// What an objective is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The window's embeddings.
    pub embeddings: Embeddings<'a>,
    /// 1/τ, β, γ.
    pub control: Control,
    /// Updates applied so far.
    pub step: u64,
    /// The frames after which the next window begins.
    pub stride: usize,
}

/// What it answers, beside the gradient at the embeddings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The loss that the gradients belong to.
    pub loss: f64,
    /// Its parts by name, before they are weighted.
    pub terms: Vec<(&'static str, f64)>,
    /// The gradient at 1/τ, β, γ; zero where they have no part in the loss.
    pub d_control: ControlGradient,
    /// Mean of û over the window's frames, as the first view sees them, where the objective has it.
    pub mean_new_probability: f64,
    /// Categories created within the window.
    pub created: usize,
}

/// A method of learning.
pub trait Objective: Send {
    /// The names of its terms, in the order of [`Answer::terms`].
    fn terms(&self) -> &'static [&'static str];

    /// The loss of a window, and its gradient at the embeddings, which overwrites `d_embeddings`. Nothing that lasts
    /// may change: the update may yet be refused.
    ///
    /// # Errors
    /// If the window is not of the size that the objective was made for.
    fn run(&mut self, question: &Question<'_>, d_embeddings: &mut [f32]) -> Result<Answer>;

    /// The update of the window that was run last has been applied.
    fn commit(&mut self);

    /// The next window does not follow the last one: what is carried from window to window is put aside, and the window begins
    /// with nothing. What is learned all the same (weights of its own) stays.
    fn put_aside(&mut self) {}

    /// Goes on with what [`put_aside`](Self::put_aside) put aside.
    fn take_up(&mut self) {}

    /// Prototypes in use, where the objective has some.
    fn in_use(&self) -> usize {
        0
    }

    /// What it carries from window to window, by name: part of every checkpoint. Names begin with `memory.` or `objective.`.
    fn carried(&self) -> BTreeMap<String, Tensor>;

    /// Goes on from what [`carried`](Self::carried) gave.
    ///
    /// # Errors
    /// If that is not of this objective, or of other settings.
    fn carry(&mut self, from: &BTreeMap<String, Tensor>) -> Result<()>;
}

/// Says that a checkpoint is of another objective than `wanted`, and of which.
pub(crate) fn other_objective(carried: &BTreeMap<String, Tensor>, wanted: &str) -> Error {
    let of_head = |name: &String| Some(name.strip_prefix("objective.")?.split('.').next()?.to_owned());
    let found = carried.keys().find_map(of_head);
    let found = found.or_else(|| carried.contains_key("memory.counts").then(|| "oupn".to_owned()));
    Error::input(match found {
        Some(found) => format!(
            "the checkpoint is of the objective {found}, the settings ask for {wanted}: keep the objective, or use another folder"
        ),
        None => format!("the checkpoint holds nothing of the objective {wanted}"),
    })
}

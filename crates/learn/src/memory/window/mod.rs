//! A whole learning window: the memory's recurrence over T frames of two views, its three losses, and their exact
//! gradient, un-truncated through the window.
//!
//! # How it is computed
//! Every prototype is at all times a linear combination of the prototypes before the window and the embeddings written
//! so far, and everything the losses ask of a prototype is an inner product with an embedding, or its norm. So the
//! recurrence never touches a D-dimensional vector: it runs on the Gram matrix of all 2T embeddings and on their inner
//! products with the K prototypes before the window. Before it stands one matrix product, behind it stands one (the
//! gradient of the embeddings from the gradient of the inner products); between them are O(K·T²) scalar operations in
//! `f64`, a small part of the O(K·T·D) that storing and differentiating every prototype would take.
//!
//! For a slot with inner products q_i = ⟨z_i, P⟩ and square norm N, a write P ← keep·P + gain·z_t is
//! q_i ← keep·q_i + gain·G_ti and N ← keep²·N + 2·keep·gain·q_t + gain²·G_tt.
//!
//! Embeddings are numbered 2t for view 1 of frame t and 2t+1 for view 2, so that the embeddings which a state can still
//! meet are always the last ones; states are kept for those alone.
//!
//! `branch.rs` is one view's tentative write, which the symmetric loss does twice a frame; `trajectory.rs` holds the states
//! between the steps; `forward.rs` runs the recurrence and records it, `backward.rs` reverses it.

mod backward;
mod branch;
mod forward;
mod losses;
mod trajectory;

use self::backward::Adjoint;
use self::branch::Branch;
use self::forward::Combinations;
pub use self::losses::Losses;
use self::trajectory::Trajectory;
use super::prototypes::Prototypes;
use super::rules::{Control, Rules};
use crate::kernels::Real;
use crate::{Error, Result};

/// The random numbers of straight-through sampling, drawn by the caller so that a window is a pure function.
#[derive(Clone, Copy, Debug)]
pub struct Noise<'a> {
    /// T logistic samples for each view, for the creation.
    pub creation: [&'a [f32]; 2],
    /// T×K Gumbel samples for each view, for the assignment; read by the `paper` variant only.
    pub assignment: [&'a [f32]; 2],
}

/// Everything that a window depends on.
#[derive(Clone, Copy, Debug)]
pub struct WindowInput<'a, F> {
    /// Embeddings of view 1 and view 2, T×D each.
    pub embeddings: [&'a [F]; 2],
    /// The memory before the window: a constant.
    pub memory: &'a Prototypes<F>,
    /// 1/τ, β, γ.
    pub control: Control,
    /// Variant, decay, loss weights and the rest.
    pub rules: &'a Rules,
    /// κ: temperature of the relaxed creation sample (`reference` variant with straight-through sampling).
    pub kappa: f64,
    /// Needed if and only if the rules ask for straight-through sampling.
    pub noise: Option<Noise<'a>>,
    /// After how many frames (1 to T) the memory is wanted as the start of the next, overlapping window.
    pub stride: usize,
}

impl<F> WindowInput<'_, F> {
    /// How many branches a frame has: both views are written under the symmetric loss.
    fn directions(&self) -> usize {
        if self.rules.symmetric { 2 } else { 1 }
    }
}

/// The gradient of the loss with respect to the three learned scalars.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControlGradient {
    /// ∂L/∂(1/τ).
    pub inv_tau: f64,
    /// ∂L/∂β.
    pub beta: f64,
    /// ∂L/∂γ.
    pub gamma: f64,
}

impl ControlGradient {
    /// Adds `factor` times another gradient.
    pub fn add_scaled(&mut self, factor: f64, other: &Self) {
        let Self { inv_tau, beta, gamma } = other;
        self.inv_tau += factor * inv_tau;
        self.beta += factor * beta;
        self.gamma += factor * gamma;
    }
}

/// What became of one frame, as view 1 saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FrameOutcome {
    /// û before the write.
    pub new_probability: f64,
    /// Whether the frame created a category (decided, or sampled).
    pub created: bool,
    /// The slot created, or the nearest one.
    pub slot: usize,
}

/// A window's scratch memory and results, allocated once for windows of up to `frames` frames.
#[derive(Clone, Debug)]
pub struct Window<F> {
    slots: usize,
    dimension: usize,
    capacity: usize,
    /// T of the window computed last.
    frames: usize,

    trajectory: Trajectory,
    /// The tentative writes: view 1 and (symmetric only) view 2 of every frame.
    branches: Vec<Branch>,
    combinations: Combinations,
    adjoint: Adjoint,

    outcomes: Vec<FrameOutcome>,
    losses: Losses,
    memory_after: Prototypes<F>,
    memory_after_stride: Prototypes<F>,
    d_embeddings: [Vec<F>; 2],
    d_control: ControlGradient,
}

impl<F: Real> Window<F> {
    /// Scratch memory for windows of at most `frames` frames on a memory of `slots` slots of `dimension` numbers.
    pub fn new(frames: usize, slots: usize, dimension: usize) -> Result<Self> {
        let memory = Prototypes::new(slots, dimension)?;
        if frames == 0 {
            return Err(Error::input("a window of 0 frames; expected at least 1"));
        }
        let zero = F::from_f64(0.0);
        Ok(Self {
            slots,
            dimension,
            capacity: frames,
            frames: 0,
            trajectory: Trajectory::new(frames, slots),
            branches: vec![Branch::new(slots); 2 * frames],
            combinations: Combinations::new(frames, slots),
            adjoint: Adjoint::new(frames, slots),
            outcomes: Vec::with_capacity(frames),
            losses: Losses::default(),
            memory_after_stride: memory.clone(),
            memory_after: memory,
            d_embeddings: [vec![zero; frames * dimension], vec![zero; frames * dimension]],
            d_control: ControlGradient::default(),
        })
    }

    /// Computes losses, the memory after the window, and all gradients.
    ///
    /// The number of frames is that of the embeddings and may be smaller than the capacity. Embeddings that are not
    /// finite, or shapes that do not fit, are refused.
    pub fn run(&mut self, input: &WindowInput<'_, F>) -> Result<()> {
        self.accept(input)?;
        self.forward(input);
        self.backward(input);
        Ok(())
    }

    /// The losses of the last window.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// What became of each frame.
    pub fn outcomes(&self) -> &[FrameOutcome] {
        &self.outcomes
    }

    /// ŷ of one frame before its write, as view 1 saw it.
    pub fn y_hat(&self, frame: usize) -> &[f64] {
        &self.branches[2 * frame].y_hat
    }

    /// The memory after the last frame.
    pub fn memory_after(&self) -> &Prototypes<F> {
        &self.memory_after
    }

    /// The memory after the first `stride` frames: the start of the next window, if that begins `stride` frames later.
    pub fn memory_after_stride(&self) -> &Prototypes<F> {
        &self.memory_after_stride
    }

    /// ∂L/∂h for view 1 (0) or view 2 (1), T×D.
    pub fn d_embeddings(&self, view: usize) -> &[F] {
        &self.d_embeddings[view][..self.frames * self.dimension]
    }

    /// ∂L/∂(1/τ), ∂L/∂β, ∂L/∂γ.
    pub fn d_control(&self) -> &ControlGradient {
        &self.d_control
    }

    /// Checks everything that the computation relies on, so that the rest of the module cannot fail.
    fn accept(&mut self, input: &WindowInput<'_, F>) -> Result<()> {
        let [first, second] = input.embeddings;
        let frames = first.len() / self.dimension;
        if first.len() != second.len() || first.len() != frames * self.dimension {
            return Err(Error::input(format!(
                "views of {} and {} numbers; expected two equal multiples of the dimension {}",
                first.len(),
                second.len(),
                self.dimension
            )));
        }
        if !(1..=self.capacity).contains(&frames) {
            return Err(Error::input(format!(
                "a window of {frames} frames; expected 1 to {}",
                self.capacity
            )));
        }
        if !(1..=frames).contains(&input.stride) {
            return Err(Error::input(format!("a stride of {}; expected 1 to {frames}", input.stride)));
        }
        if (input.memory.slots(), input.memory.dimension()) != (self.slots, self.dimension) {
            return Err(Error::input(format!(
                "a memory of {}×{} in a window made for {}×{}",
                input.memory.slots(),
                input.memory.dimension(),
                self.slots,
                self.dimension
            )));
        }
        for (view, embeddings) in input.embeddings.iter().enumerate() {
            if let Some(at) = embeddings.iter().position(|value| !value.to_f64().is_finite()) {
                let frame = at / self.dimension;
                return Err(Error::input(format!(
                    "the embedding of frame {frame}, view {} is not finite",
                    view + 1
                )));
            }
        }
        let Control { inv_tau, beta, gamma } = input.control;
        if ![inv_tau, beta, gamma, input.kappa].iter().all(|value| value.is_finite()) || gamma == 0.0 {
            return Err(Error::input(format!(
                "1/τ = {inv_tau}, β = {beta}, γ = {gamma}, κ = {}; expected finite numbers and γ ≠ 0",
                input.kappa
            )));
        }
        if input.rules.straight_through {
            let Some(noise) = input.noise else {
                return Err(Error::input("straight-through sampling needs noise"));
            };
            if input.kappa <= 0.0 {
                return Err(Error::input(format!("κ = {}; expected a number above 0", input.kappa)));
            }
            let sizes = noise.creation.iter().all(|n| n.len() == frames)
                && (!Branch::samples_assignment(input.rules)
                    || noise.assignment.iter().all(|n| n.len() == frames * self.slots));
            if !sizes {
                return Err(Error::input(format!(
                    "noise that does not fit {frames} frames × {} slots",
                    self.slots
                )));
            }
        }
        self.frames = frames;
        Ok(())
    }
}

//! The way back: from the losses through every step to the embeddings and the three scalars.

use super::branch::{BranchCotangent, BranchGradient, Future, norm_slope};
use super::losses::creation_loss;
use super::{ControlGradient, Window, WindowInput};
use crate::kernels::Real;
use crate::kernels::vector::combine_backward;

/// Gradients on their way back through the window.
#[derive(Clone, Debug)]
pub(super) struct Adjoint {
    /// Of the Gram matrix and the norms.
    gram: Vec<f64>,
    norms: Vec<f64>,
    /// Of the state between two steps: inner products with the embeddings to come, square norms, counts.
    inner: Vec<f64>,
    squares: Vec<f64>,
    counts: Vec<f64>,
    /// Scratch: the inner products one step earlier, what each slot meets later, the shares of a branch.
    inner_before: Vec<f64>,
    futures: Vec<Future>,
    shares: Vec<f64>,
}

impl Adjoint {
    pub(super) fn new(frames: usize, slots: usize) -> Self {
        let views = 2 * frames;
        Self {
            gram: vec![0.0; views * views],
            norms: vec![0.0; views],
            inner: vec![0.0; slots * views],
            squares: vec![0.0; slots],
            counts: vec![0.0; slots],
            inner_before: vec![0.0; slots * views],
            futures: vec![Future::default(); slots],
            shares: vec![0.0; slots],
        }
    }

    fn reset(&mut self) {
        for values in [&mut self.gram, &mut self.norms, &mut self.inner, &mut self.squares, &mut self.counts]
        {
            values.fill(0.0);
        }
    }
}

impl<F: Real> Window<F> {
    pub(super) fn backward(&mut self, input: &WindowInput<'_, F>) {
        let frames = self.frames as f64;
        let views = 2 * self.frames;
        let directions = input.directions();
        let (_, creation_slope) = creation_loss(input.rules, self.losses.mean_creation);
        let mut control = ControlGradient::default();
        self.adjoint.reset();

        for frame in (0..self.frames).rev() {
            self.rewind(frame);
            let width = self.trajectory.width(frame);
            for view in 0..directions {
                // View 1 alone is kept, so it alone has a future, an entropy and a creation term.
                let kept = view == 0;
                let entropy_weight =
                    input.rules.entropy_weight * self.branches[2 * frame].entropy_share(input.rules);
                let cotangent = BranchCotangent {
                    cross_entropy: 1.0 / (frames * directions as f64),
                    entropy: if kept { entropy_weight / frames } else { 0.0 },
                    creation: if kept { input.rules.creation_weight * creation_slope / frames } else { 0.0 },
                };
                let mut gradient = BranchGradient::default();
                let (trajectory, adjoint) = (&self.trajectory, &mut self.adjoint);
                self.branches[2 * frame + view].backward(
                    &input.control,
                    input.rules,
                    &trajectory.pair(frame, view),
                    |slot| trajectory.slot(frame, view, slot),
                    &cotangent,
                    |slot| if kept { adjoint.futures[slot] } else { Future::default() },
                    |slot, d| {
                        adjoint.inner[slot * width + view] += d.own;
                        adjoint.inner[slot * width + 1 - view] += d.other;
                        adjoint.squares[slot] += d.square;
                        adjoint.counts[slot] += d.count;
                    },
                    &mut gradient,
                    &mut adjoint.shares,
                );
                let (own, other) = (2 * frame + view, 2 * frame + 1 - view);
                adjoint.gram[own * views + own] += gradient.own_square;
                adjoint.gram[own * views + other] += gradient.own_other;
                adjoint.norms[own] += gradient.own_norm;
                adjoint.norms[other] += gradient.other_norm;
                control.inv_tau += gradient.inv_tau;
                control.beta += gradient.beta;
                control.gamma += gradient.gamma;
            }
        }
        self.d_control = control;
        self.gather(input);
    }

    /// Takes the gradient of the state after step `frame` back over the kept write of the inner products with embeddings
    /// still to come: q⁺ = keep·q + gain·G. Leaves what the branch itself has to take back in `futures`, and the gradient
    /// of the state before the step, as far as it is known by then, in its place.
    fn rewind(&mut self, frame: usize) {
        let views = 2 * self.frames;
        let width = self.trajectory.width(frame);
        let gram = self.trajectory.gram_to_come(frame);
        let adjoint = &mut self.adjoint;
        let d_gram = &mut adjoint.gram[2 * frame * views + 2 * frame + 2..][..width - 2];
        for (slot, write) in self.branches[2 * frame].writes.iter().enumerate() {
            let d_after = &adjoint.inner[slot * (width - 2)..][..width - 2];
            let d_before = &mut adjoint.inner_before[slot * width..][..width];
            let inner = self.trajectory.inner_to_come(frame, slot);
            d_before[..2].fill(0.0);
            let (keep, gain) =
                combine_backward(&mut d_before[2..], d_gram, d_after, write.keep, inner, write.gain, gram);
            let (square, count) = (adjoint.squares[slot], adjoint.counts[slot]);
            adjoint.futures[slot] = Future { square, count, keep, gain };
        }
        std::mem::swap(&mut adjoint.inner, &mut adjoint.inner_before);
        adjoint.squares.fill(0.0);
        adjoint.counts.fill(0.0);
    }

    /// From inner products and norms to the embeddings: ∂L/∂Z = (dG + dGᵀ)·Z + dqᵀ·P.
    fn gather(&mut self, input: &WindowInput<'_, F>) {
        let (views, dimension) = (2 * self.frames, self.dimension);
        let adjoint = &mut self.adjoint;
        for index in 0..views {
            adjoint.gram[index * views + index] +=
                adjoint.norms[index] * norm_slope(self.trajectory.square(index));
        }
        for index in 0..views {
            let row = &mut self.d_embeddings[index % 2][index / 2 * dimension..][..dimension];
            row.fill(F::from_f64(0.0));
            for other in 0..views {
                let factor = adjoint.gram[index * views + other] + adjoint.gram[other * views + index];
                if factor != 0.0 {
                    let embedding = &input.embeddings[other % 2][other / 2 * dimension..][..dimension];
                    F::add_scaled(row, factor, embedding);
                }
            }
            for slot in 0..self.slots {
                let factor = adjoint.inner[slot * views + index];
                if factor != 0.0 {
                    F::add_scaled(row, factor, input.memory.vector(slot));
                }
            }
        }
    }
}

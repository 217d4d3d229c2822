//! The memory's state before every step of a window, in inner products.

use super::super::prototypes::Prototypes;
use super::branch::{Branch, Pair, Slot, norm_of};
use crate::kernels::Real;
use crate::kernels::vector::combine;

/// Inner products of all embeddings, and of every slot at every step with the embeddings it can still meet.
#[derive(Clone, Debug)]
pub(super) struct Trajectory {
    slots: usize,
    /// T of the current window; set by [`Trajectory::start`].
    frames: usize,
    /// G: inner products of all embeddings, 2T×2T.
    gram: Vec<f64>,
    /// ‖z‖ + ε of all embeddings.
    norms: Vec<f64>,
    /// Inner products before step t of every slot with the embeddings 2t.., for all t, one step's block after the other.
    inner: Vec<f64>,
    /// Square norms and counts of every slot before step t, (T+1)×K.
    squares: Vec<f64>,
    counts: Vec<f64>,
}

impl Trajectory {
    pub(super) fn new(frames: usize, slots: usize) -> Self {
        let views = 2 * frames;
        Self {
            slots,
            frames,
            gram: vec![0.0; views * views],
            norms: vec![0.0; views],
            inner: vec![0.0; block_start(frames, slots, frames)],
            squares: vec![0.0; (frames + 1) * slots],
            counts: vec![0.0; (frames + 1) * slots],
        }
    }

    /// Measures all embeddings against each other and against the memory before the window.
    pub(super) fn start<F: Real>(&mut self, embeddings: [&[F]; 2], memory: &Prototypes<F>) {
        let dimension = memory.dimension();
        self.frames = embeddings[0].len() / dimension;
        let views = 2 * self.frames;
        let embedding = |index: usize| &embeddings[index % 2][index / 2 * dimension..][..dimension];
        for a in 0..views {
            for b in a..views {
                let inner = F::dot(embedding(a), embedding(b));
                self.gram[a * views + b] = inner;
                self.gram[b * views + a] = inner;
            }
            self.norms[a] = norm_of(self.gram[a * views + a]);
        }
        for slot in 0..self.slots {
            let vector = memory.vector(slot);
            let count = memory.counts()[slot].to_f64();
            let used = count > 0.0;
            self.counts[slot] = count;
            self.squares[slot] = if used { F::dot(vector, vector) } else { 0.0 };
            for index in 0..views {
                self.inner[slot * views + index] = if used { F::dot(vector, embedding(index)) } else { 0.0 };
            }
        }
    }

    /// The state after `branch` was written at step `frame`.
    pub(super) fn advance(&mut self, frame: usize, branch: &Branch) {
        let width = self.width(frame);
        let pair = self.pair(frame, 0);
        for slot in 0..self.slots {
            let before = self.slot(frame, 0, slot);
            self.squares[(frame + 1) * self.slots + slot] = branch.square_after(slot, &before, &pair);
            self.counts[(frame + 1) * self.slots + slot] = branch.writes[slot].count;
        }
        let gram = &self.gram[2 * frame * 2 * self.frames + 2 * frame + 2..][..width - 2];
        let (done, to_come) = self.inner.split_at_mut(block_start(frame + 1, self.slots, self.frames));
        let before = &done[block_start(frame, self.slots, self.frames)..];
        for (slot, write) in branch.writes.iter().enumerate() {
            let before = &before[slot * width + 2..(slot + 1) * width];
            let after = &mut to_come[slot * (width - 2)..][..width - 2];
            combine(after, write.keep, before, write.gain, gram);
        }
    }

    /// How many embeddings the state before step `frame` can still meet: two a frame.
    pub(super) fn width(&self, frame: usize) -> usize {
        2 * (self.frames - frame)
    }

    /// Inner products of one slot before step `frame` with the embeddings after that frame's own two.
    pub(super) fn inner_to_come(&self, frame: usize, slot: usize) -> &[f64] {
        let width = self.width(frame);
        &self.inner[block_start(frame, self.slots, self.frames) + slot * width..][2..width]
    }

    /// Inner products of view 1 of frame `frame` with the embeddings after that frame's own two.
    pub(super) fn gram_to_come(&self, frame: usize) -> &[f64] {
        &self.gram[2 * frame * 2 * self.frames + 2 * frame + 2..][..self.width(frame) - 2]
    }

    /// ‖z‖² of one embedding.
    pub(super) fn square(&self, index: usize) -> f64 {
        self.gram[index * 2 * self.frames + index]
    }

    /// The counts of all slots after `frames` steps.
    pub(super) fn counts_after(&self, frames: usize) -> &[f64] {
        &self.counts[frames * self.slots..][..self.slots]
    }

    /// The two embeddings of a frame, `view` being the one that is written.
    pub(super) fn pair(&self, frame: usize, view: usize) -> Pair {
        let (own, other) = (2 * frame + view, 2 * frame + 1 - view);
        Pair {
            own_square: self.square(own),
            own_other: self.gram[own * 2 * self.frames + other],
            own_norm: self.norms[own],
            other_norm: self.norms[other],
        }
    }

    /// One slot before step `frame`, `view` being the one that is written.
    pub(super) fn slot(&self, frame: usize, view: usize, slot: usize) -> Slot {
        let inner = &self.inner[block_start(frame, self.slots, self.frames) + slot * self.width(frame)..];
        Slot {
            count: self.counts[frame * self.slots + slot],
            square: self.squares[frame * self.slots + slot],
            own: inner[view],
            other: inner[1 - view],
        }
    }
}

/// Where the block of a step starts: each earlier step t holds `slots` rows of 2(T−t) numbers.
fn block_start(step: usize, slots: usize, frames: usize) -> usize {
    slots * step * (2 * frames - step + 1)
}

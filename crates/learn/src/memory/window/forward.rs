//! The recurrence over the frames, recorded for the way back, and the losses.

use super::branch::BranchNoise;
use super::losses::creation_loss;
use super::{FrameOutcome, Losses, Window, WindowInput};
use crate::kernels::Real;
use crate::memory::Prototypes;

impl<F: Real> Window<F> {
    pub(super) fn forward(&mut self, input: &WindowInput<'_, F>) {
        self.trajectory.start(input.embeddings, input.memory);
        self.combinations.reset();
        self.outcomes.clear();
        let directions = input.directions();
        let (mut cross_entropy, mut entropy, mut creation) = (0.0, 0.0, 0.0);
        for frame in 0..self.frames {
            for view in 0..directions {
                let trajectory = &self.trajectory;
                cross_entropy += self.branches[2 * frame + view].forward(
                    &input.control,
                    input.rules,
                    input.kappa,
                    noise(input, frame, view, self.slots),
                    &trajectory.pair(frame, view),
                    |slot| trajectory.slot(frame, view, slot),
                );
            }
            let kept = &self.branches[2 * frame];
            entropy += kept.entropy_share(input.rules) * kept.entropy();
            creation += kept.creation(input.rules);
            let created = kept.new > 0.0;
            self.outcomes.push(FrameOutcome {
                new_probability: kept.expectation.new_probability,
                created,
                slot: if created { kept.weakest } else { kept.expectation.nearest },
            });
            self.trajectory.advance(frame, kept);
            self.combinations.advance(frame, kept.writes.iter().map(|write| (write.keep, write.gain)));
            if frame + 1 == input.stride {
                let counts = self.trajectory.counts_after(frame + 1);
                self.combinations.resolve(frame + 1, input, counts, &mut self.memory_after_stride);
            }
        }
        let counts = self.trajectory.counts_after(self.frames);
        self.combinations.resolve(self.frames, input, counts, &mut self.memory_after);

        let frames = self.frames as f64;
        let mean_creation = creation / frames;
        let (creation, _) = creation_loss(input.rules, mean_creation);
        let self_supervised = cross_entropy / (frames * directions as f64);
        let entropy = entropy / frames;
        self.losses = Losses {
            self_supervised,
            entropy,
            creation,
            mean_creation,
            total: self_supervised
                + input.rules.entropy_weight * entropy
                + input.rules.creation_weight * creation,
        };
    }
}

fn noise<'a, F>(input: &WindowInput<'a, F>, frame: usize, view: usize, slots: usize) -> BranchNoise<'a> {
    match &input.noise {
        Some(noise) if input.rules.straight_through => BranchNoise {
            creation: f64::from(noise.creation[view][frame]),
            assignment: noise.assignment[view].get(frame * slots..).unwrap_or_default(),
        },
        _ => BranchNoise::default(),
    }
}

/// Every prototype as a combination of its old self and of view 1 of the frames so far.
#[derive(Clone, Debug)]
pub(super) struct Combinations {
    capacity: usize,
    old: Vec<f64>,
    new: Vec<f64>,
}

impl Combinations {
    pub(super) fn new(frames: usize, slots: usize) -> Self {
        Self { capacity: frames, old: vec![1.0; slots], new: vec![0.0; slots * frames] }
    }

    fn reset(&mut self) {
        self.old.fill(1.0);
    }

    fn advance(&mut self, frame: usize, writes: impl Iterator<Item = (f64, f64)>) {
        for ((old, new), (keep, gain)) in
            self.old.iter_mut().zip(self.new.chunks_exact_mut(self.capacity)).zip(writes)
        {
            *old *= keep;
            new[..frame].iter_mut().for_each(|factor| *factor *= keep);
            new[frame] = gain;
        }
    }

    /// Writes the memory after the first `frames` frames.
    fn resolve<F: Real>(
        &self,
        frames: usize,
        input: &WindowInput<'_, F>,
        counts: &[f64],
        memory: &mut Prototypes<F>,
    ) {
        let dimension = memory.dimension();
        for (slot, (old, new)) in self.old.iter().zip(self.new.chunks_exact(self.capacity)).enumerate() {
            let vector = memory.vector_mut(slot);
            if *old == 1.0 {
                // Untouched: the same bits as before.
                vector.copy_from_slice(input.memory.vector(slot));
            } else {
                vector.fill(F::from_f64(0.0));
                F::add_scaled(vector, *old, input.memory.vector(slot));
            }
            for (embedding, factor) in input.embeddings[0].chunks_exact(dimension).zip(&new[..frames]) {
                if *factor != 0.0 {
                    F::add_scaled(vector, *factor, embedding);
                }
            }
            memory.counts_mut()[slot] = F::from_f64(counts[slot]);
        }
    }
}

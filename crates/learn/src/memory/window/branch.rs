//! One view's tentative write at one step: E-step, decision or sample, M-step, and the loss against the other view.
//!
//! A branch sees the state before the step as K counts, square norms and inner products with the two embeddings of the
//! frame. It writes its own view; the pseudo-label comes from that view and the other one is the student. Without
//! symmetry there is one branch a frame, whose write is kept. With it there are two from the same state, and the write
//! of view 1 is kept.

use super::super::rules::{Control, EntropyOf, PseudoLabel, Rules, Variant};
use super::super::step::{self, Assignment, AssignmentGradient, Expectation, NORM_EPSILON, Write};

/// The frame's two embeddings as the branch sees them: `own` is written, `other` is the student.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    /// ⟨own, own⟩ and ⟨own, other⟩.
    pub(super) own_square: f64,
    pub(super) own_other: f64,
    /// ‖own‖ + ε and ‖other‖ + ε.
    pub(super) own_norm: f64,
    pub(super) other_norm: f64,
}

/// The state of one slot before the step, restricted to the frame's two embeddings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) count: f64,
    pub(super) square: f64,
    /// Inner products with the own and the other embedding.
    pub(super) own: f64,
    pub(super) other: f64,
}

/// The random numbers of one branch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BranchNoise<'a> {
    pub(super) creation: f64,
    pub(super) assignment: &'a [f32],
}

/// What is recorded of a branch for the way back.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub(super) expectation: Expectation,
    /// ŷ before the write.
    pub(super) y_hat: Vec<f64>,
    /// The creation variable: 0 or 1.
    pub(super) new: f64,
    /// Derivative of the creation variable with respect to ℓ_u; 0 where it is a hard decision.
    new_slope: f64,
    /// The slot that a new category takes (or would have taken).
    pub(super) weakest: usize,
    /// How the write changes each slot.
    pub(super) writes: Vec<Write>,
    /// The share of each slot in the write: ŷ, or the sampled slot.
    shares: Vec<f64>,
    /// Student's prediction minus pseudo-label: the gradient of the cross entropy with respect to the student's logits.
    residuals: Vec<f64>,
    label: Vec<f64>,
}

/// Gradients that a branch adds to: of the frame's embeddings' inner products and norms, and of the scalars.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BranchGradient {
    pub(super) own_square: f64,
    pub(super) own_other: f64,
    pub(super) own_norm: f64,
    pub(super) other_norm: f64,
    pub(super) inv_tau: f64,
    pub(super) beta: f64,
    pub(super) gamma: f64,
}

/// Gradient of the loss with respect to what a branch gives to the rest of the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BranchCotangent {
    /// Of the branch's cross entropy.
    pub(super) cross_entropy: f64,
    /// Of the entropy of ŷ.
    pub(super) entropy: f64,
    /// Of the creation variable (û, or its sample).
    pub(super) creation: f64,
}

impl Branch {
    pub(super) fn new(slots: usize) -> Self {
        Self {
            expectation: Expectation::default(),
            y_hat: vec![0.0; slots],
            new: 0.0,
            new_slope: 0.0,
            weakest: 0,
            writes: vec![Write::default(); slots],
            shares: vec![0.0; slots],
            residuals: vec![0.0; slots],
            label: vec![0.0; slots],
        }
    }

    /// Whether the write goes to one sampled slot instead of all by their share.
    pub(super) fn samples_assignment(rules: &Rules) -> bool {
        rules.straight_through && rules.variant == Variant::Paper
    }

    /// The creation variable as L_new averages it.
    pub(super) fn creation(&self, rules: &Rules) -> f64 {
        if rules.straight_through { self.new } else { self.expectation.new_probability }
    }

    /// What the entropy of this frame counts in its loss: a decision, so it carries no gradient.
    pub(super) fn entropy_share(&self, rules: &Rules) -> f64 {
        match rules.entropy_of {
            EntropyOf::Known if self.new > 0.0 => 0.0,
            EntropyOf::Known | EntropyOf::All => 1.0,
        }
    }

    /// −Σ ŷ log ŷ.
    pub(super) fn entropy(&self) -> f64 {
        -self.y_hat.iter().filter(|y| **y > 0.0).map(|y| y * y.ln()).sum::<f64>()
    }

    /// 1 − û in the write; where the paper's variant samples, the sample stands in for û here too.
    fn gate(&self, rules: &Rules) -> f64 {
        1.0 - if Self::samples_assignment(rules) { self.new } else { self.expectation.new_probability }
    }

    fn assignment(&self, rules: &Rules, slot: usize, count: f64) -> Assignment {
        Assignment {
            count,
            share: self.shares[slot],
            gate: self.gate(rules),
            new: self.new,
            weakest: slot == self.weakest,
        }
    }

    /// E-step, decision and M-step; returns the cross entropy of the student.
    pub(super) fn forward(
        &mut self,
        control: &Control,
        rules: &Rules,
        kappa: f64,
        noise: BranchNoise<'_>,
        pair: &Pair,
        slot: impl Fn(usize) -> Slot,
    ) -> f64 {
        let slots = self.y_hat.len();
        for k in 0..slots {
            let state = slot(k);
            self.y_hat[k] =
                step::logit(control, state.count, state.own, pair.own_norm, norm_of(state.square));
        }
        if Self::samples_assignment(rules) {
            for (share, (logit, noise)) in self.shares.iter_mut().zip(self.y_hat.iter().zip(noise.assignment))
            {
                *share = logit + f64::from(*noise);
            }
            one_hot(&mut self.shares);
            self.expectation = step::expect(control, &mut self.y_hat);
        } else {
            self.expectation = step::expect(control, &mut self.y_hat);
            self.shares.copy_from_slice(&self.y_hat);
        }
        self.decide(rules, kappa, noise.creation);
        self.weakest = step::weakest((0..slots).map(|k| slot(k).count));
        for k in 0..slots {
            self.writes[k] = self.assignment(rules, k, slot(k).count).write(rules.variant, rules.decay);
        }

        for k in 0..slots {
            let after = self.after(k, &slot(k), pair);
            let count = self.writes[k].count;
            self.label[k] = step::logit(control, count, after.own, pair.own_norm, norm_of(after.square));
            self.residuals[k] =
                step::logit(control, count, after.other, pair.other_norm, norm_of(after.square));
        }
        match rules.pseudo_label {
            PseudoLabel::OneHot => one_hot(&mut self.label),
            PseudoLabel::Soft { ratio } => {
                self.label.iter_mut().for_each(|logit| *logit /= ratio);
                step::softmax(&mut self.label);
            }
        }
        let expected_logit: f64 =
            self.label.iter().zip(&self.residuals).map(|(label, logit)| label * logit).sum();
        let log_sum = step::softmax(&mut self.residuals);
        for (residual, label) in self.residuals.iter_mut().zip(&self.label) {
            *residual -= label;
        }
        log_sum - expected_logit
    }

    /// The creation variable and its slope.
    fn decide(&mut self, rules: &Rules, kappa: f64, noise: f64) {
        let Expectation { new_logit, new_probability, .. } = self.expectation;
        let probability_slope = new_probability * (1.0 - new_probability);
        let (new, slope) = match (rules.straight_through, rules.variant) {
            (false, _) => (new_probability > rules.threshold, 0.0),
            (true, Variant::Reference) => {
                let relaxed = step::sigmoid((new_logit + noise) / kappa);
                (relaxed > rules.threshold, relaxed * (1.0 - relaxed) / kappa)
            }
            (true, Variant::Paper) => (new_logit + noise > 0.0, probability_slope),
        };
        self.new = f64::from(u8::from(new));
        self.new_slope = slope;
    }

    /// A slot's square norm and inner products after the write.
    fn after(&self, k: usize, before: &Slot, pair: &Pair) -> Slot {
        let Write { keep, gain, count } = self.writes[k];
        Slot {
            count,
            square: (keep * keep * before.square
                + 2.0 * keep * gain * before.own
                + gain * gain * pair.own_square)
                .max(0.0),
            own: keep * before.own + gain * pair.own_square,
            other: keep * before.other + gain * pair.own_other,
        }
    }

    /// The square norm of a slot after the write.
    pub(super) fn square_after(&self, k: usize, before: &Slot, pair: &Pair) -> f64 {
        self.after(k, before, pair).square
    }

    /// The way back.
    ///
    /// `future` tells, for a slot, the gradient that the following steps have for it: of its square norm and count after
    /// the write, and of `keep` and `gain` through the inner products with embeddings still to come. `d_slot` receives
    /// the gradient with respect to the slot's state before the step.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn backward(
        &self,
        control: &Control,
        rules: &Rules,
        pair: &Pair,
        slot: impl Fn(usize) -> Slot,
        cotangent: &BranchCotangent,
        future: impl Fn(usize) -> Future,
        mut d_slot: impl FnMut(usize, Slot),
        gradient: &mut BranchGradient,
        d_shares: &mut [f64],
    ) {
        let mut d_new = 0.0;
        let mut d_gate = 0.0;
        for (k, d_share) in d_shares.iter_mut().enumerate() {
            let before = slot(k);
            let after = self.after(k, &before, pair);
            let Write { keep, gain, .. } = self.writes[k];
            let mut future = future(k);

            // The student's logit 1/τ·cos(other, P after the write).
            let mut d_other = 0.0;
            if after.count > 0.0 {
                let norm = norm_of(after.square);
                let cosine = after.other / (pair.other_norm * norm);
                let d_logit = cotangent.cross_entropy * self.residuals[k];
                let d_cosine = control.inv_tau * d_logit;
                gradient.inv_tau += d_logit * cosine;
                gradient.other_norm -= d_cosine * cosine / pair.other_norm;
                d_other = d_cosine / (pair.other_norm * norm);
                future.square -= d_cosine * cosine / norm * norm_slope(after.square);
            }

            // The write of square norm and inner products.
            let d_write = Write {
                keep: future.keep
                    + d_other * before.other
                    + future.square * 2.0 * (keep * before.square + gain * before.own),
                gain: future.gain
                    + d_other * pair.own_other
                    + future.square * 2.0 * (keep * before.own + gain * pair.own_square),
                count: future.count,
            };
            gradient.own_other += d_other * gain;
            gradient.own_square += future.square * gain * gain;

            let AssignmentGradient { count, share, gate, new } =
                self.assignment(rules, k, before.count).write_backward(rules.variant, rules.decay, &d_write);
            d_new += new;
            d_gate += gate;
            *d_share = share;
            d_slot(
                k,
                Slot {
                    count,
                    square: future.square * keep * keep,
                    own: future.square * 2.0 * keep * gain,
                    other: d_other * keep,
                },
            );
        }

        // From the creation variable and the gate to ℓ_u, β and γ.
        let Expectation { nearest, new_logit, new_probability } = self.expectation;
        let probability_slope = new_probability * (1.0 - new_probability);
        let d_new_logit = if rules.straight_through {
            let through_gate = if Self::samples_assignment(rules) { d_gate } else { 0.0 };
            (d_new - through_gate + cotangent.creation) * self.new_slope
        } else {
            (cotangent.creation - d_gate) * probability_slope
        };
        gradient.beta -= d_new_logit / control.gamma;
        gradient.gamma -= d_new_logit * new_logit / control.gamma;

        // From ŷ to the logits; only the `paper` variant lets û reach them.
        let mean: f64 = self.y_hat.iter().zip(d_shares.iter()).map(|(y, d)| y * d).sum();
        let entropy = if cotangent.entropy == 0.0 { 0.0 } else { self.entropy() };
        for (k, d_share) in d_shares.iter().enumerate() {
            let before = slot(k);
            if before.count <= 0.0 {
                continue;
            }
            let y = self.y_hat[k];
            let mut d_logit = y * (d_share - mean);
            if cotangent.entropy != 0.0 && y > 0.0 {
                d_logit -= cotangent.entropy * y * (y.ln() + entropy);
            }
            if rules.variant == Variant::Paper && k == nearest {
                d_logit -= d_new_logit / control.gamma;
            }
            let norm = norm_of(before.square);
            let cosine = before.own / (pair.own_norm * norm);
            let d_cosine = control.inv_tau * d_logit;
            gradient.inv_tau += d_logit * cosine;
            gradient.own_norm -= d_cosine * cosine / pair.own_norm;
            d_slot(
                k,
                Slot {
                    count: 0.0,
                    square: -d_cosine * cosine / norm * norm_slope(before.square),
                    own: d_cosine / (pair.own_norm * norm),
                    other: 0.0,
                },
            );
        }
    }
}

/// Gradients that the following steps have for a slot; see [`Branch::backward`].
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Future {
    pub(super) square: f64,
    pub(super) count: f64,
    pub(super) keep: f64,
    pub(super) gain: f64,
}

/// ‖x‖ + ε from ‖x‖².
pub(super) fn norm_of(square: f64) -> f64 {
    square.sqrt() + NORM_EPSILON
}

/// d‖x‖/d‖x‖², taken as 0 at the origin, where it has no value and nothing depends on it.
pub(super) fn norm_slope(square: f64) -> f64 {
    if square > 0.0 { 0.5 / square.sqrt() } else { 0.0 }
}

fn one_hot(values: &mut [f64]) {
    let best = step::arg_max(values);
    for (index, value) in values.iter_mut().enumerate() {
        *value = f64::from(u8::from(index == best));
    }
}

//! The E-step and the M-step of one frame, as functions of similarities and counts alone.
//!
//! The live memory and the learning window both compute with these, so what is learned is what is lived. Everything
//! is `f64`: it is K numbers a frame, and the embeddings' own precision stays the only rounding that matters.

use super::rules::{Control, Variant};

/// Added to a norm before dividing by it, so that a zero vector is similar to nothing instead of undefined.
pub(super) const NORM_EPSILON: f64 = 1e-5;
/// The similarity logit of a slot that is not in use: its softmax is exactly zero beside any slot that is.
pub(super) const UNUSED_LOGIT: f64 = -1e6;
/// The smallest divisor of a write in the `reference` variant.
const SMALLEST_WEIGHT: f64 = 1e-6;

/// 1/τ times the cosine of two vectors, from their inner product and norms (ε already added to the norms).
#[inline]
pub(super) fn logit(control: &Control, count: f64, inner: f64, norm_a: f64, norm_b: f64) -> f64 {
    if count > 0.0 { control.inv_tau * inner / (norm_a * norm_b) } else { UNUSED_LOGIT }
}

/// What the E-step says of a frame beside ŷ.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Expectation {
    /// The slot with the largest logit; the lowest of equals.
    pub(super) nearest: usize,
    /// ℓ_u, the logit of û.
    pub(super) new_logit: f64,
    /// û, the probability that the frame belongs to a new category.
    pub(super) new_probability: f64,
}

/// E-step: ŷ (the softmax of the logits, written over them) and û.
pub(super) fn expect(control: &Control, logits: &mut [f64]) -> Expectation {
    let nearest = arg_max(logits);
    let largest = logits.get(nearest).copied().unwrap_or(UNUSED_LOGIT);
    let new_logit = (-largest - control.beta) / control.gamma;
    softmax(logits);
    Expectation { nearest, new_logit, new_probability: sigmoid(new_logit) }
}

/// How a frame changes one slot: P ← keep·P + gain·z, c ← count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Write {
    /// Factor of the old prototype.
    pub(super) keep: f64,
    /// Factor of the new embedding.
    pub(super) gain: f64,
    /// The count after the write, decayed.
    pub(super) count: f64,
}

/// The inputs of the M-step for one slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assignment {
    /// The count before.
    pub(super) count: f64,
    /// ŷ_k, or its sample.
    pub(super) share: f64,
    /// What is left for existing slots: 1 − û, or its sample.
    pub(super) gate: f64,
    /// 1 if the frame creates a category, else 0.
    pub(super) new: f64,
    /// Whether this is the slot that a new category takes.
    pub(super) weakest: bool,
}

impl Assignment {
    /// 1 unless this slot is erased for a new category.
    fn survival(&self) -> f64 {
        if self.weakest { 1.0 - self.new } else { 1.0 }
    }

    /// a_k: how much of the frame this slot gets.
    fn amount(&self) -> f64 {
        let creating = if self.weakest { self.new } else { 0.0 };
        creating + self.share * self.gate * (1.0 - self.new)
    }

    /// M-step of one slot: erase if it is taken, average the embedding in, count it, decay.
    pub(super) fn write(&self, variant: Variant, decay: f64) -> Write {
        let (survival, amount) = (self.survival(), self.amount());
        let count = survival * self.count;
        let (keep, gain) = match variant {
            Variant::Reference => {
                let weight = (count + amount).max(SMALLEST_WEIGHT);
                (count / weight, amount / weight)
            }
            Variant::Paper => {
                let gain = amount / (count + 1.0);
                (1.0 - gain, gain)
            }
        };
        Write { keep: keep * survival, gain, count: decay * (count + amount) }
    }

    /// The reverse of [`Assignment::write`]: from the gradient of its result to that of its inputs.
    pub(super) fn write_backward(&self, variant: Variant, decay: f64, d: &Write) -> AssignmentGradient {
        let (survival, amount) = (self.survival(), self.amount());
        let count = survival * self.count;
        let d_keep = d.keep * survival;
        let (mut d_count, mut d_amount, keep) = match variant {
            Variant::Reference => {
                let weight = count + amount;
                if weight > SMALLEST_WEIGHT {
                    let square = weight * weight;
                    let difference = d_keep - d.gain;
                    (difference * amount / square, -difference * count / square, count / weight)
                } else {
                    (d_keep / SMALLEST_WEIGHT, d.gain / SMALLEST_WEIGHT, count / SMALLEST_WEIGHT)
                }
            }
            Variant::Paper => {
                let d_gain = d.gain - d_keep;
                let weight = count + 1.0;
                (-d_gain * amount / (weight * weight), d_gain / weight, 1.0 - amount / weight)
            }
        };
        d_count += decay * d.count;
        d_amount += decay * d.count;
        let d_survival = d.keep * keep + d_count * self.count;
        let others = 1.0 - self.new;
        let creating = if self.weakest { d_amount - d_survival } else { 0.0 };
        AssignmentGradient {
            count: d_count * survival,
            share: d_amount * self.gate * others,
            gate: d_amount * self.share * others,
            new: creating - d_amount * self.share * self.gate,
        }
    }
}

/// Gradient with respect to the fields of an [`Assignment`].
#[derive(Clone, Copy, Debug)]
pub(super) struct AssignmentGradient {
    pub(super) count: f64,
    pub(super) share: f64,
    pub(super) gate: f64,
    pub(super) new: f64,
}

/// The slot that a new category takes: the smallest count, the lowest of equals (so empty slots fill in order).
pub(super) fn weakest(counts: impl IntoIterator<Item = f64>) -> usize {
    let mut best = (0, f64::INFINITY);
    for (slot, count) in counts.into_iter().enumerate() {
        if count < best.1 {
            best = (slot, count);
        }
    }
    best.0
}

/// The index of the largest value; the lowest of equals.
pub(super) fn arg_max(values: &[f64]) -> usize {
    let mut best = (0, f64::NEG_INFINITY);
    for (index, &value) in values.iter().enumerate() {
        if value > best.1 {
            best = (index, value);
        }
    }
    best.0
}

/// Softmax in place, safe for any finite input; returns the logarithm of the sum that it divides by.
pub(super) fn softmax(values: &mut [f64]) -> f64 {
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for value in values.iter_mut() {
        *value = (*value - largest).exp();
        sum += *value;
    }
    for value in values.iter_mut() {
        *value /= sum;
    }
    largest + sum.ln()
}

/// 1/(1+e⁻ˣ) without overflow.
pub(super) fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment(count: f64, new: f64, weakest: bool) -> Assignment {
        Assignment { count, share: 0.3, gate: 0.6, new, weakest }
    }

    #[test]
    fn a_new_category_is_its_first_embedding() {
        for variant in [Variant::Reference, Variant::Paper] {
            let write = assignment(4.0, 1.0, true).write(variant, 0.99);
            assert_eq!(write, Write { keep: 0.0, gain: 1.0, count: 0.99 });
            let other = assignment(4.0, 1.0, false).write(variant, 0.5);
            assert_eq!(other, Write { keep: 1.0, gain: 0.0, count: 2.0 });
        }
    }

    #[test]
    fn an_unused_slot_stays_empty() {
        for variant in [Variant::Reference, Variant::Paper] {
            let mut unused = assignment(0.0, 0.0, false);
            unused.share = 0.0;
            assert_eq!(unused.write(variant, 0.99).count, 0.0);
            assert_eq!(unused.write(variant, 0.99).gain, 0.0);
        }
    }

    /// Every derivative against central differences; step and tolerance suit f64.
    #[test]
    fn the_write_gradient_is_the_derivative_of_the_write() {
        let d = Write { keep: 0.7, gain: -1.3, count: 0.4 };
        let value = |a: &Assignment, variant| {
            let w = a.write(variant, 0.9);
            d.keep * w.keep + d.gain * w.gain + d.count * w.count
        };
        for variant in [Variant::Reference, Variant::Paper] {
            for weakest in [false, true] {
                let at = Assignment { count: 1.7, share: 0.3, gate: 0.6, new: 0.2, weakest };
                let gradient = at.write_backward(variant, 0.9, &d);
                let h = 1e-6;
                let slope = |change: fn(&mut Assignment, f64)| {
                    let (mut up, mut down) = (at, at);
                    change(&mut up, h);
                    change(&mut down, -h);
                    (value(&up, variant) - value(&down, variant)) / (2.0 * h)
                };
                let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-8, "{a} {b} {variant:?} {weakest}");
                close(gradient.count, slope(|a, h| a.count += h));
                close(gradient.share, slope(|a, h| a.share += h));
                close(gradient.gate, slope(|a, h| a.gate += h));
                close(gradient.new, slope(|a, h| a.new += h));
            }
        }
    }

    #[test]
    fn extreme_logits_stay_finite() {
        let mut values = [UNUSED_LOGIT, 3.0, UNUSED_LOGIT];
        softmax(&mut values);
        assert_eq!(values, [0.0, 1.0, 0.0]);
        assert_eq!((sigmoid(1e6), sigmoid(-1e6)), (1.0, 0.0));
        let mut empty = [UNUSED_LOGIT; 4];
        let expectation = expect(&Control::default(), &mut empty);
        assert_eq!(empty, [0.25; 4]);
        assert_eq!(expectation.new_probability, 1.0);
    }
}

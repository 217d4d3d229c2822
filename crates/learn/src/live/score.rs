//! Whether one encoder tells things apart better than another, by what a live memory has kept: no label is asked.
//!
//! Both encoders answer the same questions, of two kinds:
//!
//! - **Time.** Consecutive samples mostly show one thing. Is the next sample more similar to a sample than samples far from it in
//!   time are? This knows nothing of either encoder.
//! - **Categories.** Two frames of a category, of different looks, were found to be one thing. Are they more similar than frames of
//!   other categories are? The encoder in use has found them, so this favours it: a new one that is better even here
//!   is better.
//!
//! An answer is the share of the others that are less similar: 1 if all are, ½ by chance. The score is the mean of the answers,
//! half for each kind. One score says little, since it depends on what there was to see. The difference of two encoders on
//! the same questions says much more, and its standard error is known: that is what a decision is made by.

use serde::{Deserialize, Serialize};

use super::kept::{KeptFrame, KeptFrames};
use super::threshold::FAR;
use crate::kernels::vector;

/// Samples at least this far apart are not of one look: at a sample every 4 s, people look at a thing for some twenty seconds.
const ANOTHER_LOOK: u64 = 5;

/// From this many questions of a kind on, it counts.
const ENOUGH: usize = 20;

/// By how many standard errors the score must have risen, or fallen, to be called better, or worse.
const SURE: f64 = 2.0;

/// Which weights the live path is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Publish {
    /// Those that a [`Comparison`] finds better than the ones in use.
    #[default]
    Better,
    /// All, as in the paper.
    Always,
}

/// Two encoders, by the same questions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// The score of the one in use.
    pub before: f64,
    /// The score of the new one.
    pub after: f64,
    /// The standard error of their difference.
    pub error: f64,
    /// Questions asked.
    pub questions: usize,
}

impl Comparison {
    /// Whether the new one is better.
    pub fn is_better(&self) -> bool {
        self.after - self.before > SURE * self.error
    }

    /// Whether it is worse; it may also be that nobody can tell.
    pub fn is_worse(&self) -> bool {
        self.before - self.after > SURE * self.error
    }
}

/// Compares two encoders by the same kept frames, as the one in use and a new one see them; none as long as there is too little to
/// ask about.
pub fn compare(before: &KeptFrames, after: &KeptFrames) -> Option<Comparison> {
    let mut kinds = vec![(by_time(before), by_time(after)), (by_category(before), by_category(after))];
    // Without time there is nobody but the encoder in use to say what belongs together.
    if kinds[0].0.len() < ENOUGH {
        return None;
    }
    kinds.retain(|(before, _)| before.len() >= ENOUGH);
    let share = 1.0 / kinds.len() as f64;
    let mut comparison = Comparison { before: 0.0, after: 0.0, error: 0.0, questions: 0 };
    for (before, after) in &kinds {
        let count = before.len() as f64;
        let differences: Vec<f64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
        let difference = mean(&differences);
        let squares: f64 = differences.iter().map(|one| (one - difference).powi(2)).sum();
        comparison.before += share * mean(before);
        comparison.after += share * mean(after);
        comparison.error += share * share * squares / (count * (count - 1.0));
        comparison.questions += before.len();
    }
    comparison.error = comparison.error.sqrt();
    Some(comparison)
}

/// The answers about consecutive samples.
fn by_time(kept: &KeptFrames) -> Vec<f64> {
    let pairs: Vec<_> =
        kept.consecutive().filter(|(a, b)| a.pixels.is_some() && b.pixels.is_some()).collect();
    let answer = |(first, second): &(&KeptFrame, &KeptFrame)| {
        let far = pairs.iter().filter(|(other, _)| other.frame.abs_diff(first.frame) >= FAR);
        less_similar(first, second, far.flat_map(|(one, two)| [*one, *two]))
    };
    pairs.iter().filter_map(answer).collect()
}

/// The answers about frames of a category.
fn by_category(kept: &KeptFrames) -> Vec<f64> {
    let mut all = Vec::new();
    for (category, own) in kept.categories() {
        all.extend(own.iter().filter(|one| one.pixels.is_some()).map(|one| (category, one)));
    }
    let another_look = |a: &KeptFrame, b: &KeptFrame| a.frame.abs_diff(b.frame) >= ANOTHER_LOOK;
    let answer = |(category, one): &(u64, &KeptFrame)| {
        let others = || all.iter().filter(|(_, other)| another_look(one, other));
        let own = others().filter(|(theirs, _)| theirs == category);
        let answers: Vec<f64> = own
            .filter_map(|(_, same)| {
                let foreign = others().filter(|(theirs, _)| theirs != category).map(|(_, other)| *other);
                less_similar(one, same, foreign)
            })
            .collect();
        (!answers.is_empty()).then(|| mean(&answers))
    };
    all.iter().filter_map(answer).collect()
}

/// The share of others that are less similar to `one` than `same` is; none if there are no others.
fn less_similar<'a>(
    one: &KeptFrame,
    same: &KeptFrame,
    others: impl Iterator<Item = &'a KeptFrame>,
) -> Option<f64> {
    let similarity = |other: &KeptFrame| vector::dot(&one.direction, &other.direction);
    let (to_same, mut less, mut count) = (similarity(same), 0u32, 0u32);
    for other in others {
        count += 1;
        less += u32::from(similarity(other) < to_same);
    }
    (count > 0).then(|| f64::from(less) / f64::from(count))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::live::kept::direction;
    use crate::random::{Purpose, Random};

    /// Samples of eight things, looked at for six samples each and again and again, as an encoder with so much noise sees them.
    fn seen(noise: f32, pixels: bool) -> KeptFrames {
        let mut random = Random::new(3, Purpose::World, 1);
        let mut kept = KeptFrames::new(5, 1 << 20);
        for frame in 0..200u64 {
            let thing = (frame / 6) % 8;
            let values: Vec<f32> = (0..8)
                .map(|at| f32::from(u8::from(at == thing)) + noise * random.between(-1.0, 1.0))
                .collect();
            kept.add(KeptFrame {
                frame,
                sequence: frame,
                category: thing,
                pixels: pixels.then(|| Arc::from([0u8])),
                direction: direction(&values),
            });
        }
        kept
    }

    /// The same frames, as another encoder sees them.
    fn turned(kept: &KeptFrames, to: &KeptFrames) -> KeptFrames {
        let (mut turned, other) = (kept.clone(), to.frames());
        turned
            .turn(|one| {
                let other = other.get(&one.frame).map_or(&one.direction, |other| &other.direction);
                Ok::<_, ()>(Arc::clone(other))
            })
            .unwrap();
        turned
    }

    #[test]
    fn less_noise_is_better_and_more_is_worse() {
        let (clear, noisy) = (seen(0.2, true), seen(0.9, true));
        let up = compare(&noisy, &turned(&noisy, &clear)).unwrap();
        assert!(up.is_better() && !up.is_worse(), "{up:?}");
        let down = compare(&clear, &turned(&clear, &noisy)).unwrap();
        assert!(down.is_worse() && !down.is_better(), "{down:?}");
        assert!(down.before > 0.9 && down.after < down.before, "{down:?}");
    }

    #[test]
    fn the_same_encoder_is_neither() {
        let kept = seen(0.5, true);
        let comparison = compare(&kept, &kept).unwrap();
        assert_eq!((comparison.before, comparison.error), (comparison.after, 0.0));
        assert!(!comparison.is_better() && !comparison.is_worse());
    }

    #[test]
    fn chance_is_a_half() {
        // Nothing but noise.
        let blind = seen(1e6, true);
        let comparison = compare(&blind, &blind).unwrap();
        assert!((comparison.before - 0.5).abs() < 0.1, "{comparison:?}");
    }

    #[test]
    fn what_cannot_be_embedded_again_is_not_asked_about() {
        let lost = seen(0.2, false);
        assert_eq!(compare(&lost, &lost), None);
        assert_eq!(compare(&KeptFrames::new(5, 1 << 20), &KeptFrames::new(5, 1 << 20)), None);
    }
}

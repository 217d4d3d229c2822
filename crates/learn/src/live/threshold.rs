//! How similar a frame must be to a category to belong to it: measured on the stream itself, without labels.
//!
//! What counts as similar depends on the encoder, on what it has learned and on the world in front of the camera, so no number
//! fits all. Two things can be observed anywhere: how similar *consecutive* samples are, which mostly show one thing, and how
//! similar samples *far* apart in time are, which mostly do not. The threshold lies between their medians, [`SHARE`] of the
//! way from far to consecutive. An encoder that was taught to see all sides of a thing alike finds consecutive samples nearly
//! equal, and that middle far too low: there distances, 1 − cosine, are compared by their ratio, and the threshold's distance lies
//! [`RATIO_SHARE`] of the way, in logarithms, from that of consecutive samples to that of distant ones. An encoder that has learned little takes some different things for nearly the same: there the
//! threshold also keeps clear of the most similar tenth of the samples far apart. It is measured again as the stream goes on, and
//! whenever the encoder changes.
//!
//! The first minutes have nothing far apart yet. Weights that have learned something start from [`FIRST`], which suits
//! published encoders. Random ones see everything alike at first, by an amount that nobody knows: there the threshold is such that
//! one category is created for every [`FRAMES_A_CATEGORY`] frames seen. At a sample every 4 s, people look at a thing for some
//! twenty seconds.

use crate::kernels::vector;

/// How far up from the similarity of distant samples to that of consecutive ones the threshold lies.
const SHARE: f64 = 0.62;

/// The same for distances, by their ratio.
const RATIO_SHARE: f64 = 0.64;

/// The quantile of the similarities of distant samples that the threshold keeps clear of, ...
const CONFUSABLE: f64 = 0.9;

/// ... by this share of what is left to 1.
const CLEAR_OF: f64 = 0.25;

/// Samples this many apart count as far: a minute, at one every 4 s.
pub const FAR: u64 = 15;

/// From this many pairs of consecutive samples on, the threshold is measured.
pub const ENOUGH: usize = 40;

/// The threshold before anything was seen.
pub const FIRST: f64 = 0.75;

/// How many of the first frames are to share a category, on average.
const FRAMES_A_CATEGORY: usize = 5;

/// The most by which the first threshold lies below the similarity that the first frames needed: who has seen one thing only
/// cannot know how different others are.
const MARGIN: f64 = 0.1;

/// Halvings of the range of similarities, from 2 to a thousandth.
const HALVINGS: usize = 12;

/// A threshold, and what it was measured from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The least cosine between a frame and the prototype of its category.
    pub similarity: f64,
    /// Median cosine of consecutive samples.
    pub next: f64,
    /// Median cosine of samples far apart.
    pub far: f64,
}

/// Two consecutive samples: the number of the first, and the directions of both.
#[derive(Clone, Copy, Debug)]
pub struct Pair<'a> {
    /// The number of the first.
    pub frame: u64,
    /// Its direction: an embedding of length 1.
    pub first: &'a [f32],
    /// The direction of the next one.
    pub second: &'a [f32],
}

/// The threshold from pairs of consecutive samples; none if there are too few or all are near to each other in time.
pub fn measure(pairs: &[Pair<'_>]) -> Option<Measured> {
    if pairs.len() < ENOUGH {
        return None;
    }
    let mut next: Vec<f64> = pairs.iter().map(|pair| cosine(pair.first, pair.second)).collect();
    let mut far = Vec::new();
    for (at, a) in pairs.iter().enumerate() {
        let earlier = pairs[..at].iter().filter(|b| a.frame.abs_diff(b.frame) >= FAR);
        far.extend(earlier.map(|b| cosine(a.first, b.first)));
    }
    let confusable = quantile(&mut far, CONFUSABLE)?;
    let (next, far) = (quantile(&mut next, 0.5)?, quantile(&mut far, 0.5)?);
    let between = far + SHARE * (next - far);
    let by_ratio = 1.0 - distance(far).powf(RATIO_SHARE) * distance(next).powf(1.0 - RATIO_SHARE);
    let similarity = between.max(by_ratio).max(confusable + CLEAR_OF * (1.0 - confusable));
    Some(Measured { similarity, next, far })
}

/// The distance of two directions with this cosine; never quite 0.
fn distance(cosine: f64) -> f64 {
    (1.0 - cosine).max(1e-6)
}

/// The threshold of the first frames; see the [module](self).
pub fn first(frames: &[&[f32]]) -> Option<f64> {
    let wanted = frames.len().div_ceil(FRAMES_A_CATEGORY);
    if frames.len() < FRAMES_A_CATEGORY {
        return None;
    }
    let highest = edge(-1.0, 1.0, |similarity| created(frames, similarity) <= wanted);
    let number = created(frames, highest);
    let lowest = edge(-1.0, highest, |similarity| created(frames, similarity) < number);
    Some(highest - (0.5 * (highest - lowest)).min(MARGIN))
}

/// The highest similarity for which `holds` is true, if it is true below and false above.
fn edge(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

/// Categories that these frames would create in an empty memory.
fn created(frames: &[&[f32]], similarity: f64) -> usize {
    let mut sums: Vec<Vec<f32>> = Vec::new();
    for frame in frames {
        let cosines = sums.iter().map(|sum| cosine(sum, frame));
        let best = cosines.enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        match best {
            Some((at, cosine)) if cosine >= similarity => {
                sums[at].iter_mut().zip(*frame).for_each(|(sum, value)| *sum += value);
            }
            _ => sums.push(frame.to_vec()),
        }
    }
    sums.len()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let square = |v: &[f32]| f64::from(vector::dot(v, v));
    f64::from(vector::dot(a, b)) / (square(a) * square(b)).sqrt().max(f64::MIN_POSITIVE)
}

/// The value below which this share of all lies.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    Some(*values.select_nth_unstable_by((share * last as f64).round() as usize, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    /// Directions of `things` in turn, each `stay` frames long, with noise, on top of something that all frames share.
    fn frames(count: usize, stay: usize, shared: f32, noise: f32) -> Vec<Vec<f32>> {
        let mut random = Random::new(5, Purpose::World, 0);
        (0..count)
            .map(|frame| {
                let thing = (frame / stay) % 16;
                let mut values: Vec<f32> = (0..17)
                    .map(|at| f32::from(u8::from(at == thing)) + noise * random.between(-1.0, 1.0))
                    .collect();
                values[16] = shared;
                let norm = vector::dot(&values, &values).sqrt();
                values.iter_mut().for_each(|value| *value /= norm);
                values
            })
            .collect()
    }

    fn pairs(frames: &[Vec<f32>]) -> Vec<Pair<'_>> {
        let consecutive = frames.windows(2).enumerate();
        consecutive.map(|(at, two)| Pair { frame: at as u64, first: &two[0], second: &two[1] }).collect()
    }

    #[test]
    fn it_tells_things_apart_whatever_all_frames_share() {
        for shared in [0.0, 1.0, 3.0] {
            let frames = frames(80, 5, shared, 0.1);
            let measured = measure(&pairs(&frames)).unwrap();
            assert!(measured.far < measured.similarity && measured.similarity < measured.next);
            let directions: Vec<&[f32]> = frames.iter().map(Vec::as_slice).collect();
            assert_eq!(created(&directions, measured.similarity), 16, "shared {shared}: {measured:?}");
        }
    }

    /// Consecutive samples that are nearly equal, and things as far from each other as ever: a threshold in the middle would take
    /// things for one whose distance is many times that of two looks at one thing.
    #[test]
    fn where_looks_are_nearly_equal_ratios_count() {
        let frames = frames(80, 5, 1.0, 0.01);
        let measured = measure(&pairs(&frames)).unwrap();
        assert!(measured.next > 0.999 && measured.far < 0.6, "{measured:?}");
        assert!(measured.similarity > measured.far + 0.8 * (measured.next - measured.far), "{measured:?}");
        assert!(measured.similarity < measured.next, "{measured:?}");
    }

    #[test]
    fn it_waits_until_there_is_something_far_apart() {
        let frames = frames(80, 5, 1.0, 0.1);
        assert_eq!(measure(&pairs(&frames)[..ENOUGH - 1]), None);
        let near =
            frames.windows(2).take(ENOUGH).map(|two| Pair { frame: 7, first: &two[0], second: &two[1] });
        assert_eq!(measure(&near.collect::<Vec<_>>()), None);
    }

    #[test]
    fn the_first_frames_give_one_category_in_five() {
        let frames = frames(20, 5, 1.0, 0.1);
        let directions: Vec<&[f32]> = frames.iter().map(Vec::as_slice).collect();
        for (seen, things) in [(5, 1), (10, 2), (20, 4)] {
            let similarity = first(&directions[..seen]).unwrap();
            assert_eq!(created(&directions[..seen], similarity), things);
        }
        // One thing alone: the next one may be as near as the margin says, and is still told apart.
        let similarity = first(&directions[..5]).unwrap();
        assert_eq!(created(&directions[..10], similarity), 2);
        assert_eq!(first(&directions[..4]), None);
    }
}

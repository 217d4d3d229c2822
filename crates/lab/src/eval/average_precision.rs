//! Average precision of recognition in a labelled stream: known objects must be named, new ones ranked as unknown.
//!
//! Every frame carries the score of being new (ℓ_u, the logit of û), the category that would be named, and the true
//! category unless the object appears for the first time. Frames are accepted in the order of rising score. After n
//! of them precision is the share named rightly, recall the number named rightly over all known frames of the pool.
//! The average precision is the area under precision over recall, by trapezoids from (recall 0, precision 1) on,
//! without interpolation. A monotone change of the scores leaves it as it is.

use crate::{Error, Result};

/// The average precision of a pool of frames.
///
/// `truth` is `None` where an object appears for the first time: such a frame can only be wrong, whatever is named.
/// Frames with equal scores are accepted in the order given.
///
/// # Errors
/// If the three slices differ in length, a score is NaN, or no frame shows a known object (recall is undefined then).
pub fn average_precision<L: PartialEq>(
    unknown_scores: &[f64],
    predicted: &[L],
    truth: &[Option<L>],
) -> Result<f64> {
    let frames = unknown_scores.len();
    if predicted.len() != frames || truth.len() != frames {
        return Err(Error::input(format!(
            "AP needs one score, prediction and truth for each frame: there are {frames}, {} and {}",
            predicted.len(),
            truth.len()
        )));
    }
    if let Some(frame) = unknown_scores.iter().position(|score| score.is_nan()) {
        return Err(Error::input(format!(
            "the unknown score of frame {frame} is not a number: AP cannot rank it"
        )));
    }
    let known = truth.iter().filter(|label| label.is_some()).count();
    if known == 0 {
        return Err(Error::input(
            "AP needs at least one frame of an object seen before: all are first appearances",
        ));
    }

    let mut order: Vec<usize> = (0..frames).collect();
    // −0 and 0 are the same score, so total_cmp will not do; NaN has been refused.
    order.sort_by(|&left, &right| {
        unknown_scores[left].partial_cmp(&unknown_scores[right]).unwrap_or(std::cmp::Ordering::Equal)
    });
    let (mut right, mut last_precision, mut area) = (0u64, 1.0, 0.0);
    for (accepted, frame) in (1u64..).zip(order) {
        let named = truth[frame].as_ref() == Some(&predicted[frame]);
        right += u64::from(named);
        let precision = right as f64 / accepted as f64;
        if named {
            // Recall grows by one frame of the known ones here and nowhere else.
            area += (last_precision + precision) / 2.0 / known as f64;
        }
        last_precision = precision;
    }
    Ok(area)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn truth_of(labels: &[u32], unknown: u32) -> Vec<Option<u32>> {
        labels.iter().map(|&label| (label != unknown).then_some(label)).collect()
    }

    /// The worked example of the method's description; it gives six digits.
    #[test]
    fn a_worked_example() {
        let truth = truth_of(&[9, 9, 0, 1, 9, 1, 0, 2, 2, 0], 9);
        let predicted = [0, 0, 0, 1, 1, 0, 0, 2, 2, 1];
        let scores = [50.0, 4.0, -1.0, -2.0, 1.0, 0.5, -3.0, 2.0, -0.5, 3.0];
        let ap = average_precision(&scores, &predicted, &truth).unwrap();
        assert!((ap - 0.670_068).abs() < 5e-7, "{ap}");
    }

    #[test]
    fn extremes() {
        let truth = truth_of(&[9, 1, 2, 9], 9);
        // Known frames first and rightly named: perfect, even when first appearances are certain to be new.
        assert_eq!(average_precision(&[f64::INFINITY, -1.0, 0.0, 7.0], &[1, 1, 2, 1], &truth).unwrap(), 1.0);
        // Nothing named rightly.
        assert_eq!(average_precision(&[0.0; 4], &[1, 2, 1, 2], &truth).unwrap(), 0.0);
        // One wrong frame before the only right one: precision falls from 0 to 1/2 while recall goes from 0 to 1.
        assert_eq!(average_precision(&[0.0, 1.0], &[1, 1], &[None, Some(1)]).unwrap(), 0.25);
        // Both zeros are one score, so the order given decides.
        assert_eq!(average_precision(&[0.0, -0.0], &[1, 1], &[None, Some(1)]).unwrap(), 0.25);
    }

    #[test]
    fn what_has_no_score_is_refused() {
        let message = |outcome: Result<f64>| outcome.unwrap_err().to_string();
        assert!(message(average_precision(&[0.0, f64::NAN], &[1, 1], &[None, Some(1)])).contains("frame 1"));
        assert!(
            message(average_precision(&[0.0], &[1, 1], &[Some(1), None])).contains("there are 1, 2 and 2")
        );
        assert!(message(average_precision(&[0.0], &[1], &[None])).contains("first appearances"));
        assert!(message(average_precision::<u32>(&[], &[], &[])).contains("at least one frame"));
    }

    proptest! {
        /// Against the definition: the full curve with its prepended point, integrated by trapezoids.
        #[test]
        fn the_area_of_the_whole_curve(
            frames in proptest::collection::vec((-50i32..50, 0u32..4, 0u32..5), 1..60),
        ) {
            let truth: Vec<Option<u32>> = frames.iter().map(|frame| (frame.2 != 4).then_some(frame.2)).collect();
            prop_assume!(truth.iter().any(Option::is_some));
            let scores: Vec<f64> = frames.iter().map(|frame| f64::from(frame.0)).collect();
            let predicted: Vec<u32> = frames.iter().map(|frame| frame.1).collect();

            let mut sorted: Vec<_> = frames.clone();
            sorted.sort_by_key(|frame| frame.0);
            let known = truth.iter().flatten().count() as f64;
            let mut curve = vec![(0.0, 1.0)];
            let mut right = 0.0;
            for (index, frame) in sorted.iter().enumerate() {
                right += f64::from(u8::from(frame.1 == frame.2));
                curve.push((right / known, right / (index + 1) as f64));
            }
            let area: f64 = curve.windows(2).map(|w| (w[1].0 - w[0].0) * (w[0].1 + w[1].1) / 2.0).sum();

            let ap = average_precision(&scores, &predicted, &truth).unwrap();
            prop_assert!((ap - area).abs() < 1e-12);
            prop_assert!((0.0..=1.0 + 1e-12).contains(&ap));
            let squashed: Vec<f64> = scores.iter().map(|score| (score / 20.0).tanh()).collect();
            prop_assert_eq!(average_precision(&squashed, &predicted, &truth).unwrap(), ap);
        }
    }
}

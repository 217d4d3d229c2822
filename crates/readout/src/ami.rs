//! Adjusted mutual information: how far two partitions of the same frames agree beyond chance.
//!
//! (MI − E[MI]) / (mean of the two entropies − E[MI]), where the expectation is over all pairs of partitions with the
//! same cluster sizes. It is 1 for equal partitions, about 0 for unrelated ones, and equals scikit-learn's
//! `adjusted_mutual_info_score` with its arithmetic normaliser.
//!
//! The expectation is exact. For clusters of sizes a and b among N frames the overlap n is hypergeometric; its
//! probabilities are walked from the mode outwards by the ratio of neighbours and normalised by their own sum. Unlike
//! differences of log-factorials, which cancel digits as N grows, this keeps full precision at any N, and the walk
//! ends where the probabilities no longer matter, after a few standard deviations. Clusters of equal size share one
//! walk.

use crate::{Error, Result};

/// Probabilities below this fraction of the mode's are left out of the expectation. Their ratio to the next one
/// keeps falling, so all of them together stay far below one unit in the last place.
const NEGLIGIBLE: f64 = 1e-30;

/// The adjusted mutual information of two labellings of the same frames.
///
/// The values of the labels do not matter, only which frames share one. Where scikit-learn defines a limit it is
/// kept: two labellings without any split agree perfectly (1), one without a split carries no information (0).
///
/// # Errors
/// If the two labellings differ in length.
pub fn ami<A: Ord, B: Ord>(truth: &[A], predicted: &[B]) -> Result<f64> {
    if truth.len() != predicted.len() {
        return Err(Error::input(format!(
            "AMI needs one predicted label for each true one: there are {} true and {} predicted labels",
            truth.len(),
            predicted.len()
        )));
    }
    let overlap = Overlap::of(truth, predicted);
    let (classes, clusters) = (overlap.classes.len(), overlap.clusters.len());
    if classes == clusters && overlap.cells.len() == classes {
        // One cluster a class. The quotient below would divide rounding errors where all clusters have one frame.
        return Ok(1.0);
    }
    if classes == 1 || clusters == 1 {
        return Ok(0.0);
    }
    let expected = overlap.expected_information();
    let entropies = (overlap.entropy(&overlap.classes) + overlap.entropy(&overlap.clusters)) / 2.0;
    Ok((overlap.information() - expected) / (entropies - expected))
}

/// The contingency table of two labellings, without its empty cells.
struct Overlap {
    frames: f64,
    /// Sizes of the true classes.
    classes: Vec<usize>,
    /// Sizes of the predicted clusters.
    clusters: Vec<usize>,
    /// (class, cluster, frames in both) wherever there are any.
    cells: Vec<(usize, usize, usize)>,
}

impl Overlap {
    fn of<A: Ord, B: Ord>(truth: &[A], predicted: &[B]) -> Self {
        let (class_of, classes) = numbered(truth);
        let (cluster_of, clusters) = numbered(predicted);
        let mut pairs: Vec<(usize, usize)> = class_of.into_iter().zip(cluster_of).collect();
        pairs.sort_unstable();
        let cells = pairs
            .chunk_by(|left, right| left == right)
            .filter_map(|same| same.first().map(|&(class, cluster)| (class, cluster, same.len())))
            .collect();
        Self { frames: truth.len() as f64, classes, clusters, cells }
    }

    /// Mutual information in nats.
    fn information(&self) -> f64 {
        let sum: f64 = self
            .cells
            .iter()
            .map(|&(class, cluster, both)| {
                let (a, b) = (self.classes[class] as f64, self.clusters[cluster] as f64);
                both as f64 * (both as f64 * self.frames / (a * b)).ln()
            })
            .sum();
        (sum / self.frames).max(0.0)
    }

    fn entropy(&self, sizes: &[usize]) -> f64 {
        sizes.iter().map(|&size| size as f64 / self.frames).map(|share| -share * share.ln()).sum()
    }

    /// The mutual information that chance alone gives to clusters of these sizes.
    fn expected_information(&self) -> f64 {
        let classes = by_size(&self.classes);
        let clusters = by_size(&self.clusters);
        let mut sum = 0.0;
        for &(a, a_times) in &classes {
            for &(b, b_times) in &clusters {
                sum += (a_times * b_times) as f64 * self.expected_cell(a, b);
            }
        }
        sum / self.frames
    }

    /// E[n·ln(n·N/(a·b))] for the overlap n of clusters of sizes `a` and `b` placed at random.
    fn expected_cell(&self, a: usize, b: usize) -> f64 {
        let frames = self.frames;
        let (a, b) = (a as f64, b as f64);
        let least = (a + b - frames).max(0.0);
        let most = a.min(b);
        let mode = ((a + 1.0) * (b + 1.0) / (frames + 2.0)).floor().clamp(least, most);
        let value = |n: f64| if n > 0.0 { n * (n * frames / (a * b)).ln() } else { 0.0 };

        let (mut weights, mut sum) = (1.0, value(mode));
        let (mut n, mut weight) = (mode, 1.0);
        while n < most && weight > NEGLIGIBLE {
            weight *= (a - n) * (b - n) / ((n + 1.0) * (frames - a - b + n + 1.0));
            n += 1.0;
            weights += weight;
            sum += weight * value(n);
        }
        (n, weight) = (mode, 1.0);
        while n > least && weight > NEGLIGIBLE {
            weight *= n * (frames - a - b + n) / ((a - n + 1.0) * (b - n + 1.0));
            n -= 1.0;
            weights += weight;
            sum += weight * value(n);
        }
        sum / weights
    }
}

/// Replaces labels by 0, 1, 2 … in their order; returns them with the number of frames of each.
fn numbered<L: Ord>(labels: &[L]) -> (Vec<usize>, Vec<usize>) {
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by(|&left, &right| labels[left].cmp(&labels[right]));
    let mut numbers = vec![0; labels.len()];
    let mut sizes = Vec::new();
    for same in order.chunk_by(|&left, &right| labels[left] == labels[right]) {
        for &frame in same {
            numbers[frame] = sizes.len();
        }
        sizes.push(same.len());
    }
    (numbers, sizes)
}

/// The distinct sizes, each with how many clusters have it.
fn by_size(sizes: &[usize]) -> Vec<(usize, usize)> {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    sorted
        .chunk_by(|left, right| left == right)
        .filter_map(|same| same.first().map(|&size| (size, same.len())))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labellings() -> impl Strategy<Value = Vec<(u8, u8)>> {
        (1u8..12, 1u8..12).prop_flat_map(|(a, b)| proptest::collection::vec((0..a, 0..b), 1..80))
    }

    /// E[MI] by the definition: the average over every way to deal the predicted labels to the frames.
    fn expected_by_enumeration(
        truth: &[u8],
        predicted: &mut [u8],
        fixed: usize,
        sum: &mut f64,
        count: &mut f64,
    ) {
        if fixed == predicted.len() {
            *sum += Overlap::of(truth, predicted).information();
            *count += 1.0;
        }
        for next in fixed..predicted.len() {
            predicted.swap(fixed, next);
            expected_by_enumeration(truth, predicted, fixed + 1, sum, count);
            predicted.swap(fixed, next);
        }
    }

    #[test]
    fn the_expectation_is_the_mean_over_all_permutations() {
        let truth = [0, 0, 0, 1, 1, 2, 2, 2];
        let mut predicted = [0, 1, 0, 1, 1, 1, 3, 2];
        let exact = Overlap::of(&truth, &predicted).expected_information();
        let (mut sum, mut count) = (0.0, 0.0);
        expected_by_enumeration(&truth, &mut predicted, 0, &mut sum, &mut count);
        assert_eq!(count, 40_320.0);
        assert!((exact - sum / count).abs() < 1e-12, "{exact} against {}", sum / count);
    }

    /// Limits as scikit-learn 1.9 computes them.
    #[test]
    fn limits_follow_scikit_learn() {
        let none: [u8; 0] = [];
        let check = |truth: &[u8], predicted: &[u8], expected: f64| {
            let score = ami(truth, predicted).unwrap();
            assert!((score - expected).abs() < 1e-12, "{truth:?} {predicted:?}: {score}, not {expected}");
        };
        check(&none, &none, 1.0);
        check(&[7], &[3], 1.0);
        check(&[1, 1, 1], &[2, 2, 2], 1.0);
        check(&[1, 1, 1], &[0, 1, 2], 0.0);
        check(&[0, 1, 2], &[1, 1, 1], 0.0);
        check(&[0, 1, 2, 3], &[0, 0, 1, 1], 0.0);
        check(&[0, 0, 1, 1], &[0, 1, 0, 1], -0.5);
        check(&[0, 0, 0, 1, 1, 1], &[0, 0, 1, 1, 2, 2], 0.298_792_458_170_890_1);
    }

    #[test]
    fn lengths_must_agree() {
        let error = ami(&[0, 1], &[0]).unwrap_err().to_string();
        assert!(error.contains("2 true and 1 predicted"), "{error}");
    }

    /// 2·N·E[MI] tends to the degrees of freedom of the table; for two halves against two halves it is
    /// 1 + 1.5/N + O(1/N²). Differences of log-factorials are off in the eighth digit here.
    #[test]
    fn long_streams_keep_their_precision() {
        let frames = 1_000_000;
        let truth: Vec<u32> = (0..frames).map(|frame| frame % 2).collect();
        let predicted: Vec<u32> = (0..frames).map(|frame| frame / 2 % 2).collect();
        let freedom = 2.0 * f64::from(frames) * Overlap::of(&truth, &predicted).expected_information();
        assert!((freedom - 1.0 - 1.5 / f64::from(frames)).abs() < 1e-11, "{freedom}");
    }

    proptest! {
        #[test]
        fn names_and_order_do_not_matter(pairs in labellings(), rotation in 0usize..80) {
            let truth: Vec<u8> = pairs.iter().map(|pair| pair.0).collect();
            let predicted: Vec<u8> = pairs.iter().map(|pair| pair.1).collect();
            let score = ami(&truth, &predicted).unwrap();
            // Upper bound with the tolerance of a quotient of sums of at most 80 terms.
            prop_assert!(score <= 1.0 + 1e-9);

            let renamed: Vec<String> = truth.iter().map(|&label| format!("{}", 200 - i32::from(label))).collect();
            let (mut rotated, mut rotated_prediction) = (renamed, predicted.clone());
            let places = rotation % pairs.len();
            rotated.rotate_left(places);
            rotated_prediction.rotate_left(places);
            prop_assert!((ami(&rotated, &rotated_prediction).unwrap() - score).abs() < 1e-9);
            prop_assert!((ami(&predicted, &truth).unwrap() - score).abs() < 1e-9);
        }

        #[test]
        fn equal_partitions_score_one(pairs in labellings()) {
            let truth: Vec<u8> = pairs.iter().map(|pair| pair.0).collect();
            let renamed: Vec<i32> = truth.iter().map(|&label| -i32::from(label)).collect();
            prop_assert_eq!(ami(&truth, &renamed).unwrap(), 1.0);
        }
    }
}

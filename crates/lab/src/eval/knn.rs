//! k-nearest-neighbour read-out: which label the most similar known features vote for.
//!
//! Similarity is the cosine. The majority among the k most similar rows wins; of labels with equally many votes, the
//! one whose first voter is the most similar. Rows of equal similarity count in the order given.

use rayon::prelude::*;

use crate::kernels::vector::dot;
use crate::{Error, Result};

/// Queries that one pass over the known rows serves: a row is read once for all of them.
const QUERY_BLOCK: usize = 8;

/// Known feature rows with their labels.
#[derive(Clone, Debug)]
pub struct NearestNeighbours<L> {
    dimension: usize,
    /// Rows of unit length (all zeros stay all zeros, similar to nothing).
    rows: Vec<f32>,
    labels: Vec<L>,
}

impl<L: Copy + PartialEq + Send + Sync> NearestNeighbours<L> {
    /// Takes rows of `dimension` numbers, one after another, and the label of each.
    ///
    /// # Errors
    /// If there is no row, the sizes do not fit, or a number is not finite.
    pub fn new(features: &[f32], dimension: usize, labels: &[L]) -> Result<Self> {
        if labels.is_empty() {
            return Err(Error::input("k-NN needs at least one labelled row"));
        }
        let rows = unit_rows(features, dimension, "labelled")?;
        if rows.len() != dimension * labels.len() {
            return Err(Error::input(format!(
                "k-NN needs one label for each row: there are {} rows and {} labels",
                rows.len() / dimension,
                labels.len()
            )));
        }
        Ok(Self { dimension, rows, labels: labels.to_vec() })
    }

    /// The label of each query row by the vote of its `k` nearest rows (of all, if there are fewer).
    ///
    /// # Errors
    /// If `k` is 0, the size does not fit the dimension, or a number is not finite.
    pub fn classify(&self, queries: &[f32], k: usize) -> Result<Vec<L>> {
        if k == 0 {
            return Err(Error::input("k-NN needs k of at least 1"));
        }
        let k = k.min(self.labels.len());
        let queries = unit_rows(queries, self.dimension, "query")?;
        let blocks = queries.par_chunks(self.dimension * QUERY_BLOCK);
        Ok(blocks.flat_map_iter(|block| self.classify_block(block, k)).collect())
    }

    fn classify_block(&self, queries: &[f32], k: usize) -> Vec<L> {
        let queries: Vec<&[f32]> = queries.chunks_exact(self.dimension).collect();
        let mut nearest: Vec<Vec<(f32, L)>> = vec![Vec::with_capacity(k + 1); queries.len()];
        for (row, &label) in self.rows.chunks_exact(self.dimension).zip(&self.labels) {
            for (query, nearest) in queries.iter().zip(&mut nearest) {
                let similarity = dot(query, row);
                if nearest.len() < k || nearest.last().is_some_and(|last| similarity > last.0) {
                    let place = nearest.partition_point(|known| known.0 >= similarity);
                    nearest.insert(place, (similarity, label));
                    nearest.truncate(k);
                }
            }
        }
        nearest.iter().filter_map(|voters| majority(voters)).collect()
    }
}

/// The label with the most votes; of equals the one that votes first.
fn majority<L: Copy + PartialEq>(voters: &[(f32, L)]) -> Option<L> {
    let mut tally: Vec<(L, usize)> = Vec::new();
    for &(_, label) in voters {
        match tally.iter_mut().find(|entry| entry.0 == label) {
            Some(entry) => entry.1 += 1,
            None => tally.push((label, 1)),
        }
    }
    // max_by_key would return the last of equals: walk backwards.
    tally.iter().rev().max_by_key(|entry| entry.1).map(|entry| entry.0)
}

/// A copy of the rows scaled to unit length.
fn unit_rows(features: &[f32], dimension: usize, what: &str) -> Result<Vec<f32>> {
    if dimension == 0 || !features.len().is_multiple_of(dimension) {
        return Err(Error::input(format!(
            "{} numbers are no whole count of {what} rows of dimension {dimension}",
            features.len()
        )));
    }
    let mut rows = features.to_vec();
    for (index, row) in rows.chunks_exact_mut(dimension).enumerate() {
        let square: f64 = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        if !square.is_finite() {
            return Err(Error::input(format!("{what} row {index} holds a number that is not finite")));
        }
        if square > 0.0 {
            let scale = 1.0 / square.sqrt();
            #[allow(clippy::cast_possible_truncation)]
            row.iter_mut().for_each(|x| *x = (f64::from(*x) * scale) as f32);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Directions in degrees on the unit circle, scaled so that only the angle can tell them apart.
    fn rows(degrees: &[f32]) -> Vec<f32> {
        let point = |(i, angle): (usize, &f32)| {
            let (sin, cos) = angle.to_radians().sin_cos();
            [cos * (i + 1) as f32, sin * (i + 1) as f32]
        };
        degrees.iter().enumerate().flat_map(point).collect()
    }

    #[test]
    fn the_majority_wins_and_ties_go_to_the_most_similar() {
        let known =
            NearestNeighbours::new(&rows(&[0.0, 10.0, 20.0, 90.0, 100.0]), 2, &['a', 'b', 'b', 'a', 'c'])
                .unwrap();
        let query = rows(&[2.0]);
        assert_eq!(known.classify(&query, 1).unwrap(), ['a']);
        assert_eq!(known.classify(&query, 2).unwrap(), ['a'], "one vote each: the nearest decides");
        assert_eq!(known.classify(&query, 3).unwrap(), ['b']);
        assert_eq!(known.classify(&query, 4).unwrap(), ['a'], "two votes each: the nearest decides");
        assert_eq!(known.classify(&query, 99).unwrap(), ['a'], "more neighbours than rows: all vote");
        assert_eq!(known.classify(&[], 3).unwrap(), []);
    }

    #[test]
    fn bad_input_is_refused() {
        let message = |outcome: Result<Vec<u32>>| outcome.unwrap_err().to_string();
        let known = NearestNeighbours::new(&[1.0, 0.0], 2, &[5u32]).unwrap();
        assert!(message(known.classify(&[1.0, f32::NAN], 1)).contains("query row 0"));
        assert!(message(known.classify(&[1.0], 1)).contains("dimension 2"));
        assert!(message(known.classify(&[1.0, 0.0], 0)).contains("at least 1"));
        let refused = |features: &[f32], dimension, labels: &[u32]| {
            NearestNeighbours::new(features, dimension, labels).unwrap_err().to_string()
        };
        assert!(refused(&[], 2, &[]).contains("at least one"));
        assert!(refused(&[1.0, 2.0], 2, &[1, 2]).contains("1 rows and 2 labels"));
        assert!(refused(&[1.0], 0, &[1]).contains("dimension 0"));
        assert!(refused(&[f32::INFINITY, 0.0], 2, &[1]).contains("labelled row 0"));
    }

    proptest! {
        /// Against a sort of all cosines in double precision, where no two are close enough for f32 to swap them.
        #[test]
        fn the_vote_of_a_full_sort(
            features in proptest::collection::vec(-1.0f32..1.0, 3 * 40),
            queries in proptest::collection::vec(-1.0f32..1.0, 3 * 19),
            k in 1usize..12,
        ) {
            let labels: Vec<usize> = (0..40).map(|row| row * 7 % 5).collect();
            let found = NearestNeighbours::new(&features, 3, &labels).unwrap().classify(&queries, k).unwrap();
            prop_assert_eq!(found.len(), 19);
            let cosine = |a: &[f32], b: &[f32]| {
                let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
                dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
            };
            for (query, found) in queries.chunks(3).zip(found) {
                let mut order: Vec<(f64, usize)> =
                    features.chunks(3).zip(&labels).map(|(row, &label)| (cosine(query, row), label)).collect();
                order.sort_by(|left, right| right.0.total_cmp(&left.0));
                prop_assume!(order.windows(2).all(|pair| pair[0].0 - pair[1].0 > 1e-6));
                let votes = |label: usize| order[..k].iter().filter(|entry| entry.1 == label).count();
                let most = (0..5).map(votes).max().unwrap();
                let expected = order[..k].iter().find(|entry| votes(entry.1) == most).unwrap().1;
                prop_assert_eq!(found, expected);
            }
        }
    }
}

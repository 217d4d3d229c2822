//! Which segments show the same thing: those with frames that are among each other's nearest.
//!
//! Two segments are joined where a frame of one and a frame of the other are each among the other's few nearest frames of foreign
//! segments, and alike enough. A chain of joins makes a group, so that two sides of a thing that look nothing alike
//! come together by the views between them. One wrong join makes a group of two things, and a few make one of everything: a group that
//! is far larger than usual is taken apart again.

use rayon::prelude::*;

use crate::kernels::vector::dot;

/// Nearest frames that count.
const NEIGHBOURS: usize = 3;
/// A group may be so many times as large as the one that the median segment is in.
const LARGEST: usize = 3;

/// A frame to be grouped: its segment and its embedding, of length 1.
pub(super) type Point<'a> = (usize, &'a [f32]);

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Grouping {
    /// For each segment its group, counted from 0.
    pub(super) groups: Vec<usize>,
    /// For each frame the similarity of its last neighbour that counts, −1 if there are fewer.
    pub(super) reach: Vec<f32>,
}

/// A frame's nearest frames of other segments with their similarities, nearest first.
pub(super) fn nearest(point: &Point<'_>, among: &[Point<'_>]) -> Vec<(usize, f32)> {
    let mut near: Vec<(usize, f32)> = Vec::with_capacity(NEIGHBOURS + 1);
    for (at, (segment, embedding)) in among.iter().enumerate() {
        if *segment == point.0 {
            continue;
        }
        let similarity = dot(point.1, embedding);
        if near.len() == NEIGHBOURS && near.last().is_some_and(|last| similarity <= last.1) {
            continue;
        }
        let place = near.partition_point(|other| other.1 >= similarity);
        near.insert(place, (at, similarity));
        near.truncate(NEIGHBOURS);
    }
    near
}

/// What a frame's neighbours say of its reach.
fn reach(near: &[(usize, f32)]) -> f32 {
    near.get(NEIGHBOURS - 1).map_or(-1.0, |last| last.1)
}

/// Groups `segments` segments by their frames; frames are joined above the similarity `alike`.
pub(super) fn group(points: &[Point<'_>], segments: usize, alike: f32) -> Grouping {
    let near: Vec<Vec<(usize, f32)>> = points.par_iter().map(|point| nearest(point, points)).collect();
    let mut joined = Joined((0..segments).collect());
    for (at, neighbours) in near.iter().enumerate() {
        for (other, similarity) in neighbours {
            // By similarity and not by number: of many equal frames only a few are on the list.
            if *similarity >= reach(&near[*other]) && *similarity > alike {
                joined.join(points[at].0, points[*other].0);
            }
        }
    }
    let mut groups: Vec<usize> = (0..segments).map(|segment| joined.root(segment)).collect();
    take_apart(&mut groups);
    Grouping { groups, reach: near.iter().map(|near| reach(near)).collect() }
}

/// Makes every segment of a group that is too large a group of its own.
fn take_apart(groups: &mut [usize]) {
    let mut sizes = vec![0usize; groups.len()];
    groups.iter().for_each(|group| sizes[*group] += 1);
    let mut of_segments: Vec<usize> = groups.iter().map(|group| sizes[*group]).collect();
    of_segments.sort_unstable();
    let Some(median) = of_segments.get(of_segments.len() / 2) else { return };
    // Two things of a few looks each are no chain.
    let largest = LARGEST * (*median).max(2);
    for (segment, group) in groups.iter_mut().enumerate() {
        if sizes[*group] > largest {
            *group = segment;
        }
    }
}

/// Sets that are joined, by the number of a member nearer to the root.
struct Joined(Vec<usize>);

impl Joined {
    fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        // The lower one, so that the order of joins does not matter.
        self.0[a.max(b)] = a.min(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    /// The definition, word by word: sorted similarities, a table of joins, and colours that spread until nothing changes.
    fn plainly(points: &[Point<'_>], segments: usize, alike: f32) -> Vec<usize> {
        let similar = |a: usize, b: usize| dot(points[a].1, points[b].1);
        let counts = |a: usize, b: usize| {
            let foreign = (0..points.len()).filter(|other| points[*other].0 != points[a].0);
            points[a].0 != points[b].0
                && foreign.filter(|other| similar(a, *other) > similar(a, b)).count() < NEIGHBOURS
        };
        let mut colour: Vec<usize> = (0..segments).collect();
        for _ in 0..segments {
            for a in 0..points.len() {
                for b in 0..points.len() {
                    if counts(a, b) && counts(b, a) && similar(a, b) > alike {
                        let lower = colour[points[a].0].min(colour[points[b].0]);
                        (colour[points[a].0], colour[points[b].0]) = (lower, lower);
                    }
                }
            }
        }
        colour
    }

    fn unit(values: [f32; 3]) -> [f32; 3] {
        let norm = dot(&values, &values).sqrt();
        values.map(|value| value / norm)
    }

    #[test]
    fn groups_are_as_defined() {
        let mut several = 0;
        for seed in 0..40 {
            let mut random = Random::new(seed, Purpose::World, 0);
            let embeddings: Vec<[f32; 3]> =
                (0..36).map(|_| unit([0; 3].map(|_| random.normal() as f32))).collect();
            let points: Vec<Point<'_>> =
                embeddings.iter().enumerate().map(|(at, embedding)| (at / 3, &embedding[..])).collect();
            let mut expected = plainly(&points, 12, 0.97);
            take_apart(&mut expected);
            let found = group(&points, 12, 0.97);
            assert_eq!(found.groups, expected);
            several += usize::from((0..12).any(|segment| expected[segment] != segment));
            for (at, reach) in found.reach.iter().enumerate() {
                let nearer = points.iter().filter(|p| p.0 != at / 3 && dot(p.1, points[at].1) >= *reach);
                assert_eq!(nearer.count(), NEIGHBOURS);
            }
        }
        assert!(several > 30, "the test shows something: {several}");
    }

    #[test]
    fn a_group_of_everything_is_taken_apart() {
        let mut groups = [vec![0; 20], vec![20; 3], vec![23; 18], (41..60).collect()].concat();
        take_apart(&mut groups);
        assert_eq!(groups[..20], vec![0; 20], "the median segment is in a group of 18");
        let mut groups = [vec![0; 20], vec![20; 3], vec![23; 3], (26..60).collect()].concat();
        take_apart(&mut groups);
        assert_eq!(groups[..21], (0..21).collect::<Vec<_>>());
        assert_eq!(groups[20..26], [20, 20, 20, 23, 23, 23]);
        take_apart(&mut []);
    }
}

//! t-SNE: points of many dimensions laid out in a plane so that neighbours stay neighbours.
//!
//! The exact method (van der Maaten and Hinton, 2008), which is quick for the hundred or so frames of an episode: N² work a step.
//! It starts from places that the caller gives, such as the principal plane, so the result is the same every time. Distances
//! between groups mean little in it; which points form a group is what it shows.

/// The number of neighbours that a point listens to. A class of an episode has some three frames.
const PERPLEXITY: f64 = 5.0;
const STEPS: usize = 750;
/// Steps at the start in which neighbours attract each other more strongly, so that groups form before they settle.
const GATHERING: usize = 150;
const GATHERING_PULL: f64 = 12.0;

/// Moves `places` until near ones are those of near `rows`.
pub(super) fn settle(rows: &[Vec<f64>], places: &mut [[f64; 2]]) {
    let count = places.len();
    if count < 3 {
        return;
    }
    let pull = neighbourhood(rows);
    shrink(places);
    let mut speeds = vec![[0.0f64; 2]; count];
    let mut gains = vec![[1.0f64; 2]; count];
    for step in 0..STEPS {
        let (strength, momentum) = if step < GATHERING { (GATHERING_PULL, 0.5) } else { (1.0, 0.8) };
        let slopes = slopes(&pull, places, strength);
        for (((place, speed), gain), slope) in places.iter_mut().zip(&mut speeds).zip(&mut gains).zip(&slopes)
        {
            for axis in 0..2 {
                // A coordinate that keeps its direction speeds up; one that swings slows down.
                let swings = slope[axis] * speed[axis] > 0.0;
                gain[axis] = if swings { (gain[axis] * 0.8).max(0.01) } else { gain[axis] + 0.2 };
                speed[axis] = momentum * speed[axis] - count as f64 / 4.0 * gain[axis] * slope[axis];
                place[axis] += speed[axis];
            }
        }
    }
}

/// Brings the start so close together that nothing is repelled yet.
fn shrink(places: &mut [[f64; 2]]) {
    let reach = places.iter().flatten().fold(0.0, |reach: f64, x| reach.max(x.abs())).max(1e-12);
    places.iter_mut().flatten().for_each(|x| *x *= 1e-2 / reach);
}

/// For every pair the probability of being neighbours, all together 1.
fn neighbourhood(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let count = rows.len();
    let square = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let perplexity = PERPLEXITY.min((count - 1) as f64 / 2.0).max(1.0);
    let one_sided: Vec<Vec<f64>> = (0..count)
        .map(|own| {
            let distances: Vec<f64> = rows.iter().map(|row| square(&rows[own], row)).collect();
            shares(&distances, own, perplexity)
        })
        .collect();
    let both = |a: usize, b: usize| (one_sided[a][b] + one_sided[b][a]) / (2.0 * count as f64);
    (0..count).map(|a| (0..count).map(|b| both(a, b).max(1e-12)).collect()).collect()
}

/// Shares of the others in one point's neighbourhood, sharpened until there are as many neighbours as wanted.
fn shares(distances: &[f64], own: usize, perplexity: f64) -> Vec<f64> {
    let others =
        || distances.iter().enumerate().filter(|(other, _)| *other != own).map(|(_, distance)| *distance);
    let nearest = others().fold(f64::INFINITY, f64::min);
    let (mut low, mut high) = (0.0f64, f64::INFINITY);
    let mut sharpness = 1.0;
    let mut shares = Vec::new();
    for _ in 0..60 {
        let weight = |distance: f64| (-sharpness * (distance - nearest)).exp();
        let sum: f64 = others().map(weight).sum();
        shares = distances.iter().map(|distance| weight(*distance) / sum).collect();
        shares[own] = 0.0;
        let entropy: f64 =
            -shares.iter().filter(|share| **share > 0.0).map(|share| share * share.ln()).sum::<f64>();
        if entropy > perplexity.ln() {
            low = sharpness;
            sharpness = if high.is_finite() { (low + high) / 2.0 } else { 2.0 * sharpness };
        } else {
            high = sharpness;
            sharpness = (low + high) / 2.0;
        }
    }
    shares
}

/// The slope of the divergence between both neighbourhoods at every place.
fn slopes(pull: &[Vec<f64>], places: &[[f64; 2]], strength: f64) -> Vec<[f64; 2]> {
    let nearness = |a: &[f64; 2], b: &[f64; 2]| 1.0 / (1.0 + (a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2));
    // A point is as near to itself as can be; it does not count.
    let all: f64 = places.iter().map(|a| places.iter().map(|b| nearness(a, b)).sum::<f64>() - 1.0).sum();
    places
        .iter()
        .zip(pull)
        .map(|(own, pull)| {
            let mut slope = [0.0; 2];
            for (other, pull) in places.iter().zip(pull) {
                let near = nearness(own, other);
                let force = 4.0 * (strength * pull - near / all.max(1e-12)) * near;
                slope[0] += force * (own[0] - other[0]);
                slope[1] += force * (own[1] - other[1]);
            }
            slope
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    /// Twelve groups of four in twenty dimensions, which no plane tells apart: afterwards nearly every point's nearest
    /// neighbour is of its own group.
    #[test]
    fn groups_come_together() {
        let mut random = Random::new(3, Purpose::Episodes, 0);
        let centres: Vec<Vec<f64>> = (0..12).map(|_| (0..20).map(|_| random.normal()).collect()).collect();
        let rows: Vec<Vec<f64>> = (0..48)
            .map(|point| centres[point / 4].iter().map(|x| x + 0.3 * random.normal()).collect())
            .collect();
        let start: Vec<[f64; 2]> = rows.iter().map(|row| [row[0], row[1]]).collect();
        let at_home = |places: &[[f64; 2]]| {
            let square = |a: usize, b: usize| {
                (places[a][0] - places[b][0]).powi(2) + (places[a][1] - places[b][1]).powi(2)
            };
            let nearest = |own: usize| {
                (0..48)
                    .filter(|other| *other != own)
                    .min_by(|a, b| square(own, *a).total_cmp(&square(own, *b)))
            };
            (0..48).filter(|own| nearest(*own).is_some_and(|other| other / 4 == own / 4)).count()
        };
        let mut places = start.clone();
        settle(&rows, &mut places);
        assert!(places.iter().flatten().all(|x| x.is_finite()));
        assert!(at_home(&places) >= 46 && at_home(&start) < 30, "{} {}", at_home(&start), at_home(&places));
    }

    #[test]
    fn neighbours_are_as_many_as_asked_for() {
        let distances: Vec<f64> = (0..30).map(f64::from).collect();
        let shares = shares(&distances, 0, 5.0);
        let entropy: f64 =
            -shares.iter().filter(|share| **share > 0.0).map(|share| share * share.ln()).sum::<f64>();
        assert!((entropy.exp() - 5.0).abs() < 1e-6 && (shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn few_and_equal_points_stay_finite() {
        for count in 0..6 {
            let mut places = vec![[0.0; 2]; count];
            settle(&vec![vec![1.0, 2.0]; count], &mut places);
            assert!(places.iter().flatten().all(|x| x.is_finite()));
        }
    }
}

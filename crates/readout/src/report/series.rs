//! A curve of bounded length: as points come in, neighbours are averaged whenever there are too many.

/// The most points that a curve keeps: about one a pixel.
const MOST: usize = 800;

/// Points (seconds, value) in the order of time.
#[derive(Debug, Clone)]
pub(super) struct Series {
    points: Vec<(f64, f64)>,
    /// Points that are averaged into one.
    stride: u32,
    /// Sums of those that are gathered.
    sum: (f64, f64),
    gathered: u32,
}

impl Default for Series {
    fn default() -> Self {
        Self { points: Vec::new(), stride: 1, sum: (0.0, 0.0), gathered: 0 }
    }
}

impl Series {
    /// Takes a point; one that is not finite is left out.
    pub(super) fn add(&mut self, seconds: f64, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.sum = (self.sum.0 + seconds, self.sum.1 + value);
        self.gathered += 1;
        if self.gathered < self.stride {
            return;
        }
        let count = f64::from(self.gathered);
        self.points.push((self.sum.0 / count, self.sum.1 / count));
        (self.sum, self.gathered) = ((0.0, 0.0), 0);
        if self.points.len() >= 2 * MOST {
            self.points = self.points.chunks(2).map(mean).collect();
            self.stride = self.stride.saturating_mul(2);
        }
    }

    /// The curve.
    pub(super) fn points(&self) -> Vec<(f64, f64)> {
        let mut points = self.points.clone();
        if self.gathered > 0 {
            let count = f64::from(self.gathered);
            points.push((self.sum.0 / count, self.sum.1 / count));
        }
        if points.len() > MOST { points.chunks(2).map(mean).collect() } else { points }
    }
}

fn mean(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len().max(1) as f64;
    let sum = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    (sum.0 / count, sum.1 / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_its_shape_and_its_mean_in_bounded_memory() {
        let mut series = Series::default();
        for n in 0..100_000 {
            series.add(f64::from(n), 2.0 * f64::from(n));
        }
        series.add(1.0, f64::NAN);
        let points = series.points();
        assert!(points.len() <= MOST + 1 && points.len() > MOST / 4, "{}", points.len());
        assert!(points.iter().all(|(seconds, value)| (value - 2.0 * seconds).abs() < 1e-6));
        assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}

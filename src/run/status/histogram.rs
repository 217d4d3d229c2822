//! Latencies by size: a few counts, whatever the run does.

/// Upper bounds of the cells, in ms; one more cell holds the rest.
pub const BOUNDS_MS: [f32; 9] = [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0];

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    /// How many fell into each cell.
    pub counts: [u64; BOUNDS_MS.len() + 1],
    /// The sum of all, in ms.
    pub sum_ms: f64,
}

impl Histogram {
    /// Adds one.
    pub fn add(&mut self, milliseconds: f32) {
        let cell = BOUNDS_MS.iter().position(|bound| milliseconds <= *bound);
        self.counts[cell.unwrap_or(BOUNDS_MS.len())] += 1;
        self.sum_ms += f64::from(milliseconds);
    }

    /// The upper bound of the cell that this part of all does not exceed; none if that is the last cell, or there are none.
    pub fn quantile(&self, part: f64) -> Option<f32> {
        let total: u64 = self.counts.iter().sum();
        let wanted = (total as f64 * part).ceil() as u64;
        let mut below = 0;
        let cell = self.counts.iter().position(|count| {
            below += count;
            total > 0 && below >= wanted
        })?;
        BOUNDS_MS.get(cell).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_bound_of_its_cell() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.95), None);
        (0..95).for_each(|_| histogram.add(7.0));
        (0..5).for_each(|_| histogram.add(1e6));
        assert_eq!((histogram.quantile(0.95), histogram.quantile(0.96)), (Some(10.0), None));
        assert_eq!(histogram.counts.iter().sum::<u64>(), 100);
    }
}

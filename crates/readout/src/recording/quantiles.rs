//! Quantiles of positive numbers in a fixed amount of memory: counts by size, in steps of 2 %.

const BINS: usize = 1100;
const SMALLEST: f64 = 1e-3;
const STEP: f64 = 1.02;

/// Counts of numbers from 0.001 to some millions; what is smaller or greater counts as that.
#[derive(Debug, Clone)]
pub(crate) struct Quantiles(Vec<u64>);

impl Default for Quantiles {
    fn default() -> Self {
        Self(vec![0; BINS])
    }
}

impl Quantiles {
    /// Takes a number; what is none is left out.
    pub(crate) fn add(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        let bin = ((value.max(SMALLEST) / SMALLEST).ln() / STEP.ln()).round() as usize;
        if let Some(count) = self.0.get_mut(bin.min(BINS - 1)) {
            *count += 1;
        }
    }

    /// The number that a `part` of all do not exceed, to 1 %; `None` without any.
    pub(crate) fn quantile(&self, part: f64) -> Option<f64> {
        let total: u64 = self.0.iter().sum();
        let wanted = ((total as f64 * part).ceil() as u64).max(1);
        let mut below = 0;
        let bin = self.0.iter().position(|count| {
            below += count;
            below >= wanted
        })?;
        Some(SMALLEST * STEP.powi(i32::try_from(bin).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::Quantiles;

    #[test]
    fn quantiles_are_right_to_a_percent() {
        let mut quantiles = Quantiles::default();
        assert_eq!(quantiles.quantile(0.5), None);
        (1..=1000).for_each(|n| quantiles.add(f64::from(n)));
        quantiles.add(f64::NAN);
        for (part, value) in [(0.5, 500.0), (0.95, 950.0), (1.0, 1000.0)] {
            let found = quantiles.quantile(part).unwrap();
            assert!((found / value - 1.0).abs() < 0.0101, "{part}: {found}");
        }
        quantiles.add(1e300);
        assert!(quantiles.quantile(1.0).unwrap() > 1e6);
    }
}

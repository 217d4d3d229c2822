//! What changes with the number of updates done: learning rates and the temperature of sampled decisions.
//!
//! Everything here is a function of the step alone, so that a resumed run goes on as if it had never stopped.

/// The fall of the learning rates over a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// To a tenth at each of these steps, which rise.
    Staircase {
        /// Updates after which the rates fall.
        drops: Vec<u64>,
    },
    /// Not at first, then along half a cosine wave, to 0 at the last step and from then on.
    Cosine {
        /// Updates before the fall begins.
        from: u64,
        /// Updates of the whole run.
        steps: u64,
    },
}

impl Schedule {
    /// What the learning rates are multiplied by in the update that follows `step` others.
    pub fn factor(&self, step: u64) -> f64 {
        match self {
            Self::Staircase { drops } => {
                // A quotient of whole powers is exact where a product of 0.1s is not.
                let fallen = drops.iter().filter(|&&drop| step >= drop).count();
                1.0 / 10f64.powi(i32::try_from(fallen).unwrap_or(i32::MAX))
            }
            Self::Cosine { from, steps } => {
                let (fallen, fall) = (step.min(*steps).saturating_sub(*from), steps.saturating_sub(*from));
                let done = fallen as f64 / fall.max(1) as f64;
                (1.0 + (std::f64::consts::PI * done).cos()) / 2.0
            }
        }
    }
}

/// κ: temperature of the relaxed creation sample in the update that follows `step` others. It falls in a straight line
/// from 2.0 to 0.3 over the first 20,000 updates and stays there.
pub fn kappa(step: u64) -> f64 {
    const ANNEALED: u64 = 20_000;
    2.0 - 1.7 * step.min(ANNEALED) as f64 / ANNEALED as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_staircase_falls_at_its_steps() {
        let schedule = Schedule::Staircase { drops: vec![40_000, 60_000] };
        let rate = |step| 1e-3 * schedule.factor(step);
        for (step, expected) in
            [(0, 1e-3), (39_999, 1e-3), (40_000, 1e-4), (59_999, 1e-4), (60_000, 1e-5), (u64::MAX, 1e-5)]
        {
            assert!((rate(step) - expected).abs() < 1e-18, "at {step}: {}", rate(step));
        }
        assert_eq!(Schedule::Staircase { drops: vec![] }.factor(u64::MAX), 1.0);
    }

    /// The closed values of the cosine at 0, 1/3, 1/2, 2/3 and 1 of the run.
    #[test]
    fn the_cosine_ends_at_zero() {
        for from in [0, 1000] {
            let schedule = Schedule::Cosine { from, steps: from + 600 };
            for (step, expected) in [(0, 1.0), (200, 0.75), (300, 0.5), (400, 0.25), (600, 0.0), (601, 0.0)] {
                assert!((schedule.factor(from + step) - expected).abs() < 1e-15, "{from} and {step}");
            }
            assert_eq!(schedule.factor(from / 2), 1.0);
        }
        // A run that ends before its fall begins.
        assert_eq!(Schedule::Cosine { from: 7, steps: 5 }.factor(5), 1.0);
        assert_eq!(Schedule::Cosine { from: 0, steps: 0 }.factor(0), 1.0);
    }

    #[test]
    fn kappa_anneals() {
        for (step, expected) in [(0, 2.0), (10_000, 1.15), (20_000, 0.3), (u64::MAX, 0.3)] {
            assert!((kappa(step) - expected).abs() < 1e-12, "at {step}");
        }
    }
}

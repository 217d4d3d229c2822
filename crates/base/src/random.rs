//! Random numbers by counter: any stream can be drawn without those before it.
//!
//! A stream is named by a seed, a [`Purpose`] and a number (a window, a frame, a tensor). Nothing else is state, so results
//! depend neither on threads nor on whether a run was interrupted, and there is no generator to save. The generator is
//! SplitMix64; it is not for secrets.

/// What a stream is for; streams of different purposes have nothing in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// Initial weights; the number is the tensor's.
    Weights = 1,
    /// Augmented views; the number is the image's.
    Views = 2,
    /// Samples of creation and assignment in a learning window; the number is the update's.
    Sampling = 3,
    /// The built-in world; the number names a part of it.
    World = 4,
    /// Orders and choices of labelled streams; the number is the episode's.
    Episodes = 5,
    /// A long memory of frames: what it keeps, which second views and windows it gives.
    Replay = 6,
}

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// 2⁶⁴ divided by the golden ratio: SplitMix64's step.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Random {
    /// The stream of this seed, purpose and number, from its beginning.
    pub fn new(seed: u64, purpose: Purpose, number: u64) -> Self {
        Self(
            [seed, purpose as u64, number]
                .into_iter()
                .fold(STEP, |state, part| mix(state ^ part).wrapping_add(STEP)),
        )
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Uniform in (0, 1): the middle of one of 2⁵³ cells, so that its logarithm is always finite.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in [low, high).
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * ((self.bits() >> 40) as f32 * (1.0 / (1u32 << 24) as f32))
    }

    /// Uniform among 0 … count − 1; 0 if there is nothing to choose from.
    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.bits()) * count as u128) >> 64) as usize
    }

    /// True with this probability.
    pub fn chance(&mut self, probability: f32) -> bool {
        self.between(0.0, 1.0) < probability
    }

    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.unit().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// Logistic: the noise that turns a logit into a Bernoulli sample.
    pub fn logistic(&mut self) -> f64 {
        let u = self.unit();
        u.ln() - (-u).ln_1p()
    }

    /// Gumbel: the noise that turns logits into a categorical sample.
    pub fn gumbel(&mut self) -> f64 {
        -(-self.unit().ln()).ln()
    }

    /// A random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// Mixes all bits of a number (the finaliser of SplitMix64).
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, purpose, number| Random::new(seed, purpose, number).bits();
        assert_eq!(draw(1, Purpose::Views, 3), draw(1, Purpose::Views, 3));
        let others = [
            draw(1, Purpose::Views, 3),
            draw(2, Purpose::Views, 3),
            draw(1, Purpose::Sampling, 3),
            draw(1, Purpose::Views, 4),
        ];
        for (i, a) in others.iter().enumerate() {
            assert!(others[..i].iter().all(|b| a != b));
        }
    }

    /// Mean and variance of each distribution; the tolerances are five standard errors of 100,000 draws.
    #[test]
    fn distributions_have_their_moments() {
        let euler = 0.577_215_664_901_532_9;
        let pi_squared = std::f64::consts::PI * std::f64::consts::PI;
        let moments = |draw: &mut dyn FnMut(&mut Random) -> f64| {
            let mut random = Random::new(7, Purpose::Weights, 0);
            let draws: Vec<f64> = (0..100_000).map(|_| draw(&mut random)).collect();
            let mean = draws.iter().sum::<f64>() / 1e5;
            (mean, draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 1e5)
        };
        let check = |(mean, variance): (f64, f64), expected_mean: f64, expected_variance: f64| {
            assert!((mean - expected_mean).abs() < 5.0 * (expected_variance / 1e5).sqrt(), "mean {mean}");
            assert!((variance / expected_variance - 1.0).abs() < 0.05, "variance {variance}");
        };
        check(moments(&mut |r| r.unit()), 0.5, 1.0 / 12.0);
        check(moments(&mut |r| f64::from(r.between(-1.0, 3.0))), 1.0, 16.0 / 12.0);
        check(moments(&mut |r| r.normal()), 0.0, 1.0);
        check(moments(&mut |r| r.logistic()), 0.0, pi_squared / 3.0);
        check(moments(&mut |r| r.gumbel()), euler, pi_squared / 6.0);
        check(moments(&mut |r| f64::from(u8::from(r.chance(0.3)))), 0.3, 0.21);
    }

    #[test]
    fn choices_are_even() {
        let mut random = Random::new(7, Purpose::Episodes, 1);
        let mut counts = [0; 10];
        (0..10_000).for_each(|_| counts[random.below(10)] += 1);
        // Binomial: standard deviation 30; five of them.
        assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "{counts:?}");
        assert_eq!(random.below(0), 0);
        let mut items = [0, 1, 2, 3, 4, 5, 6, 7];
        random.shuffle(&mut items);
        let mut sorted = items;
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}

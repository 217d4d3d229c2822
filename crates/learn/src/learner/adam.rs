//! Adam with its state in the open.
//!
//! The optimiser of a device that loses power must be saved and restored bit for bit, so moments and step are public
//! and [`Adam::header`], [`Adam::tensors`] and [`Adam::restore`] take it to a checkpoint and back.
//!
//! There are four parameter groups with a learning rate each: the encoder (one flat `f32` buffer) and the memory's
//! scalars 1/τ, β, γ (kept in `f64`, where a rate of 1e-6 still moves a β of −12).
//!
//! The update is TensorFlow's: with ĝ = first/(√second + ε) it subtracts rate·√(1−β₂ᵗ)/(1−β₁ᵗ)·ĝ. ε is thus added to
//! the *uncorrected* root (the "ε̂" of the Adam paper); PyTorch adds it after the correction, which makes its ε smaller
//! by a factor of √(1−β₂ᵗ) in the first thousand steps. Constants are TensorFlow's defaults too, as the published runs
//! had them: β₁ = 0.9, β₂ = 0.999, ε = 1e-7.

use std::collections::HashMap;
use std::fmt;

use crate::kernels::adam::{adam, all_within};
use crate::memory::Control;
use crate::memory::window::ControlGradient;
use crate::{Error, Result};

const DECAY_FIRST: f64 = 0.9;
const DECAY_SECOND: f64 = 0.999;
const EPSILON: f64 = 1e-7;

/// The largest gradient that is believed. Its square still fits into an `f32`; an infinite second moment would stop
/// its parameter for ever.
const LARGEST_GRADIENT: f32 = 1e18;

/// Updates after which the remembered gradients are a measure of the next one.
const REMEMBERED: u64 = 20;

/// The learning rates of one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Of all weights of the encoder.
    pub encoder: f64,
    /// Of 1/τ.
    pub inv_tau: f64,
    /// Of β.
    pub beta: f64,
    /// Of γ.
    pub gamma: f64,
}

impl Rates {
    /// All rates times a schedule's factor.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            encoder: self.encoder * factor,
            inv_tau: self.inv_tau * factor,
            beta: self.beta * factor,
            gamma: self.gamma * factor,
        }
    }
}

/// A parameter group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// All weights of the encoder.
    Encoder,
    /// 1/τ.
    InvTau,
    /// β.
    Beta,
    /// γ.
    Gamma,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Encoder => "the encoder",
            Self::InvTau => "1/τ",
            Self::Beta => "β",
            Self::Gamma => "γ",
        })
    }
}

/// What became of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Parameters, moments and step have moved on.
    Applied,
    /// The gradient of this group was not finite, or beyond 1e18: nothing has changed.
    Refused(Group),
}

/// The optimiser's state.
#[derive(Clone, Debug, PartialEq)]
pub struct Adam {
    /// Updates applied so far.
    pub step: u64,
    /// First moments of the encoder: the running mean of its gradients.
    pub first: Vec<f32>,
    /// Second moments of the encoder: the running mean of their squares.
    pub second: Vec<f32>,
    /// First moments of 1/τ, β, γ.
    pub control_first: [f64; 3],
    /// Second moments of 1/τ, β, γ.
    pub control_second: [f64; 3],
}

impl Adam {
    /// The state before the first update of an encoder with this many weights.
    pub fn new(weights: usize) -> Self {
        Self {
            step: 0,
            first: vec![0.0; weights],
            second: vec![0.0; weights],
            control_first: [0.0; 3],
            control_second: [0.0; 3],
        }
    }

    /// Forgets which way the weights were going. How long gradients usually are is still known.
    pub fn stand_still(&mut self) {
        self.first.fill(0.0);
    }

    /// Whether an encoder's gradient with this square length is an explosion: a thousand times as long as those
    /// remembered. Nothing is said before [`REMEMBERED`] updates, when gradients still differ that much by nature, nor of
    /// what is not finite, which [`Adam::update`] refuses.
    pub fn is_far_too_long(&self, square: f64) -> bool {
        if self.step < REMEMBERED {
            return false;
        }
        let correction = 1.0 - DECAY_SECOND.powi(i32::try_from(self.step).unwrap_or(i32::MAX));
        let usual = self.second.iter().map(|second| f64::from(*second)).sum::<f64>() / correction;
        square.is_finite() && usual > 0.0 && square > usual * 1e6
    }

    /// One update of all groups, or of none if a gradient cannot be believed.
    ///
    /// # Errors
    /// If weights or gradients are not as many as the moments.
    pub fn update(
        &mut self,
        weights: &mut [f32],
        gradient: &[f32],
        control: &mut Control,
        d_control: &ControlGradient,
        rates: &Rates,
    ) -> Result<Outcome> {
        if weights.len() != self.first.len() || gradient.len() != self.first.len() {
            return Err(Error::input(format!(
                "the optimiser follows {} weights, but was given {} with {} gradients",
                self.first.len(),
                weights.len(),
                gradient.len()
            )));
        }
        if !all_within(gradient, LARGEST_GRADIENT) {
            return Ok(Outcome::Refused(Group::Encoder));
        }
        let d_control = [d_control.inv_tau, d_control.beta, d_control.gamma];
        for (d, group) in d_control.into_iter().zip([Group::InvTau, Group::Beta, Group::Gamma]) {
            if !d.is_finite() || d.abs() > f64::from(LARGEST_GRADIENT) {
                return Ok(Outcome::Refused(group));
            }
        }

        self.step += 1;
        let correction = correction(self.step);
        #[allow(clippy::cast_possible_truncation)]
        adam(
            weights,
            gradient,
            &mut self.first,
            &mut self.second,
            // 1 − 0.999 in f32 would be off by 5e-5.
            (1.0 - DECAY_FIRST) as f32,
            (1.0 - DECAY_SECOND) as f32,
            (rates.encoder * correction) as f32,
            EPSILON as f32,
        );
        let scalars = [
            (&mut control.inv_tau, rates.inv_tau),
            (&mut control.beta, rates.beta),
            (&mut control.gamma, rates.gamma),
        ];
        let moments = self.control_first.iter_mut().zip(&mut self.control_second);
        for (((value, rate), d), (first, second)) in scalars.into_iter().zip(d_control).zip(moments) {
            *first += (1.0 - DECAY_FIRST) * (d - *first);
            *second += (1.0 - DECAY_SECOND) * (d * d - *second);
            *value -= rate * correction * *first / (second.sqrt() + EPSILON);
        }
        Ok(Outcome::Applied)
    }

    /// The part of the state that goes into a checkpoint as tensors, with its names.
    pub fn tensors(&self) -> [(&'static str, &[f32]); 2] {
        [("adam.first", &self.first), ("adam.second", &self.second)]
    }

    /// The rest of the state, as text entries that hold every number exactly.
    pub fn header(&self) -> [(&'static str, String); 3] {
        // The shortest decimal that reads back as the same f64.
        let exact = |values: &[f64; 3]| values.map(|value| format!("{value:?}")).join(" ");
        [
            ("adam.step", self.step.to_string()),
            ("adam.control.first", exact(&self.control_first)),
            ("adam.control.second", exact(&self.control_second)),
        ]
    }

    /// The state from the parts that [`tensors`](Self::tensors) and [`header`](Self::header) gave.
    ///
    /// # Errors
    /// If a header entry is missing or unreadable, or a moment is not a possible one.
    pub fn restore(first: Vec<f32>, second: Vec<f32>, header: &HashMap<String, String>) -> Result<Self> {
        let entry = |name: &str| {
            header.get(name).ok_or_else(|| Error::input(format!("the optimiser's entry `{name}` is missing")))
        };
        let scalars = |name: &str| -> Result<[f64; 3]> {
            let text = entry(name)?;
            let values: Vec<f64> = text.split(' ').map_while(|value| value.parse().ok()).collect();
            let unreadable =
                || Error::input(format!("the optimiser's entry `{name}` = {text} is not three numbers"));
            <[f64; 3]>::try_from(values).map_err(|_| unreadable())
        };
        let step = entry("adam.step")?;
        let state = Self {
            step: step.parse().map_err(|_| {
                Error::input(format!("the optimiser's entry `adam.step` = {step} is not a count of updates"))
            })?,
            first,
            second,
            control_first: scalars("adam.control.first")?,
            control_second: scalars("adam.control.second")?,
        };
        let possible = state.first.len() == state.second.len()
            && state.first.iter().all(|value| value.is_finite())
            && state.second.iter().all(|value| value.is_finite() && *value >= 0.0)
            && state.control_first.iter().all(|value| value.is_finite())
            && state.control_second.iter().all(|value| value.is_finite() && *value >= 0.0);
        if !possible {
            return Err(Error::input(
                "the optimiser's moments are damaged: they must be finite, equally many, and the second ones not negative",
            ));
        }
        Ok(state)
    }
}

/// The moments of weights that are not the encoder's, such as a projection's.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    /// The running mean of the gradients.
    pub first: Vec<f32>,
    /// The running mean of their squares.
    pub second: Vec<f32>,
}

impl Moments {
    /// Those of so many weights before the first update.
    pub fn new(weights: usize) -> Self {
        Self { first: vec![0.0; weights], second: vec![0.0; weights] }
    }

    /// Update number `step`, from 1 on. The three have one length.
    #[allow(clippy::cast_possible_truncation)]
    pub fn update(&mut self, weights: &mut [f32], gradient: &[f32], step: u64, rate: f64) {
        adam(
            weights,
            gradient,
            &mut self.first,
            &mut self.second,
            (1.0 - DECAY_FIRST) as f32,
            (1.0 - DECAY_SECOND) as f32,
            (rate * correction(step)) as f32,
            EPSILON as f32,
        );
    }
}

/// √(1−β₂ᵗ)/(1−β₁ᵗ): undoes that the moments of update t started from 0.
fn correction(step: u64) -> f64 {
    // Past a few ten thousand updates both powers are 0 in any case.
    let step = i32::try_from(step).unwrap_or(i32::MAX);
    (1.0 - DECAY_SECOND.powi(step)).sqrt() / (1.0 - DECAY_FIRST.powi(step))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::tensors::{Tensor, TensorFile, serialize};

    const RATES: Rates = Rates { encoder: 1e-3, inv_tau: 1e-3, beta: 1e-3, gamma: 1e-3 };

    /// A gradient that changes from step to step; the third value is of ε's size, which tells the conventions apart.
    fn gradient(step: i32) -> [f64; 6] {
        let alternating = if step % 2 == 0 { 0.25 } else { -0.25 };
        [0.3, -1.0, 1e-7, -3e-4, alternating, -40.0 / f64::from(step + 1)]
    }

    fn d_control(values: &[f64]) -> ControlGradient {
        ControlGradient { inv_tau: values[0], beta: values[1], gamma: values[2] }
    }

    /// Ten updates from (0.5, −1.25, 3, 0.001, −12, 10) by the formula in double precision; TensorFlow 2.21's own Adam,
    /// which rounds its factors to single precision, agrees to 7e-8.
    const AFTER_TEN: [f64; 6] = [
        0.490_000_052_971_643_34,
        -1.240_000_015_891_561_4,
        2.999_341_137_100_014,
        0.010_947_351_544_405_874,
        -12.001_545_375_613_196,
        10.007_712_825_865_566,
    ];

    #[test]
    fn ten_updates_as_tensorflow_makes_them() {
        let start = [0.5f32, -1.25, 3.0, 0.001, -12.0, 10.0];
        let mut weights = start;
        let mut optimiser = Adam::new(6);
        let mut halves = [start[..3].to_vec(), start[3..].to_vec()].map(|half| Control {
            inv_tau: half[0].into(),
            beta: half[1].into(),
            gamma: half[2].into(),
        });
        // 0.001 is not the same number in f32.
        halves[1].inv_tau = 0.001;
        let mut scalar_optimisers = [Adam::new(0), Adam::new(0)];
        for step in 0..10 {
            let gradient = gradient(step);
            let mut ignored = Control::default();
            let outcome = optimiser.update(
                &mut weights,
                &gradient.map(|value| value as f32),
                &mut ignored,
                &ControlGradient::default(),
                &RATES,
            );
            assert_eq!(outcome.unwrap(), Outcome::Applied);
            for ((optimiser, control), gradient) in
                scalar_optimisers.iter_mut().zip(&mut halves).zip(gradient.chunks(3))
            {
                let _ = optimiser.update(&mut [], &[], control, &d_control(gradient), &RATES).unwrap();
            }
        }
        let scalars = halves.map(|half| [half.inv_tau, half.beta, half.gamma]).concat();
        for index in 0..6 {
            // The scalars are f64 throughout. A weight rounds at most ten times to half a unit in its last place.
            assert!((scalars[index] - AFTER_TEN[index]).abs() < 1e-14, "scalar {index}: {}", scalars[index]);
            let rounding = 10.0 * f64::from(f32::EPSILON) / 2.0 * AFTER_TEN[index].abs();
            let error = (f64::from(weights[index]) - AFTER_TEN[index]).abs();
            assert!(error < rounding + 1e-8, "weight {index}: {} is off by {error}", weights[index]);
        }
    }

    #[test]
    fn each_group_has_its_own_rate() {
        let (mut weights, mut control) = ([1.0f32], Control { inv_tau: 1.0, beta: 1.0, gamma: 1.0 });
        let rates = Rates { encoder: 0.0, inv_tau: 0.1, beta: 0.2, gamma: 0.0 };
        let _ =
            Adam::new(1).update(&mut weights, &[5.0], &mut control, &d_control(&[5.0; 3]), &rates).unwrap();
        assert_eq!(weights, [1.0]);
        // The first update of a large gradient is the rate itself.
        for (value, expected) in [(control.inv_tau, 0.9), (control.beta, 0.8), (control.gamma, 1.0)] {
            assert!((value - expected).abs() < 1e-6, "{value}");
        }
    }

    #[test]
    fn a_gradient_that_is_not_finite_changes_nothing() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2e18] {
            for place in 0..203 {
                let mut gradient = vec![0.5f32; 200];
                let mut scalars = [0.5f64; 3];
                match place {
                    200.. => scalars[place - 200] = bad.into(),
                    _ => gradient[place] = bad,
                }
                let (mut weights, mut control) = (vec![1.0f32; 200], Control::default());
                let mut optimiser = Adam::new(200);
                let before = optimiser.clone();
                let outcome =
                    optimiser.update(&mut weights, &gradient, &mut control, &d_control(&scalars), &RATES);
                let group = match place {
                    200 => Group::InvTau,
                    201 => Group::Beta,
                    202 => Group::Gamma,
                    _ => Group::Encoder,
                };
                assert_eq!(outcome.unwrap(), Outcome::Refused(group));
                assert_eq!((weights, control, optimiser), (vec![1.0; 200], Control::default(), before));
            }
        }
    }

    #[test]
    fn sizes_must_agree() {
        let mut optimiser = Adam::new(2);
        let mut control = Control::default();
        let none = ControlGradient::default();
        for (weights, gradients) in [(2, 1), (1, 2), (3, 3)] {
            let error =
                optimiser.update(&mut vec![0.0; weights], &vec![0.0; gradients], &mut control, &none, &RATES);
            assert!(error.unwrap_err().to_string().contains("follows 2 weights"));
        }
        assert_eq!(optimiser, Adam::new(2));
    }

    fn saved(optimiser: &Adam) -> Vec<u8> {
        let tensor = |values: &[f32]| Tensor { shape: vec![values.len()], values: values.to_vec() };
        let tensors: BTreeMap<String, Tensor> =
            optimiser.tensors().map(|(name, values)| (name.to_owned(), tensor(values))).into();
        serialize(&tensors, optimiser.header().map(|(name, text)| (name.to_owned(), text)).into()).unwrap()
    }

    fn restored(bytes: &[u8]) -> Adam {
        let file = TensorFile::parse(Path::new("checkpoint"), bytes).unwrap();
        let values = |name| file.require(name).unwrap().values.clone();
        Adam::restore(values("adam.first"), values("adam.second"), file.metadata()).unwrap()
    }

    #[test]
    fn a_resumed_run_goes_on_bit_for_bit() {
        // Irregular numbers, so that a lost digit would show.
        let noise = |index: usize, step: usize| ((index * 37 + step * 101) as f64 * 0.731).sin();
        let mut weights: Vec<f32> = (0..150).map(|index| noise(index, 99) as f32).collect();
        let mut control = Control::default();
        let mut optimiser = Adam::new(150);
        let advance = |optimiser: &mut Adam, weights: &mut Vec<f32>, control: &mut Control, step: usize| {
            let gradient: Vec<f32> = (0..150).map(|index| noise(index, step) as f32).collect();
            let scalars = [noise(1, step), noise(2, step), noise(3, step)];
            let outcome =
                optimiser.update(weights, &gradient, control, &d_control(&scalars), &RATES).unwrap();
            assert_eq!(outcome, Outcome::Applied);
        };
        for step in 0..20 {
            advance(&mut optimiser, &mut weights, &mut control, step);
        }
        let mut resumed = restored(&saved(&optimiser));
        let (mut resumed_weights, mut resumed_control) = (weights.clone(), control);
        for step in 20..40 {
            advance(&mut optimiser, &mut weights, &mut control, step);
            advance(&mut resumed, &mut resumed_weights, &mut resumed_control, step);
        }
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert!(bits(&weights) == bits(&resumed_weights));
        assert_eq!(control.beta.to_bits(), resumed_control.beta.to_bits());
        assert!(
            bits(&optimiser.first) == bits(&resumed.first)
                && bits(&optimiser.second) == bits(&resumed.second)
        );
        assert_eq!(optimiser.header(), resumed.header());
        assert_eq!(optimiser.step, 40);
    }

    #[test]
    fn a_damaged_state_is_refused() {
        let header: HashMap<String, String> =
            Adam::new(0).header().map(|(name, text)| (name.to_owned(), text)).into();
        let refuse = |first: Vec<f32>, second: Vec<f32>, header: &HashMap<String, String>| {
            Adam::restore(first, second, header).unwrap_err().to_string()
        };
        Adam::restore(vec![1.0], vec![1.0], &header).unwrap();
        assert!(refuse(vec![1.0], vec![], &header).contains("damaged"));
        assert!(refuse(vec![f32::NAN], vec![1.0], &header).contains("damaged"));
        assert!(refuse(vec![1.0], vec![-1.0], &header).contains("damaged"));
        for (name, bad) in
            [("adam.step", "-1"), ("adam.control.first", "1 2"), ("adam.control.second", "1 2 x")]
        {
            let mut changed = header.clone();
            changed.insert(name.to_owned(), bad.to_owned());
            assert!(refuse(vec![], vec![], &changed).contains(name));
            changed.remove(name);
            assert!(refuse(vec![], vec![], &changed).contains("missing"));
        }
    }
}

//! One learning update: the views of a window of frames in, a better encoder and memory out.
//!
//! Everything that learning changes is one [`LearnerState`], in the open, so that it can be saved and restored whole. An
//! update either happens completely or leaves the state as it was: a loss or gradient that is not finite is reported,
//! never applied.

use std::fmt;
use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::adam::{Adam, Group, Outcome, Rates};
use super::schedule::{Schedule, kappa};
use crate::config::Settings;
use crate::encoder::{NormMode, Parameters, Plan, Statistics, TrainingEncoder};
use crate::memory::window::ControlGradient;
use crate::memory::{Control, Losses, Noise, Prototypes, Rules, Variant, Window, WindowInput};
use crate::random::{Purpose, Random};
use crate::{Error, Result};

/// Everything that learning changes.
#[derive(Clone, Debug, PartialEq)]
pub struct LearnerState {
    /// The encoder's weights.
    pub parameters: Parameters,
    /// The running statistics of its batch norms.
    pub statistics: Statistics,
    /// 1/τ, β, γ.
    pub control: Control,
    /// The learning memory, carried from window to window.
    pub memory: Prototypes<f32>,
    /// The optimiser; its step counts the updates.
    pub adam: Adam,
}

/// Why an update was not applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An embedding was not finite.
    EmbeddingNotFinite,
    /// The loss was not finite.
    LossNotFinite,
    /// The gradient of this group was not finite.
    GradientNotFinite(Group),
    /// The encoder's gradient was far longer than those before it.
    GradientTooLong,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmbeddingNotFinite => f.write_str("an embedding is not finite"),
            Self::LossNotFinite => f.write_str("the loss is not finite"),
            Self::GradientNotFinite(group) => write!(f, "the gradient of {group} is not finite"),
            Self::GradientTooLong => f.write_str("the gradient is far longer than those before it"),
        }
    }
}

/// What an update did.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// Why the update was not applied, if it was not.
    pub refused: Option<Refusal>,
    /// The loss terms before the update.
    pub losses: Losses,
    /// Mean of û over the window's frames, as the first view sees them. (The loss's own mean is that of samples where creation
    /// is sampled.)
    pub mean_new_probability: f64,
    /// Categories founded within the window.
    pub created: usize,
    /// Slots of the learning memory in use.
    pub in_use: usize,
    /// Spread of the embeddings: see [`spread`].
    pub spread: f64,
    /// ‖∂L/∂weights‖.
    pub gradient_norm: f64,
    /// Where the time went.
    pub times: Times,
}

/// How long an update took, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Times {
    /// The encoder's forward pass over all views.
    pub encode: Duration,
    /// The memory's window, its losses and their gradient.
    pub memory: Duration,
    /// The encoder's backward pass.
    pub backward: Duration,
    /// The optimiser.
    pub adam: Duration,
}

impl Times {
    /// All parts together.
    pub fn total(&self) -> Duration {
        self.encode + self.memory + self.backward + self.adam
    }
}

/// The learner of one run: its state, and the scratch memory of an update.
pub struct Learner {
    /// What is learned.
    pub state: LearnerState,
    rules: Rules,
    schedule: Schedule,
    rates: Rates,
    seed: u64,
    norm: NormMode,
    encoder: Box<dyn TrainingEncoder + Send>,
    /// The memory's window, once for each second view.
    windows: Vec<Window<f32>>,
    /// The loss of the last window and its gradient with respect to 1/τ, β, γ: averages over the second views.
    losses: Losses,
    d_control: ControlGradient,
    gradients: Parameters,
    features: Vec<f32>,
    d_features: Vec<f32>,
    noise: [NoiseBuffer; 2],
    dimension: usize,
}

#[derive(Clone, Debug, Default)]
struct NoiseBuffer {
    creation: Vec<f32>,
    assignment: Vec<f32>,
}

impl Learner {
    /// A learner with these weights, an empty memory and a fresh optimiser.
    pub fn new(
        settings: &Settings,
        plan: &Plan,
        encoder: Box<dyn TrainingEncoder + Send>,
        parameters: Parameters,
        statistics: Statistics,
    ) -> Result<Self> {
        let dimension = plan.features;
        let images = (1 + settings.second_views) * settings.window;
        Ok(Self {
            rules: settings.rules(),
            schedule: settings.schedule(),
            rates: Rates {
                encoder: settings.learning_rate,
                inv_tau: settings.inv_tau_learning_rate,
                beta: settings.beta_learning_rate,
                gamma: settings.gamma_learning_rate,
            },
            seed: settings.seed,
            norm: settings.norm_statistics,
            encoder,
            windows: (0..settings.second_views)
                .map(|_| Window::new(settings.window, settings.slots, dimension))
                .collect::<Result<_>>()?,
            losses: Losses::default(),
            d_control: ControlGradient::default(),
            gradients: plan.zero_parameters(),
            features: vec![0.0; images * dimension],
            d_features: vec![0.0; images * dimension],
            noise: Default::default(),
            dimension,
            state: LearnerState {
                control: settings.control(),
                memory: Prototypes::new(settings.slots, dimension)?,
                adam: Adam::new(parameters.values.len()),
                parameters,
                statistics,
            },
        })
    }

    /// Replaces the running statistics by those of these images alone, for weights whose own are of nothing: see
    /// [`Plan::fresh_statistics`].
    pub fn measure_statistics(&mut self, plan: &Plan, images: &[f32], count: usize) -> Result<()> {
        let momentum = plan.batch_norm.momentum;
        if momentum <= 0.0 {
            return Err(Error::input("norm_momentum = 0: the statistics stay as they are"));
        }
        let fresh = plan.fresh_statistics();
        let mut measured = fresh.clone();
        let mut features = vec![0.0; count * self.dimension];
        self.encoder.forward(
            &self.state.parameters,
            &mut measured,
            images,
            count,
            NormMode::Window,
            &mut features,
        )?;
        // running += momentum · (window − running), solved for the window's.
        for (value, fresh) in measured.values.iter_mut().zip(&fresh.values) {
            *value = fresh + (*value - fresh) / momentum;
        }
        for unit in &plan.units {
            // Rounding must not make a variance negative.
            measured.tensor_mut(unit.variance).iter_mut().for_each(|variance| *variance = variance.max(0.0));
        }
        if measured.values.iter().all(|value| value.is_finite()) {
            self.state.statistics = measured;
            return Ok(());
        }
        Err(Error::input("the statistics of these images are not finite"))
    }

    /// One update from `frames` frames: `images` holds view 1 of all of them, then view 2, then the other second views if the
    /// settings ask for more. The learning memory moves on by the first `stride` frames, so that the next window may begin there.
    pub fn update(&mut self, images: &[f32], frames: usize, stride: usize) -> Result<Update> {
        let numbers = frames * self.dimension;
        let views = 1 + self.windows.len();
        if frames == 0 || views * numbers > self.features.len() {
            return Err(Error::input(format!(
                "an update from {frames} frames; expected 1 to the window's length"
            )));
        }
        let mut times = Times::default();
        let mut clock = Instant::now();
        let mut lap = |time: &mut Duration| *time = std::mem::replace(&mut clock, Instant::now()).elapsed();

        let mut statistics = self.state.statistics.clone();
        let features = &mut self.features[..views * numbers];
        self.encoder.forward(
            &self.state.parameters,
            &mut statistics,
            images,
            views * frames,
            self.norm,
            features,
        )?;
        lap(&mut times.encode);

        if !features.iter().all(|feature| feature.is_finite()) {
            // The window was not run: what its buffers hold is of the one before.
            let unknown = f64::NAN;
            let losses = Losses {
                self_supervised: unknown,
                entropy: unknown,
                creation: unknown,
                mean_creation: unknown,
                total: unknown,
            };
            return Ok(Update {
                refused: Some(Refusal::EmbeddingNotFinite),
                losses,
                mean_new_probability: unknown,
                created: 0,
                in_use: self.state.memory.in_use(),
                spread: unknown,
                gradient_norm: unknown,
                times,
            });
        }
        self.draw_noise(frames);
        self.run_window(numbers, stride)?;
        lap(&mut times.memory);
        if !self.losses.total.is_finite() {
            // The backward pass would take as long as all before it, for a gradient that nobody uses.
            let report = self.report(Some(Refusal::LossNotFinite), times);
            return Ok(Update { gradient_norm: f64::NAN, ..report });
        }

        let d_features = &self.d_features[..views * numbers];
        self.encoder.backward(&self.state.parameters, images, d_features, &mut self.gradients, None)?;
        lap(&mut times.backward);

        if self.state.adam.is_far_too_long(self.gradient_square()) {
            return Ok(self.report(Some(Refusal::GradientTooLong), times));
        }
        let rates = self.rates.scaled(self.schedule.factor(self.state.adam.step));
        let state = &mut self.state;
        let outcome = state.adam.update(
            &mut state.parameters.values,
            &self.gradients.values,
            &mut state.control,
            &self.d_control,
            &rates,
        )?;
        lap(&mut times.adam);
        if let Outcome::Refused(group) = outcome {
            return Ok(self.report(Some(Refusal::GradientNotFinite(group)), times));
        }
        state.statistics = statistics;
        state.memory.clone_from(self.windows[0].memory_after_stride());
        Ok(self.report(None, times))
    }

    /// The memory's window on `numbers` features of each view: losses, gradients, and the memory after it.
    ///
    /// The memory is written by view 1 alone, so with several second views it goes the same way each time, and only what they
    /// are asked differs: the average of the windows' losses is the loss of them all.
    fn run_window(&mut self, numbers: usize, stride: usize) -> Result<()> {
        let (first, seconds) = self.features[..(1 + self.windows.len()) * numbers].split_at(numbers);
        let noise = self.rules.straight_through.then_some(Noise {
            creation: self.noise.each_ref().map(|noise| &noise.creation[..]),
            assignment: self.noise.each_ref().map(|noise| &noise.assignment[..]),
        });
        let (memory, control, rules) = (&self.state.memory, self.state.control, &self.rules);
        let kappa = kappa(self.state.adam.step);
        let run = |(window, second): (&mut Window<f32>, &[f32])| {
            window.run(&WindowInput {
                embeddings: [first, second],
                memory,
                control,
                rules,
                kappa,
                noise,
                stride,
            })
        };
        self.windows.par_iter_mut().zip(seconds.par_chunks_exact(numbers)).try_for_each(run)?;

        let (d_first, d_seconds) = self.d_features.split_at_mut(numbers);
        d_first.fill(0.0);
        self.losses = Losses::default();
        self.d_control = ControlGradient::default();
        let share = 1.0 / self.windows.len() as f64;
        for (window, d_second) in self.windows.iter().zip(d_seconds.chunks_exact_mut(numbers)) {
            for (sum, d) in d_first.iter_mut().zip(window.d_embeddings(0)) {
                *sum += share as f32 * d;
            }
            for (d_second, d) in d_second.iter_mut().zip(window.d_embeddings(1)) {
                *d_second = share as f32 * d;
            }
            self.losses.add_scaled(share, window.losses());
            self.d_control.add_scaled(share, window.d_control());
        }
        Ok(())
    }

    fn report(&self, refused: Option<Refusal>, times: Times) -> Update {
        let outcomes = self.windows[0].outcomes();
        let numbers = (1 + self.windows.len()) * outcomes.len() * self.dimension;
        Update {
            refused,
            losses: self.losses,
            mean_new_probability: outcomes.iter().map(|outcome| outcome.new_probability).sum::<f64>()
                / outcomes.len().max(1) as f64,
            created: outcomes.iter().filter(|outcome| outcome.created).count(),
            in_use: self.state.memory.in_use(),
            spread: spread(&self.features[..numbers], self.dimension),
            gradient_norm: self.gradient_square().sqrt(),
            times,
        }
    }

    fn gradient_square(&self) -> f64 {
        self.gradients.values.iter().map(|g| f64::from(*g).powi(2)).sum()
    }

    /// The random numbers of this update: a function of seed and step alone.
    fn draw_noise(&mut self, frames: usize) {
        if !self.rules.straight_through {
            return;
        }
        let mut random = Random::new(self.seed, Purpose::Sampling, self.state.adam.step);
        let samples_assignment = self.rules.variant == Variant::Paper;
        let assignments = if samples_assignment { frames * self.state.memory.slots() } else { 0 };
        for noise in &mut self.noise {
            noise.creation.clear();
            noise.creation.extend((0..frames).map(|_| random.logistic() as f32));
            noise.assignment.clear();
            noise.assignment.extend((0..assignments).map(|_| random.gumbel() as f32));
        }
    }
}

/// How far embeddings spread: the standard deviation of the normalised embeddings, averaged over the dimensions and scaled
/// by √D. 1 if they point everywhere alike, 0 if they have collapsed to one point.
pub fn spread(embeddings: &[f32], dimension: usize) -> f64 {
    let count = embeddings.len() / dimension.max(1);
    if count == 0 {
        return 0.0;
    }
    let mut mean = vec![0.0; dimension];
    let mut square = vec![0.0; dimension];
    for embedding in embeddings.chunks_exact(dimension) {
        let norm = embedding.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        for ((mean, square), x) in mean.iter_mut().zip(&mut square).zip(embedding) {
            let x = f64::from(*x) / norm;
            *mean += x / count as f64;
            *square += x * x / count as f64;
        }
    }
    let deviations = mean.iter().zip(&square).map(|(mean, square)| (square - mean * mean).max(0.0).sqrt());
    deviations.sum::<f64>() / (dimension as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_is_one_for_all_directions_and_zero_for_one() {
        let axes = [1.0, 0.0, -1.0, 0.0, 0.0, 2.0, 0.0, -2.0];
        assert!((spread(&axes, 2) - 1.0).abs() < 1e-12);
        assert!(spread(&[3.0, 4.0, 0.3, 0.4, 30.0, 40.0], 2) < 1e-7);
        assert_eq!(spread(&[], 2), 0.0);
    }
}

//! The one learning step: views of a window of frames, their embeddings, the objective's loss and gradient, back through the
//! encoder, and Adam. Recordings, training on data sets, `bench`, `doctor` and `self check` all learn here.
//!
//! In candle's terms: the encoder is one operation ([`Session::encode`]), the objective another ([`window_loss`]), and
//! `backward` goes through both. The large buffers, images and weights, are lent to candle and never copied but for what
//! the operation keeps of the weights.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::adam::{Adam, Outcome, Rates};
use super::anchor::Anchor;
use super::saved;
use super::schedule::Schedule;
use super::update::{LearnerState, Refusal, Update, spread};
use crate::config::Settings;
use crate::encoder::candle::{Lent, Session, read};
use crate::encoder::inference::Folded;
use crate::encoder::{NormMode, Parameters, Statistics, TrainingEncoder};
use crate::memory::Control;
use crate::model::Model;
use crate::objective::{Asked, Objective, window_loss};
use crate::tensors::Tensor;
use crate::views::{Pixels, Views};
use crate::{Error, Result};

/// A window of frames to learn from.
#[derive(Clone, Debug)]
pub struct WindowOfFrames<'a> {
    /// Its number: the same number gives the same views of the same frames.
    pub number: u64,
    /// Its frames.
    pub frames: Vec<Pixels<'a>>,
    /// What came after each of them, if views are of the next frame.
    pub next: Vec<Pixels<'a>>,
    /// The frames after which the next window begins.
    pub stride: usize,
}

/// What learning has made of the encoder, ready for single pictures.
#[derive(Clone, Debug)]
pub struct Published {
    /// Its weights.
    pub folded: Arc<Folded>,
    /// 1/τ, β, γ.
    pub control: Control,
}

/// The one that learns: a model, an objective, and what carries the gradient from the one to the other.
pub struct Trainer {
    model: Model,
    adam: Adam,
    anchor: Anchor,
    objective: Box<dyn Objective>,
    encoder: Session,
    views: Views,
    schedule: Schedule,
    rates: Rates,
    norm: NormMode,
    /// Views of a frame.
    each: usize,
    /// The most frames of a window.
    longest: usize,
    images: Vec<f32>,
}

impl Trainer {
    /// A trainer of this model by the objective that the settings name, with an empty memory and a fresh optimiser.
    ///
    /// # Errors
    /// If the settings cannot be.
    pub fn new(settings: &Settings, model: Model, encoder: Box<dyn TrainingEncoder + Send>) -> Result<Self> {
        let objective = settings.objective.objective(settings, model.plan.features)?;
        Self::with(settings, model, encoder, objective)
    }

    /// A trainer by another objective.
    ///
    /// # Errors
    /// If the settings cannot be.
    pub fn with(
        settings: &Settings,
        model: Model,
        encoder: Box<dyn TrainingEncoder + Send>,
        objective: Box<dyn Objective>,
    ) -> Result<Self> {
        let size = model.plan.image;
        Ok(Self {
            adam: Adam::new(model.parameters.values.len()),
            anchor: Anchor::new(settings, &model.parameters.values),
            objective,
            encoder: Session::new(Arc::clone(&model.plan), encoder),
            views: Views::new(settings.views, settings.augmentation.recipe(), size, settings.seed)?,
            schedule: settings.schedule(),
            rates: settings.base_rates(),
            norm: settings.norm_statistics,
            each: 1 + settings.second_views,
            longest: settings.window,
            // Made when the first window comes: who brings views of his own needs none.
            images: Vec::new(),
            model,
        })
    }

    /// The model as it is now.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// 1/τ, β, γ, to be set by who has measured them.
    pub fn control_mut(&mut self) -> &mut Control {
        &mut self.model.control
    }

    /// Updates applied so far.
    pub fn steps(&self) -> u64 {
        self.adam.step
    }

    /// The encoder as it is now, for single pictures.
    ///
    /// # Errors
    /// If the weights are not of the network.
    pub fn publish(&self) -> Result<Published> {
        Ok(Published { folded: self.model.fold()?, control: self.model.control })
    }

    /// Everything that learning has changed.
    pub fn state(&self) -> LearnerState {
        let Model { parameters, statistics, control, .. } = self.model.clone();
        LearnerState {
            parameters,
            statistics,
            control,
            adam: self.adam.clone(),
            anchor: self.anchor.weights().map(<[f32]>::to_vec),
            carried: self.objective.carried(),
        }
    }

    /// Adds everything that learning has changed to what a file will hold.
    pub fn save(&self, tensors: &mut BTreeMap<String, Tensor>, header: &mut HashMap<String, String>) {
        let Model { parameters, statistics, control, .. } = &self.model;
        saved::put_learned(parameters, statistics, control, &self.adam, tensors, header);
        saved::put_anchor(self.anchor.weights(), tensors);
        tensors.extend(self.objective.carried());
    }

    /// Goes on from another state.
    ///
    /// # Errors
    /// If it is of another network or objective; then nothing has changed.
    pub fn restore(&mut self, state: LearnerState) -> Result<()> {
        if state.parameters.values.len() != self.model.parameters.values.len() {
            return Err(Error::input("a state of another network"));
        }
        let mut anchor = self.anchor.clone();
        anchor.restore(state.anchor, &state.parameters.values)?;
        self.objective.carry(&state.carried)?;
        self.anchor = anchor;
        self.model.parameters = state.parameters;
        self.model.statistics = state.statistics;
        self.model.control = state.control;
        self.adam = state.adam;
        Ok(())
    }

    /// Gives up what was learned since these weights: the optimiser forgets which way it was going, too.
    pub fn go_back(&mut self, parameters: Parameters, statistics: Statistics) {
        self.model.parameters = parameters;
        self.model.statistics = statistics;
        self.adam.stand_still();
    }

    /// Replaces the running statistics by those of these pictures alone, for weights whose own are of nothing: see
    /// [`Plan::fresh_statistics`](crate::encoder::Plan::fresh_statistics).
    ///
    /// # Errors
    /// If the statistics are not to move, or are not finite.
    pub fn measure_statistics(&mut self, pictures: &[&[u8]]) -> Result<()> {
        let plan = Arc::clone(&self.model.plan);
        let momentum = plan.batch_norm.momentum;
        if momentum <= 0.0 {
            return Err(Error::input("norm_momentum = 0: the statistics stay as they are"));
        }
        let mut images: Vec<f32> =
            pictures.iter().flat_map(|picture| picture.iter()).map(|byte| f32::from(*byte) / 255.0).collect();
        self.model.card.input.apply(&mut images);
        let fresh = plan.fresh_statistics();
        let mut measured = fresh.clone();
        let shape = [pictures.len(), plan.image.height, plan.image.width, plan.image.channels];
        let len = self.model.parameters.values.len();
        let encoded = Lent::constant(&mut images, &shape).and_then(|images| {
            let theta = Lent::constant(&mut self.model.parameters.values, &[len])?;
            let images = images.tensor().permute((0, 3, 1, 2))?;
            self.encoder.encode(&images, theta.tensor(), &mut measured, NormMode::Window)
        });
        encoded.map_err(|error| self.encoder.error(error))?;
        // running += momentum · (window − running), solved for the window's.
        for (value, fresh) in measured.values.iter_mut().zip(&fresh.values) {
            *value = fresh + (*value - fresh) / momentum;
        }
        for unit in &plan.units {
            // Rounding must not make a variance negative.
            measured.tensor_mut(unit.variance).iter_mut().for_each(|variance| *variance = variance.max(0.0));
        }
        if measured.values.iter().all(|value| value.is_finite()) {
            self.model.statistics = measured;
            return Ok(());
        }
        Err(Error::input("the statistics of these images are not finite"))
    }

    /// Learns from a window: makes the views of its frames, and one update from them.
    ///
    /// # Errors
    /// If the window is not of the size that the settings name. What is not finite is no error: see [`Update::refused`].
    pub fn learn(&mut self, window: &WindowOfFrames<'_>) -> Result<Update> {
        let start = Instant::now();
        let frames = window.frames.len();
        if frames > self.longest {
            return Err(Error::input("a window of more frames than it was made for"));
        }
        let mut images = std::mem::take(&mut self.images);
        images.resize(self.each * frames * self.model.plan.image.len(), 0.0);
        let made = self.views.make(window.number, &window.frames, &window.next, &mut images);
        let update = made.and_then(|()| {
            self.model.card.input.apply(&mut images);
            let views = start.elapsed();
            let mut update = self.update(&mut images, frames, window.stride)?;
            update.times.views = views;
            Ok(update)
        });
        self.images = images;
        update
    }

    /// As [`learn`](Self::learn), from a window that is not the stream's next one: the objective begins it with nothing, and goes
    /// on afterwards as if it had not been.
    ///
    /// # Errors
    /// As [`learn`](Self::learn).
    pub fn learn_apart(&mut self, window: &WindowOfFrames<'_>) -> Result<Update> {
        self.objective.put_aside();
        let update = self.learn(window);
        self.objective.take_up();
        update
    }

    /// One update from `frames` frames: `images` holds view 1 of all of them, scaled as the weights want them, then view 2, then
    /// the other second views if the settings ask for more. What the objective carries on moves by the first `stride` frames, so
    /// that the next window may begin there. The images are copied, which [`learn`](Self::learn) does without.
    ///
    /// # Errors
    /// As [`learn`](Self::learn).
    pub fn learn_from_views(&mut self, images: &[f32], frames: usize, stride: usize) -> Result<Update> {
        let mut own = std::mem::take(&mut self.images);
        own.clear();
        own.extend_from_slice(images);
        let update = self.update(&mut own, frames, stride);
        self.images = own;
        update
    }

    /// The update itself. Images and weights are lent to candle for its duration.
    fn update(&mut self, images: &mut Vec<f32>, frames: usize, stride: usize) -> Result<Update> {
        let image = self.model.plan.image;
        if frames == 0 || frames > self.longest || images.len() != self.each * frames * image.len() {
            return Err(Error::input(format!(
                "an update from {frames} frames and {} numbers; expected 1 to the window's length, with all their views",
                images.len()
            )));
        }
        let rates = self.rates.scaled(self.schedule.factor(self.adam.step));
        let mut update = Update::unknown(self.objective.terms(), rates.encoder);
        let mut clock = Instant::now();
        let mut lap = |time: &mut Duration| *time = std::mem::replace(&mut clock, Instant::now()).elapsed();

        let encoder = &self.encoder;
        let fault = |error| encoder.error(error);
        let mut statistics = self.model.statistics.clone();
        let shape = [self.each * frames, image.height, image.width, image.channels];
        let images = Lent::constant(images, &shape).map_err(fault)?;
        let len = self.model.parameters.values.len();
        let theta = Lent::variable(&mut self.model.parameters.values, &[len]).map_err(fault)?;
        let views = images.tensor().permute((0, 3, 1, 2)).map_err(fault)?;
        let features = encoder.encode(&views, theta.tensor(), &mut statistics, self.norm).map_err(fault)?;
        lap(&mut update.times.encode);
        update.in_use = self.objective.in_use();
        let dimension = self.model.plan.features;
        let spread = read(&features, |features| {
            features.iter().all(|feature| feature.is_finite()).then(|| spread(features, dimension))
        });
        let Some(spread) = spread.map_err(fault)? else {
            update.refused = Some(Refusal::EmbeddingNotFinite);
            return Ok(update);
        };
        update.spread = spread;

        let asked = Asked { frames, control: self.model.control, step: self.adam.step, stride };
        let (loss, answer) = window_loss(self.objective.as_mut(), &features, &asked)?;
        lap(&mut update.times.memory);
        update.loss = answer.loss;
        update.terms = answer.terms;
        update.mean_new_probability = answer.mean_new_probability;
        update.created = answer.created;
        // Before the backward pass, which takes half of a window's time.
        if !update.loss.is_finite() {
            update.refused = Some(Refusal::LossNotFinite);
            return Ok(update);
        }

        let gradient = loss.backward().map_err(fault)?.remove(theta.tensor());
        drop((images, theta));
        let Some(gradient) = gradient else {
            unreachable!("the loss is of features, and they of the weights")
        };
        lap(&mut update.times.backward);
        let square = |gradient: &[f32]| gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>();
        let square = read(&gradient, square).map_err(fault)?;
        update.gradient_norm = square.sqrt();
        if self.adam.is_far_too_long(square) {
            update.refused = Some(Refusal::GradientTooLong);
            return Ok(update);
        }
        let Model { parameters, control, .. } = &mut self.model;
        let adam = &mut self.adam;
        let step = |gradient: &[f32]| {
            adam.update(&mut parameters.values, gradient, control, &answer.d_control, &rates)
        };
        let outcome = read(&gradient, step).map_err(fault)??;
        lap(&mut update.times.adam);
        if let Outcome::Refused(group) = outcome {
            update.refused = Some(Refusal::GradientNotFinite(group));
            return Ok(update);
        }
        self.anchor.pull(&mut self.model.parameters.values);
        self.model.statistics = statistics;
        self.objective.commit();
        update.in_use = self.objective.in_use();
        Ok(update)
    }
}

impl fmt::Debug for Trainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trainer")
            .field("card", &self.model.card)
            .field("step", &self.adam.step)
            .finish_non_exhaustive()
    }
}

//! Training on a labelled stream: the device's learner, fed with windows of a data set.
//!
//! Labels stay outside: the learner sees pictures. Window number n is the same whenever it is made, and everything that
//! learning changes is in the checkpoint, so a run that goes on from one equals a run that never stopped.

mod log;
mod saved;
mod windows;

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use self::log::{Log, VERSION as LOG_VERSION};
pub use self::windows::{ViewedWindow, WindowMaker};
use crate::Result;
use crate::calibration::Calibrator;
use crate::config::Settings;
use crate::encoder::card::{InputScaling, ModelCard};
use crate::encoder::inference::{Folded, Inference};
use crate::encoder::{Parameters, Plan, Statistics, TrainingEncoder};
use crate::learner::update::{Learner, Update};
use crate::memory::Control;
use crate::streams::LearningStream;
use crate::views::Views;

/// A training run.
pub struct Training<'a> {
    /// The learner.
    pub learner: Learner,
    settings: Settings,
    plan: Plan,
    /// What the weights will be called in files.
    card: ModelCard,
    /// What is learned from, in words: a run goes on with the same.
    stream: String,
    maker: WindowMaker<'a>,
    window: ViewedWindow,
    /// Windows done, applied or refused.
    windows: u64,
    /// Time spent on them, restarts included.
    running: Duration,
}

/// What one window did.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number, from 1 on.
    pub window: u64,
    /// Its frames.
    pub frames: usize,
    /// The update.
    pub update: Update,
    /// Making its views.
    pub views: Duration,
}

/// What a run starts from.
pub struct Beginning {
    /// What will be trained.
    pub plan: Plan,
    /// Its weights.
    pub parameters: Parameters,
    /// Its running statistics.
    pub statistics: Statistics,
    /// 1/τ, β, γ.
    pub control: Control,
    /// What the weights will be called in files; its scaling is applied to the pictures.
    pub card: ModelCard,
    /// What is learned from, in words.
    pub stream: String,
}

impl<'a> Training<'a> {
    /// A run from its beginning.
    pub fn new(
        settings: Settings,
        beginning: Beginning,
        encoder: Box<dyn TrainingEncoder + Send>,
        stream: &'a dyn LearningStream,
    ) -> Result<Self> {
        let Beginning { plan, parameters, statistics, control, card, stream: name } = beginning;
        let mut learner = Learner::new(&settings, &plan, encoder, parameters, statistics)?;
        learner.state.control = control;
        let views = Views::new(settings.views, settings.augmentation.recipe(), plan.image, settings.seed)?;
        let maker =
            WindowMaker { stream, views, second_views: settings.second_views, scaling: card.input.clone() };
        Ok(Self {
            learner,
            settings,
            plan,
            card,
            stream: name,
            maker,
            window: ViewedWindow::default(),
            windows: 0,
            running: Duration::ZERO,
        })
    }

    /// Sets β by the frames of the first window, so that a fifth of them found a category: for weights that have learned
    /// something already. Frames are embedded as they are, with the running statistics.
    pub fn calibrate(&mut self) -> Result<f64> {
        let state = &mut self.learner.state;
        let folded = Folded::new(&self.plan, &state.parameters, &state.statistics)?;
        let mut inference = Inference::new(Arc::new(folded), 1)?;
        let mut calibrator = Calibrator::new(self.plan.features);
        let mut embedding = vec![0.0; self.plan.features];
        for frame in &self.maker.stream.window(0)?.frames {
            let mut pixels: Vec<f32> = frame.iter().map(|byte| f32::from(*byte) / 255.0).collect();
            self.card.input.apply(&mut pixels);
            inference.embed(&pixels, &mut embedding)?;
            if let Some(beta) = calibrator.add(&embedding, &state.control, &self.settings.rules())? {
                state.control.beta = beta;
            }
        }
        Ok(state.control.beta)
    }

    /// Learns from the next window.
    pub fn step(&mut self) -> Result<Step> {
        let start = Instant::now();
        self.maker.make(self.windows, &mut self.window)?;
        let ViewedWindow { images, frames, time } = &self.window;
        let update = self.learner.update(images, *frames, *frames)?;
        self.windows += 1;
        self.running += start.elapsed();
        Ok(Step { window: self.windows, frames: *frames, update, views: *time })
    }

    /// Windows done.
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// Time spent on them, restarts included.
    pub fn running(&self) -> Duration {
        self.running
    }

    /// The settings of the run.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The network.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// How bytes become what the encoder reads.
    pub fn scaling(&self) -> &InputScaling {
        &self.card.input
    }
}

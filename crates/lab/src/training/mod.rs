//! Training on a labelled stream: the device's learner, fed with windows of a data set.
//!
//! Labels stay outside: the learner sees pictures, unless it is [taught](crate::taught) to be compared with. Window number n is the same whenever it is made, and everything that
//! learning changes is in the checkpoint, so a run that goes on from one equals a run that never stopped.

mod log;
mod recall;
mod saved;

use std::time::{Duration, Instant};

pub use self::log::{Log, VERSION as LOG_VERSION};
pub use self::recall::Recalled;
use self::recall::{Lesson, Recall};
use crate::Result;
use crate::calibration::Calibrator;
use crate::config::Settings;
use crate::encoder::TrainingEncoder;
use crate::encoder::inference::Inference;
use crate::learner::update::Update;
use crate::learner::{Trainer, WindowOfFrames};
use crate::model::Model;
use crate::streams::{LearningStream, WindowFrames};
use crate::taught::{Labels, Teaching};
use crate::views::Pixels;

/// A training run.
pub struct Training<'a> {
    trainer: Trainer,
    settings: Settings,
    /// What is learned from.
    stream: &'a dyn LearningStream,
    /// The same in words: a run goes on with the same.
    name: String,
    /// Tells the objective the classes, if it is taught.
    labels: Option<Labels>,
    /// Where second views come from, if not from the stream.
    recall: Option<Recall>,
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
    /// What a long memory had to do with it.
    pub recalled: Option<Recalled>,
}

impl<'a> Training<'a> {
    /// A run from its beginning, on a stream that is called `name`.
    pub fn new(
        settings: Settings,
        model: Model,
        encoder: Box<dyn TrainingEncoder + Send>,
        stream: &'a dyn LearningStream,
        name: String,
    ) -> Result<Self> {
        let trainer = Trainer::new(&settings, model, encoder)?;
        Ok(Self {
            trainer,
            settings,
            stream,
            name,
            labels: None,
            recall: None,
            windows: 0,
            running: Duration::ZERO,
        })
    }

    /// The same, with the classes of the stream told: no way for a device to learn, but what labels would give.
    ///
    /// # Errors
    /// If the stream has no classes.
    pub fn taught(
        teaching: Teaching,
        settings: Settings,
        model: Model,
        encoder: Box<dyn TrainingEncoder + Send>,
        stream: &'a dyn LearningStream,
        name: &str,
    ) -> Result<Self> {
        let (objective, labels) = teaching.objective(&settings, model.plan.features, stream)?;
        let trainer = Trainer::with(&settings, model, encoder, objective)?;
        Ok(Self {
            trainer,
            settings,
            stream,
            name: format!("{name}, taught by {teaching}"),
            labels: Some(labels),
            recall: None,
            windows: 0,
            running: Duration::ZERO,
        })
    }

    /// Takes second views from a long memory of the stream, without labels.
    pub fn recall(&mut self) {
        self.recall = Some(Recall::new(&self.settings));
    }

    /// Sets β by the frames of the first window, so that a fifth of them create a category: for weights that have learned
    /// something already. Frames are embedded as they are, with the running statistics.
    pub fn calibrate(&mut self) -> Result<f64> {
        let model = self.trainer.model();
        let mut control = model.control;
        let mut inference = Inference::new(model.fold()?, 1)?;
        let mut calibrator = Calibrator::new(model.plan.features);
        let mut embedding = vec![0.0; model.plan.features];
        for frame in &self.stream.window(0)?.frames {
            let mut pixels: Vec<f32> = frame.iter().map(|byte| f32::from(*byte) / 255.0).collect();
            model.card.input.apply(&mut pixels);
            inference.embed(&pixels, &mut embedding)?;
            if let Some(beta) = calibrator.add(&embedding, &control, &self.settings.rules())? {
                control.beta = beta;
            }
        }
        self.trainer.control_mut().beta = control.beta;
        Ok(control.beta)
    }

    /// Learns from the next window.
    pub fn step(&mut self) -> Result<Step> {
        let start = Instant::now();
        let shown = self.stream.window(self.windows)?;
        if let Some(labels) = &self.labels {
            labels.set(shown.labels.clone());
        }
        let mut window = window(self.windows, &shown);
        let frames = window.frames.len();
        let (mut update, recalled) = match &mut self.recall {
            None => (self.trainer.learn(&window)?, None),
            Some(recall) => {
                let (lesson, recalled) = recall.lesson(self.windows, &shown, self.trainer.model())?;
                let update = match &lesson {
                    Lesson::Stream(seconds) => {
                        for (next, second) in window.next.iter_mut().zip(seconds) {
                            *next = second.as_deref().map_or(*next, Pixels::Bytes);
                        }
                        self.trainer.learn(&window)?
                    }
                    Lesson::Replay(replay) => {
                        window.frames = replay.frames.iter().map(|frame| Pixels::Bytes(frame)).collect();
                        window.next = replay.seconds.iter().map(|frame| Pixels::Bytes(frame)).collect();
                        self.trainer.learn_apart(&window)?
                    }
                };
                (update, Some(recalled))
            }
        };
        self.windows += 1;
        let all = start.elapsed();
        // What it took to draw the window counts with its views.
        update.times.views += all.saturating_sub(update.times.total());
        self.running += all;
        Ok(Step { window: self.windows, frames, update, recalled })
    }

    /// The model as it is now.
    pub fn model(&self) -> &Model {
        self.trainer.model()
    }

    /// Windows done.
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// Time spent on them, restarts included.
    pub fn running(&self) -> Duration {
        self.running
    }

    /// Whether 1/τ, β, γ are learned; otherwise a threshold for new categories has to be found by who scores.
    pub fn learns_control(&self) -> bool {
        self.labels.is_none() && self.settings.objective.learns_control()
    }

    /// The settings of the run.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// A window of a stream as the trainer reads it. The next one begins after its last frame.
fn window<'a>(number: u64, shown: &'a WindowFrames<'_>) -> WindowOfFrames<'a> {
    let drawing = |frame: usize| shown.drawings.get(frame).copied().flatten();
    let frames = shown.frames.iter().enumerate().map(|(number, frame)| match drawing(number) {
        Some(drawing) => Pixels::Drawn(frame, drawing),
        None => Pixels::Bytes(frame),
    });
    WindowOfFrames {
        number,
        frames: frames.collect(),
        next: shown.next.iter().map(|frame| Pixels::Bytes(frame)).collect(),
        stride: shown.frames.len(),
    }
}

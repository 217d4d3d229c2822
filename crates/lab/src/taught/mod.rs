//! Objectives that are told the classes: what the paper's supervised rows learn by.
//!
//! No device could learn so. They say what perfect labels are worth on the same stream, with the same encoder, views and
//! optimiser. The classes of a window come through [`Labels`], beside the pictures.

mod cross_entropy;
mod prototypes;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

use self::cross_entropy::CrossEntropy;
use self::prototypes::OnlineProtoNet;
use crate::config::Settings;
use crate::objective::Objective;
use crate::streams::LearningStream;
use crate::{Error, Result, choices};

choices! {
    /// A way to learn from labels.
    pub enum Teaching {
        CrossEntropy = "cross-entropy": "A linear layer tells the class of each view: the paper's supervised network",
        Prototypes = "prototypes": "Frames find the mean of their class so far, and new classes are noticed: Online ProtoNet",
    }
}

/// The classes of the frames of the window that is learned from.
#[derive(Clone, Debug, Default)]
pub struct Labels(Arc<Mutex<Vec<usize>>>);

impl Labels {
    /// Those of the next window.
    pub fn set(&self, labels: Vec<usize>) {
        if let Ok(mut held) = self.0.lock() {
            *held = labels;
        }
    }

    /// Those of `frames` frames.
    fn of(&self, frames: usize) -> candle_core::Result<Vec<usize>> {
        let held = self.0.lock().map(|held| held.clone()).unwrap_or_default();
        if held.len() == frames {
            return Ok(held);
        }
        Err(candle_core::Error::Msg(format!("{} labels for {frames} frames", held.len())))
    }
}

impl Teaching {
    /// The objective for embeddings of so many numbers, and the way in which it is told the classes.
    ///
    /// # Errors
    /// If the stream has no classes.
    pub fn objective(
        self,
        settings: &Settings,
        dimension: usize,
        stream: &dyn LearningStream,
    ) -> Result<(Box<dyn Objective>, Labels)> {
        let classes = stream.classes();
        if classes == 0 {
            return Err(Error::input(format!("this stream has no classes to teach by {self}")));
        }
        let labels = Labels::default();
        let objective: Box<dyn Objective> = match self {
            Self::CrossEntropy => {
                Box::new(CrossEntropy::objective(settings, dimension, classes, labels.clone()))
            }
            Self::Prototypes => Box::new(OnlineProtoNet::objective(settings, labels.clone())),
        };
        Ok((objective, labels))
    }
}

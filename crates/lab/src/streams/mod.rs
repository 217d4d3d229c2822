//! Labelled streams: data sets drawn as an online learner would meet them, to prove that it learns.
//!
//! A loader reads a data set as its publisher lays it out into an [`ImageSet`], or refuses it with the file's name and
//! what was expected. A sampler ([`Roaming`]) draws episodes from the set. The labels of an episode are for measures alone:
//! the learner is given pictures.

pub mod coil;
pub mod folder;
pub mod images;
pub mod kind;
pub mod mnist;
pub mod omniglot;
pub mod rebatched;
pub mod roaming;
pub mod rooms;
pub mod second;
pub mod things;
pub mod video;

use std::borrow::Cow;

pub use images::{Class, ImageSet};
pub use kind::{LabelledSet, StreamKind};
pub use mnist::Digits;
pub use rebatched::{Order, Rebatched};
pub use roaming::{Episode, Roaming};
pub use second::SecondView;

use crate::encoder::plan::Shape;
use crate::views::Drawing;
use crate::{Result, choices};

choices! {
    /// A part of a data set.
    pub enum Split {
        Train = "train": "What is learned from",
        Val = "val": "What choices are made on",
        Test = "test": "What results are measured on",
    }
}

/// The frames of one learning window.
#[derive(Debug, Default)]
pub struct WindowFrames<'a> {
    /// Pictures, channels last, of the stream's size.
    pub frames: Vec<Cow<'a, [u8]>>,
    /// For each frame what came after it; only streams with a flow of time have it.
    pub next: Vec<Cow<'a, [u8]>>,
    /// For each frame its class, by number; only streams that can be taught have it, and only who is taught looks at it.
    pub labels: Vec<usize>,
    /// For each frame the drawing that it was made of, if it is known; none at all if no stream of drawings is shown.
    pub drawings: Vec<Option<Drawing<'a>>>,
}

/// What a learner can be trained on: windows by number, each a function of the number alone.
pub trait LearningStream: Send + Sync {
    /// Size of the pictures.
    fn shape(&self) -> Shape;

    /// The most frames of a window.
    fn frames(&self) -> usize;

    /// Classes that [`WindowFrames::labels`] counts; 0 if frames come without.
    fn classes(&self) -> usize {
        0
    }

    /// Window number `number`; it may be shorter than the longest.
    fn window(&self, number: u64) -> Result<WindowFrames<'_>>;
}

/// Episodes of the roaming sampler, one a window.
#[derive(Debug)]
pub struct RoamingStream {
    /// What the episodes are drawn from.
    pub set: ImageSet,
    /// How.
    pub roaming: Roaming,
    /// Of the sampler.
    pub seed: u64,
}

impl LearningStream for RoamingStream {
    fn shape(&self) -> Shape {
        self.set.shape()
    }

    fn frames(&self) -> usize {
        self.roaming.frames()
    }

    fn classes(&self) -> usize {
        self.set.classes().len()
    }

    fn window(&self, number: u64) -> Result<WindowFrames<'_>> {
        let episode = self.roaming.episode(&self.set, self.seed, number);
        let frames = episode.images.iter().map(|&image| Cow::Borrowed(self.set.image(image))).collect();
        let drawings = match self.set.has_drawings() {
            true => episode.images.iter().map(|&image| self.set.drawing(image)).collect(),
            false => Vec::new(),
        };
        let labels = episode.images.iter().map(|&image| self.set.class_of(image)).collect();
        Ok(WindowFrames { frames, next: Vec::new(), labels, drawings })
    }
}

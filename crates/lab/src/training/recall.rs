//! Second views and windows from a long memory of the stream, as a device could have them: from the frames alone.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::Result;
use crate::config::Settings;
use crate::eval::embed::Encoder;
use crate::model::Model;
use crate::random::{Purpose, Random};
use crate::streams::{LearningStream, WindowFrames};
use crate::tensors::{Tensor, TensorFile};
use crate::windows::LongMemory;
use crate::windows::long::{Held, Replay, SavedMemory};

/// The memory in a checkpoint: a header entry, and the tensor of its embeddings.
const FRAMES: &str = "long.frames";
const EMBEDDINGS: &str = "long.embeddings";

/// What a window is learned from.
pub(super) enum Lesson {
    /// The stream's window; for each frame its second view, or none if it is to be the next frame.
    Stream(Vec<Option<Arc<[u8]>>>),
    /// A window of the memory instead.
    Replay(Replay),
}

/// What the long memory had to do with a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// Whether the window was made of it.
    pub replayed: bool,
    /// Frames whose second view is from it.
    pub second_views: usize,
    /// What it holds.
    pub held: Held,
}

/// See the [module](self).
pub(super) struct Recall {
    memory: LongMemory,
    stride: u64,
    every: u64,
    share: f64,
    replay: f64,
    seed: u64,
}

impl Recall {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            memory: LongMemory::new(settings.long_rules()),
            stride: settings.stride as u64,
            every: settings.group_every,
            share: settings.group_share,
            replay: settings.replay_share,
            seed: settings.seed,
        }
    }

    /// Adds the memory, without its pictures, to what a checkpoint will hold.
    pub(super) fn save(
        &self,
        dimension: usize,
        tensors: &mut BTreeMap<String, Tensor>,
        header: &mut HashMap<String, String>,
    ) {
        let SavedMemory { text, embeddings } = self.memory.saved();
        header.insert(FRAMES.to_owned(), text);
        let shape = vec![embeddings.len() / dimension.max(1), dimension];
        tensors.insert(EMBEDDINGS.to_owned(), Tensor { shape, values: embeddings });
    }

    /// Goes on from a checkpoint; the pictures are read from the stream again.
    pub(super) fn restore(
        &mut self,
        file: &TensorFile,
        settings: &Settings,
        dimension: usize,
        stream: &dyn LearningStream,
    ) -> Result<()> {
        let missing = || file.fault("the long memory is missing: not a checkpoint of second views by groups");
        let text = file.metadata().get(FRAMES).ok_or_else(missing)?.clone();
        let embeddings = file.get(EMBEDDINGS).ok_or_else(missing)?.values.clone();
        let mut shown = (u64::MAX, WindowFrames::default());
        let picture = |frame: u64| {
            let (window, at) = (frame / self.stride, frame % self.stride);
            if shown.0 != window {
                shown = (window, stream.window(window)?);
            }
            let picture = usize::try_from(at).ok().and_then(|at| shown.1.frames.get(at));
            picture.map(|picture| Arc::from(&**picture)).ok_or_else(missing)
        };
        let saved = SavedMemory { text, embeddings };
        self.memory = LongMemory::restore(settings.long_rules(), &saved, dimension, picture)
            .map_err(|error| file.fault(error))?;
        Ok(())
    }

    /// Shows window number `number` to the memory, and asks it what to learn from.
    pub(super) fn lesson(
        &mut self,
        number: u64,
        shown: &WindowFrames<'_>,
        model: &Model,
    ) -> Result<(Lesson, Recalled)> {
        let encoder = Encoder::of(model)?;
        let pictures: Vec<&[u8]> = shown.frames.iter().map(|frame| &**frame).collect();
        let embeddings = encoder.embed_pictures(&pictures)?;
        let first = number * self.stride;
        let rows = || (first..).zip(embeddings.chunks_exact(model.plan.features));
        // Of windows that overlap it takes what it does not have yet.
        for ((frame, embedding), picture) in rows().zip(&pictures) {
            self.memory.push(frame, Arc::from(*picture), embedding);
        }
        if (number + 1).is_multiple_of(self.every) {
            self.memory.embed_again(|pictures| encoder.embed_pictures(pictures))?;
        }
        let mut random = Random::new(self.seed, Purpose::Replay, number << 2 | 2);
        let replay = match random.unit() < self.replay {
            true => self.memory.replay_window(number, pictures.len()),
            false => None,
        };
        let held = self.memory.held();
        if let Some(replay) = replay {
            let recalled = Recalled { replayed: true, second_views: replay.seconds.len(), held };
            return Ok((Lesson::Replay(replay), recalled));
        }
        let mut second = |(frame, embedding): (u64, &[f32])| {
            let asked = random.unit() < self.share;
            let found = self.memory.second_view_of(frame, embedding, &mut random);
            found.filter(|_| asked).cloned()
        };
        let seconds: Vec<_> = rows().map(&mut second).collect();
        let second_views = seconds.iter().flatten().count();
        Ok((Lesson::Stream(seconds), Recalled { replayed: false, second_views, held }))
    }
}

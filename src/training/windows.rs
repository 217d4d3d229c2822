//! Windows of a stream as the learner reads them: two views of every frame, scaled as the encoder wants them.

use std::time::{Duration, Instant};

use crate::Result;
use crate::encoder::card::InputScaling;
use crate::streams::LearningStream;
use crate::views::{Pixels, Views};

/// A maker of windows.
pub struct WindowMaker<'a> {
    /// Where frames come from.
    pub stream: &'a dyn LearningStream,
    /// Two views of each.
    pub views: Views,
    /// How they become what the encoder reads.
    pub scaling: InputScaling,
}

/// Both views of the frames of a window.
#[derive(Clone, Debug, Default)]
pub struct ViewedWindow {
    /// View 1 of all frames, then view 2.
    pub images: Vec<f32>,
    /// Frames.
    pub frames: usize,
    /// What it took to make.
    pub time: Duration,
}

impl WindowMaker<'_> {
    /// Makes window number `number` in the memory of an old one.
    pub fn make(&mut self, number: u64, window: &mut ViewedWindow) -> Result<()> {
        let start = Instant::now();
        let shown = self.stream.window(number)?;
        let frames: Vec<Pixels<'_>> = shown.frames.iter().map(|frame| Pixels::Bytes(frame)).collect();
        let next: Vec<Pixels<'_>> = shown.next.iter().map(|frame| Pixels::Bytes(frame)).collect();
        let half = frames.len() * self.stream.shape().len();
        window.frames = frames.len();
        window.images.resize(2 * half, 0.0);
        let (first, second) = window.images.split_at_mut(half);
        self.views.make(number, &frames, &next, first, second)?;
        self.scaling.apply(&mut window.images);
        window.time = start.elapsed();
        Ok(())
    }
}

//! Windows of a stream as the learner reads them: the views of every frame, scaled as the encoder wants them.

use std::time::{Duration, Instant};

use crate::Result;
use crate::encoder::card::InputScaling;
use crate::streams::LearningStream;
use crate::views::{Pixels, Views};

/// A maker of windows.
pub struct WindowMaker<'a> {
    /// Where frames come from.
    pub stream: &'a dyn LearningStream,
    /// Makes the views of each.
    pub views: Views,
    /// How many second ones.
    pub second_views: usize,
    /// How they become what the encoder reads.
    pub scaling: InputScaling,
}

/// The views of the frames of a window.
#[derive(Clone, Debug, Default)]
pub struct ViewedWindow {
    /// View 1 of all frames, then view 2, then further ones.
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
        let drawing = |frame: usize| shown.drawings.get(frame).copied().flatten();
        let frames: Vec<Pixels<'_>> = (shown.frames.iter().enumerate())
            .map(|(number, frame)| match drawing(number) {
                Some(drawing) => Pixels::Drawn(frame, drawing),
                None => Pixels::Bytes(frame),
            })
            .collect();
        let next: Vec<Pixels<'_>> = shown.next.iter().map(|frame| Pixels::Bytes(frame)).collect();
        window.frames = frames.len();
        window.images.resize((1 + self.second_views) * frames.len() * self.stream.shape().len(), 0.0);
        self.views.make(number, &frames, &next, &mut window.images)?;
        self.scaling.apply(&mut window.images);
        window.time = start.elapsed();
        Ok(())
    }
}

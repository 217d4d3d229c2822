//! The live path: from a picture to its category, at once.
//!
//! Everything it needs is allocated once; a frame costs one copy of its pixels, which learning and watchers share
//! (watchers take a second one where the encoder does not read plain colours). It knows nothing of
//! threads, files or time.

use std::sync::Arc;

use super::cold_start;
use crate::calibration::Calibrator;
use crate::camera::Frame;
use crate::encoder::card::InputScaling;
use crate::encoder::inference::Inference;
use crate::encoder::plan::Shape;
use crate::frame::Fit;
use crate::learner::Published;
use crate::memory::{Control, LiveMemory, Observation, Rules};
use crate::{Error, Result};

/// See the [module](self).
#[derive(Debug)]
pub struct LivePath {
    size: Shape,
    fit: Fit,
    inference: Inference,
    scaling: InputScaling,
    rules: Rules,
    /// The memory of the live categories.
    pub memory: LiveMemory,
    /// 1/τ, β, γ, as learned or calibrated last.
    pub control: Control,
    /// Until β has been calibrated.
    pub calibrator: Option<Calibrator>,
    /// Whether the weights were random at first: see [`cold_start`].
    pub cold: bool,
    colours: Vec<u8>,
    mask: Vec<u8>,
    image: Vec<f32>,
    embedding: Vec<f32>,
}

/// What was made of one frame.
#[derive(Clone, Debug)]
pub struct Recognised {
    /// What the memory says.
    pub observation: Observation,
    /// β from now on, if this frame calibrated it: before, after, frames.
    pub calibrated: Option<(f64, f64, usize)>,
}

impl LivePath {
    /// A live path for images of this size.
    pub fn new(
        size: Shape,
        inference: Inference,
        scaling: InputScaling,
        rules: Rules,
        memory: LiveMemory,
        control: Control,
        calibrator: Option<Calibrator>,
    ) -> Self {
        let pixels = size.height * size.width;
        let dimension = memory.prototypes().dimension();
        Self {
            fit: Fit::new(size.height, size.width),
            colours: vec![0; 3 * pixels],
            mask: vec![0; pixels],
            image: vec![0.0; size.len()],
            embedding: vec![0.0; dimension],
            size,
            inference,
            scaling,
            rules,
            memory,
            control,
            calibrator,
            cold: false,
        }
    }

    /// The picture as the encoder sees it: cropped, resized, with its channels.
    pub fn prepare(&mut self, frame: &Frame) -> Result<Arc<[u8]>> {
        self.fit.rgb(&frame.rgb, frame.width, frame.height, &mut self.colours)?;
        Ok(match self.size.channels {
            3 => Arc::from(&self.colours[..]),
            1 => self.colours.chunks_exact(3).map(luminance).collect(),
            4 => {
                let Some(mask) = &frame.mask else {
                    return Err(Error::input(
                        "this encoder reads a mask of the attended object beside the colours, which only `--camera rooms` has",
                    ));
                };
                self.fit.mask(mask, frame.width, frame.height, &mut self.mask)?;
                let pixels = self.colours.chunks_exact(3).zip(&self.mask);
                pixels.flat_map(|(rgb, mask)| [rgb[0], rgb[1], rgb[2], *mask]).collect()
            }
            channels => return Err(Error::input(format!("a camera has no {channels} channels"))),
        })
    }

    /// The size that the encoder sees.
    pub fn size(&self) -> Shape {
        self.size
    }

    /// The colours of the picture that was prepared last, for people to see.
    pub fn colours(&self) -> &[u8] {
        &self.colours
    }

    /// The category of a prepared picture.
    pub fn recognise(&mut self, pixels: &[u8]) -> Result<Recognised> {
        self.embed(pixels)?;
        let observation = self.memory.observe(&self.embedding, &self.control, &self.rules)?;
        let mut calibrated = None;
        if let Some(calibrator) = &mut self.calibrator {
            if let Some(beta) = calibrator.add(&self.embedding, &self.control, &self.rules)? {
                calibrated = Some((self.control.beta, beta, calibrator.frames()));
                self.control.beta = beta;
                if self.cold && calibrator.frames() > cold_start::LAST {
                    let (control, rules) = (&self.control, &self.rules);
                    let seen = calibrator.embeddings();
                    self.memory = cold_start::replayed(&self.memory, seen, seen, control, rules)?;
                }
            }
            if calibrator.is_done() {
                self.calibrator = None;
            }
        }
        Ok(Recognised { observation, calibrated })
    }

    /// Sees the frames that are being calibrated from again, as the encoder is now: embeddings, β and memory are made anew.
    /// Returns β before and after, and the frames; nothing if these are not the pictures of those frames.
    pub fn see_again(&mut self, pictures: &[Arc<[u8]>]) -> Result<Option<(f64, f64, usize)>> {
        let Some(calibrator) = &self.calibrator else { return Ok(None) };
        if calibrator.frames() != pictures.len() {
            return Ok(None);
        }
        let old = calibrator.embeddings().to_vec();
        let mut new = Vec::with_capacity(old.len());
        for pixels in pictures {
            self.embed(pixels)?;
            new.extend_from_slice(&self.embedding);
        }
        let calibrator = Calibrator::with(self.embedding.len(), new);
        let before = self.control.beta;
        let control = Control { beta: calibrator.beta(&self.control, &self.rules)?, ..self.control };
        self.memory =
            cold_start::replayed(&self.memory, &old, calibrator.embeddings(), &control, &self.rules)?;
        self.control = control;
        let frames = calibrator.frames();
        self.calibrator = Some(calibrator);
        Ok(Some((before, control.beta, frames)))
    }

    /// Embeds a prepared picture.
    fn embed(&mut self, pixels: &[u8]) -> Result<()> {
        for (value, byte) in self.image.iter_mut().zip(pixels) {
            *value = f32::from(*byte) / 255.0;
        }
        self.scaling.apply(&mut self.image);
        self.inference.embed(&self.image, &mut self.embedding)
    }

    /// Takes up what has been learned.
    pub fn take_up(&mut self, publication: Published) -> Result<()> {
        self.inference.replace(publication.folded)?;
        self.control = publication.control;
        Ok(())
    }

    /// How many categories live.
    pub fn categories(&self) -> usize {
        self.memory.prototypes().in_use()
    }
}

/// ITU-R BT.601, in whole numbers.
#[allow(clippy::cast_possible_truncation)]
fn luminance(rgb: &[u8]) -> u8 {
    let weighted = rgb.iter().zip([77u32, 150, 29]).map(|(value, weight)| u32::from(*value) * weight);
    (weighted.sum::<u32>() >> 8) as u8
}

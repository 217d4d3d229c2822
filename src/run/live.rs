//! The live path: from a picture to its category, at once.
//!
//! Everything it needs is allocated once; a frame costs one copy of its pixels and one of its direction, which learning and watchers share
//! (watchers take a second one where the encoder does not read plain colours). It knows nothing of
//! threads, files or time.

use std::sync::Arc;

use std::collections::HashMap;

use super::checkpoint::LiveHeader;
use super::cold_start;
use crate::camera::Frame;
use crate::encoder::card::InputScaling;
use crate::encoder::inference::Inference;
use crate::encoder::plan::Shape;
use crate::frame::Fit;
use crate::kernels::vector;
use crate::learner::Published;
use crate::live::kept::{Place, Places, direction};
use crate::live::{KeptFrame, KeptFrames, threshold};
use crate::memory::{Control, Joined, LiveMemory, Observation, Rules};
use crate::{Error, Result};

/// Samples from one measurement of the threshold to the next.
const MEASURE_EVERY: u64 = 15;

/// The numbers of frames after which the first thresholds are set.
const FIRST_MOMENTS: [usize; 4] = [5, 10, 20, 30];

/// How much more alike than a frame and its category two categories must be to be one: this share of what is left to 1. Means
/// are more alike than frames are.
const JOIN_SHARE: f64 = 0.7;

/// The threshold of the live memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// The least cosine between a frame and its category.
    pub similarity: f64,
    /// Whether enough was seen to measure it.
    pub settled: bool,
}

impl Default for Threshold {
    fn default() -> Self {
        Self { similarity: threshold::FIRST, settled: false }
    }
}

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
    /// The pictures that are kept for when the encoder changes.
    pub kept: KeptFrames,
    /// 1/τ, β, γ as the memory decides by them: β is that of the threshold, if that is measured.
    pub control: Control,
    /// The threshold, if it is measured; otherwise β is the learner's.
    pub threshold: Option<Threshold>,
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
    /// What it led to.
    pub changes: Changes,
}

/// What a measurement changed in the memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The threshold before and now.
    pub threshold: Option<(f64, f64)>,
    /// Categories that were joined.
    pub joined: Vec<Joined>,
}

/// New weights, and what the learner's thread has made of the kept pictures with them.
#[derive(Clone, Debug)]
pub struct Fresh {
    /// The weights.
    pub published: Published,
    /// The directions of the kept pictures, by the numbers of their samples.
    pub directions: HashMap<u64, Arc<[f32]>>,
}

impl LivePath {
    /// A live path for images of this size. With `measures` the threshold is measured.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        size: Shape,
        inference: Inference,
        scaling: InputScaling,
        rules: Rules,
        memory: LiveMemory,
        kept: KeptFrames,
        control: Control,
        measures: bool,
    ) -> Self {
        let pixels = size.height * size.width;
        let dimension = memory.prototypes().dimension();
        let mut live = Self {
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
            kept,
            control,
            threshold: None,
            cold: false,
        };
        live.set_threshold(measures.then(Threshold::default));
        live
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

    /// The category of a prepared picture, which is sample number `frame` and the source's picture `sequence`.
    pub fn recognise(&mut self, frame: u64, sequence: u64, pixels: &Arc<[u8]>) -> Result<Recognised> {
        self.embed(pixels)?;
        let seen = direction(&self.embedding);
        let kept = &self.kept;
        let observation =
            self.memory.observe_among(&self.embedding, &self.control, &self.rules, |category, cosine| {
                kept.similarity(&seen, category, cosine)
            })?;
        if let Some(evicted) = observation.evicted {
            self.kept.remove(evicted);
        }
        self.kept.add(KeptFrame {
            frame,
            sequence,
            category: observation.category,
            pixels: Some(Arc::clone(pixels)),
            direction: seen,
        });
        let first = self.kept.first_frames().map_or(0, |frames| frames.len());
        let due = frame.is_multiple_of(MEASURE_EVERY) || (self.cold && FIRST_MOMENTS.contains(&first));
        let changes = if due { self.measure()? } else { Changes::default() };
        Ok(Recognised { observation, changes })
    }

    /// Measures the threshold, if it is measured and there is enough to measure it by, and joins categories that have turned out to
    /// be one.
    fn measure(&mut self) -> Result<Changes> {
        let mut changes = Changes::default();
        let Some(before) = self.threshold else { return Ok(changes) };
        let measured = threshold::measure(&self.kept.pairs());
        let now = match (measured, self.kept.first_frames()) {
            (Some(measured), _) => Threshold { similarity: measured.similarity, settled: true },
            (None, Some(frames)) if self.cold && !before.settled => {
                let directions: Vec<&[f32]> = frames.iter().map(|kept| &*kept.direction).collect();
                let first = threshold::first(&directions);
                first.map_or(before, |similarity| Threshold { similarity, settled: false })
            }
            _ => before,
        };
        if now != before {
            self.set_threshold(Some(now));
            changes.threshold = Some((before.similarity, now.similarity));
            if self.cold {
                self.see_first_frames_again()?;
            }
        }
        if now.settled {
            changes.joined = self.memory.join_alike(now.similarity + JOIN_SHARE * (1.0 - now.similarity));
            for joined in &changes.joined {
                self.kept.join(joined.from, joined.into);
            }
        }
        Ok(changes)
    }

    /// Decides by this threshold from now on.
    pub fn set_threshold(&mut self, threshold: Option<Threshold>) {
        self.threshold = threshold;
        if let Some(Threshold { similarity, .. }) = threshold {
            self.control.beta = beta_of(similarity, &self.control, &self.rules);
        }
    }

    /// Goes on with the threshold of a checkpoint.
    pub fn restore_threshold(&mut self, header: &LiveHeader) {
        if self.threshold.is_some() {
            // Checkpoints of before know β alone.
            let similarity = header.similarity.unwrap_or_else(|| similarity_of(&self.control, &self.rules));
            let settled = header.settled || header.similarity.is_none();
            self.set_threshold(Some(Threshold { similarity, settled }));
        }
    }

    /// β for which a frame creates a category if and only if it is less similar than that to all there are.
    pub fn beta_of(&self, similarity: f64) -> f64 {
        beta_of(similarity, &self.control, &self.rules)
    }

    /// Makes the memory what it would be, had it seen the first frames as it sees them now; if all that it has seen is still here.
    fn see_first_frames_again(&mut self) -> Result<()> {
        let Some(frames) = self.kept.first_frames() else { return Ok(()) };
        // After a restart, or a forget, the memory knows more than what was kept since.
        let seen = self.memory.ages().iter().max().copied().unwrap_or(0);
        if seen > frames.len() as u64 {
            return Ok(());
        }
        let frames: Vec<KeptFrame> = frames.into_iter().cloned().collect();
        let (memory, given) = cold_start::replayed(&self.memory, &frames, &self.control, &self.rules)?;
        self.memory = memory;
        self.kept.assign(given.into_iter().zip(frames));
        Ok(())
    }

    /// Embeds a prepared picture.
    fn embed(&mut self, pixels: &[u8]) -> Result<()> {
        self.scaling.read(pixels, &mut self.image);
        self.inference.embed(&self.image, &mut self.embedding)
    }

    /// Takes up new weights: prototypes and threshold change together with them. Pictures that were kept after the learner began
    /// to embed them again are embedded here.
    pub fn take_up(&mut self, fresh: Fresh) -> Result<Changes> {
        let Fresh { published, directions } = fresh;
        self.use_weights(published)?;
        let mut kept = std::mem::replace(&mut self.kept, KeptFrames::new(0, 0));
        let before = kept.clone();
        let turned = kept.turn(|picture| match directions.get(&picture.frame) {
            Some(direction) => Ok(Arc::clone(direction)),
            None => match &picture.pixels {
                // Where there is nothing to embed, a picture goes with its category, as far as anybody can tell.
                Some(pixels) if self.embed(pixels).is_ok() => Ok(direction(&self.embedding)),
                _ => Ok(Arc::clone(&picture.direction)),
            },
        });
        self.kept = kept;
        turned?;
        self.move_prototypes(&before)?;
        self.measure()
    }

    /// Goes on with weights that the memory's prototypes were made with, or before there are any.
    pub fn use_weights(&mut self, published: Published) -> Result<()> {
        self.inference.replace(published.folded)?;
        self.control = published.control;
        self.set_threshold(self.threshold);
        Ok(())
    }

    /// Moves every prototype as its pictures have moved. A category without pictures moves as all pictures did on average.
    ///
    /// What a prototype holds beyond the mean of its kept pictures is of the old space, and is kept by as much as the new one is
    /// like it: all of it if nothing has changed, nothing if the space has turned altogether.
    fn move_prototypes(&mut self, before: &KeptFrames) -> Result<()> {
        let dimension = self.memory.prototypes().dimension();
        let mut drift = vec![0.0f32; dimension];
        let earlier = before.frames();
        let now: Vec<_> =
            self.kept.frames().into_values().filter(|kept| kept.pixels.is_some()).cloned().collect();
        for kept in &now {
            let Some(old) = earlier.get(&kept.frame) else { continue };
            let moved = kept.direction.iter().zip(&*old.direction);
            drift.iter_mut().zip(moved).for_each(|(sum, (new, old))| *sum += (new - old) / now.len() as f32);
        }
        // What has no pixels moves as those that have do on average.
        self.kept.turn(|kept| match &kept.pixels {
            Some(_) => Ok::<_, Error>(Arc::clone(&kept.direction)),
            None => Ok(direction(
                &kept.direction.iter().zip(&drift).map(|(value, drift)| value + drift).collect::<Vec<_>>(),
            )),
        })?;
        for slot in 0..self.memory.ids().len() {
            if self.memory.prototypes().counts()[slot] <= 0.0 {
                continue;
            }
            let category = self.memory.ids()[slot];
            let (new, old) = (self.kept.exemplars_of(category), before.exemplars_of(category));
            let mut prototype = self.memory.prototypes().vector(slot).to_vec();
            if new.is_empty() {
                prototype.iter_mut().zip(&drift).for_each(|(value, drift)| *value += drift);
            } else {
                let share = 1.0 / new.len() as f32;
                let alike: f32 =
                    new.iter().zip(old).map(|(new, old)| vector::dot(&new.direction, &old.direction)).sum();
                let alike = (alike * share).clamp(0.0, 1.0);
                for (at, value) in prototype.iter_mut().enumerate() {
                    let mean =
                        |all: &[KeptFrame]| share * all.iter().map(|kept| kept.direction[at]).sum::<f32>();
                    *value = mean(new) + alike * (*value - mean(old));
                }
            }
            self.memory.move_prototype(slot, &prototype)?;
        }
        Ok(())
    }

    /// Keeps the pictures of these places again; `read` reads a picture of the source as the encoder sees it.
    pub fn read_again(
        &mut self,
        places: &Places,
        mut read: impl FnMut(&mut Self, u64) -> Result<Arc<[u8]>>,
    ) -> Result<()> {
        let mut kept = std::mem::replace(&mut self.kept, KeptFrames::new(0, 0));
        let outcome = kept.restore(places, |place| {
            let pixels = read(self, place.1)?;
            self.embed(&pixels)?;
            let Place(frame, sequence, category) = place;
            Ok(KeptFrame {
                frame,
                sequence,
                category,
                pixels: Some(pixels),
                direction: direction(&self.embedding),
            })
        });
        self.kept = kept;
        outcome
    }

    /// How many categories live.
    pub fn categories(&self) -> usize {
        self.memory.prototypes().in_use()
    }
}

/// See [`LivePath::beta_of`].
fn beta_of(similarity: f64, control: &Control, rules: &Rules) -> f64 {
    control.gamma * (1.0 / rules.threshold - 1.0).ln() - similarity * control.inv_tau
}

/// The similarity that belongs to the β of a control: the reverse of [`beta_of`].
fn similarity_of(control: &Control, rules: &Rules) -> f64 {
    (control.gamma * (1.0 / rules.threshold - 1.0).ln() - control.beta) / control.inv_tau
}

/// ITU-R BT.601, in whole numbers.
#[allow(clippy::cast_possible_truncation)]
fn luminance(rgb: &[u8]) -> u8 {
    let weighted = rgb.iter().zip([77u32, 150, 29]).map(|(value, weight)| u32::from(*value) * weight);
    (weighted.sum::<u32>() >> 8) as u8
}

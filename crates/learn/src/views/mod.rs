//! Views: two pictures of the same thing, from which the encoder learns what does not matter.
//!
//! [`Views`] makes the views of all frames of a window, a first and one or more second ones. Images lie channels last with values in [0, 1], as `f32` or as
//! the bytes of a camera. A [`Recipe`] says how strongly a view may differ from its image; [`Augmentation`] names the
//! recipes of the paper's datasets.
//!
//! The random choices of a view follow from (seed, window, frame, view) alone ([`crate::random`]): the result does not depend on
//! the number of threads, and a resumed run makes the views that the uninterrupted one would have made.
//!
//! This module turns images into images. Which frames form a window, and what is learned from their views, is the
//! learner's business.

mod augment;
mod blur;
mod colour;
mod crop;
mod drawing;
mod recipe;
pub mod reduction;
mod resample;
mod script;
#[cfg(test)]
mod tests;
mod warp;

use rayon::prelude::*;

use self::augment::Scratch;
pub use self::drawing::{Drawing, soften};
pub use self::recipe::{Augmentation, Colour, Crop, Object, Pairing, Recipe, Script, Warping};
pub use self::reduction::Reduction;
use self::warp::Warp;
use crate::encoder::plan::Shape;
use crate::kernels::image::{Pixel, clipped};
use crate::random::{Purpose, Random};
use crate::{Error, Result};

/// The pixels of an image, row by row, channels last.
#[derive(Clone, Copy, Debug)]
pub enum Pixels<'a> {
    /// Values in [0, 1].
    Floats(&'a [f32]),
    /// Values in 0..=255.
    Bytes(&'a [u8]),
    /// The same of a drawing, with the drawing itself, so that a change of its shape need not start from the reduced one.
    Drawn(&'a [u8], Drawing<'a>),
}

impl Pixels<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Bytes(values) | Self::Drawn(values, _) => values.len(),
        }
    }

    /// Spreads an image of so many channels over pixels of four numbers.
    fn unpack(&self, channels: usize, pixels: &mut [Pixel]) {
        fn spread<T: Copy>(values: &[T], channels: usize, pixels: &mut [Pixel], number: impl Fn(T) -> f32) {
            for (pixel, values) in pixels.iter_mut().zip(values.chunks_exact(channels)) {
                *pixel =
                    std::array::from_fn(|channel| values.get(channel).map_or(0.0, |&value| number(value)));
            }
        }
        match *self {
            Self::Floats(values) => spread(values, channels, pixels, clipped),
            Self::Bytes(values) | Self::Drawn(values, _) => {
                spread(values, channels, pixels, |byte| f32::from(byte) / 255.0)
            }
        }
    }

    /// Writes the image as it is.
    fn copy(&self, out: &mut [f32]) {
        match *self {
            Self::Floats(values) => {
                out.iter_mut().zip(values).for_each(|(out, &value)| *out = clipped(value))
            }
            Self::Bytes(values) | Self::Drawn(values, _) => {
                out.iter_mut().zip(values).for_each(|(out, &byte)| *out = f32::from(byte) / 255.0);
            }
        }
    }
}

/// Maker of the views of every frame of a window.
#[derive(Debug)]
pub struct Views {
    pairing: Pairing,
    recipe: Recipe,
    size: Shape,
    seed: u64,
    /// One for each thread of the pool; they hold nothing between two calls.
    workers: Vec<Scratch>,
}

/// The most frames that a window may have: 15 bits of an image's number.
const MOST_FRAMES: usize = 0x7FFF;

/// The most views of a frame: the highest eight bits of an image's number count those beyond the second.
const MOST_VIEWS: usize = 0xFF;

/// The number of an image among all that are ever made: further views, window, frame, first or second view.
fn number(window: u64, frame: usize, view: usize) -> u64 {
    let (further, view) = (view.saturating_sub(1) as u64, view.min(1) as u64);
    further << 56 | window << 16 | (frame as u64) << 1 | view
}

impl Views {
    /// A maker for images of one size, with 1 to 4 channels; a fourth one is a mask, not a colour.
    ///
    /// # Errors
    /// If the recipe needs channels that the images do not have, or the size is none.
    pub fn new(pairing: Pairing, recipe: Recipe, size: Shape, seed: u64) -> Result<Self> {
        recipe.check(size.channels)?;
        if size.is_empty() || size.channels > 4 {
            return Err(Error::input(format!(
                "views are made of images with 1 to 4 channels, not of {}x{} pixels with {}",
                size.width, size.height, size.channels
            )));
        }
        let workers = (0..rayon::current_num_threads()).map(|_| Scratch::new(size)).collect();
        Ok(Self { pairing, recipe, size, seed, workers })
    }

    /// Makes the views of every frame of window number `window`: view 1 of all frames, then view 2 of all frames, and as many
    /// further ones as `images` has room for, made as view 2 is.
    ///
    /// `next` holds for each frame the one that the camera took after it; [`Pairing::NextFrame`] needs it, the other
    /// pairings do not look at it.
    ///
    /// # Errors
    /// If an image or an output does not have the size it must have.
    pub fn make(
        &mut self,
        window: u64,
        frames: &[Pixels<'_>],
        next: &[Pixels<'_>],
        images: &mut [f32],
    ) -> Result<()> {
        let length = self.size.len();
        let second_frames = if self.pairing == Pairing::NextFrame { next } else { frames };
        self.check(frames, second_frames, images)?;

        let (pairing, recipe, size, seed) = (self.pairing, self.recipe, self.size, self.seed);
        let shift = recipe.draw_shift(&mut Random::new(seed, Purpose::Views, number(window, MOST_FRAMES, 0)));
        let script = recipe.script.and_then(|script| {
            script::Change::draw(
                &script,
                &mut Random::new(seed, Purpose::Views, number(window, MOST_FRAMES, 1)),
            )
        });
        let shown = [frames, second_frames];
        let changed = script.map(|script| [frames, second_frames].map(|frames| script.apply(frames, size)));
        let changed = changed.as_ref().map(|[first, second]| [floats(first), floats(second)]);
        let (frames, second_frames) =
            changed.as_ref().map_or((frames, second_frames), |[first, second]| (&first[..], &second[..]));
        let make = |worker: &mut Scratch, frame: usize, view: usize, out: &mut [f32]| {
            let clean = view == 0 && pairing == Pairing::CleanAndAugmented;
            if let (Pixels::Drawn(_, drawing), Some(warping)) = (shown[view.min(1)][frame], recipe.warp)
                && (script.is_some() || !clean)
            {
                let mut random = Random::new(seed, Purpose::Views, number(window, frame, view));
                let hand = (!clean).then(|| Warp::draw(&warping, &mut random));
                let mirrored = script.is_some_and(|script| script.mirrored);
                let script = script.as_ref().and_then(|script| script.warp.as_ref());
                drawing.render(mirrored, script, hand.as_ref(), size.width, out);
                return shift_image(out, size, shift);
            }
            let source = if view == 0 { frames[frame] } else { second_frames[frame] };
            if clean {
                source.copy(out);
            } else {
                let mut random = Random::new(seed, Purpose::Views, number(window, frame, view));
                worker.augment(&recipe, source, &mut random, out);
            }
            shift_image(out, size, shift);
        };
        let share = (images.len() / length).div_ceil(self.workers.len()).max(1);
        let parts = images.par_chunks_mut(share * length);
        self.workers.par_iter_mut().zip(parts).enumerate().for_each(|(part, (worker, images))| {
            for (index, out) in images.chunks_exact_mut(length).enumerate() {
                let image = part * share + index;
                make(worker, image % frames.len(), image / frames.len(), out);
            }
        });
        Ok(())
    }

    fn check(&self, frames: &[Pixels<'_>], second: &[Pixels<'_>], images: &[f32]) -> Result<()> {
        let length = self.size.len();
        if second.len() != frames.len() {
            return Err(Error::input(format!(
                "each frame needs the one that the camera took after it: there are {} and {}",
                frames.len(),
                second.len()
            )));
        }
        if let Some(wrong) = frames.iter().chain(second).find(|pixels| pixels.len() != length) {
            return Err(Error::input(format!(
                "an image of {} numbers is not one of {}x{} pixels with {} channels",
                wrong.len(),
                self.size.width,
                self.size.height,
                self.size.channels
            )));
        }
        if frames.len() > MOST_FRAMES {
            return Err(Error::input(format!(
                "a window of {} frames is too long: the most are {MOST_FRAMES}",
                frames.len()
            )));
        }
        let view = frames.len() * length;
        if !(2 * view..=MOST_VIEWS * view).contains(&images.len())
            || !images.len().is_multiple_of(view.max(1))
        {
            return Err(Error::input(format!(
                "the views of {} frames need room for 2 to {MOST_VIEWS} times {view} numbers, not for {}",
                frames.len(),
                images.len()
            )));
        }
        Ok(())
    }
}

fn floats(images: &[Vec<f32>]) -> Vec<Pixels<'_>> {
    images.iter().map(|image| Pixels::Floats(image)).collect()
}

impl Recipe {
    /// How far, down and right, all images of a window are shifted.
    fn draw_shift(&self, random: &mut Random) -> (isize, isize) {
        let reach = self.window_shift as isize;
        let mut draw = || random.below(2 * self.window_shift + 1) as isize - reach;
        (draw(), draw())
    }
}

/// Shifts an image; what comes in from outside is 0.
fn shift_image(image: &mut [f32], size: Shape, (down, right): (isize, isize)) {
    if (down, right) == (0, 0) {
        return;
    }
    let row_length = size.width * size.channels;
    let along = right.unsigned_abs().min(size.width) * size.channels;
    let mut shift_row = |row: usize| {
        let source = row.checked_add_signed(-down).filter(|&source| source < size.height);
        let Some(source) = source else {
            return image[row * row_length..][..row_length].fill(0.0);
        };
        let (from, to) = (source * row_length, row * row_length);
        let kept = row_length - along;
        match right >= 0 {
            true => {
                image.copy_within(from..from + kept, to + along);
                image[to..to + along].fill(0.0);
            }
            false => {
                image.copy_within(from + along..from + row_length, to);
                image[to + kept..to + row_length].fill(0.0);
            }
        }
    };
    // In the direction in which no row is overwritten before it is read.
    match down >= 0 {
        true => (0..size.height).rev().for_each(&mut shift_row),
        false => (0..size.height).for_each(&mut shift_row),
    }
}

//! COIL-100: a hundred objects on a turntable, a picture every five degrees; and a head camera's way of seeing them.
//!
//! The folder holds `objN__ANGLE.jpg` or `.png` for N from 1 to 100 and every angle, as published. Objects 1 to 50 are learned from
//! (`train`), 51 to 100 were never seen (`test`). RoamingObjects draws from them with RoamingOmniglot's sampler. The
//! [`VideoStream`] has the flow of time instead: an object is looked at for a while, turning, then another; what is returned
//! to goes on turning where it was left.

use std::borrow::Cow;
use std::path::Path;

use rayon::prelude::*;

use super::folder;
use super::images::ImageSet;
use super::{LearningStream, Split, WindowFrames};
use crate::encoder::plan::Shape;
use crate::random::{Purpose, Random};
use crate::{Error, Result};

const OBJECTS: usize = 100;
const STEP: usize = 5;
const ANGLES: usize = 360 / STEP;

/// Reads the objects of a split, a class each, pictures in the order of their angles.
pub fn load(folder: &Path, split: Split, shape: Shape) -> Result<ImageSet> {
    let objects = match split {
        Split::Train => 1..=OBJECTS / 2,
        Split::Test => OBJECTS / 2 + 1..=OBJECTS,
        Split::Val => return Err(Error::input("objects have no split val: they have train and test")),
    };
    let mut set = ImageSet::new(shape);
    for object in objects {
        let pictures: Vec<Vec<u8>> = (0..ANGLES)
            .into_par_iter()
            .map(|angle| {
                let name = format!("obj{object}__{}", angle * STEP);
                let find = |ending: &str| Some(folder.join(format!("{name}.{ending}"))).filter(|p| p.is_file());
                let path = find("jpg").or_else(|| find("png")).ok_or_else(|| {
                    Error::input(format!(
                        "{}: neither {name}.jpg nor {name}.png is there; expected {OBJECTS} objects at {ANGLES} angles",
                        folder.display()
                    ))
                })?;
                folder::read(&path, shape)
            })
            .collect::<Result<_>>()?;
        set.push(format!("obj{object}"), None, &pictures.concat())?;
    }
    Ok(set)
}

/// Objects as a head camera meets them.
#[derive(Debug)]
pub struct VideoStream {
    /// What is met; the pictures of each class follow each other in time.
    pub set: ImageSet,
    /// Frames of a window.
    pub window: usize,
    /// Frames from the start of a window to that of the next one.
    pub stride: usize,
    /// Of the stream.
    pub seed: u64,
}

/// Objects within reach at a time, for as many frames as a window has.
const AROUND: usize = 15;
/// Shortest and longest look at one, in frames.
const LOOK: (usize, usize) = (3, 8);

impl LearningStream for VideoStream {
    fn shape(&self) -> Shape {
        self.set.shape()
    }

    fn frames(&self) -> usize {
        self.window
    }

    fn window(&self, number: u64) -> Result<WindowFrames<'_>> {
        if self.set.classes().is_empty() {
            return Err(Error::input("a stream of objects needs at least one of them"));
        }
        let length = self.window.max(1);
        let first = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(self.stride);
        let mut window = WindowFrames::default();
        let mut place = (first / length) as u64;
        let mut skipped = first % length;
        while window.frames.len() < self.window {
            let stay = self.stay(place);
            let wanted = self.window - window.frames.len();
            window.frames.extend(stay.frames.into_iter().skip(skipped).take(wanted));
            window.next.extend(stay.next.into_iter().skip(skipped).take(wanted));
            (place, skipped) = (place + 1, 0);
        }
        Ok(window)
    }
}

impl VideoStream {
    /// The frames of a stay among the same objects, as many as a window has; the stays follow each other.
    fn stay(&self, number: u64) -> WindowFrames<'_> {
        let mut random = Random::new(self.seed, Purpose::Episodes, number);
        let mut around: Vec<usize> = (0..self.set.classes().len()).collect();
        random.shuffle(&mut around);
        around.truncate(AROUND);
        // Where each object stands, and which way it turns.
        let mut angles: Vec<(usize, bool)> =
            around.iter().map(|_| (random.below(ANGLES), random.chance(0.5))).collect();
        let mut stay = WindowFrames::default();
        let (mut object, mut look) = (0, 0);
        while stay.frames.len() < self.window.max(1) {
            if look == 0 {
                object = random.below(around.len());
                look = LOOK.0 + random.below(LOOK.1 - LOOK.0 + 1);
            }
            look -= 1;
            let (class, (angle, forth)) = (&self.set.classes()[around[object]], &mut angles[object]);
            let count = class.images.len();
            let picture = |angle: usize| Cow::Borrowed(self.set.image(class.images.start + angle % count));
            let next = *angle + if *forth { 1 } else { count - 1 };
            stay.frames.push(picture(*angle));
            stay.next.push(picture(next));
            *angle = next % count;
        }
        stay
    }
}

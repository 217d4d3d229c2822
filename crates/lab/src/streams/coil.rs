//! COIL-100: a hundred objects on a turntable, a picture every five degrees.
//!
//! The folder holds `objN__ANGLE.jpg` or `.png` for N from 1 to 100 and every angle, as published. Objects 1 to 50 are learned from
//! (`train`), 51 to 100 were never seen (`test`). RoamingObjects draws from them with RoamingOmniglot's sampler;
//! [`VideoStream`](super::video::VideoStream) has the flow of time instead.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::Split;
use super::folder;
use super::images::ImageSet;
use crate::encoder::plan::Shape;
use crate::{Error, Result};

const OBJECTS: usize = 100;
/// Degrees from a picture to the next one.
pub(super) const STEP: usize = 5;
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
            .map(|angle| folder::read(&picture(folder, object, angle)?, shape))
            .collect::<Result<_>>()?;
        set.push(format!("obj{object}"), None, &pictures.concat())?;
    }
    Ok(set)
}

/// The file of an object, counted from 1, at an angle in steps of [`STEP`].
pub(crate) fn picture(folder: &Path, object: usize, angle: usize) -> Result<PathBuf> {
    let name = format!("obj{object}__{}", angle * STEP);
    let find = |ending: &str| Some(folder.join(format!("{name}.{ending}"))).filter(|path| path.is_file());
    find("jpg").or_else(|| find("png")).ok_or_else(|| {
        Error::input(format!(
            "{}: neither {name}.jpg nor {name}.png is there; expected COIL-100: {OBJECTS} objects at {ANGLES} angles",
            folder.display()
        ))
    })
}

//! Labelled pictures in folders: `class/picture`, or `group/class/picture` where classes have super-classes.
//!
//! A folder that has `train`, `val` or `test` inside is split by them, and has no others; any other folder serves every split
//! as it is. Pictures (JPEG,
//! PNG) are cut about their middle to the wanted proportions and resized.

use std::path::{Path, PathBuf};

use rayon::prelude::*;

use super::Split;
use super::images::ImageSet;
use crate::encoder::plan::Shape;
use crate::frame::Fit;
use crate::{Error, Result};

/// Reads a tree of pictures.
pub fn load(folder: &Path, split: Split, shape: Shape) -> Result<ImageSet> {
    let root = split_folder(folder, split)?;
    let mut set = ImageSet::new(shape);
    let (folders, _) = entries(&root)?;
    for (group, folder) in folders.iter().enumerate() {
        let (inner, pictures) = entries(folder)?;
        match inner.is_empty() {
            true => push(&mut set, folder, None, &pictures)?,
            false => {
                for class in inner {
                    let (_, pictures) = entries(&class)?;
                    push(&mut set, &class, Some(group), &pictures)?;
                }
            }
        }
    }
    if set.is_empty() {
        return Err(Error::input(format!(
            "{}: no class folders with pictures (.jpg, .jpeg, .png) were found",
            root.display()
        )));
    }
    Ok(set)
}

/// Where the pictures of a split are.
fn split_folder(folder: &Path, split: Split) -> Result<PathBuf> {
    let place = |split: Split| folder.join(split.to_string());
    let there: Vec<Split> =
        [Split::Train, Split::Val, Split::Test].into_iter().filter(|split| place(*split).is_dir()).collect();
    match there.first() {
        None => Ok(folder.to_path_buf()),
        Some(_) if there.contains(&split) => Ok(place(split)),
        Some(other) => Err(Error::input(format!(
            "{}: is split and has no folder `{split}`; make one, or ask for --split {other}",
            folder.display()
        ))),
    }
}

fn push(set: &mut ImageSet, class: &Path, group: Option<usize>, pictures: &[PathBuf]) -> Result<()> {
    if pictures.is_empty() {
        return Err(Error::input(format!(
            "{}: a class folder without pictures; expected .jpg, .jpeg or .png files",
            class.display()
        )));
    }
    let shape = set.shape();
    let pixels = pictures.par_iter().map(|path| read(path, shape)).collect::<Result<Vec<_>>>()?;
    let name = class.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    set.push(name, group, &pixels.concat())
}

/// The folders and the pictures in a folder, in the order of their names.
fn entries(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let io = |error| Error::io(folder, error);
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        all.push(entry.map_err(io)?.path());
    }
    all.sort();
    let picture = |path: &PathBuf| {
        let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
        extension.is_some_and(|extension| ["jpg", "jpeg", "png"].contains(&extension.as_str()))
    };
    let folders = all.iter().filter(|path| path.is_dir()).cloned().collect();
    Ok((folders, all.into_iter().filter(picture).collect()))
}

/// One picture file at the size of a set; grey if it has one channel.
pub(super) fn read(path: &Path, shape: Shape) -> Result<Vec<u8>> {
    let fault = |what: &dyn std::fmt::Display| Error::input(format!("{}: {what}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
    let image = image::load_from_memory(&bytes).map_err(|error| fault(&error))?;
    let mut out = vec![0; shape.len()];
    let (width, height) = (image.width() as usize, image.height() as usize);
    let mut fit = Fit::new(shape.height, shape.width);
    let fitted = match shape.channels {
        1 => fit.mask(image.into_luma8().as_raw(), width, height, &mut out),
        3 => fit.rgb(image.into_rgb8().as_raw(), width, height, &mut out),
        other => return Err(fault(&format!("a picture has 1 or 3 channels; {other} were asked for"))),
    };
    fitted.map_err(|error| fault(&error))?;
    Ok(out)
}

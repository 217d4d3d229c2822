//! Omniglot from its official archives: handwritten characters of fifty alphabets, twenty drawers each.
//!
//! The folder holds `images_background.zip` and `images_evaluation.zip` as published, and the paper's
//! `split_train.txt`, `split_val.txt`, `split_test.txt` with an `Alphabet/characterNN` on every line. Each character makes four
//! classes, one for each quarter turn. The group of a class is its alphabet up to the first underscore, as the paper's
//! code has it (so the two Japanese scripts are one).
//!
//! Pictures shrink to 28×28 by an antialiased cubic, with ink = 1. The turn is about pixel (14, 14), also as published: the
//! row and the column that leave the picture are lost, and empty ones come in.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use rayon::prelude::*;
use zip::ZipArchive;

use super::Split;
use super::images::{ImageSet, resize};
use crate::encoder::plan::Shape;
use crate::{Error, Result};

const SIDE: usize = 28;
const DRAWERS: usize = 20;
const TURNS: usize = 4;
/// The drawings are 105 pixels wide and high, and take some 300 bytes; a claim of more than this is not one of them.
const LARGEST_DRAWING: u64 = 1 << 20;

/// Reads one split.
pub fn load(folder: &Path, split: Split) -> Result<ImageSet> {
    let list = folder.join(format!("split_{split}.txt"));
    let text = std::fs::read_to_string(&list).map_err(|error| Error::io(&list, error))?;
    let characters: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let Some(line) = characters.iter().find(|line| line.split('/').count() != 2) {
        return Err(Error::input(format!(
            "{}: the line {line:?} is not of the form Alphabet/characterNN",
            list.display()
        )));
    }
    let mut drawings: HashMap<String, BTreeMap<String, Vec<u8>>> =
        characters.iter().map(|name| ((*name).to_owned(), BTreeMap::new())).collect();
    for archive in ["images_background.zip", "images_evaluation.zip"] {
        read_archive(&folder.join(archive), &mut drawings)?;
    }
    let mut groups: Vec<&str> = Vec::new();
    let mut set = ImageSet::new(Shape { height: SIDE, width: SIDE, channels: 1 });
    for name in characters {
        let files = drawings.get(name).map(|files| files.values()).unwrap_or_default();
        if files.len() != DRAWERS {
            return Err(Error::input(format!(
                "{}: {} drawings of {name} were found in the archives; expected {DRAWERS}",
                folder.display(),
                files.len()
            )));
        }
        let files: Vec<&Vec<u8>> = files.collect();
        let small = files.par_iter().map(|png| shrink(png)).collect::<Result<Vec<_>>>();
        let mut turned =
            small.map_err(|error| Error::input(format!("{}: {name}: {error}", folder.display())))?;
        let alphabet = name.split(['_', '/']).next().unwrap_or(name);
        let group = groups.iter().position(|known| *known == alphabet).unwrap_or_else(|| {
            groups.push(alphabet);
            groups.len() - 1
        });
        for turns in 1..=TURNS {
            turned.iter_mut().for_each(|image| *image = quarter_turn(image));
            set.push(format!("{name} turned {}°", 90 * turns % 360), Some(group), &turned.concat())?;
        }
    }
    Ok(set)
}

/// Adds the drawings of an archive to the characters that are looked for.
fn read_archive(path: &Path, drawings: &mut HashMap<String, BTreeMap<String, Vec<u8>>>) -> Result<()> {
    let fault = |error: &dyn std::fmt::Display| {
        Error::input(format!(
            "{}: {error}; expected the official archive with images_*/Alphabet/characterNN/*.png",
            path.display()
        ))
    };
    let file = File::open(path).map_err(|error| Error::io(path, error))?;
    let mut archive = ZipArchive::new(BufReader::new(file)).map_err(|error| fault(&error))?;
    for index in 0..archive.len() {
        let entry = archive.by_index(index).map_err(|error| fault(&error))?;
        let name = entry.name().map_err(|error| fault(&error))?.into_owned();
        let mut parts = name.split('/').skip(1);
        let (Some(alphabet), Some(character), Some(drawing)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let Some(files) = drawings.get_mut(&format!("{alphabet}/{character}")) else { continue };
        if drawing.ends_with(".png") {
            let mut bytes = Vec::new();
            entry
                .take(LARGEST_DRAWING)
                .read_to_end(&mut bytes)
                .map_err(|error| fault(&format!("{name}: {error}")))?;
            files.insert(drawing.to_owned(), bytes);
        }
    }
    Ok(())
}

/// A drawing as 28×28 bytes with ink = 255.
fn shrink(png: &[u8]) -> Result<Vec<u8>> {
    let image = image::load_from_memory_with_format(png, image::ImageFormat::Png)
        .map_err(|error| Error::input(format!("a drawing cannot be read ({error}); expected a PNG file")))?
        .into_luma8();
    let side = SIDE as u32;
    let mut small = resize(image.as_raw(), image.dimensions(), 1, (side, side))?;
    small.iter_mut().for_each(|value| *value = 255 - *value);
    Ok(small)
}

/// A quarter turn to the left about pixel (14, 14).
fn quarter_turn(image: &[u8]) -> Vec<u8> {
    let mut turned = vec![0; SIDE * SIDE];
    for (row, out) in turned.chunks_exact_mut(SIDE).enumerate().skip(1) {
        for (column, out) in out.iter_mut().enumerate() {
            *out = image[column * SIDE + SIDE - row];
        }
    }
    turned
}

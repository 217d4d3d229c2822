//! Omniglot from its official archives: handwritten characters of fifty alphabets, twenty drawers each.
//!
//! The folder holds `images_background.zip` and `images_evaluation.zip` as published. Which character belongs to which split is
//! known here, as the paper has it; a folder with lists of its own (`split_train.txt`, `split_val.txt`, `split_test.txt`, each
//! line an `Alphabet/characterNN`) is read by those. Each character makes four classes, one for each quarter turn. The group of a
//! class is its alphabet up to the first underscore, as the paper's code has it (so the two Japanese scripts are one).
//!
//! Pictures are [reduced](Reduction) to 28×28 and inverted, so that ink = 255. The quarter turns are about pixel (14, 14) and follow
//! each other, also as published: the row that leaves the picture with each of them is lost, and an empty one comes in.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use rayon::prelude::*;
use zip::ZipArchive;

use super::Split;
use super::images::ImageSet;
use crate::encoder::plan::Shape;
use crate::views::{Reduction, soften};
use crate::{Error, Result};

/// Pixels along each side of a drawing.
const DRAWN: usize = 105;
/// The same of a picture.
const SIDE: usize = 28;
const DRAWERS: usize = 20;
const TURNS: usize = 4;
/// The drawings are 105 pixels wide and high, and take some 300 bytes; a claim of more than this is not one of them.
const LARGEST_DRAWING: u64 = 1 << 20;

/// The paper's characters of a split, one `Alphabet/characterNN` on each line.
fn published(split: Split) -> &'static str {
    match split {
        Split::Train => include_str!("splits/omniglot_train.txt"),
        Split::Val => include_str!("splits/omniglot_val.txt"),
        Split::Test => include_str!("splits/omniglot_test.txt"),
    }
}

/// Reads one split; `drawings` keeps the drawings themselves beside the reduced pictures, for views that change their shape.
pub fn load(folder: &Path, split: Split, reduction: Reduction, drawings: bool) -> Result<ImageSet> {
    let keep = drawings;
    let list = folder.join(format!("split_{split}.txt"));
    let text = match std::fs::read_to_string(&list) {
        Ok(text) => Cow::Owned(text),
        Err(error) if error.kind() == ErrorKind::NotFound => Cow::Borrowed(published(split)),
        Err(error) => return Err(Error::io(&list, error)),
    };
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
    let (mut ink, mut of) = (Vec::new(), Vec::new());
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
        let small = files.par_iter().map(|png| {
            let drawing = read_drawing(png)?;
            Ok((shrink(&drawing, reduction)?, keep.then(|| soft_ink(&drawing)).transpose()?))
        });
        let small = small.collect::<Result<Vec<_>>>();
        let small = small.map_err(|error| Error::input(format!("{}: {name}: {error}", folder.display())))?;
        let (mut turned, kept): (Vec<_>, Vec<_>) = small.into_iter().unzip();
        let first = (ink.len() / (DRAWN * DRAWN)) as u32;
        kept.into_iter().flatten().for_each(|drawing: Vec<u8>| ink.extend(drawing));
        let alphabet = name.split(['_', '/']).next().unwrap_or(name);
        let group = groups.iter().position(|known| *known == alphabet).unwrap_or_else(|| {
            groups.push(alphabet);
            groups.len() - 1
        });
        for turns in 1..=TURNS {
            turned.iter_mut().for_each(|image| *image = quarter_turn(image));
            set.push(format!("{name} turned {}°", 90 * turns % 360), Some(group), &turned.concat())?;
            of.extend((first..).zip(&turned).map(|(drawing, _)| (drawing, (turns % TURNS) as u8)));
        }
    }
    if keep {
        set.keep_drawings(ink, DRAWN, of, reduction)?;
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
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::input(format!(
            "{} is not there; the folder must hold Omniglot's two archives, images_background.zip and images_evaluation.zip \
             (docs/DATA.md says where they come from)",
            path.display()
        )),
        _ => Error::io(path, error),
    })?;
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

fn read_drawing(png: &[u8]) -> Result<image::GrayImage> {
    let image = image::load_from_memory_with_format(png, image::ImageFormat::Png);
    let image = image
        .map_err(|error| Error::input(format!("a drawing cannot be read ({error}); expected a PNG file")))?;
    Ok(image.into_luma8())
}

/// A drawing as 28×28 bytes with ink = 255.
fn shrink(drawing: &image::GrayImage, reduction: Reduction) -> Result<Vec<u8>> {
    let side = SIDE as u32;
    let mut small = reduction.apply(drawing.as_raw(), drawing.dimensions(), (side, side))?;
    small.iter_mut().for_each(|value| *value = 255 - *value);
    Ok(small)
}

/// A drawing as views want it: its ink, softened.
fn soft_ink(drawing: &image::GrayImage) -> Result<Vec<u8>> {
    let side = DRAWN as u32;
    if drawing.dimensions() != (side, side) {
        let (width, height) = drawing.dimensions();
        return Err(Error::input(format!("a drawing has {width}x{height} pixels; expected {side}x{side}")));
    }
    let ink: Vec<u8> = drawing.as_raw().iter().map(|value| 255 - value).collect();
    Ok(soften(&ink, DRAWN))
}

/// A quarter turn to the left about pixel (14, 14): `cv2.warpAffine` with `cv2.getRotationMatrix2D((14, 14), 90, 1)`.
fn quarter_turn(image: &[u8]) -> Vec<u8> {
    let mut turned = vec![0; SIDE * SIDE];
    for (row, out) in turned.chunks_exact_mut(SIDE).enumerate().skip(1) {
        for (column, out) in out.iter_mut().enumerate() {
            *out = image[column * SIDE + SIDE - row];
        }
    }
    turned
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensors::TensorFile;

    /// tests/golden/make_drawings.py: the released code's calls, by OpenCV itself.
    #[test]
    fn drawings_become_what_opencv_makes_of_them() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/drawings.safetensors");
        let file = TensorFile::read(golden).unwrap();
        let bytes = |name: &str, shape: &[usize]| -> Vec<u8> {
            file.finite(name, shape).unwrap().iter().map(|&value| value as u8).collect()
        };
        let (drawings, reduced) = (bytes("drawings", &[4, 105, 105]), bytes("reduced", &[4, SIDE, SIDE]));
        let turned = bytes("turned", &[4, TURNS, SIDE, SIDE]);
        for (number, drawing) in drawings.chunks_exact(105 * 105).enumerate() {
            let drawing = image::GrayImage::from_raw(105, 105, drawing.to_vec()).unwrap();
            let mut picture = shrink(&drawing, Reduction::Released).unwrap();
            let expected = |all: &[u8], at: usize| all[at * SIDE * SIDE..(at + 1) * SIDE * SIDE].to_vec();
            assert_eq!(picture, expected(&reduced, number), "drawing {number}");
            let antialiased = shrink(&drawing, Reduction::Antialiased).unwrap();
            assert_ne!(picture, antialiased, "the two reductions differ");
            for turn in 0..TURNS {
                picture = quarter_turn(&picture);
                assert_eq!(
                    picture,
                    expected(&turned, number * TURNS + turn),
                    "drawing {number}, turn {turn}"
                );
            }
        }
    }

    #[test]
    fn the_papers_splits_are_whole_and_apart() {
        let splits = [Split::Train, Split::Val, Split::Test];
        assert_eq!(splits.map(|split| published(split).lines().count()), [987, 172, 464]);
        let all: std::collections::BTreeSet<_> =
            splits.iter().flat_map(|split| published(*split).lines()).collect();
        assert_eq!(all.len(), 1623);
    }
}

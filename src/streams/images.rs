//! Pictures of known classes in memory, all of one size: what labelled streams are drawn from.

use std::ops::Range;

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};

use crate::encoder::plan::Shape;
use crate::views::Pixels;
use crate::{Error, Result};

/// One class: its name, the group that it belongs to, and where its pictures are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// What the data set calls it.
    pub name: String,
    /// The super-class, by number: an alphabet, a kind of thing; not all data has them.
    pub group: Option<usize>,
    /// Its pictures, in the order of the data set.
    pub images: Range<usize>,
}

/// Pictures of one size, class by class.
#[derive(Clone, Debug)]
pub struct ImageSet {
    shape: Shape,
    pixels: Vec<u8>,
    classes: Vec<Class>,
}

impl ImageSet {
    /// An empty set of pictures of this size.
    pub fn new(shape: Shape) -> Self {
        Self { shape, pixels: Vec::new(), classes: Vec::new() }
    }

    /// Adds a class with its pictures, which lie one after the other in `pixels`.
    ///
    /// # Errors
    /// If there is no picture, or the numbers are not those of whole pictures.
    pub fn push(&mut self, name: String, group: Option<usize>, pixels: &[u8]) -> Result<()> {
        let length = self.shape.len();
        if pixels.is_empty() || length == 0 || !pixels.len().is_multiple_of(length) {
            return Err(Error::input(format!(
                "class {name}: {} numbers are not one or more pictures of {length}",
                pixels.len()
            )));
        }
        let first = self.len();
        self.pixels.extend_from_slice(pixels);
        self.classes.push(Class { name, group, images: first..self.len() });
        Ok(())
    }

    /// Size of every picture.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The classes.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// Number of pictures.
    pub fn len(&self) -> usize {
        self.pixels.len() / self.shape.len().max(1)
    }

    /// Whether there is no picture.
    pub fn is_empty(&self) -> bool {
        self.pixels.is_empty()
    }

    /// The bytes of one picture, channels last.
    pub fn image(&self, index: usize) -> &[u8] {
        let length = self.shape.len();
        &self.pixels[index * length..(index + 1) * length]
    }

    /// The same as the views take it.
    pub fn pixels(&self, index: usize) -> Pixels<'_> {
        Pixels::Bytes(self.image(index))
    }

    /// One picture in colour (grey is shown as such, a mask is left out), as a square of this side.
    pub fn rgb(&self, index: usize, side: usize) -> Result<Vec<u8>> {
        let Shape { height, width, channels } = self.shape;
        let rgb: Vec<u8> = match channels {
            1 => self.image(index).iter().flat_map(|&grey| [grey; 3]).collect(),
            _ => self.image(index).chunks_exact(channels).flat_map(|pixel| &pixel[..3]).copied().collect(),
        };
        let to = side as u32;
        resize(&rgb, (width as u32, height as u32), 3, (to, to))
    }

    /// The classes that a rule picks by their number, with their pictures, as a set of its own.
    pub fn subset(&self, mut chosen: impl FnMut(usize) -> bool) -> Result<Self> {
        let mut subset = Self::new(self.shape);
        let length = self.shape.len();
        for (_, class) in self.classes.iter().enumerate().filter(|(number, _)| chosen(*number)) {
            let bytes = class.images.start * length..class.images.end * length;
            subset.push(class.name.clone(), class.group, &self.pixels[bytes])?;
        }
        Ok(subset)
    }
}

/// Resizes a picture with 1 or 3 channels by the cubic kernel of Catmull and Rom (a = −0.5), widened when it shrinks, so
/// that nothing aliases: Pillow's `BICUBIC`. As there, rows first, rounded and clipped to bytes, then columns: where edges
/// overshoot, the order shows by ten levels.
pub(super) fn resize(
    pixels: &[u8],
    (width, height): (u32, u32),
    channels: usize,
    to: (u32, u32),
) -> Result<Vec<u8>> {
    let kind = match channels {
        1 => PixelType::U8,
        3 => PixelType::U8x3,
        other => return Err(Error::input(format!("pictures of {other} channels cannot be resized"))),
    };
    let narrowed = resample(pixels, (width, height), (to.0, height), kind)?;
    resample(&narrowed, (to.0, height), to, kind)
}

fn resample(pixels: &[u8], from: (u32, u32), to: (u32, u32), kind: PixelType) -> Result<Vec<u8>> {
    if from == to {
        return Ok(pixels.to_vec());
    }
    let fault = |error: &dyn std::fmt::Display| {
        Error::input(format!(
            "a picture of {}x{} cannot be resized to {}x{}: {error}",
            from.0, from.1, to.0, to.1
        ))
    };
    let source = ImageRef::new(from.0, from.1, pixels, kind).map_err(|error| fault(&error))?;
    let mut out = Image::new(to.0, to.1, kind);
    let options =
        ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom)).use_alpha(false);
    Resizer::new().resize(&source, &mut out, &options).map_err(|error| fault(&error))?;
    Ok(out.into_vec())
}

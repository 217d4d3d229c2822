//! Pictures of known classes in memory, all of one size: what labelled streams are drawn from.

use std::ops::Range;

use crate::encoder::plan::Shape;
use crate::views::reduction::resize;
use crate::views::{Drawing, Pixels, Reduction};
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
    drawings: Option<Drawings>,
}

/// The drawings that the pictures were made of.
#[derive(Clone, Debug)]
struct Drawings {
    /// Each softened, one after the other.
    ink: Vec<u8>,
    side: usize,
    /// For each picture its drawing, and the quarter turns that it has got.
    of: Vec<(u32, u8)>,
    reduction: Reduction,
}

impl ImageSet {
    /// An empty set of pictures of this size.
    pub fn new(shape: Shape) -> Self {
        Self { shape, pixels: Vec::new(), classes: Vec::new(), drawings: None }
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

    /// Keeps the drawings that the pictures were made of: `ink` holds them softened, one after the other, `of` says for each
    /// picture which it was made of and the quarter turns that it has got.
    ///
    /// # Errors
    /// If a picture has none.
    pub(super) fn keep_drawings(
        &mut self,
        ink: Vec<u8>,
        side: usize,
        of: Vec<(u32, u8)>,
        reduction: Reduction,
    ) -> Result<()> {
        let count = ink.len() / (side * side).max(1);
        if of.len() != self.len() || of.iter().any(|(drawing, _)| *drawing as usize >= count) {
            return Err(Error::input(format!("{} pictures of {count} drawings do not fit", self.len())));
        }
        self.drawings = Some(Drawings { ink, side, of, reduction });
        Ok(())
    }

    /// Whether drawings are kept.
    pub fn has_drawings(&self) -> bool {
        self.drawings.is_some()
    }

    /// The drawing that a picture was made of, if they are kept.
    pub fn drawing(&self, index: usize) -> Option<Drawing<'_>> {
        let Drawings { ink, side, of, reduction } = self.drawings.as_ref()?;
        let (drawing, turns) = *of.get(index)?;
        let length = side * side;
        let ink = ink.get(drawing as usize * length..(drawing as usize + 1) * length)?;
        Some(Drawing { ink, side: *side, turns, reduction: *reduction })
    }

    /// Size of every picture.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The classes.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The class of a picture, by number.
    pub fn class_of(&self, index: usize) -> usize {
        self.classes.partition_point(|class| class.images.end <= index)
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

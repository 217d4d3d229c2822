//! MNIST from its official gzipped files, and the stream in which its digits crowd out Omniglot's characters.
//!
//! The imbalance experiment replaces each frame of a RoamingOmniglot window, with a given probability, by a digit of the
//! training set as it is. Omniglot's frames keep their order and wait until they are shown.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;

use super::images::ImageSet;
use super::{LearningStream, RoamingStream, Split, WindowFrames};
use crate::encoder::plan::Shape;
use crate::random::{Purpose, Random};
use crate::{Error, Result};

const SIDE: usize = 28;
/// More than the 47 MB of the training images; nothing larger is read into memory.
const LARGEST: u64 = 64 << 20;

/// Reads the digits of a split (`Val` has none), a class each.
pub fn load(folder: &Path, split: Split) -> Result<ImageSet> {
    let name = match split {
        Split::Train => "train",
        Split::Test => "t10k",
        Split::Val => return Err(Error::input("MNIST has no split val: it has train and test")),
    };
    let images_path = folder.join(format!("{name}-images-idx3-ubyte.gz"));
    let labels_path = folder.join(format!("{name}-labels-idx1-ubyte.gz"));
    let images = read_idx(&images_path, &[SIDE, SIDE])?;
    let labels = read_idx(&labels_path, &[])?;
    if images.len() != labels.len() * SIDE * SIDE {
        return Err(Error::input(format!(
            "{}: {} labels for {} images; expected as many",
            labels_path.display(),
            labels.len(),
            images.len() / (SIDE * SIDE)
        )));
    }
    let mut set = ImageSet::new(Shape { height: SIDE, width: SIDE, channels: 1 });
    for digit in 0..10u8 {
        let of_digit = images.chunks_exact(SIDE * SIDE).zip(&labels).filter(|(_, label)| **label == digit);
        let pixels: Vec<u8> = of_digit.flat_map(|(image, _)| image.iter().copied()).collect();
        if pixels.is_empty() {
            return Err(Error::input(format!("{}: no digit {digit}", labels_path.display())));
        }
        set.push(digit.to_string(), None, &pixels)?;
    }
    Ok(set)
}

/// The bytes of an idx file of items with these dimensions.
fn read_idx(path: &Path, item: &[usize]) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|error| Error::io(path, error))?;
    let fault = |what: String| Error::input(format!("{}: {what}", path.display()));
    let mut bytes = Vec::new();
    GzDecoder::new(file)
        .take(LARGEST)
        .read_to_end(&mut bytes)
        .map_err(|error| fault(format!("not a whole gzip file ({error})")))?;
    let number = |at: usize| -> Option<usize> {
        let bytes: [u8; 4] = bytes.get(4 * at..4 * at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(bytes) as usize)
    };
    let magic = 0x0800 + 1 + item.len();
    if number(0) != Some(magic) {
        return Err(fault(format!(
            "does not begin as an idx file of bytes in {} dimensions",
            1 + item.len()
        )));
    }
    if let Some((at, expected)) =
        item.iter().enumerate().find(|(at, expected)| number(2 + at) != Some(**expected))
    {
        return Err(fault(format!("dimension {} is not {expected}", at + 2)));
    }
    let count = number(1).unwrap_or(0);
    let header = 4 * (2 + item.len());
    let content = bytes.split_off(header.min(bytes.len()));
    let expected = count.checked_mul(item.iter().product());
    if expected != Some(content.len()) {
        return Err(fault(format!("{count} items are announced, but {} bytes of them came", content.len())));
    }
    Ok(content)
}

/// Which digits crowd out the characters, and how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Digits {
    /// Probability that a frame shows a digit.
    pub share: f32,
    /// The only digit that is shown; all ten otherwise.
    pub only: Option<u8>,
}

impl Digits {
    /// The pictures of these digits.
    pub fn among(&self, all: ImageSet) -> Result<ImageSet> {
        let Some(only) = self.only else { return Ok(all) };
        let name = only.to_string();
        let Some(class) = all.classes().iter().find(|class| class.name == name) else {
            return Err(Error::input(format!("there is no digit {only}")));
        };
        let mut set = ImageSet::new(all.shape());
        let pixels: Vec<u8> =
            class.images.clone().flat_map(|image| all.image(image).iter().copied()).collect();
        set.push(name, None, &pixels)?;
        Ok(set)
    }
}

/// Omniglot's windows with digits in between.
#[derive(Debug)]
pub struct ImbalancedStream {
    /// The characters.
    pub characters: RoamingStream,
    /// The digits.
    pub digits: ImageSet,
    /// Probability that a frame shows a digit.
    pub share: f32,
}

impl LearningStream for ImbalancedStream {
    fn shape(&self) -> Shape {
        self.characters.shape()
    }

    fn frames(&self) -> usize {
        self.characters.frames()
    }

    fn window(&self, number: u64) -> Result<WindowFrames<'_>> {
        let mut window = self.characters.window(number)?;
        // A digit is of no class.
        window.labels.clear();
        // A stream of its own: the characters are the same at any share.
        let mut random = Random::new(!self.characters.seed, Purpose::Episodes, number);
        let count = window.frames.len();
        let drawings = std::mem::take(&mut window.drawings).into_iter().chain(std::iter::repeat(None));
        let mut waiting = std::mem::take(&mut window.frames).into_iter().zip(drawings);
        for _ in 0..count {
            let shown = match random.chance(self.share) {
                true => Some((Cow::Borrowed(self.digits.image(random.below(self.digits.len()))), None)),
                false => waiting.next(),
            };
            let Some((frame, drawing)) = shown else { break };
            window.frames.push(frame);
            window.drawings.push(drawing);
        }
        Ok(window)
    }
}

//! The built-in world as RoamingRooms: colour and the mask of the object attended to, houses apart by split.
//!
//! A window is a walk through one house, a frame every two seconds; moments in which no object is in view are left out. The
//! houses of a split are worlds of different seeds: an object of one is never met in another.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use super::images::ImageSet;
use super::{Episode, LearningStream, Split, WindowFrames};
use crate::camera::Frame;
use crate::camera::rooms::Rooms;
use crate::encoder::plan::Shape;
use crate::frame::Fit;
use crate::random::{Purpose, Random};
use crate::{Error, Result};

/// Houses of each split.
const HOUSES: usize = 4;
/// Frames of the world, ten a second, from one sampled frame to the next.
const STRIDE: u64 = 20;
/// Frames of the world in which walks begin: a day.
const BEGINNINGS: usize = 864_000;
/// Frames of an episode that is measured on.
pub const EPISODE: usize = 100;

/// Walks through the houses of a split.
#[derive(Debug)]
pub struct RoomsStream {
    houses: Mutex<Vec<Rooms>>,
    shape: Shape,
    window: usize,
    seed: u64,
}

impl RoomsStream {
    /// Builds the houses: a few seconds of computing. `shape` has four channels.
    pub fn new(split: Split, shape: Shape, window: usize, seed: u64) -> Result<Self> {
        if shape.channels != 4 {
            return Err(Error::input(format!(
                "rooms are shown with four channels, colour and mask; the encoder reads {}",
                shape.channels
            )));
        }
        let first = match split {
            Split::Train => 100,
            Split::Val => 200,
            Split::Test => 300,
        };
        let houses = (first..first + HOUSES as u64).map(Rooms::new).collect();
        Ok(Self { houses: Mutex::new(houses), shape, window, seed })
    }

    /// Frames of walk number `number`, with the object that each shows.
    fn walk(&self, number: u64) -> Result<(Vec<Vec<u8>>, Vec<u32>)> {
        let mut random = Random::new(self.seed, Purpose::Episodes, number);
        let mut houses = self.houses.lock().unwrap_or_else(PoisonError::into_inner);
        let house = random.below(HOUSES);
        let mut at = random.below(BEGINNINGS) as u64;
        let Some(world) = houses.get_mut(house) else { return Ok(Default::default()) };
        let Shape { height, width, .. } = self.shape;
        let mut fit = Fit::new(height, width);
        let (mut rgb, mut mask) = (vec![0; height * width * 3], vec![0; height * width]);
        let mut frame = Frame::default();
        let (mut pictures, mut truths) = (Vec::new(), Vec::new());
        while pictures.len() < self.window {
            world.render(at, &mut frame);
            at += STRIDE;
            let (Some(truth), Some(shown)) = (frame.truth, &frame.mask) else { continue };
            fit.rgb(&frame.rgb, frame.width, frame.height, &mut rgb)?;
            fit.mask(shown, frame.width, frame.height, &mut mask)?;
            let pixels = rgb.chunks_exact(3).zip(&mask);
            pictures.push(pixels.flat_map(|(rgb, mask)| rgb.iter().copied().chain([*mask])).collect());
            truths.push(truth);
        }
        Ok((pictures, truths))
    }
}

impl LearningStream for RoomsStream {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn frames(&self) -> usize {
        self.window
    }

    fn window(&self, number: u64) -> Result<WindowFrames<'_>> {
        let (pictures, _) = self.walk(number)?;
        Ok(WindowFrames { frames: pictures.into_iter().map(Cow::Owned).collect(), ..WindowFrames::default() })
    }
}

/// Labelled walks: a set of all their frames, a class for each walk, and the episodes that show them.
pub fn episodes(split: Split, shape: Shape, count: usize, seed: u64) -> Result<(ImageSet, Vec<Episode>)> {
    let stream = RoomsStream::new(split, shape, EPISODE, seed)?;
    let mut set = ImageSet::new(shape);
    let mut episodes = Vec::with_capacity(count);
    for number in 0..count as u64 {
        let (pictures, truths) = stream.walk(number)?;
        let first = set.len();
        set.push(format!("walk {number}"), None, &pictures.concat())?;
        let mut known: Vec<u32> = Vec::new();
        let labels = truths.iter().map(|truth| {
            known.iter().position(|object| object == truth).unwrap_or_else(|| {
                known.push(*truth);
                known.len() - 1
            })
        });
        episodes.push(Episode { labels: labels.collect(), images: (first..set.len()).collect() });
    }
    Ok((set, episodes))
}

//! Things without end, to learn seeing from: every frame shows one that was never met before. What it is compared with is the same
//! thing from another side, in other light and often in another place: the world knows what it draws, so this takes no labels
//! from anybody. Episodes to measure on are walks among other things: each is looked at for a while, turning, and returned to.

use std::borrow::Cow;

use rayon::prelude::*;

use super::images::ImageSet;
use super::{Episode, LearningStream, Split, WindowFrames};
use crate::camera::rooms::{Showcase, View};
use crate::encoder::plan::Shape;
use crate::random::{Purpose, Random};
use crate::{Error, Result};

/// How things are met.
#[derive(Clone, Copy, Debug)]
struct Manner {
    /// The probability that a look goes to something new; otherwise to one met before.
    new: f32,
    /// The most frames of a look.
    look: usize,
    /// The share of frames in which a thing stands in front of something.
    clutter: f32,
    /// The most radians between a frame and its second view.
    apart: f32,
}

impl Manner {
    /// Learning begins with things by themselves that turn a little, and has all there is after this many windows.
    const EASY: u64 = 2000;

    fn learning(window: u64) -> Self {
        let grown = window.min(Self::EASY) as f32 / Self::EASY as f32;
        Self { new: 1.0, look: 1, clutter: 0.6 * grown, apart: 0.5 + 1.2 * grown }
    }

    /// A walk, to be measured on.
    fn walking() -> Self {
        Self { new: 0.4, look: 5, clutter: 0.5, apart: 0.0 }
    }

    fn place(self, random: &mut Random) -> Option<u64> {
        random.chance(self.clutter).then(|| random.bits() >> 32)
    }
}

/// Most radians between two frames of a look.
const TURN: f32 = 0.35;
/// How high above the horizon things are seen from, in radians.
const ELEVATION: (f32, f32) = (-0.1, 0.8);
/// Frames of an episode that is measured on.
pub const EPISODE: usize = 100;
/// The world that all splits are of, and how far apart the numbers of their things are.
const WORLD: u64 = 0;
const APART: u64 = 1 << 36;

/// See the [module](self).
#[derive(Debug)]
pub struct ThingsStream {
    showcase: Showcase,
    shape: Shape,
    window: usize,
    seed: u64,
    /// The number of the split's first thing.
    first: u64,
}

/// A frame: which of the window's things, and how it is seen.
struct Shown {
    thing: usize,
    view: View,
    second: View,
}

impl ThingsStream {
    /// Draws the backdrops: a few seconds of computing. `shape` is square and has three channels.
    ///
    /// # Errors
    /// If it is not.
    pub fn new(split: Split, shape: Shape, window: usize, seed: u64) -> Result<Self> {
        if shape.channels != 3 || shape.height != shape.width {
            return Err(Error::input(format!(
                "things are drawn in colour on square pictures; the encoder reads {}x{} with {} channels",
                shape.height, shape.width, shape.channels
            )));
        }
        let first = match split {
            Split::Train => 0,
            Split::Val => APART,
            Split::Test => 2 * APART,
        };
        Ok(Self { showcase: Showcase::new(WORLD), shape, window, seed, first })
    }

    /// What the frames of a window show.
    fn shown(&self, number: u64, manner: Manner) -> (usize, Vec<Shown>) {
        let random = &mut Random::new(self.seed, Purpose::Episodes, self.first + number);
        let mut angles: Vec<(f32, f32)> = Vec::new();
        let mut frames = Vec::with_capacity(self.window);
        let (mut thing, mut left, mut turn, mut place) = (0, 0, 0.0, None);
        while frames.len() < self.window {
            if left == 0 {
                left = 1 + random.below(manner.look);
                turn = random.between(-TURN, TURN);
                place = manner.place(random);
                if angles.is_empty() || random.chance(manner.new) {
                    thing = angles.len();
                    let (low, high) = ELEVATION;
                    angles.push((random.between(0.0, std::f32::consts::TAU), random.between(low, high)));
                } else {
                    thing = random.below(angles.len());
                    angles[thing].0 += random.between(-1.5, 1.5);
                }
            }
            left -= 1;
            let (azimuth, elevation) = &mut angles[thing];
            *azimuth += turn;
            let (azimuth, elevation) = (*azimuth, *elevation);
            let view = View { azimuth, elevation, seed: random.bits() >> 1, backdrop: place };
            let second = View {
                azimuth: azimuth + random.between(-manner.apart, manner.apart),
                elevation: (elevation + random.between(-0.3, 0.3)).clamp(ELEVATION.0, ELEVATION.1),
                seed: random.bits() >> 1,
                backdrop: if random.chance(0.5) { place } else { manner.place(random) },
            };
            frames.push(Shown { thing, view, second });
        }
        (angles.len(), frames)
    }

    /// Draws a window: first views, second views, and the thing that each shows.
    fn draw(&self, number: u64, manner: Manner, seconds: bool) -> (Vec<Vec<u8>>, Vec<Vec<u8>>, Vec<usize>) {
        let (things, shown) = self.shown(number, manner);
        let before = self.first + (self.seed % 1024) * (APART >> 10) + number * self.window as u64;
        let exhibits: Vec<_> =
            (0..things as u64).into_par_iter().map(|thing| self.showcase.exhibit(before + thing)).collect();
        let draw = |thing: usize, view: &View| {
            let mut rgb = Vec::new();
            self.showcase.show(&exhibits[thing], view, self.shape.height, &mut rgb);
            rgb
        };
        let first = shown.par_iter().map(|frame| draw(frame.thing, &frame.view)).collect();
        let second = match seconds {
            true => shown.par_iter().map(|frame| draw(frame.thing, &frame.second)).collect(),
            false => Vec::new(),
        };
        (first, second, shown.iter().map(|frame| frame.thing).collect())
    }
}

impl LearningStream for ThingsStream {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn frames(&self) -> usize {
        self.window
    }

    fn window(&self, number: u64) -> Result<WindowFrames<'_>> {
        let (frames, next, _) = self.draw(number, Manner::learning(number), true);
        let owned = |pictures: Vec<Vec<u8>>| pictures.into_iter().map(Cow::Owned).collect();
        Ok(WindowFrames { frames: owned(frames), next: owned(next), ..WindowFrames::default() })
    }
}

/// Labelled episodes of a split.
///
/// # Errors
/// If the shape is not one that can be drawn.
pub fn episodes(split: Split, shape: Shape, count: usize) -> Result<(ImageSet, Vec<Episode>)> {
    let stream = ThingsStream::new(split, shape, EPISODE, 0)?;
    let mut set = ImageSet::new(shape);
    let mut episodes = Vec::with_capacity(count);
    for number in 0..count as u64 {
        let (pictures, _, labels) = stream.draw(number, Manner::walking(), false);
        let first = set.len();
        set.push(format!("episode {number}"), None, &pictures.concat())?;
        episodes.push(Episode { labels, images: (first..set.len()).collect() });
    }
    Ok((set, episodes))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SMALL: Shape = Shape { height: 16, width: 16, channels: 3 };

    #[test]
    fn windows_follow_from_seed_and_number() {
        let stream = |seed| ThingsStream::new(Split::Train, SMALL, 6, seed).unwrap();
        let (one, other) = (stream(1), stream(1));
        other.window(9).unwrap();
        let (first, again) = (one.window(4).unwrap(), other.window(4).unwrap());
        assert_eq!((&first.frames, &first.next), (&again.frames, &again.next));
        assert_ne!(first.frames, one.window(5).unwrap().frames);
        assert_ne!(first.frames, stream(2).window(4).unwrap().frames);
        let val = ThingsStream::new(Split::Val, SMALL, 6, 1).unwrap();
        assert_ne!(first.frames, val.window(4).unwrap().frames);
    }

    /// While learning every frame shows another thing, by itself at first; a walk returns to its things.
    #[test]
    fn learning_meets_new_things_and_walks_return() {
        let stream = ThingsStream::new(Split::Train, SMALL, 75, 0).unwrap();
        let (things, shown) = stream.shown(0, Manner::learning(0));
        assert_eq!((things, shown.len()), (75, 75));
        assert!(shown.iter().all(|frame| frame.view.backdrop.is_none() && frame.second.backdrop.is_none()));
        let (_, shown) = stream.shown(3000, Manner::learning(3000));
        let cluttered = shown.iter().filter(|frame| frame.view.backdrop.is_some()).count();
        assert!((30..60).contains(&cluttered), "{cluttered} of 75 in front of something");
        let (things, shown) = stream.shown(0, Manner::walking());
        let met: BTreeSet<usize> = shown.iter().map(|frame| frame.thing).collect();
        assert!(things == met.len() && (4..40).contains(&things), "{things} things");
        let looks = shown.chunk_by(|a, b| a.thing == b.thing).count();
        assert!(looks > things, "{looks} looks at {things} things: none was returned to");
    }

    #[test]
    fn episodes_number_things_by_first_appearance() {
        let (set, episodes) = episodes(Split::Val, SMALL, 2).unwrap();
        assert_eq!((set.len(), episodes.len()), (2 * EPISODE, 2));
        for Episode { images, labels } in &episodes {
            assert_eq!((images.len(), labels.len()), (EPISODE, EPISODE));
            let mut known = 0;
            for &label in labels {
                assert!(label <= known);
                known = known.max(label + 1);
            }
        }
    }

    #[test]
    fn other_shapes_are_refused() {
        for shape in [Shape { channels: 4, ..SMALL }, Shape { width: 20, ..SMALL }] {
            let error = ThingsStream::new(Split::Train, shape, 6, 0).unwrap_err().to_string();
            assert!(error.contains("square"), "{error}");
        }
    }
}

//! Objects as a head camera meets them: one is looked at for a while, turning, then another; what is returned to goes on turning
//! where it was left.
//!
//! The stream is made of stays, each as long as a window. In a stay some objects are around. [`Places::Anywhere`] draws them anew
//! for each stay. [`Places::Rooms`] has days instead: eight rooms of six objects each, 25 windows in one before moving on,
//! and round again for as long as a run lasts. There, what was learned in a room must outlast the seven others.

use std::borrow::Cow;

use super::coil::STEP;
use super::images::ImageSet;
use super::second::SecondView;
use super::{LearningStream, WindowFrames};
use crate::encoder::plan::Shape;
use crate::random::{Purpose, Random};
use crate::{Error, Result};

/// Which objects are around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// Others in each stay.
    Anywhere,
    /// Those of the room, for many stays.
    Rooms,
}

/// See the [module](self).
#[derive(Debug)]
pub struct VideoStream {
    /// What is met; the pictures of each class follow each other in time.
    pub set: ImageSet,
    /// Where.
    pub places: Places,
    /// What a frame is compared with.
    pub second: SecondView,
    /// Frames of a window.
    pub window: usize,
    /// Frames from the start of a window to that of the next one.
    pub stride: usize,
    /// Of the stream.
    pub seed: u64,
}

/// Objects within reach at a time, for as many frames as a window has.
const AROUND: usize = 15;
/// Objects of a room.
const IN_A_ROOM: usize = 6;
/// Rooms.
const ROOMS: usize = 8;
/// Windows in a room before moving on.
const WINDOWS_IN_A_ROOM: usize = 25;
/// Shortest and longest look at one, in frames.
const LOOK: (usize, usize) = (3, 8);

/// Stays that are none: the streams of random numbers beside those of the stays.
const ROOMS_OF_OBJECTS: u64 = u64::MAX;
const SECOND_VIEWS: u64 = 1 << 63;

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
            let frames = stay.into_iter().skip(skipped).take(wanted);
            for Shown { picture, second } in frames {
                window.frames.push(Cow::Borrowed(self.set.image(picture)));
                window.next.push(Cow::Borrowed(self.set.image(second)));
            }
            (place, skipped) = (place + 1, 0);
        }
        Ok(window)
    }
}

/// A frame: its picture and that of its second view, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shown {
    picture: usize,
    second: usize,
}

impl VideoStream {
    /// The frames of a stay among the same objects, as many as a window has; the stays follow each other.
    fn stay(&self, number: u64) -> Vec<Shown> {
        let mut random = Random::new(self.seed, Purpose::Episodes, number);
        // Streams of their own, so that the frames are the same whatever they are compared with.
        let mut seconds = Random::new(self.seed, Purpose::Episodes, SECOND_VIEWS | number);
        let around = match self.places {
            Places::Anywhere => self.drawn(&mut random, AROUND),
            Places::Rooms => self.room(self.room_of(number)),
        };
        // Where each object stands, and which way it turns.
        let mut angles: Vec<(usize, bool)> = around
            .iter()
            .map(|class| (random.below(self.set.classes()[*class].images.len()), random.chance(0.5)))
            .collect();
        let mut stay = Vec::new();
        let (mut object, mut look) = (0, 0);
        while stay.len() < self.window.max(1) {
            if look == 0 {
                object = random.below(around.len());
                look = LOOK.0 + random.below(LOOK.1 - LOOK.0 + 1);
            }
            look -= 1;
            let (class, (angle, forth)) = (&self.set.classes()[around[object]], &mut angles[object]);
            let count = class.images.len();
            let next = (*angle + if *forth { 1 } else { count - 1 }) % count;
            let second = match self.second {
                SecondView::Next | SecondView::Groups => next,
                SecondView::Label { degrees } => another(&mut seconds, *angle, count, degrees),
            };
            stay.push(Shown { picture: class.images.start + *angle, second: class.images.start + second });
            *angle = next;
        }
        stay
    }

    /// Some of the objects, in a random order.
    fn drawn(&self, random: &mut Random, count: usize) -> Vec<usize> {
        let mut classes: Vec<usize> = (0..self.set.classes().len()).collect();
        random.shuffle(&mut classes);
        classes.truncate(count);
        classes
    }

    /// The room of a stay.
    fn room_of(&self, stay: u64) -> usize {
        let frames = (WINDOWS_IN_A_ROOM * self.stride.max(1)) as u64;
        let visit = stay.saturating_mul(self.window as u64) / frames;
        (visit % ROOMS as u64) as usize
    }

    /// The objects of a room. With too few objects for eight rooms, the last ones have some of the first again.
    fn room(&self, room: usize) -> Vec<usize> {
        let mut random = Random::new(self.seed, Purpose::Episodes, ROOMS_OF_OBJECTS);
        let classes = self.drawn(&mut random, usize::MAX);
        let size = IN_A_ROOM.min(classes.len());
        classes.iter().copied().cycle().skip(room * IN_A_ROOM).take(size).collect()
    }
}

/// Another picture of the same turn, at most so many degrees away.
fn another(random: &mut Random, angle: usize, count: usize, degrees: u16) -> usize {
    let reach = (usize::from(degrees) / STEP).min(count / 2);
    if reach == 0 {
        return angle;
    }
    let away = 1 + random.below(reach);
    let back = random.chance(0.5);
    (angle + if back { count - away } else { away }) % count
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Pictures of one pixel; object n's picture at place a is the number 72·n + a.
    fn stream(places: Places, second: SecondView, objects: usize) -> VideoStream {
        let mut set = ImageSet::new(Shape { height: 1, width: 1, channels: 3 });
        for object in 0..objects {
            set.push(format!("obj{object}"), None, &[object as u8; 72 * 3]).unwrap();
        }
        VideoStream { set, places, second, window: 75, stride: 15, seed: 3 }
    }

    fn objects(stream: &VideoStream, window: u64) -> BTreeSet<u8> {
        stream.window(window).unwrap().frames.iter().map(|frame| frame[0]).collect()
    }

    /// Six objects a room, other ones in each of eight rooms, and the first room again after 8 × 25 windows.
    #[test]
    fn rooms_are_revisited_in_turn() {
        let stream = stream(Places::Rooms, SecondView::Next, 50);
        // A window reaches 60 frames into the next four.
        let room = |visit: u64| -> BTreeSet<u8> {
            (visit * 25..visit * 25 + 21).flat_map(|window| objects(&stream, window)).collect()
        };
        let rooms: Vec<_> = (0..8).map(room).collect();
        assert!(rooms.iter().all(|objects| objects.len() == 6), "{rooms:?}");
        let all: BTreeSet<u8> = rooms.iter().flatten().copied().collect();
        assert_eq!(all.len(), 48);
        for visit in 8..18 {
            assert_eq!(room(visit), rooms[visit as usize % 8]);
        }
        let again = stream.window(200).unwrap().frames;
        assert_ne!(again, stream.window(0).unwrap().frames, "the same objects, not the same frames");
    }

    #[test]
    fn few_objects_make_rooms_too() {
        for objects in [1, 5, 7] {
            let stream = stream(Places::Rooms, SecondView::Next, objects);
            for stay in 0..50 {
                assert_eq!(stream.stay(stay).len(), 75);
            }
        }
    }

    /// Windows roll: what two of them share is the same.
    #[test]
    fn windows_that_overlap_share_their_frames() {
        for places in [Places::Anywhere, Places::Rooms] {
            let stream = stream(places, SecondView::Label { degrees: 180 }, 50);
            let (first, second) = (stream.window(40).unwrap(), stream.window(41).unwrap());
            assert_eq!(first.frames[15..], second.frames[..60]);
            assert_eq!(first.next[15..], second.next[..60]);
        }
    }

    /// Second views by label are of the same object, within the angle, never the frame itself, and leave the frames as they are.
    #[test]
    fn second_views_by_label_keep_to_their_angle() {
        for degrees in [5u16, 40, 90, 180] {
            let labelled = stream(Places::Anywhere, SecondView::Label { degrees }, 50);
            let plain = stream(Places::Anywhere, SecondView::Next, 50);
            let mut widest = 0;
            for (shown, next) in
                (0..40).flat_map(|stay| labelled.stay(stay).into_iter().zip(plain.stay(stay)))
            {
                assert_eq!(shown.picture, next.picture);
                assert_eq!(shown.second / 72, shown.picture / 72);
                let apart = (shown.second % 72).abs_diff(shown.picture % 72);
                let apart = apart.min(72 - apart) * 5;
                assert!((5..=usize::from(degrees)).contains(&apart), "{apart} of {degrees}");
                widest = widest.max(apart);
                let step = (next.second % 72).abs_diff(next.picture % 72);
                assert!(step == 1 || step == 71);
            }
            assert_eq!(widest, usize::from(degrees));
        }
    }
}

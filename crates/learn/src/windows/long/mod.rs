//! A long memory of the stream in RAM: what was seen minutes to days ago, to learn from again.
//!
//! The frame after a frame looks much like it, so it teaches little. A frame of the same thing, seen another time from another side,
//! teaches more, and this memory finds such frames without labels. It cuts the stream into segments ([`boundary`]), keeps the
//! frames of each that differ most ([`segment`]), holds a random sample of all segments ever seen within a budget of bytes,
//! and joins the segments that show the same thing into groups ([`groups`]). A window of the stream asks it for second views
//! ([`LongMemory::second_view_of`]), and it makes whole windows of its own ([`LongMemory::replay_window`]).
//!
//! The sample is a reservoir: each segment draws a lot when it ends, and those with the lowest lots stay. So every segment ever seen is
//! here with the same chance, however long ago it was, and no generator's state has to be saved.
//!
//! Pictures are in RAM alone, and [`LongMemory::forget`] leaves none. Nothing here computes an embedding: they are pushed with the frames,
//! and [`LongMemory::embed_again`] asks for new ones when the encoder has moved on.

mod boundary;
mod groups;
mod replay;
mod saved;
mod segment;

use std::collections::VecDeque;
use std::sync::Arc;

pub use self::replay::Replay;
pub use self::saved::SavedMemory;

use self::boundary::{Boundaries, Follows};
use self::segment::{Frame, Segment};
use crate::kernels::vector::dot;
use crate::random::{Purpose, Random};
use crate::{Error, Result};

/// The most frames of a segment: three minutes at a frame every four seconds.
const LONGEST: u64 = 45;
/// The most frames of a segment that are kept.
const KEPT: usize = 8;
/// Segments that ended lately whose group is known though they may have lost their place.
const LATELY: usize = 64;

/// What a long memory goes by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LongRules {
    /// The most bytes of pictures and embeddings.
    pub budget: usize,
    /// Frames of different segments are joined above this similarity.
    pub alike: f32,
    /// Of every random draw.
    pub seed: u64,
}

/// How much it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Segments that have ended and are kept.
    pub segments: usize,
    /// Frames, those of the segment that goes on included.
    pub frames: usize,
    /// Groups of two segments or more.
    pub groups: usize,
    /// Segments in them.
    pub grouped: usize,
    /// Bytes of pictures and embeddings.
    pub bytes: usize,
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub struct LongMemory {
    rules: LongRules,
    boundaries: Boundaries,
    /// The segment that goes on.
    open: Option<Segment>,
    /// Segments that have ended, oldest first.
    closed: Vec<Segment>,
    /// First and last frame and the group of segments that ended lately.
    lately: VecDeque<(u64, u64, u64)>,
    /// Segments begun so far.
    begun: u64,
    /// The next group's number; none is used twice.
    next_group: u64,
    /// The frame that was pushed last.
    newest: Option<u64>,
    bytes: usize,
}

impl LongMemory {
    /// An empty memory.
    pub fn new(rules: LongRules) -> Self {
        Self {
            rules,
            boundaries: Boundaries::default(),
            open: None,
            closed: Vec::new(),
            lately: VecDeque::new(),
            begun: 0,
            next_group: 0,
            newest: None,
            bytes: 0,
        }
    }

    /// Adds the newest frame of the stream with its embedding. Numbers rise; where one is left out, a segment ends. A frame whose
    /// embedding has no direction is left out.
    pub fn push(&mut self, number: u64, pixels: Arc<[u8]>, embedding: &[f32]) {
        if self.newest.is_some_and(|newest| number <= newest) {
            return;
        }
        let Some(embedding) = of_length_one(embedding) else { return };
        let adjacent = self.newest.is_some_and(|newest| newest + 1 == number);
        self.newest = Some(number);
        let follows = self.boundaries.add(&embedding, adjacent);
        let full = self.open.as_ref().is_some_and(|open| open.length() >= LONGEST);
        if follows == Follows::Anew || full || !adjacent {
            self.close();
        }
        if follows == Follows::Unknown {
            return;
        }
        let frame = Frame { number, pixels, embedding, reach: -1.0 };
        match &mut self.open {
            Some(open) => {
                self.bytes -= open.bytes();
                open.push(frame, KEPT);
                self.bytes += open.bytes();
            }
            None => {
                let lot = Random::new(self.rules.seed, Purpose::Replay, self.begun << 2).unit();
                let group = self.new_group();
                let begun = Segment {
                    number: self.begun,
                    first: number,
                    last: number,
                    frames: vec![frame],
                    group,
                    lot,
                };
                self.bytes += begun.bytes();
                self.begun += 1;
                self.open = Some(begun);
            }
        }
        self.make_room();
    }

    /// Computes all embeddings anew, as the encoder is now, and groups the segments by them. `embed` gets pictures and
    /// returns their embeddings, row after row.
    ///
    /// # Errors
    /// As `embed`'s, and if it returns something else than as many embeddings as pictures; then nothing has changed.
    pub fn embed_again(&mut self, embed: impl FnOnce(&[&[u8]]) -> Result<Vec<f32>>) -> Result<()> {
        let pictures: Vec<&[u8]> = self.frames().map(|frame| &*frame.pixels).collect();
        if !pictures.is_empty() {
            let embeddings = embed(&pictures)?;
            let dimension = embeddings.len() / pictures.len();
            if dimension == 0 || embeddings.len() != dimension * pictures.len() {
                return Err(Error::input(format!(
                    "{} numbers are not the embeddings of {} pictures",
                    embeddings.len(),
                    pictures.len()
                )));
            }
            let rows = embeddings.chunks_exact(dimension).map(of_length_one);
            let rows: Option<Vec<Vec<f32>>> = rows.collect();
            let rows = rows.ok_or_else(|| Error::input("an embedding of a kept frame has no direction"))?;
            let segments = self.closed.iter_mut().chain(self.open.as_mut());
            for (frame, row) in segments.flat_map(|segment| &mut segment.frames).zip(rows) {
                frame.embedding = row;
            }
        }
        self.group_again();
        Ok(())
    }

    /// Groups the segments that have ended by the embeddings that they have.
    fn group_again(&mut self) {
        let points: Vec<groups::Point<'_>> = (self.closed.iter().enumerate())
            .flat_map(|(at, segment)| segment.frames.iter().map(move |frame| (at, &frame.embedding[..])))
            .collect();
        let found = groups::group(&points, self.closed.len(), self.rules.alike);
        let first = self.next_group;
        self.next_group += self.closed.len() as u64;
        let mut reach = found.reach.into_iter();
        for (segment, group) in self.closed.iter_mut().zip(found.groups) {
            segment.group = first + group as u64;
            for (frame, reach) in segment.frames.iter_mut().zip(&mut reach) {
                frame.reach = reach;
            }
        }
        // Their groups are no more; those that are still here know their new ones.
        self.lately.clear();
    }

    /// A frame that shows the same thing as this one of the stream, from another side if there is one: one of the half of its
    /// group that is least like it. None if the frame is unknown, or nothing else of its group is here.
    pub fn second_view_of(&self, frame: u64, embedding: &[f32], random: &mut Random) -> Option<&Arc<[u8]>> {
        let group = self.group_of(frame)?;
        let own = self.closed.iter().chain(&self.open).filter(|segment| segment.group == group);
        let others = own.flat_map(|segment| &segment.frames).filter(|other| other.number != frame);
        replay::unlike(others, embedding, random).map(|other| &other.pixels)
    }

    /// Forgets every picture, and everything else that was made of them.
    pub fn forget(&mut self) {
        let Self { rules, begun, next_group, .. } = *self;
        *self = Self { begun, next_group, ..Self::new(rules) };
    }

    /// How much it holds.
    pub fn held(&self) -> Held {
        let mut sizes = std::collections::BTreeMap::<u64, usize>::new();
        self.closed.iter().for_each(|segment| *sizes.entry(segment.group).or_default() += 1);
        let groups = sizes.values().filter(|size| **size > 1);
        Held {
            segments: self.closed.len(),
            frames: self.frames().count(),
            groups: groups.clone().count(),
            grouped: groups.sum(),
            bytes: self.bytes,
        }
    }

    fn frames(&self) -> impl Iterator<Item = &Frame> {
        self.closed.iter().chain(&self.open).flat_map(|segment| &segment.frames)
    }

    fn group_of(&self, frame: u64) -> Option<u64> {
        let here = self.closed.iter().chain(&self.open).find(|segment| segment.covers(frame));
        let lately = || self.lately.iter().find(|(first, last, _)| (*first..=*last).contains(&frame));
        here.map(|segment| segment.group).or_else(|| lately().map(|(_, _, group)| *group))
    }

    fn new_group(&mut self) -> u64 {
        self.next_group += 1;
        self.next_group - 1
    }

    /// Ends the segment that goes on: it joins the group of what it is nearest to, until all are grouped again.
    fn close(&mut self) {
        let Some(mut segment) = self.open.take() else { return };
        if let Some(group) = self.group_for(&segment) {
            segment.group = group;
        }
        if self.lately.len() == LATELY {
            self.lately.pop_front();
        }
        self.lately.push_back((segment.first, segment.last, segment.group));
        self.closed.push(segment);
    }

    /// The group with the frame that is nearest to one of this segment's, of those that are among each other's nearest.
    fn group_for(&self, segment: &Segment) -> Option<u64> {
        let (kept, of): (Vec<&Frame>, Vec<u64>) = (self.closed.iter())
            .flat_map(|other| other.frames.iter().map(move |frame| (frame, other.group)))
            .unzip();
        let points: Vec<groups::Point<'_>> = kept.iter().map(|frame| (0, &frame.embedding[..])).collect();
        let near = segment.frames.iter().flat_map(|frame| groups::nearest(&(1, &frame.embedding), &points));
        let mutual =
            near.filter(|(at, similarity)| *similarity > self.rules.alike && *similarity >= kept[*at].reach);
        mutual.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| of[at])
    }

    /// Lets segments go, the highest lot first, until the rest is within the budget.
    fn make_room(&mut self) {
        while self.bytes > self.rules.budget {
            let lots = self.closed.iter().enumerate();
            let Some((at, _)) = lots.max_by(|(_, a), (_, b)| a.lot.total_cmp(&b.lot)) else { return };
            let gone = self.closed.remove(at);
            self.bytes -= gone.bytes();
        }
    }
}

/// The same direction with length 1, if it has one.
fn of_length_one(embedding: &[f32]) -> Option<Vec<f32>> {
    let length = dot(embedding, embedding).sqrt();
    let possible = length.is_finite() && length > 0.0;
    possible.then(|| embedding.iter().map(|value| value / length).collect())
}

#[cfg(test)]
mod tests;

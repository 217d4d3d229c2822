//! Stretches of one category: what the timeline looks like to somebody who annotates it.
//!
//! A frame stands for the time up to the next one, or for the usual interval where the next one is further away than
//! [`BREAK`] intervals (a pause, a lost camera, records that are gone) or belongs to another session. Frames of one
//! category that follow each other are a segment. What is one category depends on the view ([`Categories`]).

use std::collections::VecDeque;

use super::{Categories, Merges, Recording, Seen};
use crate::clock::Stamp;
use crate::trace::{Frame, Record};

/// Frames further apart than this many usual intervals do not belong together.
const BREAK: f64 = 2.5;

/// What an interval is taken for when a recording has but one frame: the default of `--period`.
const ONE_FRAME: f64 = 4.0;

/// Which segments are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Wanted {
    /// Segments of one category with less than this many seconds between them become one, and what lay between is part
    /// of it.
    pub min_gap: f64,
    /// Segments shorter than this many seconds are left out, after that.
    pub min_length: f64,
    /// Which number of a category counts.
    pub categories: Categories,
}

/// A stretch of one category.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// The session.
    pub session: usize,
    /// The category.
    pub category: u64,
    /// Seconds since the recording began: the first frame.
    pub begin: f64,
    /// Seconds since the recording began: the end of the last frame's time.
    pub end: f64,
    /// The moment of the first frame.
    pub at: Stamp,
    /// The first and the last frame's number.
    pub first_frame: u64,
    /// See `first_frame`.
    pub last_frame: u64,
    /// Frames of the category; others that lie between are not counted.
    pub frames: u64,
    /// Whether its first frame created the category: this one, not one that was joined into it later.
    pub created: bool,
    certainty: f64,
    similarity: f64,
}

impl Segment {
    /// How long it is, in seconds.
    pub fn duration(&self) -> f64 {
        self.end - self.begin
    }

    /// The mean certainty of its frames: 1 − û, for one that created a category û.
    pub fn mean_certainty(&self) -> f64 {
        self.certainty / self.frames as f64
    }

    /// The mean similarity of its frames to their prototype; that of one that created a category is to the nearest other.
    pub fn mean_similarity(&self) -> f64 {
        self.similarity / self.frames as f64
    }

    fn of(seen: &Seen, frame: &Frame, category: u64) -> Self {
        Self {
            session: seen.session,
            category,
            begin: seen.seconds,
            end: seen.seconds,
            at: seen.at,
            first_frame: frame.frame,
            last_frame: frame.frame,
            frames: 1,
            created: frame.created && frame.category == category,
            certainty: certainty(frame),
            similarity: f64::from(frame.similarity),
        }
    }

    fn join(&mut self, later: &Self) {
        self.end = later.end;
        self.last_frame = later.last_frame;
        self.frames += later.frames;
        self.certainty += later.certainty;
        self.similarity += later.similarity;
    }
}

/// How sure the decision was: that the frame belongs to a known category, or that it does not.
pub fn certainty(frame: &Frame) -> f64 {
    let new = f64::from(frame.u_hat);
    if frame.created { new } else { 1.0 - new }
}

/// Makes segments of frames, in their order.
#[derive(Debug)]
pub struct Segments<'a> {
    wanted: Wanted,
    merges: Option<&'a Merges>,
    interval: f64,
    /// Seconds between the last two frames that followed each other, and when the last one was.
    step: f64,
    last: f64,
    /// The stretch whose last frame's end is not known yet.
    open: Option<Segment>,
    /// Closed ones that a later one may still be joined to or swallow.
    waiting: VecDeque<Segment>,
}

impl<'a> Segments<'a> {
    /// For the frames of this recording.
    pub fn of(recording: &'a Recording, wanted: Wanted) -> Self {
        Self { merges: Some(&recording.merges), ..Self::new(wanted, recording.interval) }
    }

    /// For frames with this usual interval, of which nothing was joined.
    pub fn new(wanted: Wanted, interval: Option<f64>) -> Self {
        let interval = interval.unwrap_or(ONE_FRAME);
        Self {
            wanted,
            merges: None,
            interval,
            step: interval,
            last: 0.0,
            open: None,
            waiting: VecDeque::new(),
        }
    }

    /// Takes the next record and hands over the segments that are settled by it.
    pub fn add<E>(&mut self, seen: &Seen, emit: &mut impl FnMut(Segment) -> Result<(), E>) -> Result<(), E> {
        let Record::Frame(frame) = &seen.record else { return Ok(()) };
        let named = self.merges.map(|merges| merges.named(frame.category, self.wanted.categories));
        let new = Segment::of(seen, frame, named.unwrap_or(frame.category));
        let before = std::mem::replace(&mut self.last, new.begin);
        let Some(mut open) = self.open.take() else {
            self.open = Some(new);
            return Ok(());
        };
        let follows = open.session == new.session && new.begin - open.end <= BREAK * self.interval;
        let end = self.end_of(&open);
        if follows && new.begin > before {
            self.step = new.begin - before;
        }
        if follows && open.category == new.category {
            open.join(&new);
            self.open = Some(open);
            return Ok(());
        }
        open.end = match follows {
            true => new.begin.max(open.end),
            // Nothing overlaps: the next session may begin sooner than the usual interval.
            false if new.begin > open.end => end.min(new.begin),
            false => end,
        };
        self.open = Some(new);
        self.close(open, emit)
    }

    /// Hands over what is left.
    pub fn finish<E>(mut self, emit: &mut impl FnMut(Segment) -> Result<(), E>) -> Result<(), E> {
        if let Some(mut open) = self.open.take() {
            open.end = self.end_of(&open);
            self.close(open, emit)?;
        }
        while let Some(segment) = self.waiting.pop_front() {
            self.hand_over(segment, emit)?;
        }
        Ok(())
    }

    /// The end of a stretch after which nothing follows: its last frame stands for as long as the one before it did, but not
    /// for longer than usual.
    fn end_of(&self, open: &Segment) -> f64 {
        open.end + self.interval.min(self.step)
    }

    /// A stretch has ended: it is joined to an earlier one of its category that is near enough, or waits.
    fn close<E>(
        &mut self,
        segment: Segment,
        emit: &mut impl FnMut(Segment) -> Result<(), E>,
    ) -> Result<(), E> {
        let near = |earlier: &Segment, wanted: &Wanted| {
            earlier.session == segment.session && segment.begin - earlier.end < wanted.min_gap
        };
        while self.waiting.front().is_some_and(|earlier| !near(earlier, &self.wanted)) {
            if let Some(earlier) = self.waiting.pop_front() {
                self.hand_over(earlier, emit)?;
            }
        }
        let same = self.waiting.iter().position(|earlier| earlier.category == segment.category);
        match same.and_then(|index| self.waiting.get_mut(index).map(|earlier| (index, earlier))) {
            Some((index, earlier)) => {
                earlier.join(&segment);
                self.waiting.truncate(index + 1);
            }
            None => self.waiting.push_back(segment),
        }
        Ok(())
    }

    fn hand_over<E>(
        &self,
        segment: Segment,
        emit: &mut impl FnMut(Segment) -> Result<(), E>,
    ) -> Result<(), E> {
        if segment.duration() >= self.wanted.min_length { emit(segment) } else { Ok(()) }
    }
}

//! Everything that the report shows, gathered in one pass. Curves are bounded; what remains grows with the number of
//! segments and categories, some tens of bytes each.

use std::collections::{HashMap, HashSet};

use super::series::Series;
use crate::recording::segments::{Segment, Segments, Wanted};
use crate::recording::{Categories, Missing, Quantiles, Recording, Seen, describe};
use crate::trace::{CameraState, Frame, Health, Publication, PublicationOutcome, Record, Update};
use crate::{Error, Result};

/// The most events that are listed.
const MOST_EVENTS: usize = 400;

/// The most gaps that are listed.
pub(super) const MOST_GAPS: usize = 12;

/// Frames further apart than this many usual intervals are a gap.
const GAP: f64 = 2.5;

/// Bars of the histogram of û.
pub(super) const BARS: usize = 20;

/// What was seen of one category.
#[derive(Debug, Clone, Default)]
pub(super) struct Category {
    pub(super) first: f64,
    pub(super) last: f64,
    pub(super) visits: u64,
    pub(super) frames: u64,
    pub(super) seconds: f64,
    pub(super) similarity: f64,
    pub(super) certainty: f64,
    pub(super) evicted: bool,
}

/// A stretch of one category.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch {
    pub(super) category: u64,
    pub(super) begin: f64,
    pub(super) end: f64,
}

/// A time without frames.
#[derive(Debug, Clone)]
pub(super) struct Gap {
    pub(super) begin: f64,
    pub(super) seconds: f64,
    pub(super) why: &'static str,
}

/// Frames of one bar of û.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bar {
    pub(super) known: u64,
    pub(super) created: u64,
    /// Frames whose truth is known, and those of them that showed something for the first time.
    pub(super) with_truth: u64,
    pub(super) truly_new: u64,
}

/// The curves of learning.
#[derive(Debug, Default)]
pub(super) struct Learning {
    pub(super) total: Series,
    pub(super) self_supervised: Series,
    pub(super) entropy: Series,
    pub(super) creation: Series,
    pub(super) collapse: Series,
    pub(super) collapse_limit: Option<f64>,
    pub(super) mean_u_hat: Series,
    pub(super) beta: Series,
    pub(super) seconds: Quantiles,
    /// Scores without labels, of the weights in use and of the newest ones, and how often the newest were taken up.
    pub(super) in_use: Series,
    pub(super) newest: Series,
    pub(super) comparisons: u64,
    pub(super) publications: u64,
}

impl Learning {
    fn compare(&mut self, publication: &Publication, seconds: f64) {
        self.comparisons += 1;
        self.publications += u64::from(publication.outcome == PublicationOutcome::Published);
        if publication.before.is_finite() && publication.after.is_finite() {
            self.in_use.add(seconds, f64::from(publication.before));
            self.newest.add(seconds, f64::from(publication.after));
        }
    }
}

/// The curves of the machine.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) celsius: Series,
    pub(super) watts: Series,
    pub(super) free_gib: Series,
    pub(super) camera_frames: u64,
    pub(super) camera_missed: u64,
    pub(super) camera_corrupt: u64,
    /// Those of the session so far; the counts begin again with each.
    session: (usize, Health),
}

/// What happened, when.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) seconds: f64,
    pub(super) wall: String,
    pub(super) text: String,
}

/// The recording in numbers.
#[derive(Debug, Default)]
pub(super) struct Digest {
    pub(super) frames: u64,
    pub(super) updates: u64,
    pub(super) skipped: u64,
    pub(super) end: f64,
    pub(super) began: Option<String>,
    pub(super) ended: Option<String>,
    pub(super) synced: bool,
    pub(super) seen_seconds: f64,
    /// By their numbers in the view that was asked for.
    pub(super) categories: HashMap<u64, Category>,
    pub(super) view: Categories,
    pub(super) stretches: Vec<Stretch>,
    /// When a category was created, in seconds and in frames before it.
    pub(super) creations: Vec<f64>,
    pub(super) created_at: Vec<u64>,
    pub(super) living: Series,
    pub(super) u_hat: [Bar; BARS],
    pub(super) latency_ms: Quantiles,
    pub(super) learning: Learning,
    pub(super) machine: Machine,
    pub(super) gaps: Vec<Gap>,
    pub(super) gap_count: u64,
    pub(super) gap_seconds: f64,
    pub(super) events: Vec<Event>,
    pub(super) more_events: u64,
    pub(super) missing: Missing,
    truths: HashSet<u64>,
    last_frame: Option<f64>,
    why: Option<&'static str>,
}

impl Digest {
    /// Reads the recording through.
    pub(super) fn of(recording: &Recording, view: Categories) -> Result<Self> {
        let mut digest = Self { view, ..Self::default() };
        let interval = recording.interval.unwrap_or(f64::INFINITY);
        let wanted = Wanted { categories: view, ..Wanted::default() };
        let mut segments = Segments::of(recording, wanted);
        let mut stretches = Vec::new();
        let missing = recording.read(|seen| {
            digest.add(&seen, interval);
            segments.add::<Error>(&seen, &mut |segment| {
                stretches.push(segment);
                Ok(())
            })?;
            for segment in stretches.drain(..) {
                digest.stretch(&segment);
            }
            Ok(())
        })?;
        segments.finish::<Error>(&mut |segment| {
            digest.stretch(&segment);
            Ok(())
        })?;
        digest.machine.close_session();
        digest.missing = missing;
        Ok(digest)
    }

    fn add(&mut self, seen: &Seen, interval: f64) {
        self.end = self.end.max(seen.seconds);
        let wall = seen.at.wall.map(|wall| wall.strftime("%Y-%m-%d %H:%M:%S").to_string());
        self.began = self.began.take().or_else(|| wall.clone());
        self.ended = wall.clone().or(self.ended.take());
        self.synced = seen.at.synced;
        match &seen.record {
            Record::Frame(frame) => self.frame(frame, seen.seconds, interval),
            Record::Update(update) => self.update(update, seen.seconds),
            Record::UpdateSkipped(_) => self.skipped += 1,
            Record::Publication(publication) => self.learning.compare(publication, seen.seconds),
            Record::Health(health) => self.machine.add(seen, health),
            Record::Collapse(collapse) => self.learning.collapse_limit = Some(f64::from(collapse.limit)),
            _ => {}
        }
        self.why = reason(&seen.record).or(self.why);
        let text = describe(&seen.record);
        if text.is_empty() || matches!(seen.record, Record::Checkpoint(_)) {
            return;
        }
        if self.events.len() < MOST_EVENTS {
            self.events.push(Event { seconds: seen.seconds, wall: wall.unwrap_or_default(), text });
        } else {
            self.more_events += 1;
        }
    }

    fn frame(&mut self, frame: &Frame, seconds: f64, interval: f64) {
        if frame.created {
            self.creations.push(seconds);
            self.created_at.push(self.frames);
        }
        self.frames += 1;
        if let Some(evicted) = frame.evicted.and_then(|evicted| self.categories.get_mut(&evicted)) {
            evicted.evicted = true;
        }
        self.latency_ms.add(frame.latency_ms.map_or(f64::NAN, f64::from));
        let bar = (f64::from(frame.u_hat) * BARS as f64) as usize;
        if let Some(bar) = self.u_hat.get_mut(bar.min(BARS - 1)) {
            bar.created += u64::from(frame.created);
            bar.known += u64::from(!frame.created);
            if let Some(truth) = frame.truth {
                bar.with_truth += 1;
                bar.truly_new += u64::from(self.truths.insert(truth));
            }
        }
        let why = self.why.take();
        if let Some(begin) = self.last_frame.replace(seconds)
            && seconds - begin > GAP * interval
        {
            self.gap(Gap { begin, seconds: seconds - begin, why: why.unwrap_or("no record says why") });
        }
    }

    fn gap(&mut self, gap: Gap) {
        self.gap_count += 1;
        self.gap_seconds += gap.seconds;
        self.gaps.push(gap);
        self.gaps.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        self.gaps.truncate(MOST_GAPS);
    }

    fn update(&mut self, update: &Update, seconds: f64) {
        self.updates += 1;
        self.living.add(seconds, f64::from(update.categories));
        let learning = &mut self.learning;
        learning.total.add(seconds, f64::from(update.losses.total));
        learning.self_supervised.add(seconds, f64::from(update.losses.self_supervised));
        learning.entropy.add(seconds, f64::from(update.losses.entropy));
        learning.creation.add(seconds, f64::from(update.losses.creation));
        learning.collapse.add(seconds, f64::from(update.collapse));
        learning.mean_u_hat.add(seconds, f64::from(update.mean_u_hat));
        learning.beta.add(seconds, f64::from(update.beta));
        learning.seconds.add(f64::from(update.seconds));
    }

    fn stretch(&mut self, segment: &Segment) {
        let Segment { category, begin, end, frames, .. } = *segment;
        self.end = self.end.max(end);
        self.seen_seconds += segment.duration();
        self.stretches.push(Stretch { category, begin, end });
        let known = self
            .categories
            .entry(category)
            .or_insert_with(|| Category { first: begin, ..Category::default() });
        known.last = end;
        known.visits += 1;
        known.frames += frames;
        known.seconds += segment.duration();
        known.similarity += segment.mean_similarity() * frames as f64;
        known.certainty += segment.mean_certainty() * frames as f64;
    }

    /// The categories by the time spent with them, longest first.
    pub(super) fn favourites(&self, most: usize) -> Vec<(u64, &Category)> {
        let mut all: Vec<(u64, &Category)> =
            self.categories.iter().map(|(&id, category)| (id, category)).collect();
        all.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds).then(a.0.cmp(&b.0)));
        all.truncate(most);
        all
    }
}

impl Machine {
    fn add(&mut self, seen: &Seen, health: &Health) {
        if seen.session != self.session.0 {
            self.close_session();
        }
        self.session = (seen.session, health.clone());
        let point = |series: &mut Series, value: Option<f64>| {
            if let Some(value) = value {
                series.add(seen.seconds, value);
            }
        };
        point(&mut self.celsius, health.celsius.map(f64::from));
        point(&mut self.watts, health.watts.map(f64::from));
        point(&mut self.free_gib, health.free_bytes.map(|bytes| bytes as f64 / f64::from(1 << 30)));
    }

    fn close_session(&mut self) {
        let (_, health) = std::mem::take(&mut self.session);
        self.camera_frames = self.camera_frames.saturating_add(health.camera_frames);
        self.camera_missed = self.camera_missed.saturating_add(health.camera_missed);
        self.camera_corrupt = self.camera_corrupt.saturating_add(health.camera_corrupt);
    }
}

/// Why there are no frames after a record, if it tells.
fn reason(record: &Record) -> Option<&'static str> {
    match record {
        Record::Pause(_) => Some("paused"),
        Record::Camera(camera) if camera.state == CameraState::Lost => Some("camera lost"),
        Record::Start(_) => Some("not running"),
        Record::Forgotten(_) => Some("forgotten on request"),
        Record::Dropped(_) => Some("the disk was too slow"),
        Record::Recovered(_) => Some("cut off after a crash"),
        _ => None,
    }
}

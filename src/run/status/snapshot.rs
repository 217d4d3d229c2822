//! Everything that watchers can know, and how it is written as JSON: one object for the socket, the page and its news.
//! `docs/API.md` lists the fields; keep both alike.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::histogram::Histogram;
use crate::device::clock::{Clock, Stamp, SystemClock};
use crate::frame::shrink;
use crate::trace::{self, DiskLevel, DiskTrouble};

/// Frames that the ribbon remembers: more than an hour at one every 4 s.
pub const RIBBON: usize = 1024;

/// Updates that the learning curves remember.
pub const UPDATES: usize = 512;

/// Merges that are told one by one; earlier ones are only counted.
pub const JOINED: usize = 8;

/// Side of a gallery picture in pixels.
pub const THUMBNAIL: usize = 64;

/// An RGB picture that only lives in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Pixels, row by row, red, green, blue.
    pub rgb: Arc<[u8]>,
    /// Its width.
    pub width: usize,
    /// Its height.
    pub height: usize,
}

/// The newest frame and what was made of it.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    /// What the trace says of it.
    #[serde(flatten)]
    pub record: trace::Frame,
    /// When.
    #[serde(flatten)]
    pub at: Stamp,
    /// What the encoder saw.
    #[serde(skip)]
    pub picture: Picture,
}

/// One cell of the ribbon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// The frame's number.
    pub frame: u64,
    /// When, on the monotonic clock.
    pub mono_ns: u64,
    /// Its category; of one that was joined into another since, that other one.
    pub category: u64,
    /// Whether it created it.
    pub created: bool,
    /// û.
    pub u_hat: f32,
}

/// A category that lives in the memory.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its number.
    pub category: u64,
    /// Frames that were given to it since the start of the program.
    pub frames: u64,
    /// The last of them.
    pub last_frame: u64,
    /// The picture that created it, or the first one after a restart.
    pub picture: Picture,
}

/// Where the frames come from, and how that goes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Feed {
    /// In words: device, format, size, rate.
    pub description: String,
    /// Whether it delivers.
    pub present: bool,
    /// Pictures delivered.
    pub frames: u64,
    /// Pictures lost, by the camera's own numbers.
    pub missed: u64,
    /// Pictures that could not be decoded.
    pub corrupt: u64,
    /// Pictures a second over the last seconds.
    pub rate: f32,
}

/// Everything that watchers can know.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Snapshot {
    /// Rises with every change.
    pub version: u64,
    /// The device's name.
    pub device: String,
    /// Where the trace lies. Not for the page, which others may see.
    #[serde(skip)]
    pub data: std::path::PathBuf,
    /// When this start of the program was.
    pub started: Option<Stamp>,
    /// The source of frames.
    #[serde(rename = "camera")]
    pub feed: Feed,
    /// Seconds between two samples.
    pub period_s: f64,
    /// Whether nothing is looked at just now.
    pub paused: bool,
    /// Since when an update has been under way.
    #[serde(rename = "learning_s", serialize_with = "seconds_since")]
    pub learning_since: Option<Instant>,
    /// What trains, and in brackets why, if it is not the GPU that the program was built for.
    pub compute: String,
    /// The newest frame.
    pub newest: Option<Seen>,
    /// The share of the recording that is done, from 0 to 1, where its length is known.
    pub progress: Option<f32>,
    /// Frames seen since this start.
    pub frames: u64,
    /// Updates applied since this start.
    pub updates: u64,
    /// Updates thrown away since this start.
    pub skipped_updates: u64,
    /// Categories created over all restarts.
    pub created: u64,
    /// Categories that live in the memory.
    pub categories: u64,
    /// Pictures of categories that are kept in RAM, to be embedded again when the encoder has learned. They are never written.
    pub kept_frames: u64,
    /// The memory that they take.
    pub kept_bytes: u64,
    /// Categories that were joined into older ones since this start.
    pub merges: u64,
    /// The last of these merges.
    pub joined: VecDeque<trace::Merge>,
    /// How often new weights were compared with those in use since this start, ...
    pub comparisons: u64,
    /// ... and how often they were taken up.
    pub publications: u64,
    /// The last comparison.
    pub compared: Option<trace::Publication>,
    /// Frames from one update to the next, as of now.
    pub stride: usize,
    /// The last frames.
    pub ribbon: VecDeque<Moment>,
    /// The last updates.
    #[serde(rename = "lessons", serialize_with = "curves")]
    pub curves: VecDeque<trace::Update>,
    /// The live categories that were seen since this start; never more than the memory has slots.
    pub gallery: Vec<Known>,
    /// The last look at the machine.
    pub health: trace::Health,
    /// The disk's room.
    pub disk: Option<DiskLevel>,
    /// What is wrong with the disk, if anything is.
    #[serde(serialize_with = "trouble")]
    pub disk_trouble: Option<DiskTrouble>,
    /// Everything up to this number of the trace is on the disk.
    pub durable_seq: u64,
    /// From the picture to its category.
    #[serde(skip)]
    pub latency: Histogram,
    /// Whether the embeddings have collapsed.
    pub collapsed: bool,
}

impl Snapshot {
    /// Notes a frame.
    pub fn note_frame(&mut self, seen: Seen) {
        let record = &seen.record;
        push_bounded(
            &mut self.ribbon,
            RIBBON,
            Moment {
                frame: record.frame,
                mono_ns: seen.at.mono_ns,
                category: record.category,
                created: record.created,
                u_hat: record.u_hat,
            },
        );
        if let Some(latency) = record.latency_ms {
            self.latency.add(latency);
        }
        self.gallery.retain(|known| Some(known.category) != record.evicted);
        match self.gallery.iter_mut().find(|known| known.category == record.category) {
            Some(known) => {
                known.frames += 1;
                known.last_frame = record.frame;
            }
            None => self.gallery.push(Known {
                category: record.category,
                frames: 1,
                last_frame: record.frame,
                picture: seen.picture.shrunk(),
            }),
        }
        self.frames += 1;
        self.newest = Some(seen);
    }

    /// Notes that new weights were compared with those in use.
    pub fn note_publication(&mut self, publication: trace::Publication) {
        self.comparisons += 1;
        self.publications += u64::from(publication.outcome == trace::PublicationOutcome::Published);
        self.compared = Some(publication);
    }

    /// Notes a merge: what is shown of the younger category becomes the older one's.
    pub fn note_merge(&mut self, merge: trace::Merge) {
        for moment in self.ribbon.iter_mut().filter(|moment| moment.category == merge.from) {
            moment.category = merge.into;
            moment.created = false;
        }
        let gone = self.gallery.iter().position(|known| known.category == merge.from);
        if let Some(gone) = gone.map(|index| self.gallery.remove(index)) {
            match self.gallery.iter_mut().find(|known| known.category == merge.into) {
                Some(known) => {
                    known.frames += gone.frames;
                    known.last_frame = known.last_frame.max(gone.last_frame);
                }
                None => self.gallery.push(Known { category: merge.into, ..gone }),
            }
        }
        push_bounded(&mut self.joined, JOINED, merge);
        self.merges += 1;
        // The next frame brings the memory's own count.
        self.categories = self.categories.saturating_sub(1);
    }

    /// Notes an update.
    pub fn note_update(&mut self, update: trace::Update) {
        push_bounded(&mut self.curves, UPDATES, update);
        self.updates += 1;
    }

    /// Drops every picture and everything that tells what was seen: for `forget`.
    pub fn forget_what_was_seen(&mut self) {
        self.newest = None;
        (self.kept_frames, self.kept_bytes) = (0, 0);
        self.ribbon.clear();
        self.gallery.clear();
        self.joined.clear();
        // A loss at a time tells what kind of time it was.
        self.curves.clear();
        self.compared = None;
    }

    /// The state in one word.
    pub fn state(&self) -> &'static str {
        match (self.paused, self.feed.present) {
            (true, _) => "paused",
            (false, true) => "recording",
            (false, false) => "no_camera",
        }
    }

    /// The numbers of now, without ribbon and curves.
    #[must_use]
    pub fn without_history(&self) -> Self {
        self.since(&Cursor { version: self.version, frame: Some(u64::MAX), update: Some(u64::MAX) })
    }

    /// The same, with only what ribbon and curves have gained since then.
    #[must_use]
    pub fn since(&self, cursor: &Cursor) -> Self {
        let newer = |number: u64, than: Option<u64>| than.is_none_or(|than| number > than);
        // From the newest back: after a return to a checkpoint the numbers of updates begin again lower.
        let frames = self.ribbon.iter().rev().take_while(|moment| newer(moment.frame, cursor.frame)).count();
        let updates =
            self.curves.iter().rev().take_while(|update| newer(update.update, cursor.update)).count();
        Self {
            ribbon: last(&self.ribbon, frames.min(MOST_NEW_FRAMES)),
            curves: last(&self.curves, updates.min(MOST_NEW_UPDATES)),
            ..self.clone()
        }
    }

    /// The one JSON object that tells how a recording goes: its fields, and what follows from them.
    pub fn to_json(&self) -> Value {
        let clock = SystemClock::new().now().mono_ns;
        let running = self.started.map(|start| Duration::from_nanos(clock.saturating_sub(start.mono_ns)));
        let mut value = serde_json::to_value(self).unwrap_or_else(|_| json!({}));
        value["program"] = json!(concat!("oupn-edge ", env!("CARGO_PKG_VERSION")));
        value["state"] = json!(self.state());
        value["running_s"] = json!(running.map(|running| running.as_secs_f64()));
        value["latency_p95_ms"] = json!(self.latency.quantile(0.95));
        // The word of before.
        value["founded"] = json!(self.created);
        value
    }
}

/// How far somebody has been told.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    /// The snapshot's version.
    pub version: u64,
    /// The last frame of the ribbon.
    pub frame: Option<u64>,
    /// The last update of the curves.
    pub update: Option<u64>,
}

/// The most that is told at once of what is new.
const MOST_NEW_FRAMES: usize = 64;
const MOST_NEW_UPDATES: usize = 16;

fn last<T: Clone>(queue: &VecDeque<T>, count: usize) -> VecDeque<T> {
    queue.range(queue.len() - count..).cloned().collect()
}

fn push_bounded<T>(queue: &mut VecDeque<T>, most: usize, item: T) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}

impl Picture {
    /// A small copy for the gallery; black if the size does not fit the pixels.
    fn shrunk(&self) -> Self {
        let rgb = shrink(&self.rgb, self.width, self.height, THUMBNAIL);
        let rgb = rgb.unwrap_or_else(|| vec![0; 3 * THUMBNAIL * THUMBNAIL]);
        Self { rgb: rgb.into(), width: THUMBNAIL, height: THUMBNAIL }
    }
}

/// A frame of the ribbon: its number, monotonic milliseconds, category, whether it created it, û.
impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let milliseconds = self.mono_ns / 1_000_000;
        (self.frame, milliseconds, self.category, self.created, self.u_hat).serialize(to)
    }
}

/// A category of the gallery: its number, its frames, the last of them.
impl Serialize for Known {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        (self.category, self.frames, self.last_frame).serialize(to)
    }
}

fn seconds_since<S: Serializer>(since: &Option<Instant>, to: S) -> Result<S::Ok, S::Error> {
    since.map(|since| since.elapsed().as_secs_f64()).serialize(to)
}

fn trouble<S: Serializer>(trouble: &Option<DiskTrouble>, to: S) -> Result<S::Ok, S::Error> {
    let told = trouble
        .as_ref()
        .map(|trouble| json!({ "what": trouble.what, "seconds": trouble.since.elapsed().as_secs() }));
    told.serialize(to)
}

/// Updates as the learning curves need them.
fn curves<S: Serializer>(updates: &VecDeque<trace::Update>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(updates.iter().map(|update| {
        json!({
            "update": update.update,
            "frame": update.frame,
            "loss": update.losses.total,
            "self": update.losses.self_supervised,
            "entropy": update.losses.entropy,
            "new": update.losses.creation,
            "mean_u_hat": update.mean_u_hat,
            "categories": update.categories,
            "collapse": update.collapse,
            "beta": update.beta,
            "seconds": update.seconds,
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn see(snapshot: &mut Snapshot, frame: u64, category: u64, created: bool) {
        let record = serde_json::from_value(json!({
            "frame": frame, "category": category, "created": created, "u_hat": 0.5, "similarity": 0.5,
        }));
        let rgb = vec![u8::try_from(category).unwrap(); 12];
        let picture = Picture { rgb: rgb.into(), width: 2, height: 2 };
        snapshot.note_frame(Seen { record: record.unwrap(), at: SystemClock::new().now(), picture });
    }

    #[test]
    fn a_merge_makes_one_of_two_categories_in_ribbon_and_gallery() {
        let mut snapshot = Snapshot::default();
        for (frame, category, created) in [(0, 3, true), (1, 17, true), (2, 17, false), (3, 5, true)] {
            see(&mut snapshot, frame, category, created);
        }
        let merge = |from, into| trace::Merge { from, into, frame: 3, similarity: 0.9 };
        snapshot.note_merge(merge(17, 3));
        let ribbon: Vec<_> = snapshot.ribbon.iter().map(|moment| (moment.category, moment.created)).collect();
        assert_eq!(ribbon, [(3, true), (3, false), (3, false), (5, true)]);
        let gallery = |snapshot: &Snapshot| -> Vec<_> {
            snapshot.gallery.iter().map(|known| (known.category, known.frames, known.last_frame)).collect()
        };
        assert_eq!(gallery(&snapshot), [(3, 3, 2), (5, 1, 3)]);
        // Of the older one nothing was seen since this start: it is shown by the younger one's picture.
        snapshot.note_merge(merge(5, 1));
        assert_eq!(gallery(&snapshot), [(3, 3, 2), (1, 1, 3)]);
        assert_eq!(snapshot.gallery[1].picture.rgb[0], 5);

        (0..100).for_each(|n| snapshot.note_merge(merge(1000 + n, 3)));
        assert_eq!((snapshot.merges, snapshot.joined.len()), (102, JOINED));
        let told = &snapshot.without_history().to_json()["joined"][JOINED - 1];
        assert_eq!((&told["from"], &told["into"], &told["frame"]), (&json!(1099), &json!(3), &json!(3)));
        snapshot.forget_what_was_seen();
        assert!(snapshot.joined.is_empty() && snapshot.merges == 102);
    }

    #[test]
    fn forgetting_leaves_nothing_of_what_was_seen_or_learned() {
        let mut snapshot = Snapshot::default();
        let update: trace::Update = serde_json::from_value(serde_json::json!({
            "update": 1, "frame": 5, "window": 6, "stride": 3, "mean_u_hat": 0.5, "categories": 2, "collapse": 0.5,
            "losses": {"total": 1.0, "self": 0.5, "entropy": 0.25, "new": 0.25},
            "gradient_norm": 1.0, "inv_tau": 10.0, "beta": -2.0, "gamma": 1.0, "learning_rate": 0.1, "seconds": 1.0,
        }))
        .unwrap();
        snapshot.note_update(update);
        let written = snapshot.to_json();
        assert_eq!((&written["lessons"][0]["loss"], &written["founded"]), (&json!(1.0), &json!(0)));
        assert!(snapshot.without_history().curves.is_empty());
        assert_eq!(snapshot.since(&Cursor::default()).curves.len(), 1);
        assert_eq!(snapshot.curves.len(), 1);
        snapshot.forget_what_was_seen();
        assert!(snapshot.curves.is_empty() && snapshot.ribbon.is_empty() && snapshot.gallery.is_empty());
        assert_eq!(snapshot.updates, 1, "how many there were is a count, as the trace has it");
    }
}

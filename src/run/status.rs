//! What a running recording tells those who watch: the terminal, the socket, the page.
//!
//! The live path writes one [`Snapshot`] under a lock that it holds for microseconds; watchers copy what they need out of
//! it. Everything in it has a fixed size, whatever the run does: pictures are shared, not copied, and live in memory
//! only. Watchers ask for changes through [`Requests`], a short queue that the live path empties between two frames.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::device::clock::Stamp;
use crate::trace::{self, DiskLevel, DiskTrouble};
use crate::{Error, Result};

/// Frames that the ribbon remembers: more than an hour at one every 4 s.
pub const RIBBON: usize = 1024;

/// Updates that the learning curves remember.
pub const LESSONS: usize = 512;

/// Side of a gallery picture in pixels.
pub const THUMBNAIL: usize = 64;

/// Upper bounds of the latency histogram's cells, in ms; one more cell holds the rest.
pub const LATENCY_BOUNDS_MS: [f32; 9] = [5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0];

/// How many requests may wait for the live path.
const WAITING: usize = 8;

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
#[derive(Clone, Debug)]
pub struct Seen {
    /// What the trace says of it.
    pub record: trace::Frame,
    /// When.
    pub at: Stamp,
    /// What the encoder saw.
    pub picture: Picture,
}

/// One cell of the ribbon.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// The frame's number.
    pub frame: u64,
    /// When, on the monotonic clock.
    pub mono_ns: u64,
    /// Its category.
    pub category: u64,
    /// Whether it founded it.
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
    /// The picture that founded it, or the first one after a restart.
    pub picture: Picture,
}

/// Where the frames come from, and how that goes.
#[derive(Clone, Debug, Default)]
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
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Rises with every change.
    pub version: u64,
    /// The device's name.
    pub device: String,
    /// Where the trace lies.
    pub data: std::path::PathBuf,
    /// When this start of the program was.
    pub started: Option<Stamp>,
    /// The source of frames.
    pub feed: Feed,
    /// Seconds between two samples.
    pub period_s: f64,
    /// Whether nothing is looked at just now.
    pub paused: bool,
    /// Since when an update has been under way.
    pub learning_since: Option<Instant>,
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
    /// Categories founded over all restarts.
    pub founded: u64,
    /// Categories that live in the memory.
    pub categories: u64,
    /// Frames from one update to the next, as of now.
    pub stride: usize,
    /// The last frames.
    pub ribbon: VecDeque<Moment>,
    /// The last updates.
    pub lessons: VecDeque<trace::Update>,
    /// The live categories that were seen since this start; never more than the memory has slots.
    pub gallery: Vec<Known>,
    /// The last look at the machine.
    pub health: trace::Health,
    /// The disk's room.
    pub disk: Option<DiskLevel>,
    /// What is wrong with the disk, if anything is.
    pub disk_trouble: Option<DiskTrouble>,
    /// Everything up to this number of the trace is on the disk.
    pub durable_seq: u64,
    /// Cells of the latency histogram, as [`LATENCY_BOUNDS_MS`] has them, and the rest.
    pub latency_counts: [u64; LATENCY_BOUNDS_MS.len() + 1],
    /// The sum of all latencies, in ms.
    pub latency_sum_ms: f64,
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
            let cell = LATENCY_BOUNDS_MS.iter().position(|bound| latency <= *bound);
            self.latency_counts[cell.unwrap_or(LATENCY_BOUNDS_MS.len())] += 1;
            self.latency_sum_ms += f64::from(latency);
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
                picture: thumbnail(&seen.picture),
            }),
        }
        self.frames += 1;
        self.newest = Some(seen);
    }

    /// Notes an update.
    pub fn note_lesson(&mut self, lesson: trace::Update) {
        push_bounded(&mut self.lessons, LESSONS, lesson);
        self.updates += 1;
    }

    /// Drops every picture and everything that tells what was seen: for `forget`.
    pub fn forget_what_was_seen(&mut self) {
        self.newest = None;
        self.ribbon.clear();
        self.gallery.clear();
        // A loss at a time tells what kind of time it was.
        self.lessons.clear();
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, most: usize, item: T) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// A small copy of a picture, by the nearest pixels' mean.
fn thumbnail(picture: &Picture) -> Picture {
    let (width, height) = (picture.width, picture.height);
    if width == 0 || height == 0 || picture.rgb.len() != 3 * width * height {
        return Picture {
            rgb: Arc::from(vec![0; 3 * THUMBNAIL * THUMBNAIL]),
            width: THUMBNAIL,
            height: THUMBNAIL,
        };
    }
    let span = |at: usize, length: usize| {
        let start = at * length / THUMBNAIL;
        start..((at + 1) * length / THUMBNAIL).max(start + 1).min(length)
    };
    let mut rgb = Vec::with_capacity(3 * THUMBNAIL * THUMBNAIL);
    for y in 0..THUMBNAIL {
        for x in 0..THUMBNAIL {
            let (rows, columns) = (span(y, height), span(x, width));
            let area = (rows.len() * columns.len()).max(1);
            let mut sums = [0usize; 3];
            for row in rows {
                for pixel in
                    picture.rgb[3 * (row * width + columns.start)..][..3 * columns.len()].chunks_exact(3)
                {
                    sums.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += usize::from(*value));
                }
            }
            #[allow(clippy::cast_possible_truncation)]
            rgb.extend(sums.map(|sum| ((sum + area / 2) / area) as u8));
        }
    }
    Picture { rgb: rgb.into(), width: THUMBNAIL, height: THUMBNAIL }
}

/// The shared status of a run.
#[derive(Debug, Default)]
pub struct Status {
    snapshot: Mutex<Snapshot>,
    changed: Condvar,
}

impl Status {
    /// Changes the snapshot and tells the watchers.
    pub fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut snapshot);
        snapshot.version += 1;
        drop(snapshot);
        self.changed.notify_all();
    }

    /// Looks at the snapshot. The live path waits meanwhile: copy, then think.
    pub fn look<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> T {
        look(&self.snapshot.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the snapshot is newer than `version`, or `patience` is over; returns its version.
    pub fn wait_beyond(&self, version: u64, patience: Duration) -> u64 {
        let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        let (snapshot, _) = self
            .changed
            .wait_timeout_while(snapshot, patience, |snapshot| snapshot.version <= version)
            .unwrap_or_else(PoisonError::into_inner);
        snapshot.version
    }
}

/// What a watcher can ask of the live path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Look at nothing until [`Wish::Resume`].
    Pause,
    /// Go on.
    Resume,
    /// Pause or go on, whichever is the other.
    Toggle,
    /// Remove the last records and return the learner to a checkpoint from before.
    Forget(Duration),
    /// Write a checkpoint now.
    Checkpoint,
    /// End in an orderly way.
    Stop,
}

/// A wish with who has it and where the answer goes.
#[derive(Debug)]
pub struct Request {
    /// What.
    pub wish: Wish,
    /// Who: `signal`, `socket`, `page`.
    pub by: &'static str,
    /// One sentence on what was done, or why not.
    pub answer: Option<SyncSender<Result<String>>>,
}

/// The sending end of the queue of requests.
#[derive(Clone, Debug)]
pub struct Requests(SyncSender<Request>);

impl Requests {
    /// The queue's two ends.
    pub fn queue() -> (Self, Receiver<Request>) {
        let (sender, receiver) = sync_channel(WAITING);
        (Self(sender), receiver)
    }

    /// Puts a wish into the queue without waiting for what becomes of it.
    pub fn send(&self, wish: Wish, by: &'static str) -> Result<()> {
        self.put(Request { wish, by, answer: None })
    }

    /// Puts a wish into the queue and waits for the answer.
    pub fn ask(&self, wish: Wish, by: &'static str, patience: Duration) -> Result<String> {
        let (answer, answered) = sync_channel(1);
        self.put(Request { wish, by, answer: Some(answer) })?;
        answered
            .recv_timeout(patience)
            .unwrap_or_else(|_| Err(Error::Device("the recording does not answer; try again".into())))
    }

    fn put(&self, request: Request) -> Result<()> {
        self.0.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => Error::Device("too many requests are waiting; try again".into()),
            TrySendError::Disconnected(_) => Error::Device("the recording has ended".into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forgetting_leaves_nothing_of_what_was_seen_or_learned() {
        let mut snapshot = Snapshot::default();
        let update: trace::Update = serde_json::from_value(serde_json::json!({
            "update": 1, "frame": 5, "window": 6, "stride": 3, "mean_u_hat": 0.5, "categories": 2, "collapse": 0.5,
            "losses": {"total": 1.0, "self": 0.5, "entropy": 0.25, "new": 0.25},
            "gradient_norm": 1.0, "inv_tau": 10.0, "beta": -2.0, "gamma": 1.0, "learning_rate": 0.1, "seconds": 1.0,
        }))
        .unwrap();
        snapshot.note_lesson(update);
        assert_eq!(snapshot.lessons.len(), 1);
        snapshot.forget_what_was_seen();
        assert!(snapshot.lessons.is_empty() && snapshot.ribbon.is_empty() && snapshot.gallery.is_empty());
        assert_eq!(snapshot.updates, 1, "how many there were is a count, as the trace has it");
    }
}

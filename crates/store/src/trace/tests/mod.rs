//! The trace against a disk that fails: what the other files of this folder share.

mod faults;
mod forgetting;
mod format;
mod fuzz;
mod model;
mod threaded;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::log::Log;
use super::record::{Entry, Frame, Record, RunnerUp};
use super::recovery::Recovery;
use super::{Reader, Summary};
use crate::clock::{BootId, Stamp};
use crate::storage::Simulated;

/// Where the trace lies in these tests.
const DIR: &str = "/run/trace";

/// Small enough for a rotation every few records.
const SEGMENT_BYTES: u64 = 1500;

/// A moment `seconds` after boot.
pub(super) fn at(seconds: u64) -> Stamp {
    let wall = Timestamp::from_second(1_800_000_000).ok();
    let boot = Stamp { boot: BootId::from_bytes([7; 16]), mono_ns: 0, wall, synced: true };
    boot.after(Duration::from_secs(seconds))
}

/// A record that tells of frame `frame`.
pub(super) fn frame(frame: u64) -> Record {
    Record::Frame(Frame {
        frame,
        category: frame % 5,
        created: frame < 5,
        evicted: frame.is_multiple_of(3).then_some(frame.wrapping_add(1)),
        u_hat: 0.25,
        similarity: 1.0 / (frame as f32 + 1.0),
        share: Some(0.5),
        runners_up: vec![RunnerUp { category: 3, share: 0.125, similarity: -0.5 }],
        captured_ns: Some(frame.wrapping_mul(1_000_000)),
        source_ns: frame.is_multiple_of(2).then_some(frame),
        camera_sequence: None,
        latency_ms: None,
        truth: None,
    })
}

fn open(fs: &Simulated) -> crate::Result<(Log, Recovery)> {
    Log::open(Arc::new(fs.clone()), Path::new(DIR), SEGMENT_BYTES, at(1000))
}

/// Everything that a reader finds.
fn read(fs: &Simulated) -> (Vec<Entry>, Summary) {
    let mut reader = Reader::open(Arc::new(fs.clone()), Path::new(DIR)).unwrap();
    let entries = reader.by_ref().map(|entry| entry.unwrap()).collect();
    (entries, reader.summary().clone())
}

/// The numbers of the frames among the entries.
fn frames(entries: &[Entry]) -> Vec<u64> {
    let frame =
        |entry: &Entry| if let Record::Frame(frame) = &entry.record { Some(frame.frame) } else { None };
    entries.iter().filter_map(frame).collect()
}

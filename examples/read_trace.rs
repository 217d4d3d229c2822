//! What a recording says: its sessions, and which category was seen from when to when.
//!
//! ```text
//! cargo run --release --example read_trace -- [FOLDER]
//! ```
//!
//! The folder is the one that `oupn-edge record --data` or the example `record` was given. Without one, a small recording of
//! the built-in world is made first.

#![allow(clippy::print_stdout)] // an example is there to be looked at

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use oupn_edge::config::Settings;
use oupn_edge::encoder::device::DeviceChoice;
use oupn_edge::recording::Recording;
use oupn_edge::recording::segments::{Segment, Segments, Wanted};
use oupn_edge::run::{RunPlan, Session};
use oupn_edge::storage::OsFilesystem;
use oupn_edge::trace::Record;
use oupn_edge::{Error, Result};

fn main() -> Result<()> {
    let temporary = tempfile::tempdir().map_err(|error| Error::io(std::env::temp_dir(), error))?;
    let folder = match std::env::args_os().nth(1) {
        Some(folder) => PathBuf::from(folder),
        None => small_recording(&temporary.path().join("walk"))?,
    };

    // Also of a recording that is still running: nothing is locked, and nothing is written.
    let recording = Recording::open(Arc::new(OsFilesystem), &folder)?;
    println!("{}, sessions: {}", recording.sources().join(", "), recording.sessions.len());

    // Records come in their order, each once; `Segments` makes stretches of one category of the frames among them.
    // By default what was joined into another category counts as that one from its first frame on.
    let mut segments = Segments::of(&recording, Wanted::default());
    let (mut found, mut updates) = (Vec::new(), 0);
    let mut keep = |segment: Segment| {
        found.push(segment);
        Result::Ok(())
    };
    let missing = recording.read(|seen| {
        if let Record::Update(update) = &seen.record {
            updates = update.update; // numbered from 1 over all restarts
        }
        segments.add(&seen, &mut keep)
    })?;
    segments.finish(&mut keep)?;

    for segment in found.iter().take(10) {
        let Segment { category, begin, end, frames, .. } = segment;
        let certainty = segment.mean_certainty();
        println!(
            "{begin:>6.1} s to {end:>6.1} s: category {category}, {frames} frames, certainty {certainty:.2}"
        );
    }
    let mut seconds: BTreeMap<u64, f64> = BTreeMap::new();
    for segment in &found {
        *seconds.entry(segment.category).or_default() += segment.duration();
    }
    println!("{} segments of {} categories, {updates} updates", found.len(), seconds.len());
    if let Some((category, seconds)) = seconds.iter().max_by(|one, other| one.1.total_cmp(other.1)) {
        println!("category {category} was seen longest: {seconds:.0} s");
    }
    // A reader says what it did not find: damaged lines, and what was forgotten on request.
    missing.faults.iter().chain(&missing.notes).for_each(|line| println!("missing: {line}"));
    Ok(())
}

/// Records 30 frames; the example `record` says what all of this is.
fn small_recording(data: &Path) -> Result<PathBuf> {
    let mut settings = Settings::from_toml(include_str!("rooms.toml"), "rooms.toml")?;
    (settings.window, settings.stride) = (10, 10);
    let plan = RunPlan {
        data: data.to_path_buf(),
        camera: "rooms:1".into(),
        camera_options: Default::default(),
        settings,
        model: None,
        period: Duration::from_secs(4),
        calibrate: true,
        realtime: false,
        frames: Some(30),
        time: None,
        checkpoint_every: Duration::from_secs(300),
        keep_thumbnails: false,
        keep_window: false,
        device: DeviceChoice::Cpu,
        threads: 0,
        memory_budget: 256 << 20,
        reserve_bytes: 0,
        name: None,
        device_name: "example".into(),
    };
    Session::open(&plan)?.run()?;
    Ok(data.to_path_buf())
}

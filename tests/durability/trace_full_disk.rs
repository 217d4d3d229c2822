//! A real disk that is really full: a file system of two megabytes, where this user may mount one (root may). Elsewhere
//! the test says that it is skipped; the simulated disk of the unit tests covers the same ground everywhere.

use std::sync::Arc;
use std::time::Duration;

use oupn_edge::device::clock::SystemClock;
use oupn_edge::storage::{CheckpointStore, Keep, Mark, OsFilesystem};
use oupn_edge::trace::{DiskLevel, DiskSettings, Reader, Record, Stride, TraceSettings, TraceWriter};

use crate::support::mounted::Mounted;

/// Long enough that a busy machine does not matter; every wait ends as soon as it can.
const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn the_trace_outlives_everything_else_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mounted::new(folder.path(), "2m") else { return };
    let trace = folder.path().join("trace");
    let settings = TraceSettings {
        queue_records: 100,
        buffer_bytes: 20_000,
        sync_interval: Duration::from_millis(20),
        disk: DiskSettings {
            low_bytes: 600_000,
            critical_bytes: 200_000,
            reserve_bytes: 500_000,
            // Longer than the test, so that the reserve is not given back while the disk is still being filled.
            check_interval: Duration::from_secs(3600),
        },
        ..TraceSettings::default()
    };
    let clock = Arc::new(SystemClock::new());
    let (writer, _) = TraceWriter::open(Arc::new(OsFilesystem), &trace, settings, clock).unwrap();
    let record = |n: u32| writer.record(Record::Stride(Stride { from: n, to: n, reason: "x".repeat(200) }));
    record(0);
    writer.flush(TIMEOUT).unwrap();

    // Somebody else fills the disk to the last byte.
    let hog = folder.path().join("hog");
    assert!(std::fs::write(&hog, vec![1; 4_000_000]).is_err());
    let store = CheckpointStore::open(Arc::new(OsFilesystem), &folder.path().join("checkpoints")).unwrap();
    let mark = Mark { trace_seq: 1, running: Duration::ZERO };
    assert!(store.save(mark, &vec![7; 1_000_000], Keep::LastTwo).is_err(), "no room for a checkpoint");

    // The trace goes on in what the reserve held, then in memory; then it counts what it has to drop.
    let mut accepted = 1;
    while record(accepted) {
        accepted += 1;
        if writer.trouble().is_none() {
            let _ = writer.flush(Duration::from_secs(1));
        }
    }
    assert!(accepted > 1000, "only {accepted} records fitted");
    assert_eq!(writer.disk_level(), DiskLevel::Critical);
    assert!(writer.trouble().is_some());
    assert!(!record(u32::MAX));

    std::fs::remove_file(hog).unwrap();
    writer.flush(TIMEOUT).unwrap();
    assert!(record(accepted));
    writer.close(TIMEOUT).unwrap();

    let mut reader = Reader::open(Arc::new(OsFilesystem), &trace).unwrap();
    let numbers = reader.by_ref().filter_map(|entry| match entry.unwrap().record {
        Record::Stride(stride) => Some(stride.to),
        _ => None,
    });
    assert_eq!(numbers.collect::<Vec<_>>(), (0..=accepted).collect::<Vec<_>>());
    let summary = reader.summary();
    assert!(summary.is_whole(), "{summary:?}");
    assert_eq!(summary.dropped, 2, "the two that were refused");
}

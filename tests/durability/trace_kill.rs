//! A process that records and saves checkpoints as fast as it can is killed again and again, on the real disk.
//!
//! The process is this test program itself, told by an environment variable to be the victim.

use std::env;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use oupn_edge::device::clock::SystemClock;
use oupn_edge::storage::{CheckpointStore, Keep, Mark, OsFilesystem};
use oupn_edge::trace::{Reader, Record, Stride, TraceSettings, TraceWriter};

use crate::support::kill::{kill_at_random_moments, last_number};

const VICTIM: &str = "OUPN_EDGE_KILL_TEST_DIR";

/// What a checkpoint holds: long enough to be torn, and recognisable.
fn checkpoint(number: u64) -> Vec<u8> {
    std::iter::repeat_n(number.to_le_bytes(), 20_000).flatten().collect()
}

fn checkpoints(dir: &Path) -> CheckpointStore {
    CheckpointStore::open(Arc::new(OsFilesystem), &dir.join("checkpoints")).unwrap()
}

/// Runs until killed when told to be the victim; nothing to test by itself.
#[test]
fn victim() {
    let Some(dir) = env::var_os(VICTIM).map(PathBuf::from) else { return };
    let mut settings = TraceSettings { segment_bytes: 100_000, ..TraceSettings::default() };
    settings.disk.reserve_bytes = 1 << 20;
    let clock = Arc::new(SystemClock::new());
    let (writer, recovery) =
        TraceWriter::open(Arc::new(OsFilesystem), &dir.join("trace"), settings, clock).unwrap();
    // A start in the middle of a forget has to finish it first.
    writer.finish_forget().unwrap();
    let store = checkpoints(&dir);
    let mut out = std::io::stdout();
    let mut reported = recovery.last_seq;
    for n in 0u64.. {
        let reason = format!("record {n} {}", "x".repeat(100));
        writer.record(Record::Stride(Stride { from: 1, to: 2, reason }));
        if n % 200 == 0 {
            let trace_seq = writer.flush(Duration::from_secs(60)).unwrap();
            let mark = Mark { trace_seq, running: Duration::from_secs(trace_seq) };
            let number = store.list().unwrap().first().map_or(1, |newest| newest.number + 1);
            store.save(mark, &checkpoint(number), Keep::LastTwo).unwrap();
            writeln!(out, "checkpoint {number}").unwrap();
        }
        if n % 1000 == 999 && writer.begin_forget(Duration::from_millis(5)).unwrap().is_some() {
            writer.finish_forget().unwrap();
        }
        if writer.durable_seq() > reported {
            reported = writer.durable_seq();
            writeln!(out, "durable {reported}").unwrap();
        }
    }
}

#[test]
fn a_killed_process_keeps_every_durable_record_and_a_whole_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let (mut durable, mut saved, mut with_reports) = (0, 0, 0);
    let victim = || {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["trace_kill::victim", "--exact", "--nocapture", "--test-threads=1"])
            .env(VICTIM, folder.path());
        command
    };
    kill_at_random_moments(100, Duration::from_millis(60), 1, victim, |round, lines| {
        with_reports += u32::from(last_number(lines, "durable").is_some());
        durable = last_number(lines, "durable").unwrap_or(0).max(durable);
        saved = last_number(lines, "checkpoint").unwrap_or(0).max(saved);
        if !folder.path().join("checkpoints").exists() {
            return;
        }
        let mut reader = Reader::open(Arc::new(OsFilesystem), &folder.path().join("trace")).unwrap();
        reader.by_ref().for_each(|entry| drop(entry.unwrap()));
        let summary = reader.summary();
        assert!(summary.last_seq >= durable, "round {round}: {} of {durable}", summary.last_seq);
        assert!(summary.is_whole(), "round {round}: {summary:?}");
        let newest = checkpoints(folder.path()).load_newest().unwrap();
        if let Some((found, bytes)) = newest {
            assert!(found.number >= saved, "round {round}: checkpoint {} of {saved}", found.number);
            assert_eq!(bytes, checkpoint(found.number), "round {round}");
        } else {
            assert_eq!(saved, 0, "round {round}");
        }
    });
    assert!(with_reports > 20, "only {with_reports} rounds got far enough to mean anything");
}

//! A recording in which categories turned out to be one, through the real binary. What is expected of each frame stands in
//! [`FRAMES`], worked out by hand.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use oupn_edge::device::clock::{BootId, ManualClock, Stamp};
use oupn_edge::storage::OsFilesystem;
use oupn_edge::trace::{Frame, Merge, Record, Start, TraceSettings, TraceWriter};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;

use crate::support::day::Day;
use crate::support::program::text;

/// Each frame's category as it was given, whether it was created by it, and as it ended up.
///
/// After frame 6 category 3 is joined into 2, after frame 7 category 2 into 1. Category 4 is joined into 1 after frame 9, but
/// then the power is cut, the recording goes on from before that, and frame 10 is of category 4 again.
const FRAMES: [(u64, bool, u64); 12] = [
    (1, true, 1),
    (1, false, 1),
    (2, true, 1),
    (1, false, 1),
    (3, true, 1),
    (3, false, 1),
    (2, false, 1),
    (2, false, 1),
    (1, false, 1),
    (4, true, 4),
    (4, false, 4),
    (1, false, 1),
];

/// The merges: after which frame, which into which, and where the first of them ended up.
const MERGES: [(u64, u64, u64, u64); 3] = [(6, 3, 2, 1), (7, 2, 1, 1), (9, 4, 1, 4)];

fn start(frame: u64) -> Record {
    Record::Start(Box::new(Start {
        trace_version: 1,
        program: "oupn-edge".to_owned(),
        device: "p07".to_owned(),
        board: String::new(),
        source: "/dev/video0".to_owned(),
        compute: "CPU".to_owned(),
        settings: Value::Null,
        frame,
        resumed_from: None,
        recorded: Some(false),
        continues: None,
    }))
}

fn frame(number: u64, category: u64, created: bool) -> Record {
    Record::Frame(Frame {
        frame: number,
        category,
        created,
        evicted: None,
        u_hat: 0.25,
        similarity: 0.5,
        share: None,
        runners_up: Vec::new(),
        captured_ns: None,
        source_ns: None,
        camera_sequence: None,
        latency_ms: None,
        truth: None,
    })
}

/// Writes records, each with its second, into the trace of the folder `run`.
fn write(folder: &Path, records: impl IntoIterator<Item = (u64, Record)>) {
    let wall = Timestamp::from_second(1_800_000_000).ok();
    let boot = Stamp { boot: BootId::from_bytes([1; 16]), mono_ns: 0, wall, synced: true };
    let mut settings = TraceSettings::default();
    settings.disk.reserve_bytes = 0;
    let clock = Arc::new(ManualClock::new(boot));
    let dir = folder.join("run/trace");
    let (trace, _) = TraceWriter::open(Arc::new(OsFilesystem), &dir, settings, clock).unwrap();
    for (second, record) in records {
        assert!(trace.record_at(boot.after(Duration::from_secs(second)), record));
    }
    trace.close(Duration::from_secs(60)).unwrap();
}

/// The recording that the top of this file describes, a frame every 4 s.
fn recording() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut records = vec![(0, start(0))];
    for (number, (category, created, _)) in (0..).zip(FRAMES) {
        if number == 10 {
            records.push((4 * number, start(number)));
        }
        records.push((4 * number, frame(number, category, created)));
        for (_, from, into, _) in MERGES.iter().filter(|merge| merge.0 == number) {
            let merge = Merge { from: *from, into: *into, frame: number, similarity: 0.75 };
            records.push((4 * number, Record::Merge(merge)));
        }
    }
    write(folder.path(), records);
    folder
}

fn call(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oupn-edge")).current_dir(folder).args(words).output().unwrap()
}

fn called(folder: &Path, words: &[&str]) -> String {
    let run = call(folder, words);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    text(&run.stdout)
}

fn export(folder: &Path, words: &[&str]) -> String {
    called(folder, &[&["export", "run", "-o", "-"], words].concat())
}

fn rows(folder: &Path, words: &[&str]) -> Vec<Value> {
    let lines = export(folder, &[&["--format", "jsonl"], words].concat());
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn numbers<const N: usize>(row: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| row[name].as_u64().unwrap_or_else(|| panic!("{name}: {row}")))
}

#[test]
fn frames_have_the_number_of_then_and_the_one_it_ended_up_with() {
    let folder = recording();
    let expected: Vec<[u64; 3]> = (0..).zip(FRAMES).map(|(n, (live, _, ended))| [n, live, ended]).collect();
    let names = ["frame", "category", "category_final"];
    let json: Vec<_> = rows(folder.path(), &[]).iter().map(|row| numbers(row, names)).collect();
    assert_eq!(json, expected);

    let csv = export(folder.path(), &["--format", "csv"]);
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let at = names.map(|name| header.iter().position(|column| *column == name).unwrap());
    assert_eq!(header.last(), Some(&"category_final"), "columns are added at the end");
    let csv: Vec<[u64; 3]> = lines.map(|row| at.map(|at| row[at].parse().unwrap())).collect();
    assert_eq!(csv, expected);

    called(folder.path(), &["export", "run", "-o", "frames.parquet"]);
    let file = SerializedFileReader::new(File::open(folder.path().join("frames.parquet")).unwrap()).unwrap();
    let schema = file.metadata().file_metadata().schema_descr_ptr();
    let at = names.map(|name| schema.columns().iter().position(|column| column.name() == name).unwrap());
    let parquet = file.get_row_iter(None).unwrap().map(|row| row.unwrap());
    let parquet = parquet.map(|row| at.map(|at| u64::try_from(row.get_long(at).unwrap()).unwrap()));
    assert_eq!(parquet.collect::<Vec<_>>(), expected);
}

#[test]
fn segments_and_annotations_go_by_either_number() {
    let folder = recording();
    let names = ["category", "first_frame", "last_frame"];
    let segments = |view: &[&str]| -> Vec<([u64; 3], bool)> {
        let rows = rows(folder.path(), &[&["--what", "segments"], view].concat());
        rows.iter().map(|row| (numbers(row, names), row["created"].as_bool().unwrap())).collect()
    };
    let ended = [([1, 0, 8], true), ([4, 9, 9], true), ([4, 10, 10], false), ([1, 11, 11], false)];
    assert_eq!(segments(&[]), ended);
    assert_eq!(segments(&["--categories", "final"]), ended);
    let live = segments(&["--categories", "live"]);
    let expected = [
        ([1, 0, 1], true),
        ([2, 2, 2], true),
        ([1, 3, 3], false),
        ([3, 4, 5], true),
        ([2, 6, 7], false),
        ([1, 8, 8], false),
        ([4, 9, 9], true),
        ([4, 10, 10], false),
        ([1, 11, 11], false),
    ];
    assert_eq!(live, expected);

    let elan = export(folder.path(), &["--format", "elan"]);
    let lines: Vec<&str> = elan.lines().skip(1).collect();
    assert_eq!(lines[..2], ["category\t0.000\t36.000\t1", "category\t36.000\t40.000\t4"]);
    let elan = export(folder.path(), &["--format", "elan", "--categories", "live"]);
    assert_eq!(elan.lines().nth(4), Some("category\t16.000\t24.000\t3"));
    let boris = export(folder.path(), &["--format", "boris"]);
    assert!(!boris.contains("category 2") && !boris.contains("category 3"), "{boris}");
    let events = export(folder.path(), &["--format", "elan", "--what", "events"]);
    assert!(events.contains("category 3 was joined into category 2, similarity 0.75"), "{events}");
}

#[test]
fn merges_are_a_table_and_stand_among_the_events() {
    let folder = recording();
    let names = ["frame", "category", "joined_into", "category_final"];
    let table = rows(folder.path(), &["--what", "merges"]);
    let found: Vec<_> = table.iter().map(|row| numbers(row, names)).collect();
    assert_eq!(found, MERGES.map(|(frame, from, into, ended)| [frame, from, into, ended]));
    assert!(table.iter().all(|row| row["similarity"] == 0.75 && row["device"] == "p07"));
    let events = rows(folder.path(), &["--what", "events"]);
    let events: Vec<_> = events.iter().filter(|event| event["kind"] == "merge").collect();
    assert_eq!(events.len(), MERGES.len());
    assert_eq!(numbers(&events[1]["fields"], ["from", "into", "frame"]), [2, 1, 7]);
}

#[test]
fn the_report_shows_categories_as_they_ended_up_or_as_they_were() {
    let folder = recording();
    let page = called(folder.path(), &["report", "run", "-o", "-"]);
    for part in [
        "<dt>categories seen</dt><dd>2</dd>",
        "<dt>joined into others</dt><dd>2</dd>",
        "as they ended up: 2 were joined into older ones",
        "categories 2 and 3 joined into it",
        "category 2 was joined into category 1, similarity 0.75",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("title=\"category 3:"), "no lane of its own");
    let live = called(folder.path(), &["report", "run", "--categories", "live", "-o", "-"]);
    for part in [
        "<dt>categories seen</dt><dd>4</dd>",
        "as they were given at the time: 2 were joined into older ones later",
        "<em>joined into category 1</em>",
        "title=\"category 3: 8 s\"",
    ] {
        assert!(live.contains(part), "{part}: {live}");
    }
}

#[test]
fn without_merges_nothing_is_said_of_them() {
    let folder = tempfile::tempdir().unwrap();
    Day { frames: 100, ..Day::default() }.write(&folder.path().join("run/trace"));
    for row in rows(folder.path(), &[]) {
        assert_eq!(row["category"], row["category_final"]);
    }
    assert_eq!(rows(folder.path(), &["--what", "merges"]).len(), 0);
    for words in [&["report", "run", "-o", "-"][..], &["export", "run", "--format", "elan", "-o", "-"]] {
        let view = |view| called(folder.path(), &[words, &["--categories", view]].concat());
        assert_eq!(view("live"), view("final"));
        assert!(!view("final").contains("joined"));
    }
}

/// A damaged trace may say anything, but a reader always comes to an end.
#[test]
fn a_circle_of_merges_gives_exit_code_3_and_everything_else() {
    let folder = tempfile::tempdir().unwrap();
    let merge = |from, into| Record::Merge(Merge { from, into, frame: 3, similarity: 0.75 });
    let mut records = vec![(0, start(0))];
    records.extend((0..4).map(|n| (4 * n, frame(n, n, true))));
    records.extend([merge(3, 2), merge(2, 3), merge(1, 1)].map(|merge| (13, merge)));
    write(folder.path(), records);
    for words in [&["export", "run", "--format", "jsonl"][..], &["report", "run"]] {
        let run = call(folder.path(), &[words, &["-o", "-"]].concat());
        let said = text(&run.stderr);
        assert_eq!(run.status.code(), Some(3), "{said}");
        assert!(said.contains("2 merges were passed over"), "{said}");
    }
    let run = call(folder.path(), &["export", "run", "--format", "jsonl", "-o", "-"]);
    let ended = text(&run.stdout);
    let ended = ended.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ended: Vec<_> = ended.map(|row| row["category_final"].as_u64().unwrap()).collect();
    assert_eq!(ended, [0, 1, 2, 2]);
}

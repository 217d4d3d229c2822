//! A recording of an earlier program (tests/fixtures/recording-v0.1) is still read, and it goes on.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use oupn_edge::storage::{CheckpointStore, OsFilesystem};
use oupn_edge::trace::{Frame, Reader, Record};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;

use crate::support::program::{oupn_edge, text};
use crate::support::recording::entries;

/// What the README of the recording says that it holds.
const FRAMES: usize = 150;
const UPDATES: usize = 14;
const CATEGORIES: usize = 36;

/// Frames that it goes on by.
const MORE: usize = 40;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recording-v0.1").join(name)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// The recording, where it may be written to.
struct Old {
    _folder: tempfile::TempDir,
    data: PathBuf,
}

impl Old {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        copy(&fixture("data"), &data);
        Self { _folder: folder, data }
    }

    fn data(&self) -> &str {
        self.data.to_str().unwrap()
    }

    /// Everything of the table as JSON lines, which the trace must be whole for.
    fn exported(&self, what: &str) -> Vec<Value> {
        let run = oupn_edge(&["export", self.data(), "--what", what, "--format", "jsonl", "-o", "-"]);
        assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
        text(&run.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn frames(data: &Path) -> Vec<Frame> {
    let frame = |record| match record {
        Record::Frame(frame) => Some(frame),
        _ => None,
    };
    entries(data).into_iter().filter_map(|entry| frame(entry.record)).collect()
}

#[test]
fn it_can_be_gone_on_with() {
    let old = Old::new();
    let run = oupn_edge(&["self", "check", "--data", old.data()]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    assert!(text(&run.stdout).contains("its newest checkpoint readable"), "{}", text(&run.stdout));
}

/// The oracle is the table that the old program itself made of it.
#[test]
fn it_is_exported_with_every_frame() {
    let old = Old::new();
    let then: Vec<Vec<String>> = table(&fs::read_to_string(fixture("frames.csv")).unwrap());
    assert_eq!(then.len(), FRAMES + 1);

    let run = oupn_edge(&["export", old.data(), "--format", "csv", "-o", "-"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let now = table(&text(&run.stdout));
    assert_eq!(now.len(), then.len());
    // Columns may be added; those of then stand where they can be found, with what they had.
    for (column, name) in then[0].iter().enumerate() {
        let at = now[0].iter().position(|now| now == name).unwrap_or_else(|| panic!("no column {name}"));
        for (then, now) in then.iter().zip(&now) {
            assert_eq!(then[column], now[at], "{name}: {then:?}");
        }
    }

    let file = old.data.with_extension("parquet");
    let run = oupn_edge(&["export", old.data(), "-o", file.to_str().unwrap()]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let file = SerializedFileReader::new(File::open(&file).unwrap()).unwrap();
    let schema = file.metadata().file_metadata().schema_descr_ptr();
    let at = |name| schema.columns().iter().position(|column| column.name() == name).unwrap();
    let (frame, category) = (at("frame"), at("category"));
    let rows: Vec<(i64, i64)> = file
        .get_row_iter(None)
        .unwrap()
        .map(|row| row.unwrap())
        .map(|row| (row.get_long(frame).unwrap(), row.get_long(category).unwrap()))
        .collect();
    let number = |name| then[0].iter().position(|column| column == name).unwrap();
    let (frame, category) = (number("frame"), number("category"));
    let expected = then[1..].iter().map(|row| (row[frame].parse().unwrap(), row[category].parse().unwrap()));
    assert_eq!(rows, expected.collect::<Vec<(i64, i64)>>());

    assert_eq!(old.exported("updates").len(), UPDATES);
    assert!(!old.exported("segments").is_empty());
    assert_eq!(old.exported("events").iter().filter(|event| event["kind"] == "start").count(), 2);
}

#[test]
fn it_is_reported() {
    let old = Old::new();
    let run = oupn_edge(&["report", old.data(), "-o", "-"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let page = text(&run.stdout);
    assert!(page.contains("When what was seen") && page.contains("How many categories"), "{page}");
}

/// Numbers go on, nothing of before is touched, and what is seen is what the old program saw when it went on itself.
#[test]
fn it_goes_on() {
    let old = Old::new();
    let before = entries(&old.data);
    let store = CheckpointStore::open(Arc::new(OsFilesystem), &old.data.join("checkpoints")).unwrap();
    let newest = store.list().unwrap()[0].number;

    let more = MORE.to_string();
    let run = oupn_edge(&["record", "--data", old.data(), "--frames", &more, "--reserve", "0", "--json"]);
    assert_eq!(run.status.code(), Some(0), "{}", text(&run.stderr));
    let summary: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(summary["frames"].to_string(), more);

    let after = entries(&old.data);
    assert!(after.iter().zip(1..).all(|(entry, seq)| entry.seq == seq));
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(format!("{before:?}"), format!("{after:?}"));
    }
    let mut reader = Reader::open(Arc::new(OsFilesystem), &old.data.join("trace")).unwrap();
    reader.by_ref().for_each(|entry| drop(entry.unwrap()));
    assert!(reader.summary().is_whole(), "{:?}", reader.summary());
    assert!(store.list().unwrap()[0].number > newest);

    let frames = frames(&old.data);
    assert!(frames.iter().zip(0..).all(|(frame, number)| frame.frame == number));
    assert_eq!(frames.len(), FRAMES + MORE);
    // A category is created once, and what is recognised was created before.
    let mut created = BTreeSet::new();
    for frame in &frames {
        assert_eq!(frame.created, created.insert(frame.category), "{frame:?}");
    }
    assert!(created.len() >= CATEGORIES);

    // The live memory is another one by now, but what it knew is still known.
    let known = |frame: &&Frame| !frame.created && frame.category < CATEGORIES as u64;
    assert!(frames[FRAMES..].iter().filter(known).count() > 0, "{:?}", &frames[FRAMES..]);
    assert_eq!(old.exported("frames").len(), frames.len());
}

/// The fields of a table. In `runners_up` they are in quotes, with commas inside.
fn table(text: &str) -> Vec<Vec<String>> {
    let row = |line: &str| {
        let (mut fields, mut quoted) = (vec![String::new()], false);
        for character in line.chars() {
            match character {
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(String::new()),
                other => fields.last_mut().unwrap().push(other),
            }
        }
        fields
    };
    text.lines().map(row).collect()
}

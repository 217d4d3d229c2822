//! Exports: recordings as tables for pandas, DuckDB, R and Polars, and as tab text for ELAN and BORIS.
//!
//! The trace stays what it is; an export is made from it as often as wanted ([`crate::recording`] reads it). Rows are
//! written as they are read, so that a recording of months needs no more memory than one of minutes; Parquet holds one
//! row group. Columns and their types are described in `docs/TRACE.md`; keep both alike.

use std::io::Write;
use std::sync::Arc;

use crate::recording::segments::{Segment, Segments, Wanted};
use crate::recording::{Missing, Recording, Seen};
use crate::{Error, Result, choices};

mod annotation;
mod parquet;
mod rows;
mod table;
mod text;

use annotation::{Boris, Elan};
use table::TableWriter;

choices! {
    /// The format of an export.
    pub enum Format {
        Csv = "csv": "Comma-separated values with a header line (RFC 4180)",
        Jsonl = "jsonl": "One JSON object a line",
        Parquet = "parquet": "Apache Parquet",
        Elan = "elan": "Tab text for ELAN's import: tier, begin, end, annotation",
        Boris = "boris": "Tab text for BORIS's \"paste events\": time, subject, behaviour, modifier, comment, frame",
    }
}

choices! {
    /// What is exported.
    pub enum What {
        Frames = "frames": "Each sampled frame with its category",
        Segments = "segments": "Stretches of one category",
        Merges = "merges": "Categories that were joined into older ones",
        Updates = "updates": "Each step of learning",
        Events = "events": "Everything else that happened",
    }
}

/// Writes `recordings` to `out`, one after the other. Returns what each of them lacked.
pub fn export(
    recordings: &[Recording],
    format: Format,
    what: What,
    wanted: Wanted,
    out: &mut (dyn Write + Send),
) -> Result<Vec<Missing>> {
    match format {
        Format::Csv => tabulate(recordings, what, wanted, &mut text::Csv::new(out, rows::columns(what))),
        Format::Jsonl => tabulate(recordings, what, wanted, &mut text::Jsonl::new(out, rows::columns(what))),
        Format::Parquet => {
            let mut writer = parquet::Parquet::new(out, rows::columns(what))?;
            tabulate(recordings, what, wanted, &mut writer)
        }
        Format::Elan => annotate(recordings, what, wanted, &mut Elan::new(out, recordings)),
        Format::Boris => annotate(recordings, what, wanted, &mut Boris::new(out, recordings)),
    }
}

/// Whatever takes annotations.
trait Annotations {
    fn segment(&mut self, recording: &Recording, segment: &Segment) -> Result<()>;
    fn event(&mut self, recording: &Recording, seen: &Seen, text: &str) -> Result<()>;
    fn finish(&mut self) -> Result<()>;
}

fn tabulate(
    recordings: &[Recording],
    what: What,
    wanted: Wanted,
    table: &mut dyn TableWriter,
) -> Result<Vec<Missing>> {
    let mut missing = Vec::with_capacity(recordings.len());
    for recording in recordings {
        missing.push(match what {
            What::Segments => {
                each_segment(recording, wanted, |segment| table.row(rows::segment(recording, &segment)))?
            }
            _ => recording.read(|seen| match rows::row(what, recording, &seen) {
                Some(row) => table.row(row),
                None => Ok(()),
            })?,
        });
    }
    table.finish()?;
    Ok(missing)
}

fn annotate(
    recordings: &[Recording],
    what: What,
    wanted: Wanted,
    annotations: &mut dyn Annotations,
) -> Result<Vec<Missing>> {
    let mut missing = Vec::with_capacity(recordings.len());
    for recording in recordings {
        missing.push(match what {
            What::Segments => {
                each_segment(recording, wanted, |segment| annotations.segment(recording, &segment))?
            }
            What::Events => recording.read(|seen| match crate::recording::describe(&seen.record) {
                text if text.is_empty() => Ok(()),
                text => annotations.event(recording, &seen, &text),
            })?,
            What::Frames | What::Merges | What::Updates => {
                return Err(Error::input("annotations are made of --what segments or events"));
            }
        });
    }
    annotations.finish()?;
    Ok(missing)
}

fn each_segment(
    recording: &Recording,
    wanted: Wanted,
    mut visit: impl FnMut(Segment) -> Result<()>,
) -> Result<Missing> {
    let mut segments = Segments::of(recording, wanted);
    let missing = recording.read(|seen| segments.add(&seen, &mut visit))?;
    segments.finish(&mut visit)?;
    Ok(missing)
}

/// An error of the file that is written; its name is the caller's to add.
fn write_error(error: std::io::Error) -> Error {
    Error::io("export", error)
}

/// A shared text: rows repeat the same device and run.
type Text = Arc<str>;

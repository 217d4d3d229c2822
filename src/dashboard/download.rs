//! Downloads: the trace, its exports and the report, made as they are sent.
//!
//! `trace.jsonl` are the trace's lines as they are on the disk. `WHAT.FORMAT` is what `oupn-edge export` makes,
//! `report.html` what `oupn-edge report` makes, both with their default view of categories. One at a time, by a thread that
//! waits for the reader, so that memory and time stay bounded. Names are matched, never used as paths.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use axum::body::Body;
use oupn_base::Choice;

use super::stream::{self, Writer};
use crate::export::{Format, What, export};
use crate::recording::segments::Wanted;
use crate::recording::{Categories, Recording, TRACE};
use crate::report::report;
use crate::storage::OsFilesystem;
use crate::{Error, Result};

/// What can be downloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Download {
    Trace,
    Report,
    Export(What, Format),
}

impl Download {
    /// The download of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "trace.jsonl" => return Some(Self::Trace),
            "report.html" => return Some(Self::Report),
            _ => {}
        }
        let (what, format) = name.split_once('.')?;
        let (format, annotations) = match format {
            "elan.txt" => (Format::Elan, true),
            "boris.txt" => (Format::Boris, true),
            "csv" => (Format::Csv, false),
            "jsonl" => (Format::Jsonl, false),
            "parquet" => (Format::Parquet, false),
            _ => return None,
        };
        let what = What::named(what)?;
        let fits = !annotations || matches!(what, What::Segments | What::Events);
        fits.then_some(Self::Export(what, format))
    }

    /// Its media type.
    pub(super) fn media_type(self) -> &'static str {
        match self {
            Self::Report => "text/html; charset=utf-8",
            Self::Trace | Self::Export(_, Format::Jsonl) => "application/x-ndjson",
            Self::Export(_, Format::Csv) => "text/csv; charset=utf-8",
            Self::Export(_, Format::Parquet) => "application/vnd.apache.parquet",
            Self::Export(_, Format::Elan | Format::Boris) => "text/tab-separated-values; charset=utf-8",
        }
    }

    /// A body that a thread fills from the recording in `data`; `done` is dropped when it has ended.
    pub(super) fn body(self, data: &Path, done: impl Send + 'static) -> Body {
        let (pieces, body) = stream::body(2);
        let data = data.to_path_buf();
        tokio::task::spawn_blocking(move || {
            let mut out = Writer::new(pieces);
            if let Err(error) = self.write(&data, &mut out) {
                log::warn!("a download was broken off: {error}");
                out.fail(&error);
            }
            drop(done);
        });
        body
    }

    fn write(self, data: &Path, out: &mut Writer) -> Result<()> {
        let recording = Recording::open(Arc::new(OsFilesystem), data)?;
        match self {
            // What is missing stands in the report; the other formats are complete as far as they go.
            Self::Report => report(&recording, Categories::Final, out).map(drop),
            Self::Export(what, format) => {
                export(std::slice::from_ref(&recording), format, what, Wanted::default(), out).map(drop)
            }
            Self::Trace => lines(recording.dir(), out),
        }?;
        out.flush().map_err(|error| Error::io("download", error))
    }
}

/// The segments of a trace, one after the other.
fn lines(dir: &Path, out: &mut Writer) -> Result<()> {
    let fault = |error| Error::io(dir, error);
    let mut names: Vec<_> =
        std::fs::read_dir(dir).map_err(fault)?.flatten().map(|entry| entry.path()).collect();
    let is_segment = |path: &Path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("trace-v") && name.ends_with(".jsonl")
    };
    names.retain(|path| is_segment(path));
    names.sort();
    for name in names {
        let mut file = std::fs::File::open(&name).map_err(|error| Error::io(&name, error))?;
        io::copy(&mut file, out).map_err(|error| Error::io(&name, error))?;
    }
    Ok(())
}

/// Whether there is a trace to download yet.
pub(super) fn is_there(data: &Path) -> bool {
    data.join(TRACE).is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_and_nothing_else_is_a_download() {
        assert_eq!(Download::named("trace.jsonl"), Some(Download::Trace));
        assert_eq!(Download::named("frames.parquet"), Some(Download::Export(What::Frames, Format::Parquet)));
        assert_eq!(
            Download::named("segments.elan.txt"),
            Some(Download::Export(What::Segments, Format::Elan))
        );
        for wrong in [
            "",
            "frames",
            "frames.elan.txt",
            "merges.elan.txt",
            "../etc/passwd",
            "frames.csv/..",
            "Frames.csv",
            "..",
            "trace-v1-00000001.jsonl",
            "%2e%2e",
        ] {
            assert_eq!(Download::named(wrong), None, "{wrong}");
        }
    }
}

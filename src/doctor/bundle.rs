//! Everything for a bug report in one ZIP file: versions, checks, settings, log, and what happened in a recording, but no
//! frame, no category and no pixel.

use std::io::{self, Cursor, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::Check;
use crate::config::Settings;
use crate::export::{Format, What, export};
use crate::recording::Recording;
use crate::recording::segments::Wanted;
use crate::storage::{OsFilesystem, write_atomically};
use crate::{Error, Result};

/// Lines of the service's log.
const LOG_LINES: &str = "2000";

/// The most that is kept of any one part.
const MOST_BYTES: usize = 4 << 20;

/// Writes the bundle to `path`.
pub fn write(path: &Path, checks: &[Check], settings: &Settings, data: &Path) -> Result<()> {
    let fault = |error: io::Error| Error::io(path, error);
    let bytes = pack(&parts(checks, settings, data)).map_err(fault)?;
    write_atomically(&OsFilesystem, path, &bytes).map_err(fault)
}

/// Names and contents.
fn parts(checks: &[Check], settings: &Settings, data: &Path) -> Vec<(&'static str, Vec<u8>)> {
    let checks = serde_json::to_vec_pretty(checks).unwrap_or_default();
    let mut parts = vec![
        ("versions.txt", versions().into_bytes()),
        ("checks.json", checks),
        ("settings.toml", settings.to_toml().into_bytes()),
    ];
    let log = ["-u", "oupn-edge", "-n", LOG_LINES, "--no-pager", "-o", "short-iso"];
    if let Some(log) = output("journalctl", &log) {
        parts.push(("service.log", log));
    }
    match events(data) {
        Ok(events) => parts.push(("events.jsonl", events)),
        // The rest is of use without it.
        Err(error) => parts.push(("events.txt", format!("no events: {error}\n").into_bytes())),
    }
    parts
}

fn versions() -> String {
    let uname = output("uname", &["-srvm"]).unwrap_or_default();
    let os = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let board = crate::device::board::read(Path::new("/"));
    format!(
        "oupn-edge {}\ncuda: {}\nkernel: {}board: {board:?}\nthreads: {:?}\n\n{os}",
        env!("CARGO_PKG_VERSION"),
        cfg!(feature = "cuda"),
        String::from_utf8_lossy(&uname),
        std::thread::available_parallelism()
    )
}

/// What a program prints; `None` where it does not exist or fails.
fn output(program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    let run = Command::new(program).args(arguments).output().ok()?;
    run.status.success().then(|| last_bytes(run.stdout))
}

/// The events of the recording in the data folder: starts, stops, trouble, health.
fn events(data: &Path) -> Result<Vec<u8>> {
    let recording = Recording::open(Arc::new(OsFilesystem), data)?;
    let mut bytes = Vec::new();
    export(&[recording], Format::Jsonl, What::Events, Wanted::default(), &mut bytes)?;
    Ok(last_bytes(bytes))
}

/// The newest lines, if there are too many.
fn last_bytes(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() > MOST_BYTES {
        bytes.drain(..bytes.len() - MOST_BYTES);
        let line = bytes.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        bytes.drain(..line);
    }
    bytes
}

fn pack(parts: &[(&str, Vec<u8>)]) -> io::Result<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        zip.start_file(*name, SimpleFileOptions::default()).map_err(io::Error::other)?;
        zip.write_all(content)?;
    }
    Ok(zip.finish().map_err(io::Error::other)?.into_inner())
}

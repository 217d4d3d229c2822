//! The log of a training run: `log.jsonl`, one JSON object a line.
//!
//! Every line has `type` and `window` (windows done). Version 2 (version 1 had `self_supervised`, `entropy`, `creation` and
//! `mean_creation` instead of `losses` and `mean_u_hat`):
//! - `start`: `version`, `program`, `stream`, `seed`, `settings` (all of them, as TOML text)
//! - `window`: `frames`, `loss`, `losses` (its terms by name), `mean_u_hat`, `created` (categories
//!   created), `in_use` (slots), `spread`, `gradient_norm`, `inv_tau`, `beta`, `gamma`, `seconds`, `refused` (why, or
//!   null); with second views from a long memory `recalled`: `replayed` (whether the window was made of it), `second_views` (frames
//!   that got one from it), and what it holds: `segments`, `frames`, `groups` (of two segments or more), `grouped` (segments in
//!   them), `bytes`
//! - `evaluation`: `split`, `episodes`, `frames`, `ami`, `ami_error`, `threshold`, `beta`, `ap`, `ap_error`,
//!   `categories`, `classes`; fractions, not percent
//! - `end`: `seconds` of all windows
//!
//! A run that was begun by a program with version 1 goes on with lines of version 2.
//!
//! A run that goes on from a checkpoint first removes the lines that are younger than it, and the end of a run that is made
//! longer, so the log reads as that of a run that never stopped.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Recalled, Step};
use crate::eval::episodes::Scores;
use crate::memory::Control;
use crate::storage::{OsFilesystem, write_atomically};
use crate::streams::Split;
use crate::{Error, Result};

/// Version of the format.
pub const VERSION: u32 = 2;

/// An open log.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Log {
    /// Opens the log of a run of which `windows` windows count; lines of later ones, torn ones and its end are removed.
    pub fn open(path: &Path, windows: u64) -> Result<Self> {
        let old = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::io(path, error)),
        };
        let counts = |line: &&str| {
            let Ok(line) = serde_json::from_str::<Value>(line) else { return false };
            line["type"] != "end" && line["window"].as_u64().is_some_and(|window| window <= windows)
        };
        let kept: String = old.lines().filter(counts).flat_map(|line| [line, "\n"]).collect();
        let io = |error| Error::io(path, error);
        if kept != old || old.is_empty() {
            write_atomically(&OsFilesystem, path, kept.as_bytes()).map_err(io)?;
        }
        let file = BufWriter::new(File::options().append(true).open(path).map_err(io)?);
        Ok(Self { path: path.to_path_buf(), file })
    }

    /// Appends the first line.
    pub fn start(&mut self, stream: &str, seed: u64, settings: &str) -> Result<()> {
        self.line(&json!({
            "type": "start", "window": 0, "version": VERSION, "program": env!("CARGO_PKG_VERSION"),
            "stream": stream, "seed": seed, "settings": settings,
        }))
    }

    /// Appends a window.
    pub fn window(&mut self, step: &Step, control: &Control) -> Result<()> {
        let Step { window, frames, update, recalled } = step;
        let mut line = json!({
            "type": "window", "window": window, "frames": frames,
            "loss": update.loss, "losses": update.terms.iter().copied().collect::<BTreeMap<_, _>>(),
            "mean_u_hat": update.mean_new_probability,
            "created": update.created, "in_use": update.in_use, "spread": update.spread,
            "gradient_norm": update.gradient_norm,
            "inv_tau": control.inv_tau, "beta": control.beta, "gamma": control.gamma,
            "seconds": update.times.total().as_secs_f64(),
            "refused": update.refused.map(|why| why.to_string()),
        });
        if let Some(Recalled { replayed, second_views, held }) = recalled {
            line["recalled"] = json!({
                "replayed": replayed, "second_views": second_views, "segments": held.segments,
                "frames": held.frames, "groups": held.groups, "grouped": held.grouped, "bytes": held.bytes,
            });
        }
        self.line(&line)
    }

    /// Appends an evaluation.
    pub fn evaluation(&mut self, window: u64, split: Split, scores: &Scores) -> Result<()> {
        self.line(&json!({
            "type": "evaluation", "window": window, "split": split.to_string(),
            "episodes": scores.episodes, "frames": scores.frames,
            "ami": scores.ami, "ami_error": scores.ami_error, "threshold": scores.threshold, "beta": scores.beta,
            "ap": scores.ap, "ap_error": scores.ap_error,
            "categories": scores.categories, "classes": scores.classes,
        }))?;
        self.flush()
    }

    /// Appends the last line.
    pub fn end(&mut self, window: u64, seconds: f64) -> Result<()> {
        self.line(&json!({ "type": "end", "window": window, "seconds": seconds }))?;
        self.flush()
    }

    /// Hands everything to the system.
    pub fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|error| Error::io(&self.path, error))
    }

    fn line(&mut self, line: &Value) -> Result<()> {
        writeln!(self.file, "{line}").map_err(|error| Error::io(&self.path, error))
    }
}

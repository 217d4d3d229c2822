//! Recordings with a small encoder through the real binary, and what their traces say.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use oupn_edge::storage::OsFilesystem;
use oupn_edge::trace::{Entry, Reader};
use serde_json::Value;

/// Conv-4 on small pictures: an update takes milliseconds.
pub(crate) const SETTINGS: &str =
    "encoder = \"conv-4\"\nimage_height = 32\nimage_width = 32\nwindow = 12\nstride = 5\nslots = 24\n";

/// A folder for sources and recordings.
pub(crate) struct Place(tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("settings.toml"), SETTINGS).unwrap();
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The program, called in this folder.
    pub(crate) fn call(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_oupn-edge")).current_dir(self.0.path()).args(words).output().unwrap()
    }

    /// A recording with a small encoder.
    pub(crate) fn record(&self, words: &[&str]) -> Output {
        self.call(
            &[words, &["--config", "settings.toml", "--reserve", "0", "--threads", "1", "--json"]].concat(),
        )
    }

    /// A recording that ends well.
    pub(crate) fn recorded(&self, words: &[&str]) -> Value {
        let output = self.record(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// One-coloured pictures of this folder, by their names.
    pub(crate) fn pictures(&self, folder: &str, names: &[&str]) {
        for (index, name) in names.iter().enumerate() {
            let path = self.path(folder).join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let grey = u8::try_from(20 * index % 256).unwrap();
            image::RgbImage::from_fn(48, 32, |x, _| image::Rgb([grey, (5 * x) as u8, 255 - grey]))
                .save(path)
                .unwrap();
        }
    }
}

/// What went to standard error.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The whole trace, by its reader.
pub(crate) fn entries(data: &Path) -> Vec<Entry> {
    let reader = Reader::open(Arc::new(OsFilesystem), &data.join("trace")).unwrap();
    reader.map(|entry| entry.unwrap()).collect()
}

/// The records of one kind, straight from the lines of a trace.
pub(crate) fn records(data: &Path, kind: &str) -> Vec<Value> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(data.join("trace")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    let lines: String = files.into_iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let values = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    values.filter(|value| value["kind"] == kind).collect()
}

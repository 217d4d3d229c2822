//! `oupn-edge inspect`, the real binary, and the files that it is held against.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Runs `inspect WHAT`.
pub(crate) fn inspect(what: &str, input: &Path, output: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
        .args(["inspect", what, "--tensors"])
        .arg(input)
        .arg("--out")
        .arg(output)
        .args(more)
        .output()
        .unwrap()
}

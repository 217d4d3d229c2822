//! Exports read back by the tools they are made for: pandas with pyarrow, DuckDB, Polars.
//!
//! Needs a Python with these packages: that of `OUPN_PYTHON`, or an environment in `target/readback` that is made by
//! pip at the first run. Where neither can be had (no network), the tests say so and are skipped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::day::Day;
use crate::support::skipped;

const PACKAGES: [&str; 4] = ["pandas", "pyarrow", "duckdb", "polars"];

/// A Python that has the packages; looked for, or made, once.
fn python() -> Option<PathBuf> {
    static PYTHON: OnceLock<Option<PathBuf>> = OnceLock::new();
    let python = PYTHON.get_or_init(find_python).clone();
    if python.is_none() {
        skipped(&format!("no Python with {}; set OUPN_PYTHON to one", PACKAGES.join(", ")));
    }
    python
}

fn find_python() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("OUPN_PYTHON") {
        return Some(given.into());
    }
    let environment = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?.join("readback");
    let python = environment.join("bin/python");
    let has_packages = |python: &Path| {
        let imports = format!("import {}", PACKAGES.join(", "));
        Command::new(python).args(["-c", &imports]).output().is_ok_and(|run| run.status.success())
    };
    if !has_packages(&python) {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&environment).output().ok()?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let installed = Command::new(&python).args(pip).args(PACKAGES).output().ok()?;
        if !made.status.success() || !installed.status.success() {
            eprintln!("{}", String::from_utf8_lossy(&installed.stderr));
        }
    }
    has_packages(&python).then_some(python)
}

#[test]
fn real_tools_read_every_table() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, device, seed) in [("a", "anna", 1), ("b", "ben", 2)] {
        Day { device, seed, frames: 150 }.write(&folder.path().join(name).join("trace"));
    }
    for what in ["frames", "segments", "updates", "events"] {
        for format in ["csv", "jsonl", "parquet"] {
            let run = Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
                .current_dir(folder.path())
                .args(["export", "a", "b", "--format", format, "--what", what, "-o"])
                .arg(format!("{what}.{format}"))
                .output()
                .unwrap();
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        }
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readback.py");
    let run = Command::new(python).arg(script).arg(folder.path()).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(String::from_utf8(run.stdout).unwrap(), "ok\n");
}

/// What docs/TRACE.md tells readers to type works as it stands there.
#[test]
fn the_documented_queries_run() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    for (name, device, seed) in [("DATA", "anna", 1), ("anna", "anna", 1), ("ben", "ben", 2)] {
        Day { device, seed, frames: 150 }.write(&folder.path().join(name).join("trace"));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let binary = Path::new(env!("CARGO_BIN_EXE_oupn-edge"));
    let mut path = vec![binary.parent().unwrap().to_owned()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let run = Command::new(python)
        .current_dir(folder.path())
        .env("PATH", std::env::join_paths(path).unwrap())
        .arg(root.join("tests/documented.py"))
        .arg(root.join("docs/TRACE.md"))
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(String::from_utf8(run.stdout).unwrap(), "ok\n");
}

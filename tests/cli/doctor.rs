//! `oupn-edge doctor`, the real binary.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

fn doctor(folder: &Path, arguments: &[&str]) -> Output {
    let binary = env!("CARGO_BIN_EXE_oupn-edge");
    Command::new(binary).current_dir(folder).arg("doctor").args(arguments).output().unwrap()
}

#[test]
fn every_matter_is_looked_at_and_packed_without_pixels() {
    let folder = tempfile::tempdir().unwrap();
    let run = doctor(folder.path(), &["--json", "--bundle", "report.zip"]);
    let checks: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let checks = checks.as_array().unwrap();
    let names: BTreeSet<&str> = checks.iter().map(|check| check["name"].as_str().unwrap()).collect();
    for name in [
        "camera",
        "compute",
        "one frame",
        "one window",
        "weights",
        "memory",
        "data folder",
        "disk",
        "clock",
        "temperature",
        "board",
    ] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    for check in checks {
        assert_eq!(check["verdict"] == "ok", check["advice"] == "", "{check}");
        assert_ne!(check["found"], "");
    }
    let problems = checks.iter().any(|check| check["verdict"] == "problem");
    assert_eq!(run.status.code(), Some(i32::from(problems)));

    let bytes = std::fs::read(folder.path().join("report.zip")).unwrap();
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(bytes)).unwrap();
    let packed: Vec<String> = zip.file_names().map(|name| name.unwrap().into_owned()).collect();
    for name in ["versions.txt", "checks.json", "settings.toml"] {
        assert!(packed.iter().any(|packed| packed == name), "{packed:?}");
    }
    let mut versions = String::new();
    std::io::Read::read_to_string(&mut zip.by_name("versions.txt").unwrap(), &mut versions).unwrap();
    assert!(versions.contains(env!("CARGO_PKG_VERSION")), "{versions}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "only the bundle is left");
}

#[test]
fn a_folder_that_cannot_be_written_is_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    let run = doctor(folder.path(), &["--data", "/proc/nowhere"]);
    let text = String::from_utf8(run.stdout).unwrap();
    assert_eq!(run.status.code(), Some(1), "{text}");
    assert!(text.contains("PROBLEM  data folder"), "{text}");
    assert!(text.contains("→ give --data a folder"), "{text}");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn without_cuda_there_is_no_gpu_to_examine() {
    let folder = tempfile::tempdir().unwrap();
    let run = doctor(folder.path(), &["--gpu"]);
    assert_eq!((run.status.code(), run.stdout.len()), (Some(2), 0));
    let said = String::from_utf8(run.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("built without CUDA"), "{said}");
    for wrong in [&["--gpu", "--json"][..], &["--size", "64"], &["--gpu", "--size", "0"]] {
        assert_eq!(doctor(folder.path(), wrong).status.code(), Some(2), "{wrong:?}");
    }
}

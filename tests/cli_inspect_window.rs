//! `oupn-edge inspect window`, the real binary, on the golden windows and on damaged files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use oupn_edge::tensors::TensorFile;

/// The largest relative error ‖a−b‖/‖b‖ of any tensor. Goldens are f64; f32 embeddings reach 1e-6 where the loss is
/// smooth, less where pseudo-labels are sharp.
const TOLERANCE: f64 = 1e-4;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn inspect(input: &Path, output: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
        .args(["inspect", "window", "--tensors"])
        .arg(input)
        .arg("--out")
        .arg(output)
        .args(more)
        .output()
        .unwrap()
}

fn relative_error(ours: &[f32], theirs: &[f32]) -> f64 {
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|v| v * v).sum::<f64>().sqrt();
    let difference = square(&mut ours.iter().zip(theirs).map(|(a, b)| f64::from(*a) - f64::from(*b)));
    let size = square(&mut theirs.iter().map(|b| f64::from(*b)));
    if size == 0.0 { difference } else { difference / size }
}

#[test]
fn every_golden_window_is_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    let mut windows = 0;
    for entry in golden("").read_dir().unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.ends_with(".safetensors") || name.starts_with("mobilenet") {
            continue;
        }
        let out = folder.path().join(&name);
        let run = inspect(&path, &out, &["--json"]);
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        let summary: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        let (ours, theirs) = (TensorFile::read(&out).unwrap(), TensorFile::read(&path).unwrap());
        let mut compared = 0;
        for (tensor, expected) in theirs.tensors().iter().filter(|(name, _)| !name.starts_with("in.")) {
            let got = ours.require(tensor).unwrap();
            assert_eq!(got.shape, expected.shape, "{name} {tensor}");
            let error = relative_error(&got.values, &expected.values);
            let allowed = if ["out.new", "out.slot"].contains(&tensor.as_str()) { 0.0 } else { TOLERANCE };
            assert!(error <= allowed, "{name} {tensor}: relative error {error:.1e}");
            compared += 1;
        }
        assert_eq!(compared, 16, "{name}");
        let loss = theirs.require("out.loss").unwrap().values[0];
        assert!((summary["out.loss"].as_f64().unwrap() - f64::from(loss)).abs() < 1e-4);
        windows += 1;
    }
    assert_eq!(windows, 13);
}

//! `oupn-edge inspect window`, the real binary, on the golden windows and on damaged files.

use std::process::Output;

use oupn_edge::tensors::TensorFile;

use crate::support::inspect::{golden, inspect};

/// The largest relative error ‖a−b‖/‖b‖ of any tensor. Goldens are f64; f32 embeddings reach 1e-6 where the loss is
/// smooth, less where pseudo-labels are sharp.
const TOLERANCE: f64 = 1e-4;

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
        if !["omniglot-", "rooms-", "saycam-"].iter().any(|setting| name.starts_with(setting)) {
            continue;
        }
        let out = folder.path().join(&name);
        let run = inspect("window", &path, &out, &["--json"]);
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

/// Writes a changed copy of a golden file and returns what the program says of it.
fn refusal(
    change: impl FnOnce(&mut std::collections::BTreeMap<String, oupn_edge::tensors::Tensor>),
) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = TensorFile::read(golden("saycam-reference-carried.safetensors")).unwrap();
    let mut tensors = file.tensors().clone();
    change(&mut tensors);
    let path = folder.path().join("changed.safetensors");
    oupn_edge::tensors::write(&path, &tensors, file.metadata().clone()).unwrap();
    let out = folder.path().join("out.safetensors");
    let run = inspect("window", &path, &out, &[]);
    assert_eq!(run.status.code(), Some(2));
    assert!(!out.exists(), "nothing is written for bad input");
    one_line(&run)
}

fn one_line(run: &Output) -> String {
    let text = String::from_utf8(run.stderr.clone()).unwrap();
    assert_eq!(text.trim_end().lines().count(), 1, "one line expected: {text}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

#[test]
fn bad_tensors_are_named() {
    let said = refusal(|tensors| drop(tensors.remove("in.h2")));
    assert!(said.contains("`in.h2` is missing"), "{said}");
    let said = refusal(|tensors| tensors.get_mut("in.counts").unwrap().shape = vec![4, 2]);
    assert!(said.contains("`in.counts` has shape [4, 2]; expected [8]"), "{said}");
    let said = refusal(|tensors| tensors.get_mut("in.h1").unwrap().values[3] = f32::NAN);
    assert!(said.contains("`in.h1` holds NaN at element 3"), "{said}");
    let said = refusal(|tensors| tensors.get_mut("in.noise_u1").unwrap().values[0] = f32::INFINITY);
    assert!(said.contains("`in.noise_u1` holds inf"), "{said}");
    let said = refusal(|tensors| tensors.get_mut("in.counts").unwrap().values[1] = -1.0);
    assert!(said.contains("count of slot 1"), "{said}");
    let said = refusal(|tensors| tensors.get_mut("in.gamma").unwrap().values[0] = 0.0);
    assert!(said.contains("γ"), "{said}");
    let said = refusal(|tensors| {
        tensors.insert("in.h1".to_owned(), oupn_edge::tensors::Tensor { shape: vec![0, 16], values: vec![] });
    });
    assert!(said.contains("`in.h1` has shape [0, 16]"), "{said}");
}

#[test]
fn a_damaged_or_missing_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(golden("rooms-paper-empty.safetensors")).unwrap();
    let out = folder.path().join("out.safetensors");
    for length in [0, 7, 8, 100, whole.len() / 2, whole.len() - 1] {
        let path = folder.path().join("cut.safetensors");
        std::fs::write(&path, &whole[..length]).unwrap();
        let run = inspect("window", &path, &out, &[]);
        assert_eq!(run.status.code(), Some(2), "cut at {length}");
        assert!(one_line(&run).contains("cut.safetensors"));
    }
    let run = inspect("window", &folder.path().join("none.safetensors"), &out, &[]);
    assert_eq!(run.status.code(), Some(2));
    assert!(one_line(&run).contains("none.safetensors"));
}

#[test]
fn the_summary_reads_well() {
    let folder = tempfile::tempdir().unwrap();
    let run =
        inspect("window", &golden("omniglot-reference-carried.safetensors"), &folder.path().join("o"), &[]);
    let text = String::from_utf8(run.stdout).unwrap();
    for word in ["24 frames", "created", "loss", "gradient", "β"] {
        assert!(text.contains(word), "{text}");
    }
}

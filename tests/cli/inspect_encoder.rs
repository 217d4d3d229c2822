//! `oupn-edge inspect encoder`, the real binary, on the golden encoders and on damaged files.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use oupn_edge::encoder::probe::relative_difference;
use oupn_edge::tensors::{self, Tensor, TensorFile};

use crate::support::inspect::{golden, inspect};

#[test]
fn golden_encoders_are_reproduced() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["mobilenet-same.safetensors", "mobilenet-symmetric.safetensors"] {
        let out = folder.path().join(name);
        let run = inspect("encoder", &golden(name), &out, &["--json"]);
        assert!(run.status.success(), "{name}: {}", String::from_utf8_lossy(&run.stderr));
        let summary: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        assert_eq!(summary["compared"], 263);
        assert!(summary["largest_difference"]["relative"].as_f64().unwrap() < 2e-7, "{summary}");
        let (ours, theirs) = (TensorFile::read(&out).unwrap(), TensorFile::read(golden(name)).unwrap());
        for (tensor, expected) in theirs.tensors().iter().filter(|(name, _)| !name.starts_with("in.")) {
            let got = ours.require(tensor).unwrap();
            assert_eq!(got.shape, expected.shape, "{name} {tensor}");
            // What vanishes (the shift of a linear bottleneck) is noise of 1e-12 on both sides.
            if expected.values.iter().any(|value| value.abs() > 1e-9) {
                let difference = relative_difference(&got.values, &expected.values);
                assert!(difference < 2e-7, "{name} {tensor}: {difference:.1e}");
            }
        }
    }
}

#[test]
fn the_training_executor_is_right_up_to_rounding() {
    let folder = tempfile::tempdir().unwrap();
    let (name, out) = ("mobilenet-same.safetensors", folder.path().join("out"));
    let run = inspect("encoder", &golden(name), &out, &["--json", "--executor", "fused"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    // Measured 4e-5; no activation of this golden lies so near a bend that f32 rounding moves it across.
    assert!(summary["largest_difference"]["relative"].as_f64().unwrap() < 1e-3, "{summary}");
}

/// A small file in the golden layout: Conv-4 with weights that mean nothing.
fn conv4(widths: [usize; 4]) -> (BTreeMap<String, Tensor>, HashMap<String, String>) {
    let mut named = BTreeMap::new();
    let mut put = |name: String, shape: &[usize], scale: f32| {
        let len = shape.iter().product::<usize>();
        let values = (0..len).map(|at| scale * ((at * 7919 % 101) as f32 / 50.0 - 1.0)).collect();
        named.insert(name, Tensor { shape: shape.to_vec(), values });
    };
    for block in 0..4 {
        let from = if block == 0 { 1 } else { widths[block - 1] };
        let to = widths[block];
        put(format!("in.blocks.{block}.conv.weight"), &[to, from, 3, 3], 0.1);
        for part in ["bias", "weight", "running_mean", "running_var"] {
            put(format!("in.blocks.{block}.bn.{part}"), &[to], 0.5);
        }
    }
    put("in.images".to_owned(), &[2, 1, 16, 20], 1.0);
    put("in.cotangent".to_owned(), &[2, widths[3]], 1.0);
    for (name, tensor) in &mut named {
        if name.ends_with("running_var") {
            tensor.values.iter_mut().for_each(|value| *value += 1.0);
        }
    }
    let metadata = [
        ("encoder", "conv-4"),
        ("last_relu", "true"),
        ("padding", "same"),
        ("bn_eps", "1e-3"),
        ("bn_momentum", "0.1"),
    ];
    (named, metadata.map(|(key, value)| (key.to_owned(), value.to_owned())).into())
}

#[test]
fn the_executor_and_the_budget_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("in"), folder.path().join("out"));
    let (named, metadata) = conv4([64; 4]);
    tensors::write(&input, &named, metadata).unwrap();
    let mut features = Vec::new();
    for more in [
        &[][..],
        &["--executor", "stepwise"],
        &["--executor", "stepwise", "--memory-budget", "2M"],
        &["--executor", "fused"],
    ] {
        let run = inspect("encoder", &input, &out, more);
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let text = String::from_utf8(run.stdout).unwrap();
        assert!(text.contains("Conv-4, 1 channels") && text.contains("2 of 20×16"), "{text}");
        features.push(TensorFile::read(&out).unwrap().require("train.features").unwrap().values.clone());
    }
    assert_eq!(features[1], features[2]);
    for f32 in [&features[1], &features[3]] {
        let difference = relative_difference(f32, &features[0]);
        assert!(difference > 0.0 && difference < 1e-5, "f32 rounds, and only rounds: {difference}");
    }
}

#[test]
fn blocks_of_other_widths_are_told_by_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("in"), folder.path().join("out"));
    let (named, mut metadata) = conv4([6, 5, 4, 7]);
    tensors::write(&input, &named, metadata.clone()).unwrap();
    assert_eq!(inspect("encoder", &input, &out, &[]).status.code(), Some(2), "they are not the paper's");
    metadata.insert("widths".to_owned(), "[6,5,4,7]".to_owned());
    tensors::write(&input, &named, metadata).unwrap();
    let run = inspect("encoder", &input, &out, &[]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(String::from_utf8(run.stdout).unwrap().contains("Conv-4 of 6-5-4-7, 1 channels"));
    assert_eq!(TensorFile::read(&out).unwrap().require("train.features").unwrap().shape, [2, 7]);
}

#[test]
fn bad_input_is_one_line_that_names_the_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("in"), folder.path().join("out"));
    type Change = fn(&mut BTreeMap<String, Tensor>, &mut HashMap<String, String>);
    let changes: [(Change, &str); 10] = [
        (|named, _| drop(named.remove("in.blocks.2.bn.bias")), "`in.blocks.2.bn.bias` is missing"),
        (
            |named, _| named.get_mut("in.blocks.1.bn.weight").unwrap().values[3] = f32::NAN,
            "holds NaN at element 3",
        ),
        (|named, _| named.get_mut("in.images").unwrap().values[9] = f32::INFINITY, "`in.images` holds inf"),
        (
            |named, _| named.get_mut("in.blocks.0.bn.running_var").unwrap().values[2] = -1.0,
            "`in.blocks.0.bn.running_var` holds a negative variance at element 2",
        ),
        (
            |named, _| named.get_mut("in.cotangent").unwrap().shape = vec![64, 2],
            "`in.cotangent` has shape [64, 2]; expected [2, 64]",
        ),
        (
            |named, _| named.get_mut("in.images").unwrap().shape = vec![2, 320],
            "`in.images` has shape [2, 320]",
        ),
        (|named, _| named.get_mut("in.images").unwrap().shape = vec![40, 1, 16, 1], "16 pixels or more"),
        (|_, metadata| drop(metadata.remove("padding")), "metadata entry `padding` is missing"),
        (|_, metadata| drop(metadata.insert("padding".into(), "valid".into())), "expected same or symmetric"),
        (|_, metadata| drop(metadata.insert("bn_eps".into(), "-1".into())), "epsilon is -1"),
    ];
    for (change, expected) in changes {
        let (mut named, mut metadata) = conv4([64; 4]);
        change(&mut named, &mut metadata);
        tensors::write(&input, &named, metadata).unwrap();
        let run = inspect("encoder", &input, &out, &[]);
        let message = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(2), "{message}");
        assert!(message.contains(expected) && message.lines().count() == 1, "{message}");
        assert!(!out.exists(), "nothing is written for {expected}");
    }
}

#[test]
fn truncated_and_absent_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("cut.safetensors"), folder.path().join("out"));
    let (named, metadata) = conv4([64; 4]);
    tensors::write(&input, &named, metadata).unwrap();
    let bytes = fs::read(&input).unwrap();
    for length in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&input, &bytes[..length]).unwrap();
        let run = inspect("encoder", &input, &out, &[]);
        let message = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(2), "{message}");
        assert!(message.contains("cut.safetensors: not a whole safetensors file"), "{message}");
    }
    let run = inspect("encoder", Path::new("no-such-file"), &out, &[]);
    assert_eq!(run.status.code(), Some(2));
    let run = inspect("encoder", &golden("mobilenet-same.safetensors"), &out, &["--memory-budget", "1M"]);
    let message = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2));
    assert!(message.contains("a memory budget of 1 MiB is too small"), "{message}");
}

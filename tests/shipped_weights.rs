//! The weights that come with the project: whole, small, named as documented, and as good as RESULTS.md says.
//!
//! The last needs `OUPN_DATA` (with `omniglot`).

#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test that fails should say so in the shortest way

use std::path::Path;

use oupn_edge::encoder::Weights;
use oupn_edge::learner::saved::learned_control;
use oupn_edge::tensors::TensorFile;

#[path = "support/program.rs"]
mod program;

use program::{oupn_edge, text};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/conv4_omniglot.safetensors");

#[test]
fn conv4_omniglot_is_whole_and_small() {
    assert!(std::fs::metadata(MODEL).unwrap().len() < 1_000_000);
    let weights = Weights::read(Path::new(MODEL)).unwrap();
    assert_eq!(weights.card.name, "conv4_omniglot");
    assert!(learned_control(Path::new(MODEL)).unwrap().unwrap().beta < 0.0);
    let file = TensorFile::read(MODEL).unwrap();
    let mut names: Vec<&str> = file.tensors().keys().map(String::as_str).collect();
    for block in 0..4 {
        for tensor in ["conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"] {
            let name = format!("blocks.{block}.{tensor}");
            names.retain(|found| *found != name);
            assert!(file.get(&name).is_some(), "{name}");
        }
    }
    assert_eq!(names, ["control.beta", "control.gamma", "control.inv_tau"]);
}

/// Taken in once more it is the same file: card, weights and 1/τ, β, γ.
#[test]
fn an_import_loses_nothing_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("again.safetensors");
    let run = oupn_edge(&["model", "import", MODEL, "-o", out.to_str().unwrap()]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(std::fs::read(out).unwrap() == std::fs::read(MODEL).unwrap());
}

#[test]
fn it_is_better_than_the_paper() {
    let Ok(data) = std::env::var("OUPN_DATA") else { return eprintln!("skipped: set OUPN_DATA") };
    let data = format!("{data}/omniglot");
    let run = oupn_edge(&["eval", "--model", MODEL, "--stream", "omniglot", "--data", &data, "--json"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    let line: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(line["episodes"], 200);
    assert!(line["ami"].as_f64().unwrap() >= 0.8442 && line["ap"].as_f64().unwrap() >= 0.9284, "{line}");
}

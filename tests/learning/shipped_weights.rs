//! The weights that come with the project: whole, small, named as documented, and as good as RESULTS.md says.
//!
//! The last needs `OUPN_DATA` (with `omniglot`).

use std::path::Path;

use oupn_edge::encoder::weights::BUILT_IN;
use oupn_edge::encoder::{ModelCard, Weights};
use oupn_edge::learner::saved::learned_control;
use oupn_edge::tensors::TensorFile;

use crate::support::data;
use crate::support::program::{oupn_edge, text};

/// The file of these weights.
fn model(name: &str) -> String {
    format!("{}/models/{name}.safetensors", env!("CARGO_MANIFEST_DIR"))
}

/// Their names, their channels, and the least AMI and AP: half a point below what RESULTS.md has.
const SHIPPED: [(&str, [usize; 4], f64, f64); 2] =
    [("conv4_omniglot", [32, 64, 96, 192], 0.864, 0.948), ("conv4_64_omniglot", [64; 4], 0.871, 0.941)];

#[test]
fn they_are_whole_and_small() {
    for (name, widths, ..) in SHIPPED {
        let path = model(name);
        assert!(std::fs::metadata(&path).unwrap().len() < 1_000_000, "{name}");
        let weights = Weights::read(Path::new(&path)).unwrap();
        assert_eq!(weights.card.name, name);
        assert!(learned_control(Path::new(&path)).unwrap().unwrap().beta < 0.0);
        let file = TensorFile::read(&path).unwrap();
        let mut names: Vec<&str> = file.tensors().keys().map(String::as_str).collect();
        for (block, width) in widths.into_iter().enumerate() {
            for tensor in ["conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"] {
                let tensor = format!("blocks.{block}.{tensor}");
                names.retain(|found| *found != tensor);
                assert_eq!(file.require(&tensor).unwrap().shape[0], width, "{name}: {tensor}");
            }
        }
        assert_eq!(names, ["control.beta", "control.gamma", "control.inv_tau"]);
    }
}

/// What a recording starts from unless told otherwise: the file in models/, inside the program.
#[test]
fn the_built_in_weights_are_those_of_the_file() {
    let path = model("mobilenet_v2_0.35_things");
    assert!(std::fs::metadata(&path).unwrap().len() < 2_000_000);
    let (file, inside) =
        (Weights::read(Path::new(&path)).unwrap(), Weights::read(Path::new(BUILT_IN)).unwrap());
    assert_eq!(inside.card, file.card);
    assert_eq!(inside.card, ModelCard::built_in().unwrap());
    assert_eq!(inside.parameters.values, file.parameters.values);
    assert_eq!(inside.statistics.values, file.statistics.values);
    assert!(learned_control(Path::new(&path)).unwrap().is_none(), "1/τ, β and γ are left out");
    let run = oupn_edge(&["model", "info", BUILT_IN]);
    assert!(text(&run.stdout).contains("mobilenet_v2_0.35_things"), "{}", text(&run.stderr));
}

/// Taken in once more each is the same file: card, weights and 1/τ, β, γ.
#[test]
fn an_import_loses_nothing_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("again.safetensors");
    for (name, ..) in SHIPPED {
        let run = oupn_edge(&["model", "import", &model(name), "-o", out.to_str().unwrap()]);
        assert!(run.status.success(), "{}", text(&run.stderr));
        assert!(std::fs::read(&out).unwrap() == std::fs::read(model(name)).unwrap(), "{name}");
        std::fs::remove_file(&out).unwrap();
    }
}

/// Their networks are taken from their cards: no setting has to say how wide they are.
#[test]
fn a_recording_starts_from_each() {
    let folder = tempfile::tempdir().unwrap();
    for (name, ..) in SHIPPED {
        let data = folder.path().join(name);
        let recording = ["--camera", "rooms", "--realtime", "off", "--frames", "2", "--reserve", "0"];
        let with = ["--model", &model(name), "--data", data.to_str().unwrap()];
        let run = oupn_edge(&[&recording[..], &with].concat());
        assert!(run.status.success(), "{name}: {}", text(&run.stderr));
    }
}

#[test]
#[ignore = "needs OUPN_DATA: make test-data"]
fn they_are_as_good_as_promised() {
    let data = data("omniglot");
    let data = data.to_str().unwrap();
    for (name, _, ami, ap) in SHIPPED {
        let model = model(name);
        let run = oupn_edge(&["eval", "--model", &model, "--stream", "omniglot", "--data", data, "--json"]);
        assert!(run.status.success(), "{}", text(&run.stderr));
        let line: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
        assert_eq!(line["episodes"], 200);
        assert!(line["ami"].as_f64().unwrap() >= ami && line["ap"].as_f64().unwrap() >= ap, "{line}");
    }
}

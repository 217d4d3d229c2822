//! `--objective`: other methods of learning, in training and in a recording.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use oupn_edge::tensors::TensorFile;
use serde_json::Value;

use crate::support::program::text;
use crate::support::small_omniglot;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oupn-edge")).current_dir(folder).args(arguments).output().unwrap()
}

fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn train<'a>(out: &'a str, windows: &'a str, by: &[&'a str]) -> Vec<&'a str> {
    let fixed = ["train", "--stream", "omniglot", "--data", "data", "--evaluate", "2", "--episodes", "2"];
    [&fixed[..], &["--output", out, "--windows", windows], by].concat()
}

fn bits(model: &Path) -> Vec<(String, Vec<u32>)> {
    let file = TensorFile::read(model).unwrap();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    file.tensors().iter().map(|(name, tensor)| (name.clone(), bits(&tensor.values))).collect()
}

/// Every method: a window, stopped, one more, equal two in a row, bit for bit; and each learns something else.
#[test]
fn every_method_trains_resumes_and_is_scored_without_a_learned_threshold() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    small_omniglot::write(&at("data"));
    let mut models = Vec::new();
    for by in [
        ["--objective", "simclr"],
        ["--objective", "swav"],
        ["--objective", "swav-queue"],
        ["--objective", "simsiam"],
        ["--teach", "cross-entropy"],
        ["--teach", "prototypes"],
    ] {
        let (whole, halves) = (format!("whole-{}", by[1]), format!("halves-{}", by[1]));
        done(folder.path(), &train(&whole, "2", &by));
        done(folder.path(), &train(&halves, "1", &by));
        done(folder.path(), &train(&halves, "2", &by));
        let model = bits(&at(&whole).join("model.safetensors"));
        assert_eq!(model, bits(&at(&halves).join("model.safetensors")), "{by:?}");
        assert!(model.iter().all(|(name, _)| !name.starts_with("control.")), "{by:?}: β was not learned");
        models.push((by[1], model));

        let log = fs::read_to_string(at(&whole).join("log.jsonl")).unwrap();
        let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let window = lines.iter().find(|line| line["type"] == "window").unwrap();
        assert!(window["loss"].is_number() && window["refused"].is_null(), "{window}");
        assert!(window["mean_u_hat"].is_null(), "{by:?} has no û");

        let model = format!("{whole}/model.safetensors");
        let eval =
            ["eval", "--stream", "omniglot", "--data", "data", "--split", "val", "--episodes", "2", "--json"];
        let scored = done(folder.path(), &[&eval[..], &["--model", &model]].concat());
        let scored: Value = serde_json::from_str(&scored).unwrap();
        assert_eq!(scored["sweep"], "similarity");
        let last = lines.iter().rev().find(|line| line["type"] == "evaluation").unwrap();
        assert_eq!(scored["ami"], last["ami"], "the last evaluation of the run, again");
    }
    for (number, (name, model)) in models.iter().enumerate() {
        for (other, its) in &models[..number] {
            // A queue that is not full yet is not asked.
            assert_eq!(model == its, (*other, *name) == ("swav", "swav-queue"), "{other} and {name}");
        }
    }

    // Shuffled frames are another stream, with which another run does not go on.
    done(folder.path(), &train("shuffled", "1", &["--objective", "simclr", "--order", "iid"]));
    assert_ne!(bits(&at("shuffled/model.safetensors")), models[0].1);
    let said = refused(folder.path(), &train("shuffled", "2", &["--objective", "simclr"]));
    assert!(said.contains("omniglot, iid"), "{said}");
    let said = refused(folder.path(), &train("whole-simclr", "6", &["--objective", "simsiam"]));
    assert!(said.contains("learns by the objective simclr and not by simsiam"), "{said}");
    let said = refused(folder.path(), &train("whole-simclr", "6", &[]));
    assert!(said.contains("learns by the objective simclr and not by oupn"), "{said}");
    let said = refused(folder.path(), &train("whole-prototypes", "6", &["--teach", "cross-entropy"]));
    assert!(said.contains("taught by prototypes"), "{said}");
    let said = refused(folder.path(), &train("new", "2", &["--objective", "byol"]));
    assert!(said.contains("simsiam"), "the methods are listed: {said}");
    refused(folder.path(), &train("new", "2", &["--objective", "simclr", "--teach", "prototypes"]));
    let rooms = ["train", "--stream", "rooms", "--output", "new", "--windows", "1", "--teach", "prototypes"];
    let said = refused(folder.path(), &[&rooms[..], &["--evaluate", "0"]].concat());
    assert!(said.contains("no classes"), "{said}");
}

/// A recording by another method: it finds categories, its folder remembers, and no other method goes on in it.
#[test]
fn a_recording_learns_by_the_method_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "encoder = \"conv-4\"\nimage_height = 32\nimage_width = 32\naugmentation = \"mild\"\n\
                    window = 8\nstride = 4\nslots = 8\n";
    fs::write(folder.path().join("small.toml"), settings).unwrap();
    let record = ["record", "--camera", "rooms", "--realtime", "off", "--data", "walk", "--reserve", "0"];
    let first = ["--config", "small.toml", "--objective", "simsiam", "--frames", "16"];
    done(folder.path(), &[&record[..], &first].concat());
    let remembered = fs::read_to_string(folder.path().join("walk/run.toml")).unwrap();
    assert!(remembered.contains("objective = \"simsiam\""), "{remembered}");
    let updates = || {
        let trace = fs::read_dir(folder.path().join("walk/trace")).unwrap();
        let text: String =
            trace.map(|segment| fs::read_to_string(segment.unwrap().path()).unwrap()).collect();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["kind"] == "update").collect::<Vec<_>>()
    };
    let before = updates();
    assert!(before.len() >= 2, "{before:?}");
    for update in &before {
        assert!(update["losses"]["self"].is_number(), "{update}");
        assert_eq!(update["losses"]["self"], update["losses"]["total"], "{update}");
        assert!(update["losses"]["entropy"].is_null(), "{update}");
    }

    let other = ["record", "--data", "walk", "--objective", "oupn", "--frames", "4"];
    let said = refused(folder.path(), &other);
    assert!(said.contains("has learned by the objective simsiam, and oupn cannot go on"), "{said}");
    done(folder.path(), &["record", "--data", "walk", "--reserve", "0", "--frames", "8"]);
    assert!(updates().len() > before.len(), "it goes on by itself");
    done(folder.path(), &["report", "walk", "-o", "walk.html"]);
    let page = fs::read_to_string(folder.path().join("walk.html")).unwrap();
    assert!(page.contains("simsiam"), "the report says which method was used");
}

//! `oupn-edge train`, `eval` and `plot`, the real binary, on an Omniglot of six characters.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use oupn_edge::tensors::TensorFile;
use serde_json::Value;

use crate::support::small_omniglot;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oupn-edge"));
    command.current_dir(folder).args(arguments).output().unwrap()
}

fn done(folder: &Path, arguments: &[&str]) -> String {
    let run = run(folder, arguments);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

fn refused(folder: &Path, arguments: &[&str]) -> String {
    let run = run(folder, arguments);
    let message = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{message}");
    message.lines().last().unwrap_or_default().to_owned()
}

fn train<'a>(out: &'a str, windows: &'a str) -> Vec<&'a str> {
    let arguments = ["train", "--stream", "omniglot", "--data", "data", "--out", out, "--windows", windows];
    let rest = ["--evaluate", "2", "--episodes", "3", "--checkpoint", "2", "--device", "cpu"];
    arguments.into_iter().chain(rest).collect()
}

/// The lines of a log without what the clock wrote.
fn timeless(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    let line = |line: &str| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("seconds");
        line
    };
    text.lines().map(line).filter(|line| line["type"] != "start" && line["type"] != "end").collect()
}

/// Every tensor's bits and every header entry: the order of the entries in a file is nobody's promise.
fn content(model: &Path) -> (BTreeMap<String, Vec<u32>>, BTreeMap<String, String>) {
    let file = TensorFile::read(model).unwrap();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    let tensors = file.tensors().iter().map(|(name, tensor)| (name.clone(), bits(&tensor.values))).collect();
    (tensors, file.metadata().clone().into_iter().collect())
}

/// Two windows, stopped, two more: the same weights, bit for bit, and the same log as four in a row.
#[test]
fn a_resumed_run_equals_one_that_never_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    small_omniglot::write(&at("data"));
    done(folder.path(), &train("whole", "4"));
    done(folder.path(), &train("halves", "2"));
    assert_ne!(content(&at("whole/model.safetensors")), content(&at("halves/model.safetensors")));
    let said = done(folder.path(), &train("halves", "4"));
    assert!(said.contains("going on after window 2"), "{said}");
    assert_eq!(content(&at("whole/model.safetensors")), content(&at("halves/model.safetensors")));
    let log = timeless(&at("whole/log.jsonl"));
    assert_eq!(log, timeless(&at("halves/log.jsonl")));
    let kinds: Vec<&str> = log.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["window", "window", "evaluation", "window", "window", "evaluation"]);
    assert!(log.iter().all(|line| line["refused"].is_null()));

    let mut other = train("halves", "5");
    other.extend(["--seed", "7"]);
    assert!(refused(folder.path(), &other).contains("other settings"));
    // The same network, but weights whose pictures are scaled in another way.
    let file = TensorFile::read(at("whole/model.safetensors")).unwrap();
    let mut header = file.metadata().clone();
    let card = header["card"].replace("mean = [0.0]", "mean = [0.5]");
    assert_ne!(card, header["card"]);
    header.insert("card".to_owned(), card);
    oupn_edge::tensors::write(at("scaled.safetensors"), file.tensors(), header).unwrap();
    let mut scaled = train("halves", "5");
    scaled.extend(["--model", "scaled.safetensors"]);
    assert!(refused(folder.path(), &scaled).contains("other weights"));
    let mut digits = train("halves", "5");
    digits.extend(["--digits", "7"]);
    refused(folder.path(), &digits);

    // What was trained can be measured and drawn.
    let eval = ["eval", "--model", "whole/model.safetensors", "--stream", "omniglot", "--data", "data"];
    let with = |rest: &[&'static str]| eval.iter().copied().chain(rest.iter().copied()).collect::<Vec<_>>();
    let line: Value = serde_json::from_str(&done(
        folder.path(),
        &with(&["--split", "val", "--episodes", "3", "--json", "--readout", "saycam"]),
    ))
    .unwrap();
    for key in ["ami", "ap", "knn", "linear"] {
        let value = line[key].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&value), "{key} = {value}");
    }
    assert_eq!(line["ami"], log[5]["ami"], "the last evaluation of the run, again");
    assert_eq!((line["sweep"].as_str(), line["reduction"].as_str()), (Some("first-ten"), Some("released")));
    assert_eq!((line["slots"].as_u64(), line["readout"].as_str()), (Some(150), Some("saycam")));
    assert_eq!(line["ap"], log[5]["ap"]);
    done(folder.path(), &["plot", "curve", "whole", "--output", "curve.svg"]);
    let map = ["plot", "map", "--model", "whole/model.safetensors", "--stream", "omniglot", "--data", "data"];
    done(folder.path(), &map.iter().copied().chain(["-o", "map.svg"]).collect::<Vec<_>>());
    for picture in ["curve.svg", "map.svg"] {
        assert!(fs::read_to_string(at(picture)).unwrap().ends_with("</svg>\n"));
    }
}

/// Weights that learned nothing can be scored, as they are and as the start of a run; choices and scores are named.
#[test]
fn untrained_weights_are_scored_without_a_trick() {
    let folder = tempfile::tempdir().unwrap();
    small_omniglot::write(&folder.path().join("data"));
    let eval = ["eval", "--stream", "omniglot", "--data", "data", "--episodes", "3"];
    let scored = |rest: &[&str]| -> Value {
        let arguments = [&eval[..], &["--json", "--sweep", "first-ten"], rest].concat();
        serde_json::from_str(&done(folder.path(), &arguments)).unwrap()
    };
    let untrained = scored(&["--untrained", "--seed", "3"]);
    let name = untrained["model"].as_str().unwrap();
    assert!(name.starts_with("untrained Conv-4") && name.ends_with("seed 3"), "{name}");
    done(folder.path(), &[&train("start", "0")[..], &["--seed", "3"]].concat());
    let start = scored(&["--model", "start/model.safetensors"]);
    for key in ["ami", "ap", "threshold", "sweep", "frames"] {
        assert_eq!(untrained[key], start[key], "{key}");
    }
    assert_ne!(scored(&["--untrained", "--seed", "4"])["ami"], untrained["ami"]);
    let antialiased = scored(&["--untrained", "--seed", "3", "--reduction", "antialiased"]);
    assert_eq!(antialiased["reduction"], "antialiased");
    assert_ne!(antialiased["ap"], untrained["ap"], "other pictures");
    let few = scored(&["--untrained", "--seed", "3", "--slots", "2"]);
    assert_eq!(few["slots"], 2);
    assert_ne!(few["ami"], untrained["ami"], "a memory of two prototypes replaces them");

    let said = done(folder.path(), &[&eval[..], &["--untrained"]].concat());
    assert!(said.contains("sweep similarity") && said.contains("released code"), "{said}");
    assert_eq!(run(folder.path(), &eval).status.code(), Some(2), "neither weights nor --untrained");
}

/// Blocks of other widths than the paper's: trained, named in the file, measured, and not taken for the paper's.
#[test]
fn the_blocks_of_conv4_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    small_omniglot::write(&folder.path().join("data"));
    fs::write(folder.path().join("narrow.toml"), "encoder_channels = [8, 12, 16, 24]\n").unwrap();
    let mut narrow = train("out", "2");
    narrow.extend(["--config", "narrow.toml"]);
    done(folder.path(), &narrow);
    let file = TensorFile::read(folder.path().join("out/model.safetensors")).unwrap();
    assert_eq!(file.require("blocks.3.conv.weight").unwrap().shape, [24, 16, 3, 3]);
    let model = ["--model", "out/model.safetensors"];
    let eval = ["eval", "--stream", "omniglot", "--data", "data", "--episodes", "3", "--json"];
    done(folder.path(), &[&eval[..], &model].concat());
    let mut paper = train("other", "2");
    paper.extend(["--model", "out/model.safetensors"]);
    assert!(refused(folder.path(), &paper).contains("weights of Conv-4 of 8-12-16-24"));
}

/// A rate that falls from window 2 on is that of a run that was begun with a rate that stays, and is brought to an end.
#[test]
fn a_run_can_be_brought_to_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    small_omniglot::write(&at("data"));
    fs::write(at("staying.toml"), "augmentation = \"scripts\"\n").unwrap();
    let falling = "augmentation = \"scripts\"\nschedule = \"cosine\"\ncosine_from = 2\n";
    fs::write(at("falling.toml"), falling).unwrap();
    let with = |out: &'static str, windows: &'static str, config: &'static str| {
        done(folder.path(), &[&train(out, windows)[..], &["--config", config]].concat());
        content(&at(out).join("model.safetensors"))
    };
    let fallen = with("falling", "4", "falling.toml");
    assert_ne!(with("staying", "4", "staying.toml"), fallen);
    with("both", "2", "staying.toml");
    assert_eq!(with("both", "4", "falling.toml"), fallen);
}

/// More than one second view: another gradient from the first window on, of a loss that is written to the log.
#[test]
fn a_frame_may_have_several_second_views() {
    let folder = tempfile::tempdir().unwrap();
    small_omniglot::write(&folder.path().join("data"));
    let loss = |out: &str, settings: &str| {
        fs::write(folder.path().join("settings.toml"), settings).unwrap();
        let mut arguments = train(out, "2");
        arguments.extend(["--config", "settings.toml"]);
        done(folder.path(), &arguments);
        timeless(&folder.path().join(out).join("log.jsonl"))[0]["loss"].as_f64().unwrap()
    };
    let (one, two) = (loss("one", "second_views = 1\n"), loss("two", "second_views = 2\n"));
    assert!(one.is_finite() && two.is_finite() && one != two, "{one} {two}");
}

/// The stream that the built-in weights were learned on needs no data.
#[test]
fn things_are_learned_from_without_any_data() {
    let folder = tempfile::tempdir().unwrap();
    let settings = "encoder = \"conv-4\"\nimage_height = 32\nimage_width = 32\nwindow = 8\nstride = 8\n\
                    views = \"next_frame\"\n";
    fs::write(folder.path().join("settings.toml"), settings).unwrap();
    let arguments =
        ["train", "--stream", "things", "--config", "settings.toml", "--output", "run", "--windows", "2"];
    let rest = ["--evaluate", "2", "--episodes", "2", "--device", "cpu"];
    let said = done(folder.path(), &[&arguments[..], &rest].concat());
    assert!(said.contains("on 2 episodes of val") && said.contains("2 windows"), "{said}");
    let said = done(
        folder.path(),
        &[
            "eval",
            "--stream",
            "things",
            "--model",
            "run/model.safetensors",
            "--size",
            "32",
            "--episodes",
            "2",
        ],
    );
    assert!(said.contains("AMI"), "{said}");
    fs::write(
        folder.path().join("grey.toml"),
        "encoder = \"conv-4\"\nimage_channels = 1\naugmentation = \"omniglot\"\n",
    )
    .unwrap();
    let grey = refused(
        folder.path(),
        &["train", "--stream", "things", "--config", "grey.toml", "--output", "grey", "--windows", "1"],
    );
    assert!(grey.contains("colour"), "{grey}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    small_omniglot::write(&folder.path().join("data"));
    fs::write(folder.path().join("short.toml"), "window = 20\nstride = 20\n").unwrap();
    let mut short = train("out", "2");
    short.extend(["--config", "short.toml"]);
    assert!(refused(folder.path(), &short).contains("150 frames"));
    let no_data = ["train", "--stream", "omniglot", "--out", "out"];
    assert!(refused(folder.path(), &no_data).contains("--data"));
    let no_model = ["eval", "--model", "none.safetensors", "--stream", "omniglot", "--data", "data"];
    assert!(refused(folder.path(), &no_model).contains("none.safetensors"));
    fs::write(folder.path().join("log.jsonl"), "{\"type\":\"start\",\"window\":0}\n").unwrap();
    assert!(refused(folder.path(), &["plot", "curve", "log.jsonl", "-o", "x.svg"]).contains("no evaluation"));
}

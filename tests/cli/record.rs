//! What a newcomer types first: the verb, its help, its mistakes, and what is said about them. The real binary.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::program::until;
use crate::support::recording::SETTINGS;

fn oupn_edge(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oupn-edge")).current_dir(folder).args(arguments).output().unwrap()
}

/// A folder with the settings in it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("settings.toml"), SETTINGS).unwrap();
    folder
}

/// The flags of a short recording.
const SHORT: [&str; 8] =
    ["--camera", "rooms:3", "--realtime", "off", "--config", "settings.toml", "--reserve", "0"];

fn said(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The output of a command that must succeed.
fn good(folder: &Path, arguments: &[&str]) -> String {
    let run = oupn_edge(folder, arguments);
    assert!(run.status.success(), "{arguments:?}: {}", said(&run.stderr));
    said(&run.stdout)
}

#[test]
fn the_verb_and_the_bare_form_do_the_same() {
    let folder = folder();
    let end = ["--frames", "8", "--json"];
    let run = |verb: &[&str], data: &str| -> Value {
        let text = good(folder.path(), &[verb, &SHORT, &end, &["--data", data]].concat());
        serde_json::from_str(&text).unwrap()
    };
    let (with, without, old) = (run(&["record"], "a"), run(&[], "b"), run(&["run"], "c"));
    for key in ["reason", "frames", "updates", "categories", "founded", "ami"] {
        assert_eq!((&with[key], &with[key]), (&without[key], &old[key]), "{key}");
    }
}

#[test]
fn the_help_is_in_order() {
    let folder = folder();
    let help = good(folder.path(), &["--help"]);
    // The commands in the order in which they are needed, and no wall of flags.
    let at =
        |command: &str| help.find(&format!("\n  {command} ")).unwrap_or_else(|| panic!("{command}: {help}"));
    let order = ["record", "status", "report", "export", "doctor", "train", "eval", "model", "inspect"];
    assert!(order.windows(2).all(|pair| at(pair[0]) < at(pair[1])), "{help}");
    assert!(!help.contains("--memory-budget") && help.contains("oupn-edge record --help"), "{help}");

    let help = good(folder.path(), &["record", "--help"]);
    for heading in ["Where frames come from:", "When it ends:", "Learning:", "The machine:"] {
        assert!(help.contains(heading), "{heading}");
    }
    // One name for a thing: the old ones work, but are not shown.
    for command in [&["train", "--help"][..], &["plot", "curve", "--help"], &["model", "import", "--help"]] {
        let help = good(folder.path(), command);
        assert!(help.contains("--output") && !help.contains("--out "), "{command:?}: {help}");
        assert!(!help.contains("--weights"), "{command:?}: {help}");
    }
}

/// The first command that the help names leads to categories that say something about the world.
#[test]
fn the_first_recording_is_calibrated() {
    let folder = folder();
    let text = good(folder.path(), &[&["record"], &SHORT[..], &["--frames", "75", "--json"]].concat());
    let summary: Value = serde_json::from_str(&text).unwrap();
    assert!(summary["founded"].as_u64().unwrap() < 60, "every frame is its own category: {summary}");
    let events = good(
        folder.path(),
        &["export", "oupn-edge-data", "--what", "events", "--format", "jsonl", "-o", "-"],
    );
    assert!(events.contains("\"kind\":\"calibration\""), "{events}");
}

#[test]
fn mistakes_are_answered_with_what_to_do() {
    let folder = folder();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    for (arguments, words) in [
        (&["record", "--camera", "rooms", "--window", "0"][..], &["--window", "1 or more"][..]),
        (&["record", "--camera", "rooms", "--stride", "0"], &["--stride"]),
        (&["record", "--camera", "rooms", "--period", "0s"], &["--period", "longer than 0"]),
        (&["record", "--camera", "rooms", "--listen", "somewhere"], &["--listen", "localhost:8077"]),
        (&["record", "--camera", "rooms", "--data", "/proc/x"], &["/proc/x", "--data"]),
        (&["record", "--camera", "rooms", "--config", "none.toml"], &["none.toml", "config show"]),
        (&["record", "--camera", "rooms", "--model", "none.pth"], &["none.pth", "file of weights"]),
        (&["forget", "--last", "10 fortnights"], &["fortnights", "minutes"]),
        (&["report", "nosuch"], &["nosuch: there is no such", "data folder of a recording"]),
        (&["report", "empty"], &["empty", "data folder of a recording"]),
        (&["export", "nosuch", "-o", "x.csv"], &["nosuch: there is no such", "data folder of a recording"]),
        (&["export", "empty", "-o", "table"], &["--format", "parquet"]),
        (&["plot", "curve", "nosuch", "-o", "x.svg"], &["nosuch", "log.jsonl"]),
        (&["plot", "curve", "empty", "-o", "x.svg"], &["empty/log.jsonl", "oupn-edge train"]),
        (&["config", "check", "none.toml"], &["none.toml", "config show"]),
        (&["model", "info", "none.pth"], &["none.pth", "file of weights"]),
        (&["inspect", "window", "--tensors", "none.safetensors", "-o", "x"], &["none.safetensors", "in.*"]),
    ] {
        let run = oupn_edge(folder.path(), arguments);
        let said = said(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
        assert!(!said.contains("os error") && !said.contains("INFO"), "{arguments:?}: {said}");
    }
}

#[test]
fn one_frame_is_not_many_and_files_are_named() {
    let folder = folder();
    let run =
        oupn_edge(folder.path(), &[&["record"], &SHORT[..], &["--frames", "1", "--data", "one"]].concat());
    let (out, log) = (said(&run.stdout), said(&run.stderr));
    assert!(out.contains("\n1 frame, one every 4 s") && out.contains("of 1 thing"), "{out}");
    assert!(log.contains("recording into one") && !log.contains("device auto"), "{log}");

    assert!(good(folder.path(), &["report", "one"]).contains("report.html"));
    // The ending tells the format.
    assert!(good(folder.path(), &["export", "one", "--output", "frames.csv"]).contains("frames.csv"));
    let table = std::fs::read_to_string(folder.path().join("frames.csv")).unwrap();
    assert!(table.starts_with("device,") && table.lines().count() == 2, "{table}");
    good(folder.path(), &["export", "one", "--out", "frames.jsonl"]);
    let line = std::fs::read_to_string(folder.path().join("frames.jsonl")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["frame"], 0);
}

#[test]
fn a_participants_name_stays_with_the_recording() {
    let folder = folder();
    let first = [&["record"], &SHORT[..], &["--frames", "2", "--participant", "p07, left"]].concat();
    good(folder.path(), &first);
    good(folder.path(), &["record", "--frames", "2", "--reserve", "0", "--threads", "1"]);
    let table = good(folder.path(), &["export", "oupn-edge-data", "--format", "jsonl", "-o", "-"]);
    let names: Vec<Value> =
        table.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["device"].clone()).collect();
    assert_eq!(names, vec![Value::from("p07, left"); 4]);
}

#[test]
fn a_running_recording_says_how_it_goes_and_how_far_it_is() {
    let folder = folder();
    let flags =
        ["--realtime", "on", "--period", "100ms", "--minutes", "10", "--data", "run", "--name", "p07"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
        .current_dir(folder.path())
        .args([
            "record",
            "--camera",
            "rooms",
            "--config",
            "settings.toml",
            "--reserve",
            "0",
            "--threads",
            "1",
        ])
        .args(flags)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let data = folder.path().join("run");
    let seen =
        until(&data, |status| status["frames"].as_u64() > Some(2) && status["health"]["free_bytes"].is_u64());
    let progress = seen["progress"].as_f64().unwrap();
    assert!(progress > 0.0 && progress < 0.5, "{seen}");

    let words = good(folder.path(), &["status", "--data", "run"]);
    assert!(words.starts_with("p07: recording for ") && words.contains(" % done\n"), "{words}");
    for part in ["  camera ", "one every 0.1 s", " in memory, ", "updates, one every 5 frames", " free, "] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let machine: Value =
        serde_json::from_str(&good(folder.path(), &["status", "--data", "run", "--json"])).unwrap();
    assert!(machine["frames"].is_u64() && machine["running_s"].is_f64(), "{machine}");
    let forgot = good(folder.path(), &["forget", "--last", "1", "--data", "run"]);
    assert!(forgot.starts_with("the last 1 s: "), "{forgot}");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A folder of pictures knows its length: the log says how much of it is done.
#[test]
fn a_folder_of_pictures_has_an_end_in_sight() {
    let folder = folder();
    let pictures = folder.path().join("pictures");
    std::fs::create_dir(&pictures).unwrap();
    for number in 0..24u8 {
        let picture =
            image::RgbImage::from_fn(32, 32, |x, y| image::Rgb([number * 10, x as u8 * 8, y as u8 * 8]));
        picture.save(pictures.join(format!("{number}.png"))).unwrap();
    }
    let flags = ["--realtime", "off", "--config", "settings.toml", "--reserve", "0", "--rate", "0.25"];
    let run = oupn_edge(folder.path(), &[&["record", "--camera", "pictures"], &flags[..]].concat());
    let log = said(&run.stderr);
    assert!(run.status.success() && log.contains(" % done"), "{log}");
}

/// A deep encoder with random weights sees all frames alike until batch norm has statistics of them.
#[test]
fn a_start_from_random_weights_tells_things_apart() {
    let folder = folder();
    let settings = "encoder = \"mobilenet-v2\"\nencoder_width = 0.35\nimage_height = 64\nimage_width = 64\n";
    std::fs::write(folder.path().join("settings.toml"), settings).unwrap();
    let camera = |seed: &str| {
        let source = format!("rooms:{seed}");
        let flags = ["--realtime", "off", "--config", "settings.toml", "--reserve", "0", "--frames", "70"];
        let more = ["--camera", &source, "--data", seed, "--json", "--threads", "1", "--model", "random"];
        let text = good(folder.path(), &[&["record"], &flags[..], &more].concat());
        serde_json::from_str::<Value>(&text).unwrap()["ami"].as_f64().unwrap()
    };
    // No update yet: this is what the first five minutes look like. Without the statistics it is 0.01.
    let mean = (camera("1") + camera("2") + camera("3")) / 3.0;
    assert!(mean > 0.06, "agreement with the truth: {mean}");
}

/// Nothing is named but the source: the built-in weights, which see from the first frame on.
#[test]
fn a_plain_start_has_the_built_in_weights() {
    let folder = folder();
    let camera = |seed: &str| {
        let source = format!("rooms:{seed}");
        let flags = ["--realtime", "off", "--reserve", "0", "--frames", "70", "--threads", "1", "--json"];
        let text =
            good(folder.path(), &[&["record", "--camera", &source, "--data", seed], &flags[..]].concat());
        let remembered = std::fs::read_to_string(folder.path().join(seed).join("run.toml")).unwrap();
        assert!(remembered.contains("model = \"built-in\""), "{remembered}");
        serde_json::from_str::<Value>(&text).unwrap()["ami"].as_f64().unwrap()
    };
    // Five minutes. Random weights have 0.1 here.
    let mean = (camera("1") + camera("2") + camera("3")) / 3.0;
    assert!(mean > 0.5, "agreement with the truth: {mean}");
}

#[test]
fn one_update_is_drawn_as_a_point() {
    let folder = folder();
    let run: Value = serde_json::from_str(&good(
        folder.path(),
        &[&["record"], &SHORT[..], &["--frames", "13", "--json"]].concat(),
    ))
    .unwrap();
    assert_eq!(run["updates"], 1);
    let page = good(folder.path(), &["report", "oupn-edge-data", "-o", "-"]);
    assert!(page.contains("<circle class=\"point k0\"") && page.contains("Too few frames to say"), "{page}");
}

//! The recording through the real binary, on the built-in world with a small encoder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use oupn_edge::storage::{CheckpointStore, OsFilesystem};
use oupn_edge::tensors::TensorFile;
use oupn_edge::trace::{Entry, Record};

use crate::support::program::until;
use crate::support::recording::{SETTINGS, entries};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("settings.toml"), SETTINGS).unwrap();
        Self(folder)
    }

    fn data(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A recording of `rooms`; `more` are its further flags.
    fn command(&self, data: &str, realtime: &str, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oupn-edge"));
        command
            .args([
                "--camera",
                "rooms:3",
                "--realtime",
                realtime,
                "--reserve",
                "0",
                "--threads",
                "2",
                "--json",
            ])
            .args(["--config", self.data("settings.toml").to_str().unwrap()])
            .args(["--data", self.data(data).to_str().unwrap()])
            .args(more);
        command
    }

    fn run(&self, data: &str, more: &[&str]) -> Output {
        let output = self.command(data, "off", more).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output
    }
}

/// Frames and updates without times: by number, the later record of a number counts.
fn what_happened(data: &Path) -> Vec<String> {
    let mut frames = std::collections::BTreeMap::new();
    let mut updates = std::collections::BTreeMap::new();
    for entry in entries(data) {
        match entry.record {
            Record::Frame(mut frame) => {
                frame.latency_ms = None;
                frames.insert(frame.frame, format!("{frame:?}"));
            }
            Record::Update(mut update) => {
                update.seconds = 0.0;
                updates.insert(update.update, format!("{update:?}"));
            }
            _ => {}
        }
    }
    frames.into_values().chain(updates.into_values()).collect()
}

/// Every tensor's bits, and the header.
type Content = (Vec<(String, Vec<u32>)>, Vec<(String, String)>);

/// The newest checkpoint's tensors and header, without what only tells how long things took.
fn newest_checkpoint(data: &Path) -> Content {
    let store = CheckpointStore::open(Arc::new(OsFilesystem), &data.join("checkpoints")).unwrap();
    let (checkpoint, bytes) = store.load_newest().unwrap().unwrap();
    let file = TensorFile::parse(&checkpoint.path, &bytes).unwrap();
    let tensors = file.tensors().iter();
    let tensors =
        tensors.map(|(name, tensor)| (name.clone(), tensor.values.iter().map(|x| x.to_bits()).collect()));
    let mut header: Vec<(String, String)> =
        file.metadata().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    // The numbers of records differ: each start adds some.
    header.retain(|(key, _)| key != "trace");
    for (key, value) in &mut header {
        if key == "live" {
            let mut live: serde_json::Value = serde_json::from_str(value).unwrap();
            live["running_s"] = 0.into();
            *value = live.to_string();
        }
    }
    header.sort();
    (tensors.collect(), header)
}

#[test]
fn a_resumed_run_equals_one_that_never_stopped_bit_for_bit() {
    let folder = Folder::new();
    for (views, whole, parts) in [
        ("augmented", "a", "b"),
        // Stops between a sample and its companion, too.
        ("temporal", "c", "d"),
    ] {
        let flags = ["--views", views, "--calibrate", "on"];
        let run = |data: &str, frames: &str| {
            folder.run(data, &[&flags[..], &["--frames", frames]].concat());
        };
        run(whole, "60");
        for frames in ["7", "16", "1", "36"] {
            run(parts, frames);
        }
        let (whole, parts) = (folder.data(whole), folder.data(parts));
        assert_eq!(what_happened(&whole), what_happened(&parts), "{views}");
        assert!(what_happened(&whole).len() > 60 + 5);
        assert_eq!(newest_checkpoint(&whole), newest_checkpoint(&parts), "{views}");
    }
}

#[test]
fn a_data_folder_alone_goes_on_and_a_damaged_checkpoint_falls_back() {
    let folder = Folder::new();
    let data = folder.data("data");
    folder.run("data", &["--frames", "20"]);
    folder.run("data", &["--frames", "10"]);
    let store = CheckpointStore::open(Arc::new(OsFilesystem), &data.join("checkpoints")).unwrap();
    let newest = store.list().unwrap()[0].path.clone();
    let mut bytes = std::fs::read(&newest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&newest, bytes).unwrap();

    // Neither camera nor settings are said again.
    let output = Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
        .args(["--data", data.to_str().unwrap(), "--frames", "15", "--reserve", "0", "--json"])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.contains("damaged") && stderr.contains("going back to the checkpoint before it"),
        "{stderr}"
    );

    // It went back to frame 20 and saw frames 20 to 34: the same as a run that was never damaged.
    folder.run("whole", &["--frames", "35"]);
    assert_eq!(what_happened(&data), what_happened(&folder.data("whole")));
}

#[test]
fn the_summary_counts_what_the_trace_holds() {
    let folder = Folder::new();
    let output = folder.run("data", &["--minutes", "3"]);
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let entries = entries(&folder.data("data"));
    let count = |kind: fn(&Record) -> bool| entries.iter().filter(|entry| kind(&entry.record)).count();
    assert_eq!(summary["reason"], "time");
    // Three minutes of one frame every 4 s, with both ends.
    assert_eq!(summary["frames"], 46);
    assert_eq!(summary["frames"], count(|record| matches!(record, Record::Frame(_))));
    assert_eq!(summary["updates"], count(|record| matches!(record, Record::Update(_))));
    assert!(summary["ami"].as_f64().is_some());
    let start = entries.iter().find_map(|entry| match &entry.record {
        Record::Start(start) => Some(start),
        _ => None,
    });
    let start = start.unwrap();
    assert_eq!((start.settings["window"].as_u64(), start.frame), (Some(12), 0));
    assert!(matches!(entries.last().unwrap().record, Record::Stop(_)));
    assert!(entries.iter().zip(1..).all(|(entry, seq)| entry.seq == seq));
}

#[test]
fn no_pixel_reaches_the_disk_unless_asked_for() {
    let folder = Folder::new();
    folder.run("data", &["--frames", "15"]);
    let mut names: Vec<_> = std::fs::read_dir(folder.data("data"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["checkpoints", "lock", "run.toml", "trace"]);
    let (tensors, _) = newest_checkpoint(&folder.data("data"));
    assert!(tensors.iter().all(|(name, _)| !name.starts_with("ring.")));

    folder.run("asked", &["--frames", "15", "--keep-thumbnails", "--keep-window"]);
    let pictures = std::fs::read_dir(folder.data("asked").join("thumbnails")).unwrap().count();
    let created = entries(&folder.data("asked"))
        .iter()
        .filter(|entry| matches!(&entry.record, Record::Frame(frame) if frame.created))
        .count();
    assert_eq!(pictures, created);
    let (tensors, _) = newest_checkpoint(&folder.data("asked"));
    assert!(tensors.iter().any(|(name, _)| name == "ring.frames"));
}

fn say(data: &Path, words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
        .args(words)
        .args(["--data", data.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_running_recording_pauses_forgets_and_ends_on_request() {
    let folder = Folder::new();
    let data = folder.data("data");
    let flags = ["--period", "100ms", "--checkpoint-every", "1s", "--calibrate", "on"];
    let mut command = folder.command("data", "on", &flags);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    until(&data, |status| status["updates"].as_u64() > Some(1));
    let store = CheckpointStore::open(Arc::new(OsFilesystem), &data.join("checkpoints")).unwrap();
    // The oldest checkpoint is from well before what is going to be forgotten.
    until(&data, |_| store.list().unwrap().first().is_some_and(|newest| newest.number >= 4));

    assert!(say(&data, &["pause"]).contains("paused"));
    let paused = until(&data, |status| status["paused"] == true);
    assert!(say(&data, &["pause"]).contains("already"));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(until(&data, |_| true)["frames"], paused["frames"], "nothing is looked at while paused");

    // A second recording on the same folder is refused.
    let second = folder.command("data", "off", &["--frames", "1"]).output().unwrap();
    assert_eq!(second.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&second.stderr).contains("in use by another oupn-edge"));

    // The last moment only: a checkpoint from before it is there.
    let before = entries(&data).len();
    let said = say(&data, &["forget", "--last", "1500ms"]);
    assert!(said.contains("returned to checkpoint"), "{said}");
    let left = entries(&data);
    assert!(
        left.len() < before && left.iter().any(|entry| matches!(entry.record, Record::Frame(_))),
        "{said}"
    );
    assert!(say(&data, &["forget", "--last", "1h"]).contains("returned to its beginning"));
    let after = entries(&data);
    assert!(!after.iter().any(|entry| matches!(entry.record, Record::Frame(_) | Record::Update(_))));
    assert!(after.iter().any(|entry| matches!(entry.record, Record::Forget(_))));

    assert!(say(&data, &["resume"]).contains("goes on"));
    let frames = paused["newest"]["frame"].as_u64().unwrap();
    // Numbers are not given twice, also of what was forgotten.
    let later = until(&data, |status| status["newest"]["frame"].as_u64() > Some(frames + 3));
    assert!(later["founded"].as_u64() > paused["founded"].as_u64());

    let signal = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(signal.success());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    let entries = entries(&data);
    assert!(
        matches!(&entries.last().unwrap().record, Record::Stop(stop) if stop.reason == oupn_edge::trace::StopReason::Signal)
    );
    // Of what was forgotten no frame is kept: the checkpoint names later ones alone.
    let (_, header) = newest_checkpoint(&data);
    let live = header.iter().find(|(key, _)| key == "live").unwrap();
    let live: serde_json::Value = serde_json::from_str(&live.1).unwrap();
    let kept =
        live["kept"]["exemplars"].as_array().unwrap().iter().flat_map(|own| own[1].as_array().unwrap());
    let kept: Vec<u64> = kept.map(|place| place[0].as_u64().unwrap()).collect();
    assert!(
        !kept.is_empty() && kept.iter().all(|frame| *frame > frames),
        "{kept:?}, forgotten up to {frames}"
    );
    assert!(!data.join("control.sock").exists());
    let nobody = Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
        .args(["status", "--data", data.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(nobody.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("no recording is running"));
}

/// A camera that is a program: noise, about twenty pictures a second.
const PROGRAM: &str = "pipe:printf 'YUV4MPEG2 W16 H16 F20:1 Cmono\\n'; while :; do printf 'FRAME\\n'; head -c 256 /dev/urandom; sleep 0.05; done";

#[test]
fn a_camera_goes_on_under_new_numbers_also_without_a_checkpoint() {
    let folder = Folder::new();
    let data = folder.data("data");
    let start = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oupn-edge"));
        command.args(["--data", data.to_str().unwrap(), "--reserve", "0", "--threads", "1"]).args(more);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let settings = folder.data("settings.toml");
    let first = ["--camera", PROGRAM, "--period", "100ms", "--config", settings.to_str().unwrap()];
    // Killed before its first checkpoint, and then started by its folder alone.
    for (round, more) in [(1, &first[..]), (2, &[])] {
        let mut child = start(more);
        let frames = entries_of_frames(&data).len() as u64;
        until(&data, |status| {
            status["durable_seq"].as_u64() > Some(5) && status["frames"].as_u64() > Some(5)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(entries_of_frames(&data).len() as u64 > frames, "round {round}");
    }
    let numbers = entries_of_frames(&data);
    assert!(numbers.windows(2).all(|pair| pair[0].0 < pair[1].0), "{numbers:?}");
    // No category was created twice.
    let created: Vec<u64> = numbers.iter().filter(|frame| frame.1).map(|frame| frame.2).collect();
    assert!(created.windows(2).all(|pair| pair[0] < pair[1]), "{created:?}");
}

/// Number, whether it created a category, and the category, of every frame in the trace.
fn entries_of_frames(data: &Path) -> Vec<(u64, bool, u64)> {
    if !data.join("trace").exists() {
        return Vec::new();
    }
    let frame = |entry: Entry| match entry.record {
        Record::Frame(frame) => Some((frame.frame, frame.created, frame.category)),
        _ => None,
    };
    entries(data).into_iter().filter_map(frame).collect()
}

#[test]
fn a_program_that_falls_silent_does_not_keep_the_recording_from_ending() {
    let folder = Folder::new();
    let data = folder.data("data");
    let silent =
        "pipe:printf 'YUV4MPEG2 W16 H16 F20:1 Cmono\\nFRAME\\n'; head -c 256 /dev/urandom; sleep 100000";
    let mut child = Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
        .args(["--camera", silent, "--data", data.to_str().unwrap(), "--reserve", "0", "--threads", "1"])
        .args(["--config", folder.data("settings.toml").to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    until(&data, |status| status["frames"].as_u64() == Some(1));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(matches!(entries(&data).last().unwrap().record, Record::Stop(_)));
}

#[test]
fn a_signal_pauses_and_lets_go_on() {
    let folder = Folder::new();
    let data = folder.data("data");
    let mut command = folder.command("data", "on", &["--period", "100ms"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(&data, |status| status["frames"].as_u64() > Some(1));
    let toggle = || Command::new("kill").args(["-USR1", &child.id().to_string()]).status().unwrap();
    assert!(toggle().success());
    until(&data, |status| status["paused"] == true);
    assert!(toggle().success());
    until(&data, |status| status["paused"] == false);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn bad_usage_is_one_sentence() {
    let folder = Folder::new();
    for (flags, expected) in [
        (&["--data", "nowhere"][..], "say where frames come from with --camera"),
        (&["--camera", "rooms:x"], "whole number"),
        (&["--camera", "rooms", "--model", "missing.safetensors"], "missing.safetensors"),
        (&["--camera", "rooms", "--stride", "99"], "stride"),
        (&["--camera", "rooms", "--minutes=-1"], "--minutes"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
            .current_dir(folder.0.path())
            .args(flags)
            .args(["--frames", "1", "--reserve", "0"])
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {stderr}");
        let last = stderr.lines().last().unwrap();
        assert!(last.contains(expected), "{flags:?}: {stderr}");
    }
}

#[test]
fn a_grey_encoder_sees_the_luminance_of_a_camera() {
    let folder = Folder::new();
    let settings = folder.data("grey.toml");
    std::fs::write(&settings, "preset = \"omniglot\"\nwindow = 6\nstride = 6\nslots = 8\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
        .args(["--camera", "rooms", "--realtime", "off", "--frames", "8", "--reserve", "0", "--json"])
        .args(["--config", settings.to_str().unwrap(), "--data", folder.data("grey").to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((summary["frames"].as_u64(), summary["updates"].as_u64()), (Some(8), Some(1)));
}

/// What was learned goes on whatever `--model` says, and the user is told; a folder that has learned nothing takes it up.
#[test]
fn a_model_beside_a_checkpoint_is_said_to_be_unused() {
    let folder = Folder::new();
    folder.run("source", &["--frames", "3"]);
    folder.run("walk", &["--frames", "3"]);
    let newest = |data: &str| {
        let store = CheckpointStore::open(Arc::new(OsFilesystem), &folder.data(data).join("checkpoints"));
        store.unwrap().list().unwrap()[0].path.clone()
    };
    let model = newest("source");
    let with_model = ["--frames", "3", "--model", model.to_str().unwrap()];
    let warned = |output: Output| {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (said.contains("is not used") && said.contains("--data"), said)
    };
    let (told, said) = warned(folder.run("walk", &with_model));
    assert!(told, "{said}");
    let remembered = || std::fs::read_to_string(folder.data("walk").join("run.toml")).unwrap();
    assert!(!remembered().contains("model ="), "the folder did not begin with it");

    std::fs::remove_dir_all(folder.data("walk").join("checkpoints")).unwrap();
    let (told, said) = warned(folder.run("walk", &with_model));
    assert!(!told, "{said}");
    assert!(remembered().contains("model ="));
    // The file that it began with is no surprise.
    let (told, said) = warned(folder.run("walk", &with_model));
    assert!(!told, "{said}");
}

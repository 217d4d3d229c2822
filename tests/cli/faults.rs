//! What a recording does when the world around it fails, through the real binary.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use oupn_edge::run::socket;
use oupn_edge::storage::{CheckpointStore, Keep, Mark, OsFilesystem};
use oupn_edge::tensors::{Tensor, TensorFile, serialize};
use oupn_edge::trace::Record;

use crate::support::mounted::Mounted;
use crate::support::program::{oupn_edge, text, until};
use crate::support::recording::entries;

/// Conv-4 on small pictures: an update takes milliseconds.
const SETTINGS: &str =
    "encoder = \"conv-4\"\nimage_height = 16\nimage_width = 16\nwindow = 6\nstride = 3\nslots = 8\n";

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("settings.toml"), SETTINGS).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A recording with further flags.
    fn command(&self, data: &Path, more: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oupn-edge"));
        command
            .args([
                "--config",
                self.path("settings.toml").to_str().unwrap(),
                "--data",
                data.to_str().unwrap(),
            ])
            .args(["--reserve", "0", "--threads", "1"])
            .args(more);
        command
    }

    /// One of `rooms` that is as fast as it can and ends.
    fn record(&self, data: &Path, frames: &str) -> Output {
        let flags = ["--camera", "rooms:3", "--realtime", "off", "--frames", frames];
        self.command(data, &flags).output().unwrap()
    }

    /// One of `rooms` that goes on until it is stopped.
    fn live(&self, data: &Path, more: &[&str]) -> Child {
        let flags = [&["--camera", "rooms:3", "--realtime", "on", "--period", "100ms"], more].concat();
        self.command(data, &flags).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

fn store(data: &Path) -> CheckpointStore {
    CheckpointStore::open(Arc::new(OsFilesystem), &data.join("checkpoints")).unwrap()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

fn ended(mut child: Child) -> (Option<i32>, String) {
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap().code(), said)
}

fn killed(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_pause_survives_a_kill_until_somebody_resumes() {
    let folder = Folder::new();
    let data = folder.path("data");
    for by_signal in [false, true] {
        let child = folder.live(&data, &[]);
        until(&data, |status| status["frames"].as_u64() > Some(1));
        if by_signal {
            signal(&child, "-USR1");
            until(&data, |status| status["paused"] == true);
            // Nobody is told when a signal has been heard; the file appears with the pause.
            while !data.join("paused").exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
        } else {
            socket::ask(&data, "pause", None).unwrap();
            // What was acknowledged is on the disk, and so is its record.
            assert!(data.join("paused").exists());
            assert!(entries(&data).iter().any(|entry| matches!(entry.record, Record::Pause(_))));
        }
        killed(child);

        let child = folder.live(&data, &[]);
        until(&data, |status| status["paused"] == true);
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(until(&data, |_| true)["frames"], 0, "nothing is looked at");
        socket::ask(&data, "resume", None).unwrap();
        assert!(!data.join("paused").exists());
        until(&data, |status| status["frames"].as_u64() > Some(1));
        killed(child);
        let child = folder.live(&data, &[]);
        until(&data, |status| status["frames"].as_u64() > Some(1) && status["paused"] == false);
        killed(child);
    }
}

/// Saves a checkpoint with the right checksum, newer than the others.
fn plant(data: &Path, bytes: &[u8]) -> PathBuf {
    let newest = store(data).list().unwrap()[0].mark;
    let mark = Mark { trace_seq: newest.trace_seq, running: newest.running + Duration::from_secs(1) };
    store(data).save(mark, bytes, Keep::LastTwoAndOlder).unwrap().path
}

/// The newest checkpoint as a program to come might write it.
fn of_a_newer_format(data: &Path) -> Vec<u8> {
    let (checkpoint, bytes) = store(data).load_newest().unwrap().unwrap();
    let file = TensorFile::parse(&checkpoint.path, &bytes).unwrap();
    let mut header = file.metadata().clone();
    header.insert("format".to_owned(), "oupn-edge checkpoint 2".to_owned());
    let tensors = std::collections::BTreeMap::from([(
        "another".to_owned(),
        Tensor { shape: vec![1], values: vec![1.0] },
    )]);
    serialize(&tensors, header).unwrap()
}

#[test]
fn a_checkpoint_that_cannot_be_used_falls_back_to_the_one_before() {
    let folder = Folder::new();
    let data = folder.path("data");
    assert!(folder.record(&data, "10").status.success());
    let newer = plant(&data, &of_a_newer_format(&data));
    let nonsense = plant(&data, &[7; 1000]);

    let checked = oupn_edge(&["self", "check", "--data", data.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    assert!(text(&checked.stdout).contains("checkpoint 1 before it is"), "{}", text(&checked.stdout));
    assert!(newer.exists() && nonsense.exists(), "a check changes nothing");

    let output = folder.record(&data, "10");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("it is left alone"), "{}", text(&output.stderr));
    assert!(newer.exists(), "for the program that wrote it");
    assert!(!nonsense.exists(), "put aside");
    let frames = entries(&data).into_iter().filter_map(|entry| match entry.record {
        Record::Frame(frame) => Some(frame.frame),
        _ => None,
    });
    assert_eq!(frames.collect::<Vec<_>>(), (0..20).collect::<Vec<_>>(), "it went on where it was");
}

#[test]
fn without_a_usable_checkpoint_the_recording_is_not_begun_anew() {
    let folder = Folder::new();
    let data = folder.path("data");
    assert!(folder.record(&data, "10").status.success());
    let only = store(&data).list().unwrap()[0].path.clone();
    let settings = SETTINGS.replace("conv-4\"", "conv-4\"\nencoder_channels = [8, 8, 8, 8]");
    std::fs::write(folder.path("settings.toml"), settings).unwrap();
    let output = folder.record(&data, "10");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(only.exists());
}

#[test]
fn a_trace_of_a_newer_version_is_left_alone_and_counted_as_missing() {
    let folder = Folder::new();
    let data = folder.path("data");
    assert!(folder.record(&data, "10").status.success());
    let newer = data.join("trace/trace-v2-00000001.jsonl");
    let body = "{\"seq\":500,\"kind\":\"frame\",\"frame\":70,\"category\":30,\"new\":true";
    let line = format!("{body},\"crc\":\"{:08x}\"}}\n", crc32fast::hash(body.as_bytes()));
    std::fs::write(&newer, &line).unwrap();

    let checked = oupn_edge(&["self", "check", "--data", data.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    let output = folder.record(&data, "5");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("newer version"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&newer).unwrap(), line);
    assert!(entries(&data).last().unwrap().seq > 500, "numbers are not given twice");

    let exported = oupn_edge(&["export", data.to_str().unwrap(), "--format", "csv", "-o", "-"]);
    assert_eq!(exported.status.code(), Some(3), "half a trace does not pass for a whole one");
    assert!(text(&exported.stderr).contains("newer version"), "{}", text(&exported.stderr));

    // Another source begins after the frames of the newer program, too.
    let flags = ["--camera", "rooms:4", "--continue-with", "--realtime", "off", "--frames", "1", "--json"];
    let other = folder.command(&data, &flags).output().unwrap();
    assert!(other.status.success(), "{}", text(&other.stderr));
    let mut frames = entries(&data).into_iter().filter_map(|entry| match entry.record {
        Record::Frame(frame) => Some(frame.frame),
        _ => None,
    });
    assert_eq!(frames.next_back(), Some(71));
}

#[test]
fn a_full_disk_keeps_nobody_from_starting() {
    let folder = Folder::new();
    let disk = folder.path("disk");
    let Some(mounted) = Mounted::new(&disk, "24m") else { return };
    let data = disk.join("data");
    assert!(folder.record(&data, "10").status.success());
    mounted.fill();
    let checked = oupn_edge(&["self", "check", "--data", data.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    assert!(text(&checked.stdout).contains("is full"), "{}", text(&checked.stdout));
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 4, "nothing is left behind");

    let mut child = folder.live(&data, &[]);
    // Its socket may not have found room; that it runs is seen by its log.
    let mut stderr = child.stderr.take().unwrap();
    let mut said = String::new();
    let mut buffer = [0; 4096];
    while !said.contains("recording into") {
        let len = stderr.read(&mut buffer).unwrap();
        assert!(len > 0, "it ended: {said}");
        said.push_str(&String::from_utf8_lossy(&buffer[..len]));
    }
    assert!(child.try_wait().unwrap().is_none());
    killed(child);
}

fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn trouble_with_the_disk_is_shown_and_passes() {
    let folder = Folder::new();
    let disk = folder.path("disk");
    let Some(mounted) = Mounted::new(&disk, "24m") else { return };
    let data = disk.join("data");
    let notify = folder.path("notify");
    let manager = UnixDatagram::bind(&notify).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let flags = ["--camera", "rooms:3", "--realtime", "on", "--period", "100ms"];
    let child = folder
        .command(&data, &flags)
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .env("NOTIFY_SOCKET", &notify)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // What the service manager hears, as it comes.
    let heard = std::thread::spawn(move || {
        let mut said = Vec::new();
        let mut buffer = [0; 2000];
        loop {
            let len = manager.recv(&mut buffer).unwrap();
            said.push(String::from_utf8_lossy(&buffer[..len]).into_owned());
            if said.last().unwrap() == "STOPPING=1" {
                return said;
            }
        }
    });
    until(&data, |status| status["durable_seq"].as_u64() > Some(3) && status["disk_trouble"].is_null());
    assert!(get(port, "/healthz").starts_with("HTTP/1.1 200"));

    let hog = mounted.fill();
    let status = until(&data, |status| status["disk_trouble"].is_object());
    assert!(status["disk_trouble"]["what"].as_str().unwrap().contains("No space left"), "{status}");
    let health = get(port, "/healthz");
    assert!(health.starts_with("HTTP/1.1 503") && health.contains("No space left"), "{health}");
    assert!(get(port, "/metrics").contains("\noupn_edge_disk_trouble 1\n"));

    std::fs::remove_file(hog).unwrap();
    until(&data, |status| status["disk_trouble"].is_null());
    assert!(get(port, "/healthz").starts_with("HTTP/1.1 200"));

    // It ends in order while the disk fails, too, and says what is lost.
    mounted.fill();
    until(&data, |status| status["disk_trouble"].is_object());
    signal(&child, "-TERM");
    let (code, said) = ended(child);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("records of the trace are lost"), "{said}");
    let told = heard.join().unwrap();
    assert!(told.iter().any(|line| line.starts_with("STATUS=disk trouble for")), "{told:?}");
}

#[test]
fn a_data_folder_that_is_removed_ends_the_recording() {
    let folder = Folder::new();
    let data = folder.path("data");
    let child = folder.live(&data, &[]);
    until(&data, |status| status["frames"].as_u64() > Some(1));
    std::fs::rename(&data, folder.path("elsewhere")).unwrap();
    let (code, said) = ended(child);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("was removed or replaced"), "{said}");
}

#[test]
fn a_pipe_among_the_pictures_is_passed_over() {
    let folder = Folder::new();
    let pictures = folder.path("pictures");
    std::fs::create_dir(&pictures).unwrap();
    for name in ["a.png", "c.png"] {
        let image: Vec<u8> = (0..32 * 32 * 3).map(|n| (n % 251) as u8).collect();
        image::save_buffer(pictures.join(name), &image, 32, 32, image::ExtendedColorType::Rgb8).unwrap();
    }
    assert!(Command::new("mkfifo").arg(pictures.join("b.jpg")).status().unwrap().success());
    // A link to one cannot be told by its name; it counts as a picture that cannot be read.
    std::os::unix::fs::symlink(pictures.join("b.jpg"), pictures.join("d.jpg")).unwrap();
    let flags = ["--camera", pictures.to_str().unwrap(), "--realtime", "off", "--json"];
    let output = folder.command(&folder.path("data"), &flags).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((summary["frames"].as_u64(), summary["bad_pictures"].as_u64()), (Some(2), Some(1)));
}

#[test]
fn limits_are_bad_input_and_not_a_lack_of_memory() {
    let folder = Folder::new();
    let path = folder.path("settings.toml");
    let file = path.to_str().unwrap();
    let check = |expected: &str| {
        let checked = oupn_edge(&["config", "check", file]);
        assert_eq!(checked.status.code(), Some(2), "{}", text(&checked.stderr));
        assert!(text(&checked.stderr).contains(expected), "{}", text(&checked.stderr));
    };
    std::fs::write(&path, [0x7f, b'E', b'L', b'F', 0xff, 0xfe, 0]).unwrap();
    check("a settings file is text");
    std::fs::write(&path, "window = 4096\nimage_height = 1024\nimage_width = 1024\n").unwrap();
    check("window = 4096");
    for command in [&["--camera", "rooms", "--frames", "1"][..], &["bench"]] {
        let refused = oupn_edge(&[command, &["--threads", "100000"]].concat());
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains("1024"), "{}", text(&refused.stderr));
    }
}

//! A long run on a fast source: memory, threads and files must not grow.
//!
//! In `make test` it is short. The whole soak of 100,000 frames:
//! `cargo test --release --test durability -- --ignored --nocapture`

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use oupn_edge::run::socket;

/// What a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    resident_kib: u64,
    threads: u64,
    files: usize,
}

fn held(child: &Child) -> Held {
    let process = format!("/proc/{}", child.id());
    let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
    let number = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    Held {
        resident_kib: number("VmRSS:"),
        threads: number("Threads:"),
        files: std::fs::read_dir(format!("{process}/fd")).unwrap().count(),
    }
}

/// Noise of 32×32 pixels through a pipe, as fast as it is read: the cheapest frames there are.
fn start(data: &Path) -> Child {
    let settings = data.with_extension("toml");
    let text =
        "encoder = \"conv-4\"\nimage_height = 16\nimage_width = 16\nwindow = 20\nstride = 20\nslots = 32\n";
    std::fs::write(&settings, text).unwrap();
    Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
        .args([
            "--camera",
            "pipe:cat /dev/urandom",
            "--resolution",
            "32x32",
            "--realtime",
            "off",
            "--reserve",
            "0",
        ])
        .args(["--threads", "2", "--checkpoint-every", "2s", "--views", "temporal"])
        .args(["--config", settings.to_str().unwrap(), "--data", data.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn soak(early: u64, late: u64, percent: u64) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut child = start(&data);
    let mut reach = |frames: u64| loop {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        let status = socket::ask(&data, "status", None);
        if status.is_ok_and(|status| status["frames"].as_u64() >= Some(frames)) {
            return held(&child);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let before = reach(early);
    let after = reach(late);
    child.kill().unwrap();
    child.wait().unwrap();
    eprintln!("after {early} frames {before:?}, after {late} {after:?}");
    assert!(
        after.resident_kib * 100 <= before.resident_kib * (100 + percent),
        "memory grows: {before:?} to {after:?}"
    );
    assert!(after.threads <= before.threads, "threads grow: {before:?} to {after:?}");
    // One for a trace segment or a checkpoint that happens to be open.
    assert!(after.files <= before.files + 1, "open files grow: {before:?} to {after:?}");
}

#[test]
fn ten_thousand_frames_hold_no_more_than_two_thousand() {
    // Early on a few hundred KiB of the allocator's own making weigh more.
    soak(2_000, 10_000, 10);
}

#[test]
#[ignore = "takes minutes: the whole soak"]
fn a_hundred_thousand_frames_hold_no_more_than_ten_thousand() {
    soak(10_000, 100_000, 5);
}

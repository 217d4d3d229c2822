//! Videos through the real binary and the user's ffmpeg. The oracle for times and counts is ffprobe.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::recording::{Place, records, said};
use crate::support::skipped;

/// Whether the machine has ffmpeg; `make test` installs it.
fn has_ffmpeg() -> bool {
    let found = Command::new("ffmpeg").arg("-version").output().is_ok();
    if !found {
        skipped("ffmpeg is not installed (`make test` installs it)");
    }
    found
}

/// Has ffmpeg make something.
fn ffmpeg(place: &Place, words: &str, output: &str) {
    let status = Command::new("ffmpeg")
        .args(["-v", "error", "-y"])
        .args(words.split_whitespace())
        .arg(place.path(output))
        .current_dir(place.path(""))
        .status()
        .unwrap();
    assert!(status.success(), "{words}");
}

/// A moving picture of this many seconds.
fn film(place: &Place, seconds: f64, more: &str, output: &str) {
    let words =
        format!("-f lavfi -i testsrc2=size=320x180:rate=30:duration={seconds} {more} -pix_fmt yuv420p");
    ffmpeg(place, &words, output);
}

/// The times of all frames of a video in seconds after the file's beginning, as ffprobe knows them.
fn times(path: &Path) -> Vec<f64> {
    let probe = |words: &[&str]| {
        let output = Command::new("ffprobe").args(["-v", "error"]).args(words).arg(path).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let start: f64 = probe(&["-show_entries", "format=start_time", "-of", "csv=p=0"]).trim().parse().unwrap();
    let frames = probe(&["-select_streams", "v:0", "-show_entries", "frame=pts_time", "-of", "csv=p=0"]);
    frames
        .lines()
        .filter_map(|line| line.trim_end_matches(',').parse::<f64>().ok())
        .map(|time| time - start)
        .collect()
}

/// What a sample every `period` seconds takes of these frames: the first one at or after each turn.
fn sampled(times: &[f64], period: f64) -> Vec<f64> {
    let mut next = f64::NEG_INFINITY;
    let mut samples = Vec::new();
    for &time in times {
        if time >= next - 1e-6 {
            samples.push(time);
            next = if next + period > time { next + period } else { time + period };
        }
    }
    samples
}

fn seconds(frames: &[Value]) -> Vec<f64> {
    frames.iter().map(|frame| frame["source_ns"].as_u64().unwrap() as f64 / 1e9).collect()
}

fn close(found: &[f64], expected: &[f64], tolerance: f64) -> bool {
    found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= tolerance)
}

#[test]
fn a_video_is_sampled_whole_by_its_own_times() {
    if !has_ffmpeg() {
        return;
    }
    let place = Place::new();
    let date = "-metadata creation_time=2026-03-05T10:00:00Z";
    film(&place, 20.4, date, "film.mp4");
    // A rate of television, a first frame at 7 s, milliseconds.
    film(&place, 21.0, "-r 30000/1001 -output_ts_offset 7", "late.mkv");
    // Seconds without any frame.
    film(&place, 40.0, "-vf select='lt(mod(t,10),6)' -vsync vfr", "gaps.mp4");
    film(&place, 17.0, "-c:v mpeg4", "old.avi");
    film(&place, 13.0, "-c:v libx264 -g 15", "camcorder.MTS");
    for (name, samples) in
        [("film.mp4", 6), ("late.mkv", 6), ("gaps.mp4", 0), ("old.avi", 5), ("camcorder.MTS", 4)]
    {
        let data = format!("run-{name}");
        let summary = place.recorded(&["--camera", name, "--data", &data]);
        let found = seconds(&records(&place.path(&data), "frame"));
        let expected = sampled(&times(&place.path(name)), 4.0);
        // Pictures are thinned to ten a second before the sampler sees them: after a gap it may take the next one.
        assert!(
            close(&found, &expected, if samples == 0 { 0.11 } else { 2e-3 }),
            "{name}: {found:?} {expected:?}"
        );
        assert!(samples == 0 || found.len() == samples, "{name}: {found:?}");
        assert_eq!((&summary["frames"], &summary["reason"]), (&found.len().into(), &"end_of_source".into()));
    }
    // The file's date, not that of the processing.
    let frames = records(&place.path("run-film.mp4"), "frame");
    assert_eq!(frames[0]["wall"], "2026-03-05T10:00:00Z");
    assert_eq!(frames[5]["wall"], "2026-03-05T10:00:20Z");
    assert!(records(&place.path("run-late.mkv"), "frame").iter().all(|frame| frame.get("wall").is_none()));
    let start = &records(&place.path("run-film.mp4"), "start")[0];
    assert!(start["source"].as_str().unwrap().contains("320x180, 20.4 s, 30 frames a second"), "{start}");
}

#[test]
fn five_minutes_are_77_samples() {
    if !has_ffmpeg() {
        return;
    }
    let place = Place::new();
    film(&place, 306.5, "-r 10 -vf scale=64:48 -preset ultrafast", "film.mp4");
    let summary = place.recorded(&["--camera", "film.mp4", "--data", "run"]);
    assert_eq!(summary["frames"], 77);
}

/// Frames and updates without what only tells how long things took.
fn what_happened(data: &Path) -> Vec<String> {
    let timeless = |mut record: Value| {
        for field in ["seq", "boot", "mono_ns", "latency_ms", "seconds", "crc", "synced"] {
            record.as_object_mut().unwrap().remove(field);
        }
        record.to_string()
    };
    let (frames, updates) = (records(data, "frame"), records(data, "update"));
    let mut updates = updates;
    updates.iter_mut().for_each(|update| drop(update.as_object_mut().unwrap().remove("wall")));
    frames.into_iter().chain(updates).map(timeless).collect()
}

#[test]
fn an_interrupted_video_goes_on_bit_for_bit() {
    if !has_ffmpeg() {
        return;
    }
    let place = Place::new();
    film(
        &place,
        64.0,
        "-c:v libx264 -preset ultrafast -g 250 -metadata creation_time=2026-03-05T10:00:00Z",
        "film.mp4",
    );
    let flags = ["--camera", "film.mp4", "--period", "2s", "--views", "temporal"];
    place.recorded(&[&flags[..], &["--data", "whole"]].concat());
    place.recorded(&[&flags[..], &["--data", "parts", "--frames", "14"]].concat());
    place.recorded(&[&flags[..], &["--data", "parts", "--frames", "9"]].concat());
    // What was started is remembered, but the settings file that every call here names is read anew.
    place.recorded(&["--data", "parts", "--views", "temporal"]);
    let whole = what_happened(&place.path("whole"));
    assert!(whole.len() > 32 + 3, "{}", whole.len());
    assert_eq!(what_happened(&place.path("parts")), whole);
    // At its end it has no more.
    assert_eq!(place.recorded(&["--data", "parts"])["frames"], 0);
}

#[test]
fn of_a_damaged_video_what_is_there_is_used_and_the_rest_is_told() {
    if !has_ffmpeg() {
        return;
    }
    let place = Place::new();
    film(&place, 40.0, "-c:v libx264 -preset ultrafast -movflags faststart", "film.mp4");
    film(&place, 40.0, "-c:v libx264 -preset ultrafast", "film.mkv");
    film(&place, 40.0, "-c:v mpeg4", "film.avi");
    for name in ["film.mp4", "film.mkv", "film.avi"] {
        let bytes = std::fs::read(place.path(name)).unwrap();
        let cut = format!("cut-{name}");
        std::fs::write(place.path(&cut), &bytes[..bytes.len() / 2]).unwrap();
        let data = format!("run-{name}");
        let output = place.record(&["--camera", &cut, "--data", &data]);
        assert_eq!(output.status.code(), Some(3), "{name}: {}", said(&output));
        let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
        let missing = summary["missing"].as_str().unwrap();
        assert!(
            missing.contains("ffmpeg says") && said(&output).contains(missing),
            "{name}: {}",
            said(&output)
        );
        // An AVI file's length is reckoned by its size.
        let end = if name == "film.avi" { "" } else { "s of 40.0 s" };
        assert!(missing.contains(end), "{name}: {missing}");
        assert!((3..9).contains(&summary["frames"].as_u64().unwrap()), "{summary}");
        let stop = records(&place.path(&data), "stop").pop().unwrap();
        assert_eq!(stop["detail"], summary["missing"]);
    }
    // Bytes that are wrong in the middle.
    let mut bytes = std::fs::read(place.path("film.mp4")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 20_000].fill(0x55);
    std::fs::write(place.path("wrong.mp4"), bytes).unwrap();
    let output = place.record(&["--camera", "wrong.mp4", "--data", "wrong"]);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert!(said(&output).contains("a part is damaged"), "{}", said(&output));
    assert_eq!(records(&place.path("wrong"), "frame").len(), 10);
    // Without its index nothing can be read.
    film(&place, 4.0, "", "plain.mp4");
    let bytes = std::fs::read(place.path("plain.mp4")).unwrap();
    std::fs::write(place.path("headless.mp4"), &bytes[..bytes.len() / 2]).unwrap();
    std::fs::write(place.path("text.mp4"), "no film").unwrap();
    for name in ["headless.mp4", "text.mp4"] {
        let output = place.record(&["--camera", name, "--data", "none"]);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains("is not a video that ffmpeg can read"), "{}", said(&output));
    }
}

#[test]
fn without_ffmpeg_the_way_to_it_is_said() {
    let place = Place::new();
    std::fs::write(place.path("film.mp4"), "x").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
        .args(["--camera", "film.mp4", "--data", "run"])
        .current_dir(place.path(""))
        .env("PATH", place.path(""))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("sudo apt install ffmpeg"), "{}", said(&output));
    assert!(!place.path("run/run.toml").exists());
}

#[test]
fn a_turned_video_with_an_odd_name_is_read_upright() {
    if !has_ffmpeg() {
        return;
    }
    let place = Place::new();
    film(&place, 5.0, "-metadata:s:v rotate=90", "-v it's, a film:1.mov");
    let summary = place.recorded(&["--camera", "./-v it's, a film:1.mov", "--data", "run"]);
    assert_eq!(summary["frames"], 2);
}

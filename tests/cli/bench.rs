//! `oupn-edge bench`, the real binary, at a size that takes a moment.

use std::process::{Command, Stdio};

fn bench(more: &[&str]) -> std::process::Output {
    command(more).output().unwrap()
}

fn command(more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oupn-edge"));
    command
        .args([
            "bench",
            "--frames",
            "3",
            "--size",
            "32",
            "--width",
            "0.35",
            "--repeat",
            "2",
            "--threads",
            "2",
        ])
        .args(["--device", "cpu"])
        .args(more);
    command
}

#[test]
fn json_has_every_figure() {
    let run = bench(&["--json", "--storage", "f16", "--memory-budget", "64M"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let line: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let number = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("no `{key}` in {line}"));
    let parts: f64 =
        ["views_s", "encode_s", "memory_s", "backward_s", "adam_s"].iter().map(|key| number(key)).sum();
    assert!((number("window_s") - parts).abs() < 1e-6, "the parts make up the window: {line}");
    assert!(number("infer_p50_ms") > 0.0 && number("infer_p95_ms") >= number("infer_p50_ms"));
    assert!(number("peak_rss_mb") >= 1.0);
    for (key, value) in [("frames", 3.0), ("size", 32.0), ("width", 0.35), ("threads", 2.0), ("repeat", 2.0)]
    {
        assert_eq!(number(key), value);
    }
    assert_eq!(line["objective"], "oupn");
    assert_eq!((&line["storage"], &line["device"]), (&"f16".into(), &"cpu".into()));
}

#[test]
fn other_objectives_are_timed_too() {
    let run = bench(&["--json", "--objective", "simsiam"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let line: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(line["objective"], "simsiam");
    assert!(line["memory_s"].as_f64().unwrap() > 0.0);
}

/// What the refusal asks for must be enough.
#[test]
fn a_budget_that_is_too_small_names_one_that_is_not() {
    let run = bench(&["--memory-budget", "1M"]);
    assert_eq!(run.status.code(), Some(2));
    let said = String::from_utf8(run.stderr).unwrap();
    let (_, enough) = said.trim_end().rsplit_once("at least ").unwrap_or_else(|| panic!("{said}"));
    let enough = enough.replace(" MiB", "M");
    let run = bench(&["--memory-budget", &enough]);
    assert!(run.status.success(), "{enough}: {}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn the_table_reads_well() {
    let run = bench(&[]);
    let text = String::from_utf8(run.stdout).unwrap();
    for word in ["one frame", "one window", "views", "backward", "most memory", "MiB"] {
        assert!(text.contains(word), "{text}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let mut command = command(&[]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // As `| head` does: nobody reads by the time there is something to say.
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nonsense_is_refused() {
    for (flag, value) in
        [("--memory-budget", "much"), ("--size", "7"), ("--width", "-1"), ("--storage", "f8")]
    {
        let run =
            Command::new(env!("CARGO_BIN_EXE_oupn-edge")).args(["bench", flag, value]).output().unwrap();
        assert_eq!(run.status.code(), Some(2), "{flag} {value}");
    }
}

//! Weights that are published only if they are better than those in use: what the real binary says of it, everywhere.

use std::path::Path;
use std::process::Command;

use oupn_edge::trace::{PublicationOutcome, Record};
use serde_json::Value;

use crate::support::program::text;
use crate::support::recording::{SETTINGS, entries};

fn program(arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_oupn-edge")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    output.stdout
}

/// The summary of a recording of the built-in world with these settings on top.
fn recorded(folder: &Path, more: &str) -> Value {
    let (settings, data) = (folder.join("settings.toml"), folder.join("data"));
    std::fs::write(&settings, format!("{SETTINGS}\n{more}\n")).unwrap();
    let arguments =
        ["--camera", "rooms:3", "--realtime", "off", "--reserve", "0", "--threads", "1", "--json"];
    let places = ["--config", settings.to_str().unwrap(), "--data", data.to_str().unwrap()];
    let frames = ["--frames", "120"];
    serde_json::from_slice(&program(&[&arguments[..], &places, &frames].concat())).unwrap()
}

#[test]
fn every_comparison_is_in_summary_trace_events_and_report() {
    let folder = tempfile::tempdir().unwrap();
    let summary = recorded(folder.path(), "");
    let data = folder.path().join("data");
    let mut outcomes = Vec::new();
    for entry in entries(&data) {
        let Record::Publication(publication) = entry.record else { continue };
        assert!(publication.update > 0 && publication.frame < 120);
        if publication.outcome == PublicationOutcome::Published {
            let gain = publication.after - publication.before;
            assert!(gain > 2.0 * publication.error, "{publication:?}");
        }
        outcomes.push(publication.outcome);
    }
    let published = outcomes.iter().filter(|outcome| **outcome == PublicationOutcome::Published).count();
    assert!(!outcomes.is_empty());
    assert_eq!(summary["comparisons"], outcomes.len());
    assert_eq!(summary["publications"], published);

    let events = folder.path().join("events.csv");
    program(&["export", data.to_str().unwrap(), "--what", "events", "-o", events.to_str().unwrap()]);
    let events = std::fs::read_to_string(events).unwrap();
    assert_eq!(events.lines().filter(|line| line.contains(",publication,")).count(), outcomes.len());
    assert!(events.contains("what was learned"), "{events}");

    let report = folder.path().join("report.html");
    program(&["report", data.to_str().unwrap(), "-o", report.to_str().unwrap()]);
    let report = std::fs::read_to_string(report).unwrap();
    assert!(report.contains("Does learning help?"));
    assert!(report.contains(&format!("taken up, {published} of {} times", outcomes.len())));
}

#[test]
fn all_weights_are_published_where_the_settings_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let summary = recorded(folder.path(), "publish = \"always\"");
    assert!(summary["comparisons"].as_u64().is_some_and(|comparisons| comparisons > 0), "{summary}");
    assert_eq!(summary["publications"], summary["comparisons"]);
}

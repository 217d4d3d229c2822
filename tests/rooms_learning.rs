//! Learning in the built-in world: categories of the encoder that learns agree better with the truth than those of the same
//! encoder left as it was.
//!
//! One seed and half an hour of the world here; BENCHMARKS.md has three seeds and an hour.

#![allow(clippy::unwrap_used, clippy::print_stderr)] // a test that fails should say so in the shortest way

use std::path::Path;
use std::process::Command;

/// The adjusted mutual information at the end of a walk with these further settings.
fn agreement(folder: &Path, name: &str, more: &str) -> f64 {
    let settings = folder.join(format!("{name}.toml"));
    let demo = include_str!("../examples/rooms.toml");
    std::fs::write(&settings, format!("{demo}{more}")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
        .args([
            "--camera",
            "rooms:1",
            "--realtime",
            "off",
            "--minutes",
            "30",
            "--calibrate",
            "on",
            "--reserve",
            "0",
        ])
        .args(["--json", "--seed", "1", "--config", settings.to_str().unwrap()])
        .args(["--data", folder.join(name).to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    summary["ami"].as_f64().unwrap()
}

#[test]
fn learning_pays() {
    let folder = tempfile::tempdir().unwrap();
    let asleep =
        "learning_rate = 0\ninv_tau_learning_rate = 0\nbeta_learning_rate = 0\ngamma_learning_rate = 0\n";
    let untaught = agreement(folder.path(), "untaught", asleep);
    let taught = agreement(folder.path(), "taught", "");
    eprintln!("AMI {untaught:.3} without learning, {taught:.3} with");
    assert!(taught > untaught + 0.05, "{untaught:.3} without learning, {taught:.3} with");
}

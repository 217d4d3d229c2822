//! Learning in the built-in world: categories hold while the encoder changes under them, and the encoder that has learned is one to
//! go on with.
//!
//! It does not show that learning pays. In half an hour random weights with measured statistics do as well here as those that
//! have learned (BENCHMARKS.md).

use std::path::Path;
use std::process::Command;

const ASLEEP: &str =
    "learning_rate = 0\ninv_tau_learning_rate = 0\nbeta_learning_rate = 0\ngamma_learning_rate = 0\n";

/// The adjusted mutual information of half an hour with these settings on top of the demo's, from weights or from none.
fn agreement(folder: &Path, name: &str, more: &str, model: Option<&Path>) -> f64 {
    let settings = folder.join(format!("{name}.toml"));
    let demo = include_str!("../../examples/rooms.toml");
    std::fs::write(&settings, format!("{demo}{more}")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_oupn-edge"));
    command
        .args(["record", "--camera", "rooms:1", "--realtime", "off", "--minutes", "30", "--reserve", "0"])
        .args(["--json", "--seed", "1", "--config"])
        .arg(&settings)
        .arg("--data")
        .arg(folder.join(name));
    if let Some(model) = model {
        command.arg("--model").arg(model);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    summary["ami"].as_f64().unwrap()
}

#[test]
fn categories_hold_while_the_encoder_learns() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let untrained = agreement(folder, "untrained", ASLEEP, None);
    let live = agreement(folder, "live", "", None);
    let checkpoints = folder.join("live/checkpoints");
    let mut checkpoints: Vec<_> =
        std::fs::read_dir(checkpoints).unwrap().map(|entry| entry.unwrap().path()).collect();
    checkpoints.sort();
    let learned = agreement(folder, "learned", ASLEEP, checkpoints.last().map(|path| path.as_path()));
    eprintln!("AMI {untrained:.3} untrained, {live:.3} while it learns, {learned:.3} once it has learned");
    // A memory that the encoder leaves behind has 0.3 to 0.4.
    assert!(untrained > 0.6 && live > 0.5 && learned > 0.6, "{untrained:.3}, {live:.3}, {learned:.3}");
}

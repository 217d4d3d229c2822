//! `oupn-edge config` as a user runs it.

use crate::support::program::{oupn_edge, text};

#[test]
fn what_is_shown_can_be_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let changes = folder.path().join("changes.toml");
    std::fs::write(&changes, "preset = \"omniglot\"\nslots = 99\nbeta_learning_rate = 1e-2\n").unwrap();
    let changes = changes.to_str().unwrap();

    let shown = oupn_edge(&["config", "show", "--config", changes]);
    assert_eq!(shown.status.code(), Some(0));
    let shown = text(&shown.stdout);
    assert!(shown.starts_with("preset = \"omniglot\"\n"), "{shown}");
    assert!(shown.contains("\nslots = 99 # preset: 150\n"), "{shown}");
    assert!(shown.contains("\nbeta_learning_rate = 0.01 # preset: 0.001\n"), "{shown}");
    assert!(shown.contains("\nwindow = 150\n"), "{shown}");

    let whole = folder.path().join("whole.toml");
    std::fs::write(&whole, &shown).unwrap();
    let again = oupn_edge(&["config", "show", "--config", whole.to_str().unwrap(), "--preset", "omniglot"]);
    assert_eq!(text(&again.stdout), shown);

    let checked = oupn_edge(&["config", "check", whole.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(0));
    assert_eq!(
        text(&checked.stdout),
        format!(
            "{}: valid, preset omniglot, changed:\n  slots = 99 (preset: 150)\n  beta_learning_rate = 0.01 (preset: 0.001)\n",
            whole.display()
        )
    );
}

#[test]
fn each_preset_can_be_shown() {
    for (preset, line) in [
        ("saycam", "encoder = \"mobilenet-v2\""),
        ("rooms", "pseudo_label = 0.1"),
        ("omniglot", "image_channels = 1"),
        ("imagenet", "encoder_pools = [2, 2, 2, 1]"),
    ] {
        let shown = oupn_edge(&["config", "show", "--preset", preset]);
        assert_eq!(shown.status.code(), Some(0));
        let shown = text(&shown.stdout);
        assert!(shown.lines().any(|shown| shown == line), "{preset} lacks `{line}`:\n{shown}");
    }
}

#[test]
fn faults_are_one_line_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    let path = file.to_str().unwrap();
    for (content, fault) in [
        ("slot = 5\n", ":1: unknown key `slot`: did you mean `slots`?"),
        (
            "window = 10\nslots = 5000\n",
            ":2: slots = 5000 is not valid: it must be a whole number in 1..=1024",
        ),
        ("slots = \n", ":1: "),
    ] {
        std::fs::write(&file, content).unwrap();
        for arguments in [vec!["config", "check", path], vec!["config", "show", "--config", path]] {
            let output = oupn_edge(&arguments);
            assert_eq!(output.status.code(), Some(2));
            assert!(output.stdout.is_empty());
            let message = text(&output.stderr);
            assert!(message.starts_with(&format!("oupn-edge: {path}{fault}")), "{message}");
            assert_eq!(message.trim_end().lines().count(), 1, "{message}");
        }
    }

    std::fs::write(&file, "preset = \"rooms\"\n").unwrap();
    let output = oupn_edge(&["config", "show", "--preset", "saycam", "--config", path]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("preset = \"rooms\" contradicts the preset asked for, saycam"));

    assert_eq!(oupn_edge(&["config", "check", "no/such.toml"]).status.code(), Some(2));
    assert_eq!(oupn_edge(&["config", "show", "--preset", "kitchen"]).status.code(), Some(2));
}

/// The file that is installed on a device must be one that it accepts.
#[test]
fn the_devices_own_settings_are_valid() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/firmware-config/oupn-edge.toml");
    let checked = oupn_edge(&["config", "check", path]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    assert!(text(&checked.stdout).contains("preset saycam"));
}

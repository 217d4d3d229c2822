//! `oupn-edge self check` and `generate`, as an update and a packager run them.

use crate::support::program::{oupn_edge, text};

#[test]
fn a_good_binary_says_so_and_what_it_checked() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/firmware-config/oupn-edge.toml");
    let checked = oupn_edge(&["self", "check", "--config", config, "--data", data]);
    let said = text(&checked.stdout);
    assert_eq!(checked.status.code(), Some(0), "{said}{}", text(&checked.stderr));
    for word in ["kernels: MobileNet-V2", "kernels: Conv-4", "learning:", "is valid", "is writable", "good:"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn what_cannot_be_gone_on_with_is_bad() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("run.toml"), "camera = ").unwrap();
    let checked = oupn_edge(&["self", "check", "--data", folder.path().to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(2));
    assert!(text(&checked.stderr).contains("run.toml"), "{}", text(&checked.stderr));
    assert!(!text(&checked.stdout).contains("good:"));

    let missing = folder.path().join("missing");
    let checked = oupn_edge(&["self", "check", "--data", missing.to_str().unwrap()]);
    assert_ne!(checked.status.code(), Some(0), "a folder that is not there cannot be written to");
}

#[test]
fn pages_and_completions_name_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for what in ["man", "completions"] {
        let made = oupn_edge(&["generate", what, "--out", out.to_str().unwrap()]);
        assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    }
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    assert!(read("oupn-edge.1").contains("head camera"));
    assert!(read("oupn-edge-config-check.1").contains("settings file"));
    for completions in ["oupn-edge", "_oupn-edge", "oupn-edge.fish"] {
        assert!(read(completions).contains("cameras"), "{completions}");
    }
    assert!(!out.join("oupn-edge-generate.1").exists(), "what is hidden from the help is hidden here");
}

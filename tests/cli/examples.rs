//! The examples, as a reader of the manual runs them: each ends well and says what its page promises.
//!
//! `cargo test` builds them. `cargo test --test cli` does not: `cargo build --examples` comes first.

use std::path::PathBuf;
use std::process::Command;

use crate::support::program::text;

/// The program of an example: beside the folder that this test lies in.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let program = profile.join("examples").join(name);
    assert!(program.is_file(), "{} is not there: `cargo build --examples` makes it", program.display());
    program
}

/// What an example prints.
fn printed(name: &str, arguments: &[&str]) -> String {
    let output = Command::new(program(name)).args(arguments).output().unwrap();
    assert!(output.status.success(), "{name}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The numbers of a text, in their order.
fn numbers(text: &str) -> Vec<f64> {
    text.split_whitespace().filter_map(|word| word.trim_matches(['(', ')', ',', ':']).parse().ok()).collect()
}

#[test]
fn record_and_read_trace() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("walk");
    let data = data.to_str().unwrap();
    let said = printed("record", &[data]);
    // Windows of 20 frames, one every 10: after 20, 30, 40 and 50. That of the last frame would wait for the next picture.
    assert!(said.starts_with("60 frames and 4 updates in "), "{said}");
    assert!(said.contains(" things were shown; adjusted mutual information "), "{said}");

    let read = printed("read_trace", &[data]);
    assert!(read.contains("sessions: 1\n"), "{read}");
    assert!(read.contains(" categories, 4 updates\n"), "{read}");
    assert!(!read.contains("missing:"), "{read}");
}

#[test]
fn read_trace_makes_a_recording_of_its_own() {
    let said = printed("read_trace", &[]);
    assert!(said.contains(" categories, 2 updates\n"), "{said}");
    assert!(said.contains("was seen longest: "), "{said}");
}

#[test]
fn own_source() {
    let said = printed("own_source", &[]);
    assert!(said.starts_with("frame  0, red  : category 0, new\n"), "{said}");
    assert_eq!(said.lines().count(), 31, "{said}");
    let last = said.lines().last().unwrap();
    let categories = last.strip_prefix("30 frames of 3 colours: ").unwrap_or_else(|| panic!("{said}"));
    // One for each colour is the aim; what must not be is one for all, or one for each frame.
    assert!((2.0..=10.0).contains(&numbers(categories)[0]), "{said}");
}

#[test]
fn own_objective() {
    let said = printed("own_objective", &[]);
    assert!(said.contains("window 19: loss "), "{said}");
    let last = said.lines().last().unwrap();
    let [first, last] = numbers(last)[..] else { panic!("{said}") };
    assert!(last < first, "{said}");
}

#[test]
fn candle_finetune() {
    let said = printed("candle_finetune", &[]);
    assert!(said.contains("step 9: loss "), "{said}");
    let told = said.lines().find(|line| line.contains(" are told apart")).unwrap_or_else(|| panic!("{said}"));
    let [right, of] = numbers(told)[..] else { panic!("{said}") };
    // By chance it would be a quarter; noise is other each time.
    assert!(of == 32.0 && right >= 24.0, "{said}");
    assert!(said.contains("22 tensors, "), "{said}");
}

#[test]
fn learn_from_frames() {
    let said = printed("learn_from_frames", &[]);
    assert!(said.contains("window 4: loss "), "{said}");
    assert!(said.contains("after 5 updates: an embedding of 576 numbers, length "), "{said}");
}

#[cfg(feature = "lab")]
#[test]
fn evaluate() {
    let said = printed("evaluate", &[]);
    assert!(said.contains("3 episodes, 300 frames"), "{said}");
    assert!(said.contains("adjusted mutual information "), "{said}");
    assert!(said.contains("average precision "), "{said}");
}

#[test]
fn contact_sheet() {
    let folder = tempfile::tempdir().unwrap();
    let sheet = folder.path().join("sheet.png");
    printed("contact_sheet", &[sheet.to_str().unwrap()]);
    let (width, height) = image::image_dimensions(&sheet).unwrap();
    assert_eq!((width % 8, height % 6), (0, 0), "{width}×{height}");
}

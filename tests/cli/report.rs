//! `oupn-edge report`, the real binary, on a made-up recording with hostile names in it.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::day::Day;

fn report(folder: &Path, arguments: &[&str]) -> Output {
    let binary = env!("CARGO_BIN_EXE_oupn-edge");
    Command::new(binary).current_dir(folder).arg("report").args(arguments).output().unwrap()
}

/// The number of times that one text is in another.
fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn the_report_is_one_file_with_everything_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let day = Day { device: "anna's <u>camera</u> & \"co\"", frames: 300, ..Day::default() };
    let (frames, updates) = day.write(&folder.path().join("run/trace"));
    // Kept pictures, one of which is something else under that name.
    let pictures = folder.path().join("run/thumbnails");
    std::fs::create_dir(&pictures).unwrap();
    for category in 1..1000 {
        let content: &[u8] = if category % 2 == 0 { b"\x89PNG\r\n\x1a\n" } else { b"<svg onload=x>" };
        std::fs::write(pictures.join(format!("category-{category:08}-boot-7.png")), content).unwrap();
    }
    let run = report(folder.path(), &["run", "-o", "report.html"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();

    // Alone: nothing is loaded, nothing runs, nothing from the trace is markup.
    for outside in ["http://", "https://", "<script", "<link", "src=\"h", "src=\"/", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(
        !page.contains("<u>camera</u>")
            && page.contains("anna&#39;s &lt;u&gt;camera&lt;/u&gt; &amp; &quot;co&quot;")
    );
    assert!(page.contains("usb-Camera &quot;Wide&quot; &amp; Co"));

    // Everything is there, with the numbers of the trace.
    for part in [
        "When what was seen",
        "Categories",
        "How many categories",
        "New categories",
        "Losses",
        "Spread of the embeddings",
        "the probability of something new",
        "From one category to the next",
        "Temperature in °C",
        "Free disk in GiB",
        "Frame gaps",
        "What happened",
        "Settings",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains(&format!("<dt>frames</dt><dd>{frames}</dd>")), "{frames} frames");
    assert!(page.contains(&format!("<dt>steps of learning</dt><dd>{updates}</dd>")), "{updates} updates");
    assert_eq!(count(&page, "<div class=\"presence\">"), 24);
    let shown = count(&page, "src=\"data:image/png;base64,iVBORw0KGgo=\"");
    assert!((1..24).contains(&shown) && shown == count(&page, "<img"), "{shown} pictures");
    for event in [
        "paused by page",
        "camera lost: the device is gone",
        "too hot: tj-thermal",
        "belongs to a category from a similarity of 0.75 on",
    ] {
        assert!(page.contains(event), "{event}");
    }
    for gap in ["<td>paused</td>", "<td>camera lost</td>", "<td>not running</td>"] {
        assert!(page.contains(gap), "{gap}");
    }
    // Captions say what the numbers are, not what they should be.
    assert!(page.contains("Of the first third of the frames") && !page.contains("what is seen is known"));
    // Drawings hold finite numbers, and tags are closed.
    assert!(
        !page.contains("NaN") && !page.contains(">inf<") && !page.contains("inf\""),
        "a number went wrong"
    );
    for tag in ["svg", "section", "figure", "table", "ol", "ul", "div", "dl", "tr"] {
        assert_eq!(
            count(&page, &format!("<{tag} ")) + count(&page, &format!("<{tag}>")),
            count(&page, &format!("</{tag}>")),
            "{tag}"
        );
    }
}

#[test]
fn a_damaged_trace_gives_a_report_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    Day { frames: 50, ..Day::default() }.write(&folder.path().join("trace"));
    let segment = folder.path().join("trace/trace-v1-00000001.jsonl");
    let text = std::fs::read_to_string(&segment).unwrap();
    std::fs::write(&segment, text.replacen("\"kind\":\"frame\"", "\"kind\":\"frxme\"", 2)).unwrap();
    let run = report(folder.path(), &[".", "-o", "-"]);
    assert_eq!(run.status.code(), Some(3), "{}", String::from_utf8_lossy(&run.stderr));
    let page = String::from_utf8(run.stdout).unwrap();
    assert!(page.contains("The trace is damaged") && page.contains("2 damaged lines"));
}

/// A recording that has just begun has nothing to draw.
#[test]
fn a_recording_without_frames_has_a_report() {
    let folder = tempfile::tempdir().unwrap();
    Day { frames: 0, ..Day::default() }.write(&folder.path().join("trace"));
    let run = report(folder.path(), &["."]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("Nothing was recorded of this") && !page.contains("NaN"));
}

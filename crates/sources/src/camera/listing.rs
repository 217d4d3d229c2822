//! Which pictures a recording has, in which order, when each was taken, and what it shows where somebody has said so.
//!
//! Pictures are `.jpg`, `.jpeg` and `.png` files in natural order, those of subfolders included. A file `rgb.txt` beside them, as the TUM RGB-D recordings
//! have it (a line a picture: seconds and path), gives order and times instead; it may lie in the folder or, when the
//! folder itself is named in its paths, in the one above. A file `labels.csv` says what pictures show: a line `file,label`, then one
//! for each picture, with its path and the name of the thing. Labels are never seen by the learner; categories are scored by them.

use std::collections::HashMap;

use super::natural;
use crate::{Error, Result};

/// Name of the list of times.
pub(super) const TIMES: &str = "rgb.txt";

/// Name of the list of what pictures show.
pub(super) const LABELS: &str = "labels.csv";

/// More entries than this are refused rather than held in memory: at 30 pictures a second, two days.
pub(super) const MOST: usize = 5_000_000;

/// A picture of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Path within the recording.
    pub(super) name: String,
    /// When it was taken.
    pub(super) time_ns: Option<u64>,
    /// What it shows, by number.
    pub(super) truth: Option<u32>,
}

/// Whether a file may be a picture, by its name.
pub(super) fn is_picture(name: &str) -> bool {
    let Some((stem, extension)) = name.rsplit_once('.') else { return false };
    // macOS puts a companion "._name" beside each file on foreign disks and into archives.
    let hidden = stem.rsplit('/').next().is_none_or(|last| last.is_empty() || last.starts_with("._"));
    !hidden && ["jpg", "jpeg", "png"].iter().any(|known| extension.eq_ignore_ascii_case(known))
}

/// Pictures in natural order, without times.
pub(super) fn in_order(names: impl Iterator<Item = String>) -> Vec<Entry> {
    let mut names: Vec<String> = names.filter(|name| is_picture(name)).collect();
    names.sort_by(|a, b| natural::compare(a, b));
    names.into_iter().map(|name| Entry { name, time_ns: None, truth: None }).collect()
}

/// The pictures that a list of times names; `inside` turns each path into one within the recording, or refuses it.
///
/// # Errors
///
/// A line is not a time and a path.
pub(super) fn timed(text: &str, place: &str, inside: impl Fn(&str) -> Option<String>) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parsed = line
            .split_once(char::is_whitespace)
            .and_then(|(time, path)| Some((nanoseconds(time)?, path.trim())));
        let Some((time_ns, path)) = parsed else {
            return Err(Error::input(format!(
                "{place}: line {} is not a time in seconds and the path of a picture; mend or remove the file",
                number + 1
            )));
        };
        if let Some(name) = inside(path).filter(|name| is_picture(name)) {
            entries.push(Entry { name, time_ns: Some(time_ns), truth: None });
        }
        if entries.len() > MOST {
            return Err(Error::input(format!("{place}: more than {MOST} pictures; split the recording")));
        }
    }
    Ok(entries)
}

/// Gives pictures the labels of a list: each label is a number, in the order in which they are first named. Its paths begin at
/// the folder `above`.
///
/// # Errors
///
/// The first line is not `file,label`, or another has no label.
pub(super) fn label(entries: &mut [Entry], text: &str, place: &str, above: &str) -> Result<()> {
    let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
    if lines.next().is_none_or(|(_, line)| !line.trim_end().starts_with("file,label")) {
        return Err(Error::input(format!(
            "{place}: its first line is not file,label; what follows is the path of a picture, a comma and the name of what it shows"
        )));
    }
    let (mut numbers, mut labels) = (HashMap::new(), HashMap::new());
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let mut fields = line.split(',').map(str::trim);
        let (Some(file), Some(label)) = (fields.next(), fields.next()) else {
            return Err(Error::input(format!(
                "{place}: line {} has no label; write the path of a picture, a comma and the name of what it shows",
                number + 1
            )));
        };
        if !label.is_empty() {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            labels.insert(file, *numbers.entry(label).or_insert(next));
        }
    }
    for entry in entries {
        entry.truth = entry.name.strip_prefix(above).and_then(|path| labels.get(path)).copied();
    }
    Ok(())
}

/// Seconds with a fraction to nanoseconds, digit by digit: a double would lose the last of them.
fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().chain(whole.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: String = fraction.chars().chain("000000000".chars()).take(9).collect();
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction.parse().ok()?)
}

/// Pictures a second, from the first time and the last.
pub(super) fn rate(entries: &[Entry]) -> Option<f64> {
    let (first, last) = (entries.first()?.time_ns?, entries.last()?.time_ns?);
    let seconds = last.checked_sub(first)? as f64 * 1e-9;
    (seconds > 0.0).then(|| (entries.len() - 1) as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_list_of_times_is_read_to_the_nanosecond() {
        let text = "# color images\n# timestamp filename\n1305031452.791720 rgb/a.png\n\n1305031453.5 rgb/b.png\n1 depth/c.txt\n";
        let entries = timed(text, "rgb.txt", |path| Some(path.to_owned())).unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(
            entries[0],
            Entry { name: "rgb/a.png".into(), time_ns: Some(1_305_031_452_791_720_000), truth: None }
        );
        assert_eq!(entries[1].time_ns, Some(1_305_031_453_500_000_000));
        assert!((rate(&entries).unwrap() - 1.0 / 0.70828).abs() < 1e-9);
        let error = timed("1.0 a.png\nnonsense\n", "x/rgb.txt", |path| Some(path.to_owned())).unwrap_err();
        assert!(error.to_string().contains("x/rgb.txt: line 2"), "{error}");
    }

    #[test]
    fn labels_are_numbered_as_they_come() {
        let mut entries = in_order(["1.png", "2.png", "3.png", "4.png"].map(str::to_owned).into_iter());
        label(
            &mut entries,
            "\u{feff}file,label,more\r\n2.png,cup,x\r\n1.png, ball\n\n4.png,cup\n3.png,\n",
            "l",
            "",
        )
        .unwrap();
        let truths: Vec<_> = entries.iter().map(|entry| entry.truth).collect();
        assert_eq!(truths, [Some(1), Some(0), None, Some(0)]);
        let fault =
            |text: &str| label(&mut entries.clone(), text, "x/labels.csv", "").unwrap_err().to_string();
        assert!(fault("1.png,cup\n").contains("first line is not file,label"));
        assert!(fault("file,label\n1.png\n").contains("x/labels.csv: line 2 has no label"));
    }

    #[test]
    fn pictures_are_told_by_their_names() {
        for name in ["a.jpg", "A.JPEG", "x/y.PNG", "a.b.png"] {
            assert!(is_picture(name), "{name}");
        }
        for name in ["a.txt", "png", ".png", "x/.jpg", "__MACOSX/._a.jpg", "a.jpg/", ""] {
            assert!(!is_picture(name), "{name}");
        }
    }

    proptest! {
        #[test]
        fn any_list_is_read_or_refused(text in "[0-9. a-z/#\\n\\t-]{0,200}") {
            let _ = timed(&text, "rgb.txt", |path| Some(path.to_owned()));
        }

        #[test]
        fn any_time_is_exact_or_refused(seconds in any::<u32>(), nanos in 0u32..1_000_000_000) {
            let expected = u64::from(seconds) * 1_000_000_000 + u64::from(nanos);
            prop_assert_eq!(nanoseconds(&format!("{seconds}.{nanos:09}")), Some(expected));
            prop_assert_eq!(nanoseconds(&format!("-{seconds}")), None);
        }
    }
}

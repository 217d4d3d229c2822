//! Which pictures a recording has, in which order, and when each was taken.
//!
//! Pictures are `.jpg`, `.jpeg` and `.png` files in natural order, those of subfolders included. A file `rgb.txt` beside them, as the TUM RGB-D recordings
//! have it (a line a picture: seconds and path), gives order and times instead; it may lie in the folder or, when the
//! folder itself is named in its paths, in the one above.

use super::natural;
use crate::{Error, Result};

/// Name of the list of times.
pub(super) const TIMES: &str = "rgb.txt";

/// More entries than this are refused rather than held in memory: at 30 pictures a second, two days.
pub(super) const MOST: usize = 5_000_000;

/// A picture of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Path within the recording.
    pub(super) name: String,
    /// When it was taken.
    pub(super) time_ns: Option<u64>,
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
    names.into_iter().map(|name| Entry { name, time_ns: None }).collect()
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
            entries.push(Entry { name, time_ns: Some(time_ns) });
        }
        if entries.len() > MOST {
            return Err(Error::input(format!("{place}: more than {MOST} pictures; split the recording")));
        }
    }
    Ok(entries)
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
        assert_eq!(entries[0], Entry { name: "rgb/a.png".into(), time_ns: Some(1_305_031_452_791_720_000) });
        assert_eq!(entries[1].time_ns, Some(1_305_031_453_500_000_000));
        assert!((rate(&entries).unwrap() - 1.0 / 0.70828).abs() < 1e-9);
        let error = timed("1.0 a.png\nnonsense\n", "x/rgb.txt", |path| Some(path.to_owned())).unwrap_err();
        assert!(error.to_string().contains("x/rgb.txt: line 2"), "{error}");
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

//! Reading the kernel's small text files: bounded, and `None` for whatever is not there or not readable.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// No file read here is longer; of one that is, the beginning is taken.
const LONGEST: u64 = 64 * 1024;

/// The text of a file without the white space and the NULs (device tree) around it.
pub(super) fn text(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(LONGEST).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
}

/// The number in a file.
pub(super) fn number<T: FromStr>(path: impl AsRef<Path>) -> Option<T> {
    text(path)?.parse().ok()
}

/// The entries of a folder whose names begin with `prefix`, in the order of the numbers after it.
pub(super) fn numbered(folder: impl AsRef<Path>, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?, entry.path()))
        })
        .collect();
    found.sort_unstable();
    found.into_iter().map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_trimmed_bounded_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("value");
        assert_eq!(text(&path), None);
        fs::write(&path, b" 51187\n").unwrap();
        assert_eq!(number::<i64>(&path), Some(51187));
        assert_eq!(number::<u8>(&path), None, "does not fit");
        fs::write(&path, b"Orin\0").unwrap();
        assert_eq!(text(&path).as_deref(), Some("Orin"));
        fs::write(&path, vec![b'7'; 100_000]).unwrap();
        assert_eq!(text(&path).map(|text| text.len()), Some(64 * 1024));
        fs::write(&path, [0xff, 0xfe]).unwrap();
        assert_eq!(number::<i64>(&path), None);
    }

    #[test]
    fn numbered_entries_come_in_the_order_of_their_numbers() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["zone10", "zone2", "zone", "zonex", "other1"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let names: Vec<_> = numbered(folder.path(), "zone");
        assert_eq!(names, [folder.path().join("zone2"), folder.path().join("zone10")]);
        assert_eq!(numbered(folder.path().join("absent"), "zone"), Vec::<PathBuf>::new());
    }
}

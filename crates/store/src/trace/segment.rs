//! The segments' names, and which there are.

use std::path::{Path, PathBuf};

use super::VERSION;
use crate::storage::Filesystem;
use crate::{Error, Result};

/// A file of the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) path: PathBuf,
}

impl Segment {
    pub(super) fn new(dir: &Path, number: u64) -> Self {
        Self { number, path: dir.join(format!("trace-v{VERSION}-{number:08}.jsonl")) }
    }
}

/// The segments of a folder in their order. Files with other names are not ours; those of a newer version of the format
/// are told by [`newer`].
pub(super) fn list(fs: &dyn Filesystem, dir: &Path) -> Result<Vec<Segment>> {
    list_versions(fs, dir, |version| version <= VERSION)
}

/// The segments of newer versions of the format, in the order of their numbers. They are left alone; half a trace must not
/// pass for a whole one, so whoever reads says that they are there.
pub(super) fn newer(fs: &dyn Filesystem, dir: &Path) -> Result<Vec<Segment>> {
    list_versions(fs, dir, |version| version > VERSION)
}

fn list_versions(fs: &dyn Filesystem, dir: &Path, wanted: impl Fn(u32) -> bool) -> Result<Vec<Segment>> {
    let names = fs.list(dir).map_err(|e| Error::io(dir, e))?;
    let parsed = names.iter().filter_map(|name| parse(name).map(|(version, number)| (version, number, name)));
    let mut segments: Vec<_> = parsed
        .filter(|(version, ..)| wanted(*version))
        .map(|(_, number, name)| Segment { number, path: dir.join(name) })
        .collect();
    segments.sort_unstable_by_key(|segment| segment.number);
    Ok(segments)
}

fn parse(name: &str) -> Option<(u32, u64)> {
    let (version, number) = name.strip_prefix("trace-v")?.strip_suffix(".jsonl")?.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let valid = digits(version) && digits(number) && number.len() >= 8;
    valid.then(|| Some((version.parse().ok()?, number.parse().ok()?)))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Simulated, write_atomically};

    #[test]
    fn segments_are_found_in_the_order_of_their_numbers() {
        let fs = Simulated::with_dir("/t");
        let dir = Path::new("/t");
        for number in [12, 2, 123_456_789] {
            write_atomically(&fs, &Segment::new(dir, number).path, b"").unwrap();
        }
        for other in ["trace-v1-1.jsonl", "trace-v1-+0000001.jsonl", "trace-v-00000001.jsonl", "notes.txt"] {
            write_atomically(&fs, &dir.join(other), b"").unwrap();
        }
        let numbers: Vec<_> = list(&fs, dir).unwrap().iter().map(|segment| segment.number).collect();
        assert_eq!(numbers, [2, 12, 123_456_789]);
        write_atomically(&fs, &dir.join("trace-v2-00000013.jsonl"), b"").unwrap();
        assert_eq!(list(&fs, dir).unwrap().len(), 3, "what a newer program wrote is not ours");
        assert_eq!(newer(&fs, dir).unwrap()[0].number, 13);
    }
}

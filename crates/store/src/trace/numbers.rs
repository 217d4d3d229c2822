//! Which numbers of frames and categories the trace has given away, without reading all of it.

use std::io;
use std::path::Path;

use super::line::{Line, Lines, decode_numbers, decode_seq};
use super::segment::{self, Segment};
use crate::Result;
use crate::storage::Filesystem;

/// The next frame and the next category that no record after number `seq` has used; 0 where there is none.
///
/// Only the segments that can hold such records are read, and those of a newer version of the format, as far as their lines
/// can be understood. A part that cannot be read must not keep a recording from going on: it is logged.
pub fn numbers_after(fs: &dyn Filesystem, dir: &Path, seq: u64) -> Result<(u64, u64)> {
    let mut next = (0, 0);
    let mut look = |segment: &Segment| {
        if let Err(error) = each_record(fs, segment, |(its_seq, frame, category)| {
            if its_seq > seq {
                next.0 = next.0.max(frame.saturating_add(1));
                next.1 = next.1.max(category.saturating_add(1));
            }
        }) {
            log::warn!("{}: {error}: this part of the trace cannot be read", segment.path.display());
        }
    };
    segment::newer(fs, dir)?.iter().for_each(&mut look);
    for segment in segment::list(fs, dir)?.iter().rev() {
        look(segment);
        // Whatever lies before this segment has lower numbers, or was written again after it.
        if first_seq(fs, segment).is_ok_and(|first| first.is_some_and(|first| first <= seq.saturating_add(1)))
        {
            break;
        }
    }
    Ok(next)
}

/// Hands over number, frame and category of each record that has them.
fn each_record(
    fs: &dyn Filesystem,
    segment: &Segment,
    mut visit: impl FnMut((u64, u64, u64)),
) -> io::Result<()> {
    let mut lines = Lines::new(fs.read(&segment.path)?);
    while let Some(line) = lines.next()? {
        if let Line::Ended(bytes) = line
            && let Some(numbers) = decode_numbers(bytes)
        {
            visit(numbers);
        }
    }
    Ok(())
}

fn first_seq(fs: &dyn Filesystem, segment: &Segment) -> io::Result<Option<u64>> {
    let mut lines = Lines::new(fs.read(&segment.path)?);
    while let Some(line) = lines.next()? {
        if let Line::Ended(bytes) = line
            && let Some(seq) = decode_seq(bytes)
        {
            return Ok(Some(seq));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::storage::{Simulated, write_atomically};
    use crate::trace::log::Log;
    use crate::trace::tests::{at, frame};
    use crate::trace::{Merge, Record, Stride};

    const DIR: &str = "/trace";

    /// Frames 0 to 99 in segments of about five records.
    fn disk() -> Simulated {
        let fs = Simulated::with_dir(DIR);
        let (mut log, _) = Log::open(Arc::new(fs.clone()), Path::new(DIR), 1000, at(0)).unwrap();
        for number in 0..100 {
            log.append(at(number), frame(number));
            log.sync().unwrap();
        }
        fs
    }

    #[test]
    fn numbers_are_found_from_anywhere_on() {
        let fs = disk();
        for seq in [0, 1, 50, 98, 99] {
            let (frames, _) = numbers_after(&fs, Path::new(DIR), seq).unwrap();
            assert_eq!(frames, 100, "after record {seq}");
        }
        assert_eq!(numbers_after(&fs, Path::new(DIR), 100).unwrap(), (0, 0));
    }

    #[test]
    fn segments_from_before_are_not_read() {
        let fs = disk();
        let segments = segment::list(&fs, Path::new(DIR)).unwrap();
        assert!(segments.len() > 10);
        // Whoever reads these finds frame 7777.
        let mut line = Vec::new();
        let entry = crate::trace::Entry { seq: 99, at: at(1), record: frame(7777) };
        crate::trace::line::encode(&entry, &mut line).unwrap();
        for segment in &segments[..segments.len() / 2] {
            write_atomically(&fs, &segment.path, &line).unwrap();
        }
        assert_eq!(numbers_after(&fs, Path::new(DIR), 95).unwrap().0, 100);
        assert_eq!(numbers_after(&fs, Path::new(DIR), 0).unwrap().0, 7778);
    }

    /// The frames that had it may have been dropped, and a number must not be given away twice.
    #[test]
    fn a_category_that_only_a_merge_names_has_been_given_away() {
        let fs = disk();
        let (mut log, _) = Log::open(Arc::new(fs.clone()), Path::new(DIR), 1000, at(0)).unwrap();
        let merge = Merge { from: 17, into: 3, frame: 120, similarity: 0.9 };
        log.append(at(100), Record::Merge(merge));
        log.append(at(101), Record::Stride(Stride { from: 1000, to: 2000, reason: String::new() }));
        log.sync().unwrap();
        assert_eq!(numbers_after(&fs, Path::new(DIR), 100).unwrap(), (121, 18));
        assert_eq!(numbers_after(&fs, Path::new(DIR), 0).unwrap(), (121, 18));
    }

    #[test]
    fn a_newer_version_counts_as_far_as_it_is_understood() {
        let fs = disk();
        let mut line = Vec::new();
        let entry = crate::trace::Entry { seq: 150, at: at(1), record: frame(140) };
        crate::trace::line::encode(&entry, &mut line).unwrap();
        line.extend_from_slice(b"something new\n");
        write_atomically(&fs, &Path::new(DIR).join("trace-v2-00000001.jsonl"), &line).unwrap();
        assert_eq!(numbers_after(&fs, Path::new(DIR), 100).unwrap().0, 141);
    }
}

//! Reading a trace: as a stream, with a fixed amount of memory, past whatever is damaged.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::line::{Line, Lines, decode};
use super::record::{Entry, Record};
use super::segment::{self, Segment};
use crate::storage::Filesystem;
use crate::{Error, Result};

/// The most holes that a summary lists one by one; beyond that they are only counted.
const MOST_GAPS: usize = 1000;

/// Goes through the records of a trace in their order.
///
/// Errors are those of the disk alone; the segment concerned is left and the next one begun. What was damaged or
/// missing is in [`Reader::summary`], complete when the iterator has ended.
pub struct Reader {
    fs: Arc<dyn Filesystem>,
    segments: VecDeque<Segment>,
    current: Option<(Segment, Lines<Box<dyn io::Read + Send>>)>,
    /// The number that the next record should have.
    expected: u64,
    summary: Summary,
}

/// What a reader came across.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records given out.
    pub records: u64,
    /// The number of the last one; 0 if there was none.
    pub last_seq: u64,
    /// Lines that were passed over because they were damaged.
    pub damaged_lines: u64,
    /// Lines that were passed over because their record had been given out.
    pub repeated_lines: u64,
    /// Bytes after the last newline of the last segment: a line that a crash tore, or that is being written just now.
    pub unfinished_bytes: u64,
    /// Segments that could not be read to their end.
    pub unreadable_segments: u64,
    /// Segments of a newer version of the format, which are not read.
    pub newer_segments: u64,
    /// Numbers that are missing and that no record explains.
    pub missing: u64,
    /// Numbers that are missing because they were forgotten on request.
    pub forgotten: u64,
    /// Numbers that are missing because the disk was too slow.
    pub dropped: u64,
    /// Numbers that are missing because a crash had damaged them.
    pub cut_off: u64,
    /// The holes, the first thousand of them.
    pub gaps: Vec<Gap>,
}

/// Numbers that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// Why, as far as the trace says.
    pub cause: Cause,
}

/// Why numbers are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Nothing in the trace says: lines are damaged or a file is gone.
    Unexplained,
    /// Forgotten on request.
    Forgotten,
    /// The disk was too slow.
    Dropped,
    /// Damaged by a crash, and cut off.
    CutOff,
}

impl Summary {
    /// Whether everything that was ever durable is there, but for what was forgotten or dropped knowingly.
    pub fn is_whole(&self) -> bool {
        self.damaged_lines == 0
            && self.missing == 0
            && self.unreadable_segments == 0
            && self.newer_segments == 0
    }

    fn gap(&mut self, numbers: std::ops::Range<u64>, cause: Cause) {
        let Some(count) = numbers.end.checked_sub(numbers.start).filter(|&count| count > 0) else { return };
        let total = match cause {
            Cause::Unexplained => &mut self.missing,
            Cause::Forgotten => &mut self.forgotten,
            Cause::Dropped => &mut self.dropped,
            Cause::CutOff => &mut self.cut_off,
        };
        *total = total.saturating_add(count);
        if self.gaps.len() < MOST_GAPS {
            self.gaps.push(Gap { first: numbers.start, last: numbers.end - 1, cause });
        }
    }
}

impl Reader {
    /// Reads the trace in the folder `dir` as it is now; segments that begin later are not read.
    pub fn open(fs: Arc<dyn Filesystem>, dir: &Path) -> Result<Self> {
        let segments = segment::list(&*fs, dir)?.into();
        let newer_segments = segment::newer(&*fs, dir)?.len() as u64;
        let summary = Summary { newer_segments, ..Summary::default() };
        Ok(Self { fs, segments, current: None, expected: 1, summary })
    }

    /// What was come across so far.
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The next record of the current segment, `None` at its end.
    fn next_in_segment(&mut self) -> io::Result<Option<Entry>> {
        let Some((_, lines)) = &mut self.current else { return Ok(None) };
        while let Some(line) = lines.next()? {
            let entry = match line {
                Line::Ended(bytes) => decode(bytes),
                Line::TooLong => None,
                Line::Unfinished(bytes) if self.segments.is_empty() => {
                    self.summary.unfinished_bytes = bytes.len() as u64;
                    return Ok(None);
                }
                Line::Unfinished(_) => None,
            };
            match entry {
                None => self.summary.damaged_lines += 1,
                Some(entry) if entry.seq < self.expected => self.summary.repeated_lines += 1,
                Some(entry) => {
                    self.account(&entry);
                    return Ok(Some(entry));
                }
            }
        }
        Ok(None)
    }

    /// Notes the hole before a record, if there is one, and what comes next.
    fn account(&mut self, entry: &Entry) {
        let cause = match &entry.record {
            Record::Forgotten(_) => Cause::Forgotten,
            Record::Dropped(_) => Cause::Dropped,
            Record::Recovered(_) => Cause::CutOff,
            _ => Cause::Unexplained,
        };
        let explained = entry.record.missing_from().unwrap_or(entry.seq).clamp(self.expected, entry.seq);
        self.summary.gap(self.expected..explained, Cause::Unexplained);
        self.summary.gap(explained..entry.seq, cause);
        self.summary.records += 1;
        self.summary.last_seq = entry.seq;
        self.expected = entry.seq.saturating_add(1);
    }
}

impl Iterator for Reader {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((segment, _)) = &self.current {
                let path = segment.path.clone();
                match self.next_in_segment() {
                    Ok(Some(entry)) => return Some(Ok(entry)),
                    Ok(None) => self.current = None,
                    Err(error) => {
                        self.current = None;
                        self.summary.unreadable_segments += 1;
                        return Some(Err(Error::io(path, error)));
                    }
                }
            }
            let segment = self.segments.pop_front()?;
            match self.fs.read(&segment.path) {
                Ok(file) => self.current = Some((segment, Lines::new(file))),
                // The writer gave it up meanwhile; had it held anything, the numbers would tell.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    self.summary.unreadable_segments += 1;
                    return Some(Err(Error::io(segment.path, error)));
                }
            }
        }
    }
}

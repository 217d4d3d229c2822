//! What a restart finds at the end of the trace.

use std::io;

use super::forget::PendingForget;
use super::line::{Line, Lines, decode_seq};
use super::segment::Segment;
use crate::storage::Filesystem;

/// What was found when the trace was opened.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Recovery {
    /// The number of the last whole record; 0 in an empty trace.
    pub last_seq: u64,
    /// Bytes that were cut off the end.
    pub cut_bytes: u64,
    /// Lines, whole or torn, that they were.
    pub cut_lines: u64,
    /// A `forget` that was interrupted and is to be finished: see [`super::Recorder::finish_forget`].
    pub pending_forget: Option<PendingForget>,
    /// Segments of newer versions of the format, which are left alone.
    pub newer_segments: u64,
}

/// The numbers in a segment, and where its whole records end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// The lowest and the highest number.
    pub(super) seqs: Option<(u64, u64)>,
    /// The length up to the end of the last whole record.
    pub(super) whole_bytes: u64,
    /// The length of the file.
    pub(super) bytes: u64,
    /// Lines, whole or torn, after the last whole record.
    pub(super) cut_lines: u64,
}

/// Reads a segment through.
pub(super) fn extent(fs: &dyn Filesystem, segment: &Segment) -> io::Result<Extent> {
    let mut lines = Lines::new(fs.read(&segment.path)?);
    let mut extent = Extent::default();
    while let Some(line) = lines.next()? {
        let seq = if let Line::Ended(bytes) = line { decode_seq(bytes) } else { None };
        match seq {
            Some(seq) => {
                let (lowest, highest) = extent.seqs.unwrap_or((seq, seq));
                extent.seqs = Some((lowest.min(seq), highest.max(seq)));
                extent.whole_bytes = lines.position();
                extent.cut_lines = 0;
            }
            None => extent.cut_lines += 1,
        }
    }
    extent.bytes = lines.position();
    Ok(extent)
}

/// The highest number in the trace, given the extent of its last segment.
///
/// A failed sync can leave records in one segment that were written again in the next, further or less far. So earlier
/// segments are looked at until one ends before everything after it begins.
pub(super) fn highest_seq(fs: &dyn Filesystem, earlier: &[Segment], last: &Extent) -> io::Result<u64> {
    let (mut lowest, mut highest) = last.seqs.unwrap_or((u64::MAX, 0));
    for segment in earlier.iter().rev() {
        let Some((its_lowest, its_highest)) = extent(fs, segment)?.seqs else { continue };
        highest = highest.max(its_highest);
        if its_highest < lowest {
            break;
        }
        lowest = lowest.min(its_lowest);
    }
    Ok(highest)
}

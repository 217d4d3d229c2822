//! A record as a line with its checksum, and lines out of any bytes with a fixed amount of memory.

use std::io::{self, BufRead, BufReader, Read};

use super::record::Entry;

/// The longest line, its newline not counted. The settings in a `start` record are a few KiB.
pub const LONGEST_LINE: usize = 64 * 1024;

/// `,"crc":"1a2b3c4d"}`
const CHECKSUM_LEN: usize = 18;

/// Appends an entry's line to `buffer`, newline included. A line that would be too long is not appended.
pub(super) fn encode(entry: &Entry, buffer: &mut Vec<u8>) -> Result<(), TooLong> {
    let start = buffer.len();
    // Serialising plain data to memory cannot fail; if it ever does, the record is as unusable as one too long.
    let written = serde_json::to_writer(&mut *buffer, entry).is_ok() && buffer.pop() == Some(b'}');
    if !written || buffer.len() - start + CHECKSUM_LEN > LONGEST_LINE {
        buffer.truncate(start);
        return Err(TooLong);
    }
    let crc = buffer.get(start..).map_or(0, crc32fast::hash);
    buffer.extend_from_slice(format!(",\"crc\":\"{crc:08x}\"}}\n").as_bytes());
    Ok(())
}

/// The record does not fit into a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

/// The entry of a line without its newline; `None` when it is damaged.
pub(super) fn decode(line: &[u8]) -> Option<Entry> {
    if is_sound(line) { serde_json::from_slice(line).ok() } else { None }
}

/// The number of the record in a line without its newline, in a fraction of the time; `None` when it is damaged.
pub(super) fn decode_seq(line: &[u8]) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Numbered {
        seq: u64,
    }
    if is_sound(line) { serde_json::from_slice(line).ok().map(|Numbered { seq }| seq) } else { None }
}

/// Number, frame and category of a line that is a whole `frame` or `merge` record, in a fraction of the time. Of a merge the
/// category is the younger one.
pub(super) fn decode_numbers(line: &[u8]) -> Option<(u64, u64, u64)> {
    #[derive(serde::Deserialize)]
    struct Numbers<'a> {
        seq: u64,
        kind: &'a str,
        frame: u64,
        category: Option<u64>,
        from: Option<u64>,
    }
    // Most other records fail here for want of a field, before their checksum is computed.
    let numbers: Numbers<'_> = serde_json::from_slice(line).ok()?;
    let category = match numbers.kind {
        "frame" => numbers.category?,
        "merge" => numbers.from?,
        _ => return None,
    };
    is_sound(line).then_some((numbers.seq, numbers.frame, category))
}

/// Whether a line ends with its checksum.
fn is_sound(line: &[u8]) -> bool {
    let checksum = || {
        let (body, tail) = line.split_at_checked(line.len().checked_sub(CHECKSUM_LEN)?)?;
        let digits = tail.strip_prefix(b",\"crc\":\"")?.strip_suffix(b"\"}")?;
        let lower_case = digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        let digits = std::str::from_utf8(digits).ok().filter(|_| lower_case)?;
        Some((u32::from_str_radix(digits, 16).ok()?, crc32fast::hash(body)))
    };
    checksum().is_some_and(|(stated, computed)| stated == computed)
}

/// A piece of a file between newlines.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A line that ended with a newline, which is left out.
    Ended(&'a [u8]),
    /// A line longer than any record, of which nothing is kept.
    TooLong,
    /// What comes after the last newline.
    Unfinished(&'a [u8]),
}

/// Cuts bytes into lines. Holds at most one line of the longest length.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    buffer: Vec<u8>,
    position: u64,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader: BufReader::with_capacity(32 * 1024, reader), buffer: Vec::new(), position: 0 }
    }

    /// Bytes gone through so far: the place after the last line given out.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let limit = LONGEST_LINE as u64 + 1;
        self.position += self.reader.by_ref().take(limit).read_until(b'\n', &mut self.buffer)? as u64;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        let ended = self.buffer.ends_with(b"\n");
        if !ended && self.buffer.len() as u64 == limit {
            self.skip_to_newline()?;
            return Ok(Some(Line::TooLong));
        }
        let line = if ended { self.buffer.strip_suffix(b"\n") } else { None };
        Ok(Some(line.map_or(Line::Unfinished(&self.buffer), Line::Ended)))
    }

    fn skip_to_newline(&mut self) -> io::Result<()> {
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let newline = available.iter().position(|&byte| byte == b'\n');
            let skipped = newline.map_or(available.len(), |at| at + 1);
            self.reader.consume(skipped);
            self.position += skipped as u64;
            if newline.is_some() || skipped == 0 {
                return Ok(());
            }
        }
    }
}

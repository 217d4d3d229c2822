//! The zip archive of a `.pth` file, as PyTorch writes it: nothing compressed, less than 4 GiB.

use std::collections::BTreeMap;
use std::ops::Range;

/// An entry: where its bytes lie, and their checksum.
#[derive(Debug)]
struct Entry {
    bytes: Range<usize>,
    checksum: u32,
}

/// An archive's directory.
#[derive(Debug)]
pub(super) struct Archive<'b> {
    bytes: &'b [u8],
    entries: BTreeMap<String, Entry>,
}

impl<'b> Archive<'b> {
    /// Reads the directory.
    pub(super) fn read(bytes: &'b [u8]) -> Result<Self, String> {
        let end = bytes.windows(4).rposition(|window| window == b"PK\x05\x06");
        let end = end.ok_or("neither a zip archive nor a row of pickles")?;
        let number = |at, len| number(bytes, at, len);
        let comment = number(end + 20, 2)?;
        if end + 22 + comment != bytes.len() {
            return Err("it is longer or shorter than it says".to_owned());
        }
        let count = number(end + 10, 2)?;
        let mut at = number(end + 16, 4)?;
        let mut entries = BTreeMap::new();
        let mut total = 0;
        for _ in 0..count {
            if number(at, 4)? != 0x0201_4b50 || number(at + 10, 2)? != 0 {
                return Err("its directory is damaged, or compressed as PyTorch's never are".to_owned());
            }
            let (checksum, len, name_len) = (number(at + 16, 4)?, number(at + 20, 4)?, number(at + 28, 2)?);
            let (extra, comment, header) = (number(at + 30, 2)?, number(at + 32, 2)?, number(at + 42, 4)?);
            let name = bytes.get(at + 46..at + 46 + name_len).unwrap_or_default();
            let start = header + 30 + number(header + 26, 2)? + number(header + 28, 2)?;
            // Each entry is read once at most, so the work is bounded by the file if they share no bytes.
            total += len;
            if total > bytes.len() {
                return Err("its entries are longer than the file".to_owned());
            }
            let entry = Entry { bytes: start..start + len, checksum: checksum as u32 };
            entries.insert(String::from_utf8_lossy(name).into_owned(), entry);
            at += 46 + name_len + extra + comment;
        }
        Ok(Self { bytes, entries })
    }

    /// The first name with this ending.
    pub(super) fn name_ending_in(&self, ending: &str) -> Option<&str> {
        self.entries.keys().map(String::as_str).find(|name| name.ends_with(ending))
    }

    /// The content of an entry, if there is one of that name.
    pub(super) fn get(&self, name: &str) -> Option<Result<&'b [u8], String>> {
        let entry = self.entries.get(name)?;
        Some(match self.bytes.get(entry.bytes.clone()) {
            Some(bytes) if crc32fast::hash(bytes) == entry.checksum => Ok(bytes),
            _ => Err("an entry of the archive is damaged".to_owned()),
        })
    }
}

/// A number of so many bytes, low ones first.
fn number(bytes: &[u8], at: usize, len: usize) -> Result<usize, String> {
    let bytes = bytes.get(at..).and_then(|rest| rest.get(..len)).ok_or("it ends too early")?;
    Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
}

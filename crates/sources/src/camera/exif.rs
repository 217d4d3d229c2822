//! When a photograph was taken, as it says itself: the EXIF block of a JPEG file.
//!
//! Only three fields are read: DateTimeOriginal, its fraction of a second and its offset from UTC. Whatever is damaged or
//! absurd is no time.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::Offset;

/// The block lies among a file's first segments, each of 64 KiB at most.
pub(super) const HEAD: u64 = 256 << 10;

/// More fields than any camera writes.
const MOST_FIELDS: usize = 512;

/// The fields that are read, by their numbers.
const EXIF_BLOCK: u16 = 0x8769;
const TAKEN: u16 = 0x9003;
const FRACTION: u16 = 0x9291;
const OFFSET: u16 = 0x9011;

/// When a picture was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    /// The moment; as if the camera's clock had shown UTC, if the picture does not say its zone.
    pub(super) time: Timestamp,
    /// Whether the picture says its zone.
    pub(super) zoned: bool,
}

/// Reads the beginning of a file.
pub(super) fn taken(file: &[u8]) -> Option<Taken> {
    let tiff = Tiff::new(block(file)?)?;
    let main = tiff.number(4, 4)? as usize;
    let exif = tiff.field(main, EXIF_BLOCK).and_then(|entry| tiff.number(entry + 8, 4))? as usize;
    let text = |tag| tiff.field(exif, tag).and_then(|entry| tiff.text(entry));
    let clock = clock(&text(TAKEN)?, text(FRACTION).as_deref().unwrap_or(""))?;
    let offset = text(OFFSET).as_deref().and_then(offset);
    let time = offset.unwrap_or(Offset::UTC).to_timestamp(clock).ok()?;
    Some(Taken { time, zoned: offset.is_some() })
}

/// The EXIF block of a JPEG file, without its name.
fn block(file: &[u8]) -> Option<&[u8]> {
    let mut rest = file.strip_prefix(&[0xff, 0xd8])?;
    loop {
        let [0xff, marker, high, low] = *rest.first_chunk()? else { return None };
        let length = usize::from(u16::from_be_bytes([high, low]));
        // The picture itself begins: no block comes any more.
        if marker == 0xda {
            return None;
        }
        let segment = rest.get(4..2 + length)?;
        if let Some(block) = segment.strip_prefix(b"Exif\0\0").filter(|_| marker == 0xe1) {
            return Some(block);
        }
        rest = rest.get(2 + length..)?;
    }
}

/// `2026:03:05 10:00:00` and a fraction's digits.
fn clock(text: &str, fraction: &str) -> Option<DateTime> {
    let mut numbers = text.trim().splitn(6, [':', ' ']).map(str::parse::<i16>);
    let mut next = || numbers.next()?.ok();
    let (year, month, day, hour, minute, second) = (next()?, next()?, next()?, next()?, next()?, next()?);
    let small = |number: i16| i8::try_from(number).ok();
    let digits: String = fraction.trim().chars().take_while(char::is_ascii_digit).take(9).collect();
    let nanoseconds = format!("{digits:0<9}").parse().ok()?;
    DateTime::new(year, small(month)?, small(day)?, small(hour)?, small(minute)?, small(second)?, nanoseconds)
        .ok()
}

/// `+01:00`.
fn offset(text: &str) -> Option<Offset> {
    let text = text.trim();
    let (sign, rest) = match text.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let plausible = (0..=14).contains(&hours) && (0..60).contains(&minutes);
    Offset::from_seconds(sign * (3600 * hours + 60 * minutes)).ok().filter(|_| plausible)
}

/// The block's own little file: fields in tables, of either byte order.
struct Tiff<'a> {
    bytes: &'a [u8],
    little: bool,
}

impl<'a> Tiff<'a> {
    fn new(bytes: &'a [u8]) -> Option<Self> {
        match bytes.first_chunk()? {
            b"II*\0" => Some(Self { bytes, little: true }),
            b"MM\0*" => Some(Self { bytes, little: false }),
            _ => None,
        }
    }

    /// A whole number of two or four bytes.
    fn number(&self, at: usize, length: usize) -> Option<u32> {
        let bytes = self.bytes.get(at..at.checked_add(length)?)?;
        let add = |sum: u32, byte: &u8| sum << 8 | u32::from(*byte);
        Some(if self.little { bytes.iter().rev().fold(0, add) } else { bytes.iter().fold(0, add) })
    }

    /// Where the field of this tag lies in a table.
    fn field(&self, table: usize, tag: u16) -> Option<usize> {
        let count = (self.number(table, 2)? as usize).min(MOST_FIELDS);
        let mut entries = (0..count).map(|index| table + 2 + 12 * index);
        entries.find(|&entry| self.number(entry, 2) == Some(u32::from(tag)))
    }

    /// A field's text.
    fn text(&self, entry: usize) -> Option<String> {
        let (kind, length) = (self.number(entry + 2, 2)?, self.number(entry + 4, 4)? as usize);
        // Texts of up to four bytes stand in the table itself.
        let at = if length <= 4 { entry + 8 } else { self.number(entry + 8, 4)? as usize };
        let bytes = self.bytes.get(at..at.checked_add(length.min(64))?).filter(|_| kind == 2)?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        std::str::from_utf8(&bytes[..end]).ok().map(str::to_owned)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The beginning of a JPEG file with these texts in its EXIF block, in either byte order.
    pub(crate) fn head(fields: &[(u16, &str)], little: bool) -> Vec<u8> {
        let two = |value: u16| if little { value.to_le_bytes() } else { value.to_be_bytes() };
        let four = |value: u32| if little { value.to_le_bytes() } else { value.to_be_bytes() };
        let mut tiff = if little { b"II*\0".to_vec() } else { b"MM\0*".to_vec() };
        tiff.extend(four(8));
        tiff.extend([&two(1)[..], &two(EXIF_BLOCK), &two(4), &four(1), &four(26), &four(0)].concat());
        tiff.extend(two(fields.len() as u16));
        let mut texts = Vec::new();
        let behind = tiff.len() + 12 * fields.len() + 4;
        for (tag, text) in fields {
            let length = text.len() + 1;
            tiff.extend([&two(*tag)[..], &two(2), &four(length as u32)].concat());
            if length <= 4 {
                let mut value = [0; 4];
                value[..text.len()].copy_from_slice(text.as_bytes());
                tiff.extend(value);
            } else {
                tiff.extend(four((behind + texts.len()) as u32));
                texts.extend([text.as_bytes(), &[0]].concat());
            }
        }
        tiff.extend(four(0));
        tiff.extend(texts);
        let mut file = vec![0xff, 0xd8, 0xff, 0xe0, 0, 4, 7, 7, 0xff, 0xe1];
        file.extend(((tiff.len() + 8) as u16).to_be_bytes());
        file.extend(b"Exif\0\0");
        file.extend(tiff);
        file.extend([0xff, 0xda, 0, 2]);
        file
    }

    #[test]
    fn a_photograph_tells_when_it_was_taken() {
        for little in [true, false] {
            let fields = [(TAKEN, "2026:03:05 10:00:00"), (OFFSET, "+01:30"), (FRACTION, "25")];
            let found = taken(&head(&fields, little)).unwrap();
            assert_eq!(found, Taken { time: "2026-03-05T08:30:00.25Z".parse().unwrap(), zoned: true });
            let found = taken(&head(&fields[..1], little)).unwrap();
            assert_eq!(found, Taken { time: "2026-03-05T10:00:00Z".parse().unwrap(), zoned: false });
        }
        for nonsense in ["0000:00:00 00:00:00", "", "2026:13:01 00:00:00", "yesterday", "2026:03:05"] {
            assert_eq!(taken(&head(&[(TAKEN, nonsense)], true)), None, "{nonsense}");
        }
        assert_eq!(taken(&head(&[(OFFSET, "+01:00")], true)), None);
        assert_eq!(taken(b"\x89PNG\r\n"), None);
    }

    proptest! {
        #[test]
        fn damage_never_panics(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
            cut in 0usize..300,
        ) {
            let mut file = head(&[(TAKEN, "2026:03:05 10:00:00"), (OFFSET, "+01:00"), (FRACTION, "5")], true);
            for (place, value) in changes {
                let place = place.index(file.len());
                file[place] = value;
            }
            file.truncate(cut);
            let _ = taken(&file);
        }
    }
}

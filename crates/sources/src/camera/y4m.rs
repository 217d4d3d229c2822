//! The header of YUV4MPEG2 streams, as ffmpeg and GStreamer write them.
//!
//! One line, `YUV4MPEG2 W640 H480 F30:1 C420jpeg …`, then before each frame a line that begins with `FRAME`.

use crate::frame::{LARGEST_SIDE, Planes, Range};
use crate::{Error, Result};

/// What a stream begins with.
pub(super) const MAGIC: &[u8] = b"YUV4MPEG2 ";

/// No line is longer.
pub(super) const LONGEST_LINE: usize = 1024;

/// What a header says of the frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) planes: Planes,
    /// Frames a second.
    pub(super) rate: Option<f64>,
}

/// Reads the header's line.
///
/// # Errors
///
/// The size is missing or absurd, or the colours are stored in a way that this program does not read.
pub(super) fn parse(line: &str) -> Result<Header> {
    let bad = |what: &str| {
        Error::input(format!("the Y4M stream's header {what}; have it written as 8-bit 4:2:0 (yuv420p)"))
    };
    let (mut width, mut height, mut rate) = (None, None, None);
    let (mut sharing, mut range) = (Some((2, 2)), Range::Limited);
    for field in line.split_ascii_whitespace().skip(1) {
        let Some((kind, value)) = field.split_at_checked(1) else { continue };
        match kind {
            "W" => width = value.parse().ok(),
            "H" => height = value.parse().ok(),
            "F" => rate = fraction(value),
            "C" => {
                sharing = match value {
                    "420" | "420jpeg" | "420mpeg2" | "420paldv" => Some((2, 2)),
                    "422" => Some((2, 1)),
                    "444" => Some((1, 1)),
                    "mono" => None,
                    _ => return Err(bad(&format!("asks for colours \"{value}\""))),
                }
            }
            "X" if value == "COLORRANGE=FULL" => range = Range::Full,
            _ => {}
        }
    }
    let side = |side: &Option<usize>| side.filter(|side| (1..=LARGEST_SIDE).contains(side));
    match (side(&width), side(&height)) {
        (Some(width), Some(height)) => Ok(Header { planes: Planes { width, height, sharing, range }, rate }),
        _ => Err(bad("gives no sound width and height")),
    }
}

fn fraction(text: &str) -> Option<f64> {
    let (above, below) = text.split_once(':')?;
    let rate = f64::from(above.parse::<u32>().ok()?) / f64::from(below.parse::<u32>().ok()?);
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn headers_of_known_programs_are_read() {
        let ffmpeg = "YUV4MPEG2 W640 H480 F30000:1001 Ip A1:1 C420mpeg2 XYSCSS=420MPEG2 XCOLORRANGE=LIMITED";
        let header = parse(ffmpeg).unwrap();
        let planes = Planes { width: 640, height: 480, sharing: Some((2, 2)), range: Range::Limited };
        assert_eq!(header.planes, planes);
        assert!((header.rate.unwrap() - 29.97).abs() < 0.001);
        let mono = parse("YUV4MPEG2 W3 H5 F0:0 Cmono XCOLORRANGE=FULL").unwrap();
        assert_eq!(mono.planes, Planes { width: 3, height: 5, sharing: None, range: Range::Full });
        assert_eq!(mono.rate, None);
        for (bad, word) in [
            ("YUV4MPEG2 W640", "width and height"),
            ("YUV4MPEG2 W0 H4", "width and height"),
            ("YUV4MPEG2 W99999 H4", "width and height"),
            ("YUV4MPEG2 W4 H4 C420p10", "420p10"),
        ] {
            let error = parse(bad).unwrap_err();
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    proptest! {
        /// Whatever the line, the frame that it asks for is one that this program is willing to hold.
        #[test]
        fn any_header_is_bounded(line in "YUV4MPEG2 ?[WHFCIAX0-9:. a-zé]{0,80}") {
            if let Ok(header) = parse(&line) {
                let bytes = header.planes.bytes().unwrap();
                prop_assert!(bytes > 0 && bytes <= 3 * LARGEST_SIDE * LARGEST_SIDE);
            }
        }
    }
}

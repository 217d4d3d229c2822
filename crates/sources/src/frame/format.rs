//! The pixel formats that cameras deliver and this program reads.

use std::fmt;
use std::str::FromStr;

use crate::Error;

/// A pixel format, named by its V4L2 code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelFormat {
    /// `MJPG`: each frame is a JPEG picture, often without Huffman tables.
    Mjpg,
    /// `YUYV`: two pixels share their colour.
    Yuyv,
    /// `NV12`: brightness, then colour at half size.
    Nv12,
    /// `RGB3`: red, green, blue.
    Rgb3,
    /// `GREY`: brightness alone.
    Grey,
}

impl PixelFormat {
    /// All formats, the cheapest to decode first.
    pub const ALL: [Self; 5] = [Self::Rgb3, Self::Yuyv, Self::Nv12, Self::Grey, Self::Mjpg];

    /// The four characters of its code.
    pub fn code(self) -> &'static str {
        match self {
            Self::Mjpg => "MJPG",
            Self::Yuyv => "YUYV",
            Self::Nv12 => "NV12",
            Self::Rgb3 => "RGB3",
            Self::Grey => "GREY",
        }
    }
}

impl fmt::Display for PixelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl FromStr for PixelFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|format| format.code().eq_ignore_ascii_case(name)).ok_or_else(|| {
            Error::input(format!("pixel format \"{name}\" is not known; use MJPG, YUYV, NV12, RGB3 or GREY"))
        })
    }
}

//! Brightness and colour differences to red, green and blue, by ITU-R BT.601, the matrix of webcams and of plain video.
//!
//! Every function takes a picture of known size and says `None` if its bytes are too few; more than enough is no fault, for
//! drivers round their buffers up.

/// Which numbers mean black and white.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// 16 and 235, as video has it.
    Limited,
    /// 0 and 255, as JPEG has it.
    Full,
}

/// How many pixels share a colour sample, across and down; `None` if there is no colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planes {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) sharing: Option<(usize, usize)>,
    pub(crate) range: Range,
}

impl Planes {
    /// Bytes of a frame of whole planes; `None` if that is more than a machine can count.
    pub(crate) fn bytes(&self) -> Option<usize> {
        let brightness = self.width.checked_mul(self.height)?;
        let Some((across, down)) = self.sharing else { return Some(brightness) };
        let colour = self.width.div_ceil(across).checked_mul(self.height.div_ceil(down))?;
        brightness.checked_add(colour.checked_mul(2)?)
    }

    /// Three planes, one after the other (Y4M).
    pub(crate) fn rgb(&self, bytes: &[u8], rgb: &mut Vec<u8>) -> Option<()> {
        let (luma, rest) = bytes.split_at_checked(self.width.checked_mul(self.height)?)?;
        let Some((across, down)) = self.sharing else {
            rgb.clear();
            rgb.extend(luma.iter().flat_map(|&y| self.range.rgb(y, 128, 128)));
            return Some(());
        };
        let (columns, rows) = (self.width.div_ceil(across), self.height.div_ceil(down));
        let (blue, rest) = rest.split_at_checked(columns * rows)?;
        let red = rest.get(..columns * rows)?;
        rgb.clear();
        rgb.reserve(luma.len() * 3);
        for (row, luma) in luma.chunks_exact(self.width).enumerate() {
            let colours = row / down * columns..;
            let colours = blue.get(colours.clone())?.iter().zip(red.get(colours)?);
            for (luma, (&blue, &red)) in luma.chunks(across).zip(colours) {
                rgb.extend(luma.iter().flat_map(|&y| self.range.rgb(y, blue, red)));
            }
        }
        Some(())
    }
}

impl Range {
    /// One pixel, in whole numbers (14 bits of fraction).
    fn rgb(self, y: u8, blue: u8, red: u8) -> [u8; 3] {
        let (y, b, r) = (i32::from(y), i32::from(blue) - 128, i32::from(red) - 128);
        let [base, red_of_r, green_of_b, green_of_r, blue_of_b] = match self {
            Self::Limited => [(y - 16) * 19_077, 26_149, -6_419, -13_320, 33_050],
            Self::Full => [y * 16_384, 22_970, -5_638, -11_700, 29_032],
        };
        let byte = |sum: i32| ((sum + (1 << 13)) >> 14).clamp(0, 255) as u8;
        [byte(base + red_of_r * r), byte(base + green_of_b * b + green_of_r * r), byte(base + blue_of_b * b)]
    }
}

/// `YUYV`: rows of `stride` bytes, in each two pixels in four bytes.
pub(super) fn yuyv(
    bytes: &[u8],
    width: usize,
    height: usize,
    stride: usize,
    rgb: &mut Vec<u8>,
) -> Option<()> {
    rgb.clear();
    for row in 0..height {
        let start = row.checked_mul(stride)?;
        let row = bytes.get(start..start.checked_add(width.div_ceil(2) * 4)?)?;
        let end = rgb.len() + width * 3;
        let (pairs, _) = row.as_chunks::<4>();
        for &[first, blue, second, red] in pairs {
            rgb.extend(Range::Limited.rgb(first, blue, red));
            rgb.extend(Range::Limited.rgb(second, blue, red));
        }
        // An odd width ends in the middle of a pair.
        rgb.truncate(end);
    }
    Some(())
}

/// `NV12`: rows of `stride` bytes of brightness, then half as many of colours in turn.
pub(super) fn nv12(
    bytes: &[u8],
    width: usize,
    height: usize,
    stride: usize,
    rgb: &mut Vec<u8>,
) -> Option<()> {
    rgb.clear();
    let colours = bytes.get(stride.checked_mul(height)?..)?;
    for row in 0..height {
        let luma = bytes.get(row * stride..)?.get(..width)?;
        let colours = colours.get(row / 2 * stride..)?.get(..width.div_ceil(2) * 2)?;
        let (colours, _) = colours.as_chunks::<2>();
        for (luma, &[blue, red]) in luma.chunks(2).zip(colours) {
            rgb.extend(luma.iter().flat_map(|&y| Range::Limited.rgb(y, blue, red)));
        }
    }
    Some(())
}

/// `GREY`: brightness of the full range.
pub(super) fn grey(
    bytes: &[u8],
    width: usize,
    height: usize,
    stride: usize,
    rgb: &mut Vec<u8>,
) -> Option<()> {
    rgb.clear();
    for row in 0..height {
        let row = bytes.get(row.checked_mul(stride)?..)?.get(..width)?;
        rgb.extend(row.iter().flat_map(|&grey| [grey; 3]));
    }
    Some(())
}

/// `RGB3`: red, green, blue.
pub(super) fn rgb3(
    bytes: &[u8],
    width: usize,
    height: usize,
    stride: usize,
    rgb: &mut Vec<u8>,
) -> Option<()> {
    rgb.clear();
    for row in 0..height {
        rgb.extend_from_slice(bytes.get(row.checked_mul(stride)?..)?.get(..width.checked_mul(3)?)?);
    }
    Some(())
}

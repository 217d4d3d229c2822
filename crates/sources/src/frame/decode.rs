//! A frame as a driver or a file left it, to red-green-blue pixels.

use std::io::Cursor;

use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

use super::contained::contained;
use super::fit::LARGEST_SIDE;
use super::{PixelFormat, yuv};
use crate::{Error, Result};

/// Most memory that decoding one picture may take.
const LARGEST_PICTURE: u64 = 512 << 20;

/// How the pixels of a frame lie in its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The format of the pixels.
    pub format: PixelFormat,
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Bytes from one row to the next (of `NV12`: of brightness); 0 if rows follow each other without a gap.
    pub stride: usize,
}

impl Layout {
    /// Decodes a frame into `rgb`, which becomes width · height · 3 bytes.
    ///
    /// # Errors
    ///
    /// The bytes are fewer than the picture needs, are no JPEG picture, or are one of another size.
    pub fn decode(&self, bytes: &[u8], rgb: &mut Vec<u8>) -> Result<()> {
        contained(|| self.decode_bare(bytes, rgb))
    }

    fn decode_bare(&self, bytes: &[u8], rgb: &mut Vec<u8>) -> Result<()> {
        let Self { format, width, height, stride } = *self;
        if !(1..=LARGEST_SIDE).contains(&width) || !(1..=LARGEST_SIDE).contains(&height) {
            return Err(Error::input(format!("a frame cannot have {width}x{height} pixels")));
        }
        let stride = |row: usize| if stride == 0 { row } else { stride };
        let done = match format {
            PixelFormat::Mjpg => return jpeg(bytes, width, height, rgb),
            PixelFormat::Yuyv => yuv::yuyv(bytes, width, height, stride(width.div_ceil(2) * 4), rgb),
            PixelFormat::Nv12 => yuv::nv12(bytes, width, height, stride(width), rgb),
            PixelFormat::Rgb3 => yuv::rgb3(bytes, width, height, stride(width * 3), rgb),
            PixelFormat::Grey => yuv::grey(bytes, width, height, stride(width), rgb),
        };
        done.ok_or_else(|| {
            Error::input(format!(
                "a {format} frame of {width}x{height} pixels has only {} bytes",
                bytes.len()
            ))
        })
    }
}

/// A frame of a camera, which must have the size that was agreed on.
fn jpeg(bytes: &[u8], width: usize, height: usize, rgb: &mut Vec<u8>) -> Result<()> {
    let bad = |reason: &dyn std::fmt::Display| Error::input(format!("a damaged JPEG frame: {reason}"));
    let with_tables = with_huffman_tables(bytes);
    let mut decoder = jpeg_headers(with_tables.as_deref().unwrap_or(bytes)).map_err(|reason| bad(&reason))?;
    if decoder.dimensions() != Some((width, height)) {
        return Err(bad(&format!("it is not of {width}x{height} pixels")));
    }
    rgb.resize(width * height * 3, 0);
    decoder.decode_into(rgb).map_err(|error| bad(&error))
}

type Jpeg<'b> = JpegDecoder<Cursor<&'b [u8]>>;

/// Reads what stands before the pixels. Sloppy headers are let pass, as everywhere; the pixels must be whole: a picture that
/// is cut off would otherwise come out with a grey rest, and be learned from.
fn jpeg_headers(bytes: &[u8]) -> std::result::Result<Jpeg<'_>, String> {
    if !ends_as_a_jpeg(bytes) {
        return Err("it is cut off: its end is missing".to_owned());
    }
    let options = DecoderOptions::default()
        .jpeg_set_out_colorspace(ColorSpace::RGB)
        .set_strict_mode(false)
        .set_max_width(LARGEST_SIDE)
        .set_max_height(LARGEST_SIDE);
    let mut decoder = JpegDecoder::new_with_options(Cursor::new(bytes), options);
    decoder.decode_headers().map_err(|error| error.to_string())?;
    decoder.set_options(options.set_strict_mode(true));
    Ok(decoder)
}

/// Whether the mark of a picture's end follows its last scan: what a cut costs first. Padding, and what else a camera puts
/// behind it, may follow.
fn ends_as_a_jpeg(bytes: &[u8]) -> bool {
    let last = |mark: &[u8; 2]| bytes.windows(2).rposition(|window| window == mark);
    // Within a scan 0xff is never followed by either. A small picture in the header has its own end, but before the scan.
    match (last(b"\xff\xd9"), last(b"\xff\xda")) {
        (Some(end), Some(scan)) => end > scan,
        (end, None) => end.is_some(),
        (None, _) => false,
    }
}

/// The frame with the standard Huffman tables (ITU-T T.81, annex K) put in before its scan, if it has none: webcams leave
/// them out of every frame, and not every decoder knows them.
fn with_huffman_tables(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut place = 2;
    loop {
        let (&[marker, kind, high, low], _) = bytes.get(place..)?.split_first_chunk::<4>()?;
        match (marker, kind) {
            (0xff, 0xc4) => return None,
            (0xff, 0xda) => break,
            (0xff, _) => place += 2 + usize::from(u16::from_be_bytes([high, low])),
            _ => return None,
        }
    }
    let tables = super::huffman::tables();
    let (before, scan) = bytes.split_at_checked(place)?;
    let mut whole = Vec::with_capacity(bytes.len() + tables.len());
    for part in [before, &tables, scan] {
        whole.extend_from_slice(part);
    }
    Some(whole)
}

/// Decodes a picture file (JPEG or PNG by its content) into `rgb`; returns width and height.
///
/// # Errors
///
/// It is neither, is damaged or cut off, or is absurdly large.
pub(crate) fn picture(bytes: &[u8], rgb: &mut Vec<u8>) -> Result<(usize, usize)> {
    contained(|| picture_bare(bytes, rgb))
}

fn picture_bare(bytes: &[u8], rgb: &mut Vec<u8>) -> Result<(usize, usize)> {
    let bad = |error: &dyn std::fmt::Display| Error::input(format!("not a readable picture: {error}"));
    let mut reader =
        image::ImageReader::new(Cursor::new(bytes)).with_guessed_format().map_err(|error| bad(&error))?;
    if reader.format() == Some(image::ImageFormat::Jpeg) {
        return jpeg_picture(bytes, rgb).map_err(|error| bad(&error));
    }
    let mut limits = image::Limits::default();
    limits.max_image_width = Some(LARGEST_SIDE as u32);
    limits.max_image_height = Some(LARGEST_SIDE as u32);
    limits.max_alloc = Some(LARGEST_PICTURE);
    reader.limits(limits);
    let picture = reader.decode().map_err(|error| bad(&error))?.into_rgb8();
    let size = (picture.width() as usize, picture.height() as usize);
    *rgb = picture.into_raw();
    Ok(size)
}

fn jpeg_picture(bytes: &[u8], rgb: &mut Vec<u8>) -> std::result::Result<(usize, usize), String> {
    let mut decoder = jpeg_headers(bytes)?;
    let (width, height) = decoder.dimensions().ok_or("it has no size")?;
    let len = width * height * 3;
    if len as u64 > LARGEST_PICTURE {
        return Err(format!("{width}x{height} pixels are too many"));
    }
    rgb.clear();
    rgb.resize(len, 0);
    decoder.decode_into(rgb).map_err(|error| error.to_string())?;
    Ok((width, height))
}

//! Pixel formats against their definitions, and against whatever bytes may come.

use image::ExtendedColorType;
use image::codecs::jpeg::JpegEncoder;
use proptest::prelude::*;

use super::*;

/// A picture with gradients and an edge.
fn scene(width: usize, height: usize) -> Vec<u8> {
    (0..width * height)
        .flat_map(|pixel| {
            let (x, y) = (pixel % width, pixel / width);
            [(x * 255 / width) as u8, (y * 255 / height) as u8, if x > y { 200 } else { 40 }]
        })
        .collect()
}

fn jpeg(width: usize, height: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    JpegEncoder::new_with_quality(&mut bytes, 95)
        .encode(&scene(width, height), width as u32, height as u32, ExtendedColorType::Rgb8)
        .unwrap();
    bytes
}

/// The file without its segments of Huffman tables, as a webcam sends it.
fn without_tables(jpeg: &[u8]) -> Vec<u8> {
    let (mut out, mut place) = (jpeg[..2].to_vec(), 2);
    while jpeg[place + 1] != 0xda {
        let end = place + 2 + usize::from(u16::from_be_bytes([jpeg[place + 2], jpeg[place + 3]]));
        if jpeg[place + 1] != 0xc4 {
            out.extend(&jpeg[place..end]);
        }
        place = end;
    }
    out.extend(&jpeg[place..]);
    out
}

/// BT.601 in floating point, straight from its definition: luma from 16 to 235, colour differences ±112 about 128.
fn expected(y: u8, blue: u8, red: u8) -> [f64; 3] {
    let y = (f64::from(y) - 16.0) / 219.0;
    let (b, r) = ((f64::from(blue) - 128.0) / 224.0, (f64::from(red) - 128.0) / 224.0);
    let (kr, kb) = (0.299, 0.114);
    let red = y + 2.0 * (1.0 - kr) * r;
    let blue = y + 2.0 * (1.0 - kb) * b;
    let green = (y - kr * red - kb * blue) / (1.0 - kr - kb);
    [red, green, blue].map(|part| (part * 255.0).clamp(0.0, 255.0))
}

#[test]
fn yuyv_and_nv12_and_planes_are_bt601() {
    let (y, blue, red) = ([30, 90, 150, 220], 90, 200);
    let yuyv = [y[0], blue, y[1], red, y[2], blue, y[3], red];
    let nv12 = [y[0], y[1], y[2], y[3], blue, red];
    let planes = [y[0], y[1], y[2], y[3], blue, red];
    let mut decoded = Vec::new();
    for (format, width, height, bytes) in
        [(PixelFormat::Yuyv, 4, 1, &yuyv[..]), (PixelFormat::Nv12, 2, 2, &nv12[..])]
    {
        let mut rgb = Vec::new();
        Layout { format, width, height, stride: 0 }.decode(bytes, &mut rgb).unwrap();
        decoded.push(rgb);
    }
    let mut rgb = Vec::new();
    let planar = Planes { width: 2, height: 2, sharing: Some((2, 2)), range: Range::Limited };
    assert_eq!(planar.bytes(), Some(6));
    planar.rgb(&planes, &mut rgb).unwrap();
    decoded.push(rgb);
    for rgb in decoded {
        let wanted: Vec<f64> = y.iter().flat_map(|&y| expected(y, blue, red)).collect();
        assert_eq!(rgb.len(), wanted.len());
        // Half a level of rounding, and a little for the whole-number matrix.
        assert!(rgb.iter().zip(&wanted).all(|(a, b)| (f64::from(*a) - b).abs() < 0.6), "{rgb:?} {wanted:?}");
    }
}

#[test]
fn odd_sizes_and_padded_rows_decode_to_the_right_number_of_pixels() {
    let mut rgb = Vec::new();
    let padded = [10, 20, 30, 99, 40, 50, 60, 99];
    Layout { format: PixelFormat::Grey, width: 3, height: 2, stride: 4 }.decode(&padded, &mut rgb).unwrap();
    assert_eq!(rgb, [10, 20, 30, 40, 50, 60].iter().flat_map(|&grey| [grey; 3]).collect::<Vec<u8>>());
    for (format, bytes) in [(PixelFormat::Yuyv, 8 * 3), (PixelFormat::Nv12, 3 * 3 + 2 * 3 + 1)] {
        let layout = Layout { format, width: 3, height: 3, stride: 0 };
        layout.decode(&vec![128; bytes], &mut rgb).unwrap();
        assert_eq!(rgb.len(), 27, "{format}");
    }
}

#[test]
fn a_jpeg_frame_decodes_with_and_without_its_tables() {
    let (width, height) = (64, 48);
    let layout = Layout { format: PixelFormat::Mjpg, width, height, stride: 0 };
    let file = jpeg(width, height);
    let (mut whole, mut stripped) = (Vec::new(), Vec::new());
    layout.decode(&file, &mut whole).unwrap();
    let bare = without_tables(&file);
    assert!(bare.len() + 400 < file.len(), "the tables were taken out");
    layout.decode(&bare, &mut stripped).unwrap();
    assert_eq!(whole, stripped);
    let scene = scene(width, height);
    let error = whole.iter().zip(&scene).map(|(a, b)| u64::from(a.abs_diff(*b))).sum::<u64>();
    assert!(error / (scene.len() as u64) < 4, "mean error {}", error / scene.len() as u64);
    assert!(Layout { width: 32, ..layout }.decode(&file, &mut whole).is_err(), "of another size");
    assert!(layout.decode(&[], &mut whole).is_err(), "zero length");
}

/// USB cameras send pictures that are cut off, and copies of folders end too early.
#[test]
fn a_jpeg_that_is_cut_off_is_no_picture() {
    let (width, height) = (64, 48);
    let layout = Layout { format: PixelFormat::Mjpg, width, height, stride: 0 };
    let file = jpeg(width, height);
    let mut rgb = Vec::new();
    for len in 0..file.len() {
        assert!(picture(&file[..len], &mut rgb).is_err(), "a file cut at {len} of {}", file.len());
        assert!(layout.decode(&file[..len], &mut rgb).is_err(), "a frame cut at {len}");
        // As a driver leaves it, whose buffer is longer.
        let padded = [&file[..len], &[0; 100]].concat();
        assert!(layout.decode(&padded, &mut rgb).is_err(), "a padded frame cut at {len}");
    }
    let halved = layout.decode(&file[..file.len() / 2], &mut rgb).unwrap_err();
    assert!(halved.to_string().contains("cut off"), "{halved}");
    // What follows the end is nobody's business.
    let padded = [&file[..], &[0; 100]].concat();
    layout.decode(&padded, &mut rgb).unwrap();
    assert_eq!(picture(&padded, &mut rgb).unwrap(), (width, height));
}

#[test]
fn a_jpeg_with_another_one_in_its_header_must_have_its_own_end() {
    let (file, small) = (jpeg(64, 48), jpeg(16, 16));
    let len = (small.len() as u16 + 2).to_be_bytes();
    let with_thumbnail = [&file[..2], &[0xff, 0xe1], &len, &small, &file[2..]].concat();
    let (mut rgb, mut plain) = (Vec::new(), Vec::new());
    assert_eq!(picture(&with_thumbnail, &mut rgb).unwrap(), (64, 48));
    picture(&file, &mut plain).unwrap();
    assert_eq!(rgb, plain);
    let error = picture(&with_thumbnail[..with_thumbnail.len() * 3 / 4], &mut rgb).unwrap_err();
    assert!(error.to_string().contains("cut off"), "{error}");
}

/// The readers of files used to be the `image` crate's: the pixels stay the same.
#[test]
fn jpeg_files_decode_as_the_image_crate_decodes_them() {
    for (width, height) in [(64, 48), (33, 7), (1, 1)] {
        let grey: Vec<u8> = scene(width, height).chunks_exact(3).map(|pixel| pixel[1]).collect();
        let mut file = Vec::new();
        JpegEncoder::new(&mut file)
            .encode(&grey, width as u32, height as u32, ExtendedColorType::L8)
            .unwrap();
        for file in [jpeg(width, height), file] {
            let mut rgb = Vec::new();
            assert_eq!(picture(&file, &mut rgb).unwrap(), (width, height));
            assert_eq!(rgb, image::load_from_memory(&file).unwrap().into_rgb8().into_raw());
        }
    }
}

#[test]
fn pictures_are_known_by_their_content() {
    let mut rgb = Vec::new();
    assert_eq!(picture(&jpeg(20, 10), &mut rgb).unwrap(), (20, 10));
    assert_eq!(rgb.len(), 600);
    let error = picture(b"no picture at all", &mut rgb).unwrap_err();
    assert!(error.to_string().contains("not a readable picture"), "{error}");
}

#[test]
fn formats_are_named_by_their_codes() {
    for format in PixelFormat::ALL {
        assert_eq!(format.to_string().to_lowercase().parse::<PixelFormat>().unwrap(), format);
    }
    assert!("H264".parse::<PixelFormat>().unwrap_err().to_string().contains("MJPG"));
}

fn any_format() -> impl Strategy<Value = PixelFormat> {
    (0..PixelFormat::ALL.len()).prop_map(|index| PixelFormat::ALL[index])
}

proptest! {
    /// Whatever the bytes and the size, a frame has exactly its pixels or is refused, and the buffer stays within three
    /// bytes a pixel.
    #[test]
    fn any_bytes_of_any_size_are_decoded_or_refused(
        format in any_format(),
        width in 0usize..70_000,
        height in prop_oneof![0usize..20, 0usize..70_000],
        stride in prop_oneof![Just(0usize), 0usize..100_000, Just(usize::MAX), Just(usize::MAX / 2)],
        bytes in proptest::collection::vec(any::<u8>(), 0..20_000),
    ) {
        let mut rgb = Vec::new();
        match (Layout { format, width, height, stride }).decode(&bytes, &mut rgb) {
            Ok(()) => prop_assert_eq!(rgb.len(), width * height * 3),
            Err(error) => prop_assert_eq!(error.exit_code(), 2),
        }
        prop_assert!(rgb.capacity() <= 200_000, "{} bytes for {}", rgb.capacity(), bytes.len());
    }

    #[test]
    fn small_frames_of_any_bytes_decode_when_there_are_enough(
        format in any_format(),
        width in 1usize..40,
        height in 1usize..40,
        bytes in proptest::collection::vec(any::<u8>(), 6400..6401),
    ) {
        let mut rgb = Vec::new();
        let decoded = (Layout { format, width, height, stride: 0 }).decode(&bytes, &mut rgb);
        prop_assert_eq!(decoded.is_ok(), format != PixelFormat::Mjpg);
    }

    /// A real frame with some bytes changed and its end cut off.
    #[test]
    fn damaged_jpeg_frames_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
        tables in any::<bool>(),
    ) {
        let mut bytes = if tables { jpeg(32, 24) } else { without_tables(&jpeg(32, 24)) };
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        bytes.truncate(cut.index(bytes.len()) + 1);
        let mut rgb = Vec::new();
        let layout = Layout { format: PixelFormat::Mjpg, width: 32, height: 24, stride: 0 };
        if layout.decode(&bytes, &mut rgb).is_ok() {
            prop_assert_eq!(rgb.len(), 32 * 24 * 3);
        }
        // The file reader sees the size that the damaged header claims.
        if let Ok((width, height)) = picture(&bytes, &mut rgb) {
            prop_assert_eq!(rgb.len(), width * height * 3);
        }
    }

    #[test]
    fn planes_of_any_bytes_never_panic(
        width in 1usize..50,
        height in 1usize..50,
        sharing in prop_oneof![Just(None), Just(Some((1, 1))), Just(Some((2, 1))), Just(Some((2, 2)))],
        bytes in proptest::collection::vec(any::<u8>(), 0..8000),
    ) {
        let planes = Planes { width, height, sharing, range: Range::Full };
        let mut rgb = Vec::new();
        let enough = bytes.len() >= planes.bytes().unwrap();
        prop_assert_eq!(planes.rgb(&bytes, &mut rgb).is_some(), enough);
        if enough {
            prop_assert_eq!(rgb.len(), width * height * 3);
        }
    }
}

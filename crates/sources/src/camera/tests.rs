//! Recorded sources as they are named and read: good, damaged and missing ones.

use std::io::Write;
use std::path::Path;

use proptest::prelude::*;

use super::*;

fn open(name: &str) -> Result<Box<dyn Source + Send>> {
    name.parse::<Camera>()?.open(&Options::default())
}

fn message(name: &str) -> String {
    let error = open(name).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    error.to_string()
}

/// A one-coloured PNG.
fn png(grey: u8) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image::RgbImage::from_pixel(4, 3, image::Rgb([grey; 3]))
        .write_to(&mut bytes, image::ImageFormat::Png)
        .unwrap();
    bytes.into_inner()
}

/// First byte, number and time of each frame, and `None` for each that was passed over.
fn read_all(source: &mut dyn Source) -> Vec<Option<(u8, u64, Option<u64>)>> {
    let mut frame = Frame::default();
    let mut seen = Vec::new();
    loop {
        match source.next(&mut frame).unwrap() {
            Next::Frame => {
                assert_eq!(frame.rgb.len(), frame.width * frame.height * 3);
                seen.push(Some((frame.rgb[0], frame.sequence, frame.recorded_ns)));
            }
            Next::Nothing => seen.push(None),
            Next::End => return seen,
        }
    }
}

fn zipped(path: &Path, files: &[(&str, Vec<u8>)]) {
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    for (name, bytes) in files {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn names_are_understood_and_repeated() {
    for name in
        ["rooms:7", "nokhwa:3", "-", "/dev/video0", "pipe:cat film.y4m", "pictures.zip", "folder/of:pictures"]
    {
        assert_eq!(name.parse::<Camera>().unwrap().to_string(), name);
    }
    assert_eq!("rooms".parse::<Camera>().unwrap(), Camera::Rooms(0));
    for (bad, word) in [
        ("", "empty"),
        ("rooms:x", "whole number"),
        ("pipe: ", "command"),
        ("rooms:-1", "whole number"),
        ("nokhwa:x", "number"),
    ] {
        assert!(bad.parse::<Camera>().unwrap_err().to_string().contains(word), "{bad}");
    }
}

#[cfg(not(feature = "nokhwa"))]
#[test]
fn a_camera_of_a_feature_that_is_not_there_is_refused_with_the_way_to_it() {
    let message = message("nokhwa:0");
    assert!(message.contains("--features nokhwa") && message.contains("/dev/video0"), "{message}");
}

#[test]
fn a_folder_is_read_in_natural_order_and_bad_files_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in [
        ("f10.png", png(10)),
        ("f2.png", png(2)),
        ("f3.jpg", b"torn".to_vec()),
        ("f4.png", Vec::new()),
        ("notes.txt", vec![1]),
    ] {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    std::os::unix::fs::symlink("absent", folder.path().join("f5.png")).unwrap();
    let mut source = open(folder.path().to_str().unwrap()).unwrap();
    assert_eq!(source.kind(), Kind::Recorded);
    assert_eq!(read_all(&mut *source), [Some((2, 0, None)), None, None, None, Some((10, 4, None))]);
    assert_eq!(source.counters(), Counters { frames: 2, gaps: 0, corrupt: 3 });
    source.seek(4).unwrap();
    assert_eq!(read_all(&mut *source), [Some((10, 4, None))]);
    assert!(source.seek(6).unwrap_err().to_string().contains("5 pictures"));
}

#[test]
fn times_come_from_the_list_in_the_folder_or_above_it() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = folder.path().join("rgb");
    std::fs::create_dir(&pictures).unwrap();
    for (name, grey) in [("1.5.png", 15), ("2.5.png", 25), ("0.png", 0)] {
        std::fs::write(pictures.join(name), png(grey)).unwrap();
    }
    let list = "# time file\n1.5 rgb/1.5.png\n2.5 rgb/2.5.png\n2.6 rgb/gone.png\n";
    std::fs::write(folder.path().join("rgb.txt"), list).unwrap();
    let expected = [Some((15, 0, Some(1_500_000_000))), Some((25, 1, Some(2_500_000_000))), None];
    for place in [folder.path(), pictures.as_path()] {
        let mut source = open(place.to_str().unwrap()).unwrap();
        assert_eq!(read_all(&mut *source), expected, "{}", place.display());
        assert!((source.rate().unwrap() - 2.0 / 1.1).abs() < 1e-9);
    }
    std::fs::write(folder.path().join("rgb.txt"), "garbage\n").unwrap();
    assert!(message(folder.path().to_str().unwrap()).contains("rgb.txt: line 1"));
}

#[test]
fn subfolders_are_read_and_pictures_without_times_take_a_period_each() {
    let folder = tempfile::tempdir().unwrap();
    for (name, grey) in
        [("day2/1.png", 3), ("day10/1.png", 4), ("day2/2.png", 5), (".trash/1.png", 9), ("0.png", 1)]
    {
        std::fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        std::fs::write(folder.path().join(name), png(grey)).unwrap();
    }
    let open = |options: &Options| Camera::Path(folder.path().to_path_buf()).open(options).unwrap();
    let mut source = open(&Options { period: Some(Duration::from_secs(4)), ..Options::default() });
    let at = |grey, number: u64| Some((grey, number, Some(number * 4_000_000_000)));
    assert_eq!(read_all(&mut *source), [at(1, 0), at(3, 1), at(5, 2), at(4, 3)]);
    assert_eq!(source.epoch(), None);
    assert_eq!(source.length(), Some(4));
    // A rate beats the period, and no time is a nanosecond short of the sampler's.
    let options = Options { rate: Some(3.0), period: Some(Duration::from_secs(4)), ..Options::default() };
    let mut source = open(&options);
    assert_eq!(read_all(&mut *source)[3].unwrap().2, Some(1_000_000_000));
}

/// A picture as a camera writes it: a JPEG file with its time.
fn photograph(grey: u8, fields: &[(u16, &str)]) -> Vec<u8> {
    let mut plain = std::io::Cursor::new(Vec::new());
    image::RgbImage::from_pixel(16, 16, image::Rgb([grey; 3]))
        .write_to(&mut plain, image::ImageFormat::Jpeg)
        .unwrap();
    let head = exif::tests::head(fields, true);
    // Without the mark of the picture at the head's end, and the one of the file at the plain one's beginning.
    [&head[..head.len() - 4], &plain.into_inner()[2..]].concat()
}

#[test]
fn photographs_tell_their_times_and_order() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let taken = |time: &'static str| photograph(1, &[(0x9003, time), (0x9011, "+01:00")]);
    std::fs::write(path("9999.jpg"), taken("2026:03:05 11:00:00")).unwrap();
    std::fs::write(path("0001.jpg"), taken("2026:03:05 11:00:07")).unwrap();
    let options = Options { period: Some(Duration::from_secs(4)), ..Options::default() };
    let mut source = Camera::Path(folder.path().to_path_buf()).open(&options).unwrap();
    let begin = 1_772_704_800_000_000_000;
    let times = |source: &mut dyn Source| {
        read_all(source).iter().map(|seen| seen.unwrap().2.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(times(&mut *source), [begin, begin + 7_000_000_000]);
    assert_eq!((source.epoch(), source.begins_ns()), (Some(Timestamp::UNIX_EPOCH), begin));
    assert!(source.describe().contains("EXIF"), "{}", source.describe());
    // One without a time, and none counts.
    std::fs::write(path("5.png"), png(5)).unwrap();
    let mut source = Camera::Path(folder.path().to_path_buf()).open(&options).unwrap();
    assert_eq!(times(&mut *source), [0, 4_000_000_000, 8_000_000_000]);
    assert_eq!(source.epoch(), None);
}

#[test]
fn an_archive_is_read_like_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("images.zip");
    zipped(
        &path,
        &[("a/10.png", png(10)), ("a/9.png", png(9)), ("a/9b.png", vec![1, 2, 3]), ("a/x.txt", vec![])],
    );
    let mut source = open(path.to_str().unwrap()).unwrap();
    assert_eq!(read_all(&mut *source), [Some((9, 0, None)), None, Some((10, 2, None))]);

    zipped(
        &path,
        &[
            ("r/rgb/b.png", png(1)),
            ("r/rgb/a.png", png(2)),
            ("r/rgb.txt", b"3.25 rgb/b.png\n4 rgb/a.png".to_vec()),
        ],
    );
    let mut source = open(path.to_str().unwrap()).unwrap();
    assert_eq!(
        read_all(&mut *source),
        [Some((1, 0, Some(3_250_000_000))), Some((2, 1, Some(4_000_000_000)))]
    );
}

#[test]
fn what_is_no_recording_is_named_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    assert!(message(&at("absent")).contains("absent"));
    assert!(message(folder.path().to_str().unwrap()).contains("no pictures"));
    std::fs::write(at("notes.txt"), b"x").unwrap();
    assert!(message(&at("notes.txt")).contains("a video (mp4, mov"));
    std::fs::write(at("one.jpg"), b"x").unwrap();
    assert!(message(&at("one.jpg")).contains("give the folder"));
    std::fs::write(at("broken.zip"), b"PK not really").unwrap();
    assert!(message(&at("broken.zip")).contains("zip archive"));
    assert!(message("/dev/null").contains("not a camera"));
    assert!(message("/dev/video-that-is-not-there").contains("oupn-edge cameras"));
    zipped(Path::new(&at("empty.zip")), &[("readme.txt", vec![])]);
    assert!(message(&at("empty.zip")).contains("no pictures"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// An archive with bytes changed anywhere, its directory included.
    #[test]
    fn damaged_archives_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop_oneof![3 => Just(usize::MAX), 1 => 0usize..600],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.zip");
        zipped(&path, &[("1.png", png(1)), ("rgb.txt", b"1.0 1.png".to_vec()), ("2.png", png(2))]);
        let mut bytes = std::fs::read(&path).unwrap();
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        bytes.truncate(cut);
        std::fs::write(&path, bytes).unwrap();
        if let Ok(mut source) = open(path.to_str().unwrap()) {
            let seen = read_all(&mut *source);
            prop_assert!(seen.len() <= 2);
        }
    }
}

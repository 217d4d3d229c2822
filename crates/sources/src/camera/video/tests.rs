//! Decoders that are not there, hang, or say nothing of times. Real videos are read in `tests/cli/video.rs`.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// Scripts in the place of ffprobe and ffmpeg; the second writes two frames of one pixel row and then does `more`.
fn tools(folder: &Path, more: &str) -> Tools {
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    let answer = r#"{"streams": [{"codec_name": "x", "width": 2, "height": 1, "r_frame_rate": "1/1",
        "avg_frame_rate": "1/1", "duration": "60.0", "start_time": "0.0"}], "format": {"format_name": "mov,mp4"}}"#;
    let frames = "echo '[Parsed_showinfo_1 @ 0] [info] config in time_base: 1/1, frame_rate: 1/1' >&2\n\
        printf 'YUV4MPEG2 W2 H1 F1:1 Cmono XCOLORRANGE=FULL\\n'\n\
        for n in 0 4; do echo \"[Parsed_showinfo_1 @ 0] [info] n: 0 pts: $n pts_time:$n\" >&2; printf 'FRAME\\nab'; done";
    Tools {
        ffprobe: write("ffprobe", &format!("cat <<'E'\n{answer}\nE")),
        ffmpeg: write("ffmpeg", &format!("{frames}\n{more}")),
    }
}

fn read_all(video: &mut Video) -> Result<Vec<(u64, Option<u64>)>> {
    let (mut frame, mut seen) = (Frame::default(), Vec::new());
    loop {
        match video.next(&mut frame)? {
            Next::Frame => seen.push((frame.sequence, frame.recorded_ns)),
            Next::Nothing => {}
            Next::End => return Ok(seen),
        }
    }
}

fn video(folder: &Path, more: &str) -> Video {
    Video::with(Path::new("film.mp4"), &Options::default(), tools(folder, more), Duration::from_secs(1))
        .unwrap()
}

const SEEN: [(u64, Option<u64>); 2] = [(0, Some(0)), (4000, Some(4_000_000_000))];

#[test]
fn a_decoder_that_hangs_is_ended_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut video = video(folder.path(), "exec sleep 1000");
    assert_eq!(video.length(), Some(60_000));
    assert_eq!(read_all(&mut video).unwrap(), SEEN);
    let missing = video.missing().unwrap();
    assert!(
        missing.contains("it ends at 4.0 s of 60.0 s") && missing.contains("nothing for 1 s"),
        "{missing}"
    );
}

#[test]
fn a_decoder_that_dies_is_told_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut video = video(folder.path(), "echo '[x @ 0] [error] the disk is on fire' >&2; exit 3");
    assert_eq!(read_all(&mut video).unwrap(), SEEN);
    let missing = video.missing().unwrap();
    assert!(missing.contains("ffmpeg says: the disk is on fire"), "{missing}");
}

#[test]
fn a_frame_is_found_again_by_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let mut video = video(folder.path(), "");
    assert_eq!(read_all(&mut video).unwrap(), SEEN);
    video.seek(1).unwrap();
    assert_eq!(read_all(&mut video).unwrap(), SEEN[1..]);
    video.seek(4001).unwrap();
    assert_eq!(read_all(&mut video).unwrap(), []);
}

#[test]
fn one_without_any_picture_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut tools = tools(folder.path(), "");
    tools.ffmpeg = PathBuf::from("/bin/false");
    let mut video =
        Video::with(Path::new("film.mp4"), &Options::default(), tools, Duration::from_secs(1)).unwrap();
    let error = read_all(&mut video).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("film.mp4: ffmpeg finds no picture in it"), "{error}");
}

#[test]
fn missing_programs_are_named_with_the_way_to_them() {
    let folder = tempfile::tempdir().unwrap();
    for search in [None, Some(folder.path().as_os_str())] {
        let error = Tools::find(search, Path::new("film.mp4")).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("apt install ffmpeg"), "{error}");
    }
    tools(folder.path(), "");
    Tools::find(Some(folder.path().as_os_str()), Path::new("film.mp4")).unwrap();
}

//! Streams of frames from real programs of the shell: whole, torn, absurd and dying.

use proptest::prelude::*;

use super::*;

fn options(resolution: Option<(u32, u32)>) -> Options {
    Options { resolution, ..Options::default() }
}

fn pipe(command: &str, resolution: Option<(u32, u32)>) -> Result<Pipe> {
    Pipe::command(command, &options(resolution))
}

/// What a stream gives until it ends or fails.
fn read_all(pipe: &mut Pipe) -> Result<Vec<Frame>> {
    let mut frames = Vec::new();
    let mut frame = Frame::default();
    loop {
        match pipe.next(&mut frame)? {
            Next::Frame => frames.push(frame.clone()),
            Next::Nothing => {}
            Next::End => return Ok(frames),
        }
    }
}

#[test]
fn raw_frames_are_cut_by_the_given_size() {
    let mut source = pipe("printf 'abcdefghijklABCDEFGHIJKL'", Some((2, 2))).unwrap();
    let frames = read_all(&mut source).unwrap();
    assert_eq!(frames.len(), 2);
    assert_eq!((frames[1].rgb.as_slice(), frames[1].sequence), (&b"ABCDEFGHIJKL"[..], 1));
    assert_eq!((frames[0].width, frames[0].height), (2, 2));
    let mut torn = pipe("printf 'abcdefghijklABC'", Some((2, 2))).unwrap();
    assert_eq!(read_all(&mut torn).unwrap().len(), 1);
    assert_eq!(torn.counters(), Counters { frames: 1, gaps: 0, corrupt: 1 });
}

#[test]
fn y4m_frames_are_found_by_the_header() {
    // Full-range grey: brightness is the value itself. The header comes in two pieces.
    let command = "printf YUV4; sleep 0.1; printf 'MPEG2 W2 H1 F10:1 Cmono XCOLORRANGE=FULL\\nFRAME\\nabFRAME Ip\\ncdFRAME\\nef'";
    let mut source = pipe(command, None).unwrap();
    assert_eq!(source.rate(), Some(10.0));
    assert!(source.describe().contains("Y4M frames of 2x1"), "{}", source.describe());
    let frames = read_all(&mut source).unwrap();
    let bytes: Vec<&[u8]> = frames.iter().map(|frame| frame.rgb.as_slice()).collect();
    assert_eq!(bytes, [b"aaabbb", b"cccddd", b"eeefff"]);
    assert_eq!(frames[2].recorded_ns, Some(200_000_000));

    let mut again = pipe(command, None).unwrap();
    again.seek(2).unwrap();
    let rest = read_all(&mut again).unwrap();
    assert_eq!((rest.len(), rest[0].sequence, rest[0].rgb.as_slice()), (1, 2, &b"eeefff"[..]));
    assert!(again.seek(0).is_err());
}

#[test]
fn a_dying_program_is_reported_with_its_last_words() {
    let mut source =
        pipe("printf abc; echo 'first' >&2; echo 'no such camera' >&2; exit 3", Some((1, 1))).unwrap();
    let mut frame = Frame::default();
    assert_eq!(source.next(&mut frame).unwrap(), Next::Frame);
    let error = source.next(&mut frame).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("exit status 3") && text.contains("no such camera"), "{text}");

    let error = pipe("no-such-program-anywhere", None).unwrap_err().to_string();
    assert!(error.contains("127") && error.contains("no-such-program-anywhere"), "{error}");
    let error = pipe("true", None).unwrap_err().to_string();
    assert!(error.contains("wrote nothing"), "{error}");
    let error = pipe("printf 'neither this nor that'", None).unwrap_err().to_string();
    assert!(error.contains("--resolution"), "{error}");
    let error = pipe("printf x", Some((0, 5))).unwrap_err().to_string();
    assert!(error.contains("0x5"), "{error}");
    let mut killed = pipe("printf abc; kill -9 $$", Some((1, 1))).unwrap();
    killed.next(&mut frame).unwrap();
    let text = killed.next(&mut frame).unwrap_err().to_string();
    assert!(text.contains("signal: 9"), "{text}");
}

#[test]
fn a_dropped_source_ends_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let alive = folder.path().join("alive");
    // The writer dies of the closed pipe or of the signal; a child of the shell must go too.
    let command = format!("printf abcdefghijkl; (sleep 1.5; touch {}) & wait", alive.display());
    let mut source = pipe(&command, Some((2, 2))).unwrap();
    source.next(&mut Frame::default()).unwrap();
    drop(source);
    std::thread::sleep(Duration::from_millis(2500));
    assert!(!alive.exists(), "the command went on after its source was dropped");
}

proptest! {
    /// Any stream ends: in frames of the right size, in the end, or in an error.
    #[test]
    fn any_stream_is_read_to_its_end(
        header in prop_oneof![Just(String::new()), "YUV4MPEG2 W[0-9]{1,2} H[0-9]{1,2}( C(420|422|444|mono|4))?\n(FRAME\n)?"],
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        resolution in prop_oneof![Just(None), (0u32..20, 0u32..20).prop_map(Some), Just(Some((u32::MAX, 1)))],
    ) {
        let stream = [header.as_bytes(), &bytes].concat();
        let input = Box::new(std::io::Cursor::new(stream));
        if let Ok(mut pipe) = Pipe::new("test".to_owned(), input, None, &options(resolution)) {
            for frame in read_all(&mut pipe).unwrap_or_default() {
                prop_assert_eq!(frame.rgb.len(), frame.width * frame.height * 3);
            }
        }
    }
}

#[test]
fn a_program_that_falls_silent_is_noticed_and_ended() {
    // A frame and a half, in pieces, and then nothing.
    let command = "printf 'YUV4MPEG2 W2 H1 F10:1 Cmono XCOLORRANGE=FULL\\nFR'; sleep 0.7; printf 'AME\\nabFRAME\\nc'; sleep infinity";
    let mut source = pipe(command, None).unwrap();
    let mut frame = Frame::default();
    while source.next(&mut frame).unwrap() == Next::Nothing {}
    assert_eq!(frame.rgb, b"aaabbb");
    for _ in 0..2 {
        assert_eq!(source.next(&mut frame).unwrap(), Next::Nothing);
    }
    // Waited for, it would never come to an end.
    drop(source);
}

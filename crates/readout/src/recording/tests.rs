//! The time line, repeated frames, segments, and damage, on traces of the real writer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::segments::{Segment, Segments, Wanted};
use super::{Categories, Missing, Recording, Seen};
use crate::clock::{BootId, ManualClock, Stamp};
use crate::storage::OsFilesystem;
use crate::trace::{Frame, Merge, Record, Start, TraceSettings, TraceWriter};

fn stamp(boot: u8, seconds: u64, wall: i64, synced: bool) -> Stamp {
    let wall = Timestamp::from_second(wall).ok();
    Stamp { boot: BootId::from_bytes([boot; 16]), mono_ns: seconds * 1_000_000_000, wall, synced }
}

fn start(frame: u64) -> Record {
    Record::Start(Box::new(Start {
        trace_version: 1,
        program: "test".to_owned(),
        device: "camera 1".to_owned(),
        board: String::new(),
        source: "rooms".to_owned(),
        compute: "CPU".to_owned(),
        settings: serde_json::Value::Null,
        frame,
        resumed_from: None,
        recorded: None,
        continues: None,
    }))
}

fn frame(frame: u64, category: u64) -> Record {
    Record::Frame(Frame {
        frame,
        category,
        created: false,
        evicted: None,
        u_hat: 0.25,
        similarity: 0.5,
        share: Some(1.0),
        runners_up: Vec::new(),
        captured_ns: None,
        source_ns: None,
        camera_sequence: None,
        latency_ms: None,
        truth: None,
    })
}

/// Writes a trace with these records at these moments.
fn write(dir: &Path, records: impl IntoIterator<Item = (Stamp, Record)>) {
    let clock = Arc::new(ManualClock::new(stamp(1, 0, 0, false)));
    let mut settings = TraceSettings::default();
    settings.disk.reserve_bytes = 0;
    let (trace, _) = TraceWriter::open(Arc::new(OsFilesystem), dir, settings, clock).unwrap();
    records.into_iter().for_each(|(at, record)| assert!(trace.record_at(at, record)));
    trace.close(Duration::from_secs(60)).unwrap();
}

fn read(dir: &Path) -> (Recording, Vec<Seen>, Missing) {
    let recording = Recording::open(Arc::new(OsFilesystem), dir).unwrap();
    let mut seen = Vec::new();
    let missing = recording
        .read(|record| {
            seen.push(record);
            Ok(())
        })
        .unwrap();
    (recording, seen, missing)
}

fn frames(seen: &[Seen]) -> Vec<(u64, u64)> {
    let frame = |seen: &Seen| match &seen.record {
        Record::Frame(frame) => Some((frame.frame, frame.category)),
        _ => None,
    };
    seen.iter().filter_map(frame).collect()
}

#[test]
fn seconds_go_on_over_boots_with_what_is_known_of_the_time_between() {
    for (synced, between) in [(true, 3590.0), (false, 0.0)] {
        let folder = tempfile::tempdir().unwrap();
        let wall = 2_000_000_000;
        write(
            folder.path(),
            [
                (stamp(1, 100, wall, synced), start(0)),
                (stamp(1, 110, wall + 10, synced), frame(0, 1)),
                // The wall clock is set back within the boot: durations do not care.
                (stamp(1, 130, wall + 10, synced), frame(1, 1)),
                (stamp(2, 7, wall + 3600, synced), start(2)),
                (stamp(2, 9, wall + 3602, synced), frame(2, 1)),
            ],
        );
        let (recording, seen, missing) = read(folder.path());
        let seconds: Vec<f64> = seen.iter().map(|seen| seen.seconds).collect();
        assert_eq!(seconds, [0.0, 10.0, 30.0, 30.0 + between, 32.0 + between]);
        assert_eq!(seen.iter().map(|seen| seen.session).collect::<Vec<_>>(), [1, 1, 1, 2, 2]);
        assert_eq!(
            (recording.device.as_str(), recording.run.as_str()),
            ("camera 1", "20330518T033320Z-01010101")
        );
        assert_eq!(missing, Missing::default());
    }
}

#[test]
fn a_frame_is_when_its_picture_was_taken() {
    let folder = tempfile::tempdir().unwrap();
    let Record::Frame(seen) = frame(0, 1) else { unreachable!() };
    let taken = Record::Frame(Frame { captured_ns: Some(109_750_000_000), ..seen });
    write(
        folder.path(),
        [(stamp(1, 100, 2_000_000_000, true), start(0)), (stamp(1, 110, 2_000_000_010, true), taken)],
    );
    let (_, seen, _) = read(folder.path());
    assert_eq!(seen[1].seconds, 9.75);
    assert_eq!(seen[1].at.mono_ns, 109_750_000_000);
    assert_eq!(seen[1].at.wall.unwrap().to_string(), "2033-05-18T03:33:29.75Z");
}

/// A source's clock may show what the machine's shows: the record says which one was meant.
#[test]
fn a_source_time_is_not_taken_for_the_machines() {
    let folder = tempfile::tempdir().unwrap();
    let of = |n: u64| {
        let Record::Frame(seen) = frame(n, 1) else { unreachable!() };
        Record::Frame(Frame {
            source_ns: Some((1000 + 4 * n) * 1_000_000_000),
            latency_ms: Some(0.0),
            ..seen
        })
    };
    let at = |n: u64| stamp(1, 1000 + n, 2_000_000_000, true);
    write(folder.path(), [(at(0), start(0)), (at(0), of(0)), (at(1), of(1)), (at(2), of(2))]);
    let (_, seen, _) = read(folder.path());
    assert_eq!(seen.iter().map(|seen| seen.seconds).collect::<Vec<_>>(), [0.0, 0.0, 4.0, 8.0]);
}

#[test]
fn a_recorded_source_has_its_own_time() {
    let folder = tempfile::tempdir().unwrap();
    let at = |n: u64| stamp(1, 1000 + n, 2_000_000_000, true);
    // Frames of 4 s each that are read one a second.
    let of = |n: u64| {
        let Record::Frame(seen) = frame(n, 1) else { unreachable!() };
        Record::Frame(Frame { captured_ns: Some((7 + 4 * n) * 1_000_000_000), latency_ms: Some(5.0), ..seen })
    };
    let pause = Record::Pause(crate::trace::Pause { by: "test".to_owned() });
    write(folder.path(), [(at(0), start(0)), (at(1), of(0)), (at(2), of(1)), (at(3), pause), (at(4), of(2))]);
    let (recording, seen, _) = read(folder.path());
    assert_eq!(seen.iter().map(|seen| seen.seconds).collect::<Vec<_>>(), [0.0, 0.0, 4.0, 4.0, 8.0]);
    assert!((recording.interval.unwrap() - 4.0).abs() < 0.05);
    assert_eq!(seen[4].at, at(4));
}

#[test]
fn a_camera_after_a_recorded_source_goes_on_from_where_that_ended() {
    let folder = tempfile::tempdir().unwrap();
    let at = |n: u64| stamp(1, 1000 + n, 2_000_000_000, true);
    let taken = |n: u64, captured_ns: u64| {
        let Record::Frame(seen) = frame(n, 1) else { unreachable!() };
        Record::Frame(Frame { captured_ns: Some(captured_ns), latency_ms: Some(0.0), ..seen })
    };
    let from = |source: &str, frame: u64| {
        let Record::Start(mut start) = start(frame) else { unreachable!() };
        start.source = source.to_owned();
        Record::Start(start)
    };
    let camera = |n: u64, second: u64| (at(second), taken(n, (1000 + second) * 1_000_000_000));
    write(
        folder.path(),
        [
            (at(0), from("pictures", 0)),
            (at(1), taken(0, 0)),
            (at(2), taken(1, 60_000_000_000)),
            (at(10), from("/dev/video0", 2)),
            camera(2, 12),
            camera(3, 16),
            (at(20), from("pictures", 4)),
            (at(21), taken(4, 7_000_000_000)),
            (at(22), taken(5, 9_000_000_000)),
        ],
    );
    let (_, seen, _) = read(folder.path());
    let seconds: Vec<f64> = seen.iter().map(|seen| seen.seconds).collect();
    // The last picture of a source stands for as long as the one before it.
    assert_eq!(seconds, [0.0, 0.0, 60.0, 120.0, 122.0, 126.0, 130.0, 130.0, 132.0]);
}

#[test]
fn several_recorded_sources_follow_each_other_and_one_that_goes_on_does_not_begin_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = |n: u64| stamp(1, 1000 + n, 2_000_000_000, true);
    let told = |n: u64, wall: &str| at(n).as_recorded(wall.parse().ok());
    let of = |n: u64, second: u64| {
        let Record::Frame(seen) = frame(n, n) else { unreachable!() };
        // By their looks these could be times of the machine's clock.
        let captured_ns = Some((1000 + second) * 1_000_000_000);
        Record::Frame(Frame { captured_ns, latency_ms: Some(0.0), ..seen })
    };
    let from = |source: &str, frame: u64, continues: bool| {
        let Record::Start(mut start) = start(frame) else { unreachable!() };
        (start.source, start.recorded, start.continues) = (source.to_owned(), Some(true), Some(continues));
        Record::Start(start)
    };
    write(
        folder.path(),
        [
            (at(0), from("a", 0, true)),
            (told(1, "2026-03-05T10:00:00Z"), of(0, 1)),
            (told(5, "2026-03-05T10:00:04Z"), of(1, 5)),
            (at(6), from("b", 2, false)),
            (told(7, ""), of(2, 0)),
            (told(8, ""), of(3, 2)),
            (at(9), from("b, longer now", 4, true)),
            (told(10, ""), of(4, 4)),
        ],
    );
    let (recording, seen, _) = read(folder.path());
    let seconds: Vec<f64> = seen.iter().map(|seen| seen.seconds).collect();
    assert_eq!(seconds, [0.0, 0.0, 4.0, 8.0, 8.0, 10.0, 10.0, 12.0]);
    let walls: Vec<bool> = seen.iter().map(|seen| seen.at.wall.is_some()).collect();
    assert_eq!(walls, [false, true, true, false, false, false, false, false]);
    assert_eq!(recording.sources(), ["a", "b", "b, longer now"]);
    let mut ends = Vec::new();
    let mut emit = |segment: Segment| {
        ends.push((segment.begin, segment.end));
        Ok::<(), ()>(())
    };
    let mut segments = Segments::new(Wanted::default(), Some(4.1));
    seen.iter().for_each(|seen| segments.add(seen, &mut emit).unwrap());
    segments.finish(&mut emit).unwrap();
    assert_eq!(ends, [(0.0, 4.0), (4.0, 8.0), (8.0, 10.0), (10.0, 12.0), (12.0, 14.0)]);
}

#[test]
fn pictures_of_older_traces_without_times_do_not_share_theirs_with_what_follows() {
    let folder = tempfile::tempdir().unwrap();
    let at = |n: u64| stamp(1, 1000 + n, 2_000_000_000, true);
    let Record::Frame(seen) = frame(1, 1) else { unreachable!() };
    let taken = Record::Frame(Frame { captured_ns: Some(0), latency_ms: Some(5.0), ..seen });
    let Record::Start(mut rooms) = start(1) else { unreachable!() };
    rooms.source = "other".to_owned();
    write(
        folder.path(),
        [(at(0), start(0)), (at(3), frame(0, 1)), (at(7), Record::Start(rooms)), (at(8), taken)],
    );
    let (_, seen, _) = read(folder.path());
    assert_eq!(seen.iter().map(|seen| seen.seconds).collect::<Vec<_>>(), [0.0, 3.0, 7.0, 7.0]);
}

#[test]
fn frames_that_a_restart_repeats_count_once_and_the_later_one_counts() {
    let folder = tempfile::tempdir().unwrap();
    let at = |n: u64| stamp(1, n, 2_000_000_000, true);
    let mut records = vec![(at(0), start(0))];
    records.extend((0..10).map(|n| (at(n), frame(n, 1))));
    records.push((at(20), start(4)));
    records.extend((4..8).map(|n| (at(20 + n), frame(n, 2))));
    write(folder.path(), records);
    let (recording, seen, _) = read(folder.path());
    // Frames 8 and 9 have not come again, and stay.
    let expected = [(0, 1), (1, 1), (2, 1), (3, 1), (8, 1), (9, 1), (4, 2), (5, 2), (6, 2), (7, 2)];
    assert_eq!(frames(&seen), expected);
    assert_eq!(recording.sessions.len(), 2);
    assert!((recording.interval.unwrap() - 1.0).abs() < 0.011, "{:?}", recording.interval);
}

fn merge(from: u64, into: u64, frame: u64) -> Record {
    Record::Merge(Merge { from, into, frame, similarity: 0.9 })
}

fn merges(seen: &[Seen]) -> Vec<(u64, u64)> {
    let merge = |seen: &Seen| match &seen.record {
        Record::Merge(merge) => Some((merge.from, merge.into)),
        _ => None,
    };
    seen.iter().filter_map(merge).collect()
}

#[test]
fn segments_go_by_the_numbers_that_were_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let at = |n: u64| stamp(1, 4 * n, 2_000_000_000, true);
    let Record::Frame(first) = frame(1, 2) else { unreachable!() };
    let created = Record::Frame(Frame { created: true, ..first });
    let mut records = vec![(at(0), start(0)), (at(0), frame(0, 1)), (at(1), created)];
    records.extend([(at(2), frame(2, 3)), (at(3), frame(3, 1)), (at(3), merge(3, 2, 3))]);
    records.extend([(at(4), frame(4, 2)), (at(4), merge(2, 1, 4)), (at(5), frame(5, 1))]);
    write(folder.path(), records);
    let (recording, seen, missing) = read(folder.path());
    assert_eq!(missing, Missing::default());
    assert_eq!(merges(&seen), [(3, 2), (2, 1)]);
    let segments = |categories: Categories| {
        let mut found = Vec::new();
        let mut emit = |segment: Segment| {
            found.push((segment.category, segment.frames, segment.created));
            Ok::<(), ()>(())
        };
        let mut segments = Segments::of(&recording, Wanted { categories, ..Wanted::default() });
        seen.iter().for_each(|seen| segments.add(seen, &mut emit).unwrap());
        segments.finish(&mut emit).unwrap();
        found
    };
    let live = [(1, 1, false), (2, 1, true), (3, 1, false), (1, 1, false), (2, 1, false), (1, 1, false)];
    assert_eq!(segments(Categories::Live), live);
    assert_eq!(segments(Categories::Final), [(1, 6, false)]);
}

/// A recorded source is read again from the checkpoint on: what was joined after it counts if it is joined again.
#[test]
fn a_merge_that_a_restart_went_back_behind_counts_only_if_it_comes_again() {
    for again in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let at = |n: u64| stamp(1, n, 2_000_000_000, true);
        let mut records = vec![(at(0), start(0)), (at(0), frame(0, 1)), (at(1), frame(1, 2))];
        records.extend([(at(2), frame(2, 3)), (at(2), merge(3, 1, 2))]);
        records.extend([(at(3), frame(3, 1)), (at(4), frame(4, 1)), (at(4), merge(2, 1, 4))]);
        records.extend([(at(10), start(3)), (at(13), frame(3, 1)), (at(14), frame(4, 1))]);
        if again {
            records.push((at(14), merge(2, 1, 4)));
        }
        write(folder.path(), records);
        let (recording, seen, _) = read(folder.path());
        assert_eq!(recording.merges.ended(3), 1, "joined before the checkpoint");
        assert_eq!(recording.merges.ended(2), if again { 1 } else { 2 });
        let expected: &[(u64, u64)] = if again { &[(3, 1), (2, 1)] } else { &[(3, 1)] };
        assert_eq!(merges(&seen), expected);
        assert_eq!(recording.merges.len(), expected.len());
    }
}

#[test]
fn merges_in_a_circle_are_told_and_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let at = |n: u64| stamp(1, n, 2_000_000_000, true);
    let mut records = vec![(at(0), start(0))];
    records.extend((0..4).map(|n| (at(n), frame(n, n))));
    records
        .extend([merge(3, 2, 3), merge(2, 1, 3), merge(1, 3, 3), merge(2, 2, 3)].map(|merge| (at(4), merge)));
    write(folder.path(), records);
    let (recording, seen, missing) = read(folder.path());
    assert_eq!([0, 1, 2, 3].map(|category| recording.merges.ended(category)), [0, 1, 1, 1]);
    assert_eq!(merges(&seen), [(3, 2), (2, 1)]);
    let expected = "2 merges were passed over: they do not join a younger category into an older one";
    assert_eq!(missing.faults, [expected]);
}

/// Segments of frames given as (seconds, category).
fn segments(frames: &[(u64, u64)], wanted: Wanted) -> Vec<(u64, f64, f64, u64)> {
    let seen = |(n, &(seconds, category)): (usize, &(u64, u64))| Seen {
        seq: n as u64 + 1,
        session: 1,
        seconds: seconds as f64,
        at: stamp(1, seconds, 0, false),
        record: frame(n as u64, category),
    };
    let mut found = Vec::new();
    let mut emit = |segment: Segment| {
        assert_eq!(segment.mean_certainty(), 0.75);
        assert_eq!(segment.mean_similarity(), 0.5);
        found.push((segment.category, segment.begin, segment.end, segment.frames));
        Ok::<(), ()>(())
    };
    let mut segments = Segments::new(wanted, Some(4.0));
    for seen in frames.iter().enumerate().map(seen) {
        segments.add(&seen, &mut emit).unwrap();
    }
    segments.finish(&mut emit).unwrap();
    found
}

#[test]
fn frames_of_one_category_are_a_segment_up_to_the_next_one() {
    let frames = [(0, 7), (4, 7), (8, 9), (12, 7), (100, 7), (104, 7)];
    let all = segments(&frames, Wanted::default());
    // The last frame before a break, and the last of all, stand for the usual interval.
    assert_eq!(all, [(7, 0.0, 8.0, 2), (9, 8.0, 12.0, 1), (7, 12.0, 16.0, 1), (7, 100.0, 108.0, 2)]);
}

#[test]
fn short_gaps_are_bridged_and_short_segments_left_out() {
    let frames = [(0, 7), (4, 7), (8, 9), (12, 7), (16, 8), (20, 8), (24, 8), (100, 7), (104, 7)];
    let bridged = segments(&frames, Wanted { min_gap: 5.0, ..Wanted::default() });
    assert_eq!(bridged, [(7, 0.0, 16.0, 3), (8, 16.0, 28.0, 3), (7, 100.0, 108.0, 2)]);
    let long = segments(&frames, Wanted { min_gap: 5.0, min_length: 10.0, ..Wanted::default() });
    assert_eq!(long, [(7, 0.0, 16.0, 3), (8, 16.0, 28.0, 3)]);
    let exactly = segments(&frames, Wanted { min_gap: 4.0, ..Wanted::default() });
    assert_eq!(exactly.len(), 5, "a gap of just that length stays a gap");
}

#[test]
fn what_is_torn_or_damaged_is_told_and_the_rest_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let at = |n: u64| stamp(1, n, 2_000_000_000, true);
    let mut records = vec![(at(0), start(0))];
    records.extend((0..10).map(|n| (at(n), frame(n, 1))));
    write(folder.path(), records);
    let segment = folder.path().join("trace-v1-00000001.jsonl");
    let mut lines: Vec<String> =
        std::fs::read_to_string(&segment).unwrap().lines().map(str::to_owned).collect();
    lines[4] = lines[4].replace("\"category\":1", "\"category\":2");
    let torn = lines.pop().unwrap();
    std::fs::write(&segment, format!("{}\n{}", lines.join("\n"), &torn[..40])).unwrap();
    let (_, seen, missing) = read(folder.path());
    assert_eq!(frames(&seen).len(), 8);
    let faults = missing.faults.join("; ");
    for word in ["1 damaged line", "1 record is gone without a word: numbers 5", "torn after 40 bytes"] {
        assert!(faults.contains(word), "{faults}");
    }
}

#[test]
fn a_folder_without_a_trace_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let error = Recording::open(Arc::new(OsFilesystem), folder.path()).unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("there is no trace in it"), "{error}");
}

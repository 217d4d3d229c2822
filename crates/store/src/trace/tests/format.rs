//! The format itself: lines as documented, every kind of record there and back, odd bytes refused.

use std::io::Cursor;

use super::super::line::{LONGEST_LINE, Line, Lines, decode, encode};
use super::super::record::*;
use super::super::{DiskLevel, VERSION};
use super::*;

/// One record of each kind.
fn every_kind() -> Vec<Record> {
    let losses = Losses { total: 1.5, self_supervised: 1.0, entropy: 0.25, creation: f32::NAN };
    let Record::Frame(some) = frame(3) else { panic!("another kind") };
    vec![
        Record::Frame(Frame { camera_sequence: Some(9), latency_ms: Some(7.5), truth: Some(4), ..some }),
        Record::Merge(Merge { from: 17, into: 3, frame: 12, similarity: 0.9375 }),
        Record::Update(Update {
            update: 1,
            frame: 74,
            window: 75,
            stride: 15,
            losses: Losses { creation: 0.25, ..losses },
            mean_u_hat: 0.7,
            categories: 12,
            collapse: 0.03,
            gradient_norm: 2.5,
            inv_tau: 10.0,
            beta: -12.0,
            gamma: 1.0,
            learning_rate: 1e-5,
            seconds: 3.75,
        }),
        Record::UpdateSkipped(UpdateSkipped {
            frame: 9,
            reason: SkipReason::GradientTooLong,
            loss: 0.1,
            gradient_norm: 1e30,
        }),
        Record::Collapse(Collapse { collapsed: true, level: 0.001, limit: 0.005 }),
        Record::Calibration(Calibration { from: -12.0, to: -9.5, frames: 30, similarity: Some(0.75) }),
        Record::Stride(Stride { from: 15, to: 30, reason: "updates take too long".into() }),
        Record::Start(Box::new(Start {
            trace_version: VERSION,
            program: "oupn-edge 0.1.0".into(),
            device: "jetson-7".into(),
            board: String::new(),
            source: "/dev/video0".into(),
            compute: "cpu".into(),
            settings: serde_json::json!({"window": 75, "lr": 1e-3}),
            frame: 0,
            resumed_from: Some("checkpoint-00000001".into()),
            recorded: Some(true),
            continues: Some(true),
        })),
        Record::Stop(Stop {
            reason: StopReason::Signal,
            detail: Some("SIGTERM".into()),
            frames: 9,
            updates: 1,
            seconds: 36.0,
        }),
        Record::Pause(Pause { by: "socket".into() }),
        Record::Resume(Resume { by: "page".into(), paused_s: 2.5 }),
        Record::Camera(Camera {
            state: CameraState::Lost,
            detail: Some("unplugged".into()),
            away_s: Some(1.5),
        }),
        Record::Health(Health {
            camera_frames: 5,
            camera_missed: 1,
            camera_corrupt: 2,
            free_bytes: Some(1 << 40),
            resident_bytes: Some(1 << 30),
            available_bytes: Some(1 << 32),
            celsius: Some(51.2),
            watts: Some(4.75),
            gpu_load: Some(0.5),
            gpu_megahertz: Some(624.75),
        }),
        Record::Temperature(Temperature { hot: true, zone: "tj-thermal".into(), celsius: 97.0, limit: 95.0 }),
        Record::Compute(Compute {
            before: "Orin".into(),
            compute: "the CPU".into(),
            reason: Some("out of memory".into()),
        }),
        Record::Disk(Disk { level: DiskLevel::Low, free_bytes: 12, reserve_held: true }),
        Record::Checkpoint(Checkpoint {
            frame: 9,
            file: Some("checkpoint-00000001".into()),
            bytes: 0,
            seconds: 0.0,
            error: Some("full".into()),
        }),
        Record::Forget(Forget { last_s: 600.0, from_seq: 3, until_seq: 9, removed: 6 }),
        Record::Forgotten(Forgotten { missing_from: 3, removed: 6, request: 9 }),
        Record::Dropped(Dropped { missing_from: 3, reason: DropReason::QueueFull }),
        Record::Recovered(Recovered { missing_from: 3, cut_bytes: 17, cut_lines: 1 }),
        Record::WriteTrouble(WriteTrouble { error: "input/output error".into(), attempts: 3, seconds: 1.0 }),
    ]
}

fn line_of(record: Record) -> Vec<u8> {
    let mut line = Vec::new();
    encode(&Entry { seq: 17, at: at(5), record }, &mut line).unwrap();
    assert_eq!(line.pop(), Some(b'\n'));
    line
}

#[test]
fn every_kind_reads_back_as_it_was_written() {
    for record in every_kind() {
        let line = line_of(record.clone());
        let read = decode(&line).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&line)));
        assert_eq!((read.seq, read.at), (17, at(5)));
        assert_eq!(read.record, record);
    }
}

/// The page for readers names every kind and every field, and shows the line that is pinned below.
#[test]
fn the_documentation_names_every_kind_and_every_field() {
    let page = include_str!("../../../../../docs/TRACE.md");
    let named = |name: &str| page.contains(&format!("`{name}`"));
    for record in every_kind() {
        let line: serde_json::Value = serde_json::from_slice(&line_of(record)).unwrap();
        let kind = line["kind"].as_str().unwrap();
        assert!(named(kind), "docs/TRACE.md does not name the kind {kind}");
        for (field, value) in line.as_object().unwrap() {
            assert!(named(field), "docs/TRACE.md does not name {field} of {kind}");
            let inner = value.as_object().filter(|_| field != "settings").into_iter().flatten();
            inner.for_each(|(inner, _)| {
                assert!(named(inner), "docs/TRACE.md does not name {inner} in {field}")
            });
        }
    }
    let pinned = String::from_utf8(line_of(Record::Pause(Pause { by: "socket".into() }))).unwrap();
    assert!(page.contains(&pinned), "{pinned}");
}

/// The bytes are the format: this test changes only with [`VERSION`].
#[test]
fn a_line_is_what_the_documentation_shows() {
    let line = line_of(Record::Pause(Pause { by: "socket".into() }));
    let expected = "{\"seq\":17,\"boot\":\"07070707-0707-0707-0707-070707070707\",\"mono_ns\":5000000000,\
                    \"wall\":\"2027-01-15T08:00:05Z\",\"synced\":true,\"kind\":\"pause\",\"by\":\"socket\"";
    // The checksum was computed with Python's zlib.crc32.
    assert_eq!(String::from_utf8(line).unwrap(), format!("{expected},\"crc\":\"d1fff8e0\"}}"));
}

/// Readers in other languages go by these names.
#[test]
fn a_merge_is_written_by_its_documented_names() {
    let line = line_of(Record::Merge(Merge { from: 17, into: 3, frame: 12, similarity: 0.9375 }));
    let expected = "{\"seq\":17,\"boot\":\"07070707-0707-0707-0707-070707070707\",\"mono_ns\":5000000000,\
                    \"wall\":\"2027-01-15T08:00:05Z\",\"synced\":true,\"kind\":\"merge\",\"from\":17,\"into\":3,\
                    \"frame\":12,\"similarity\":0.9375";
    // The checksum was computed with Python's zlib.crc32.
    assert_eq!(String::from_utf8(line).unwrap(), format!("{expected},\"crc\":\"4fcc8dbc\"}}"));
}

#[test]
fn a_number_that_is_none_is_null_and_comes_back_as_nan() {
    let record = Record::Collapse(Collapse { collapsed: false, level: f32::NAN, limit: f32::INFINITY });
    let line = line_of(record);
    assert!(String::from_utf8_lossy(&line).contains("\"level\":null,\"limit\":null"));
    let Record::Collapse(read) = decode(&line).unwrap().record else { panic!("another kind") };
    assert!(read.level.is_nan() && read.limit.is_nan());
}

#[test]
fn kinds_fields_and_reasons_of_a_later_version_are_no_damage() {
    let sealed = |body: &str| {
        let head = r#"{"seq":1,"boot":"07070707070707070707070707070707","mono_ns":1,"wall":"2027-01-15T08:00:05Z","synced":false"#;
        let body = format!("{head},{body}");
        decode(format!("{body},\"crc\":\"{:08x}\"}}", crc32fast::hash(body.as_bytes())).as_bytes())
    };
    assert_eq!(sealed(r#""kind":"teleported","to":[1,2]"#).unwrap().record, Record::Unknown);
    let stop =
        sealed(r#""kind":"stop","reason":"boredom","frames":1,"updates":0,"seconds":4.0,"mood":"fine""#);
    assert!(matches!(stop.unwrap().record, Record::Stop(Stop { reason: StopReason::Unknown, .. })));
    assert!(sealed(r#""kind":"pause""#).is_none(), "a field that must be there is not");
    assert!(sealed(r#""by":"x""#).is_none(), "no kind");
}

#[test]
fn any_single_flipped_bit_is_noticed() {
    let line = line_of(frame(3));
    for bit in 0..line.len() * 8 {
        let mut damaged = line.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(decode(&damaged), None, "bit {bit}");
    }
    for len in 0..line.len() {
        assert_eq!(decode(&line[..len]), None, "cut to {len}");
    }
}

#[test]
fn a_record_that_does_not_fit_into_a_line_is_not_written() {
    let mut buffer = b"before".to_vec();
    let entry = Entry { seq: 1, at: at(0), record: Record::Pause(Pause { by: "x".repeat(LONGEST_LINE) }) };
    assert!(encode(&entry, &mut buffer).is_err());
    assert_eq!(buffer, b"before");

    let fs = Simulated::default();
    let (mut log, _) = open(&fs).unwrap();
    log.append(at(0), frame(0));
    log.append(at(0), entry.record);
    log.append(at(0), frame(1));
    log.sync().unwrap();
    let (entries, summary) = read(&fs);
    assert!(summary.is_whole());
    assert!(matches!(
        &entries[1].record,
        Record::Dropped(Dropped { missing_from: 2, reason: DropReason::TooLong })
    ));
    assert_eq!(frames(&entries), [0, 1]);
}

#[test]
fn lines_are_cut_where_they_end_and_no_longer_than_allowed() {
    let longest = vec![b'a'; LONGEST_LINE];
    let too_long = vec![b'b'; LONGEST_LINE + 1];
    let bytes = [longest.as_slice(), b"\n", &too_long, b"\n\nc\n", &too_long, &too_long, b"\nd"].concat();
    let mut lines = Lines::new(Cursor::new(&bytes));
    assert_eq!(lines.next().unwrap(), Some(Line::Ended(&longest)));
    assert_eq!(lines.position(), LONGEST_LINE as u64 + 1);
    assert_eq!(lines.next().unwrap(), Some(Line::TooLong));
    assert_eq!(lines.position(), 2 * LONGEST_LINE as u64 + 3);
    assert_eq!(lines.next().unwrap(), Some(Line::Ended(b"")));
    assert_eq!(lines.next().unwrap(), Some(Line::Ended(b"c")));
    assert_eq!(lines.next().unwrap(), Some(Line::TooLong));
    assert_eq!(lines.next().unwrap(), Some(Line::Unfinished(b"d")));
    assert_eq!(lines.next().unwrap(), None);
    assert_eq!(lines.position(), bytes.len() as u64);
    let mut lines = Lines::new(Cursor::new(&too_long));
    assert_eq!(lines.next().unwrap(), Some(Line::TooLong), "too long and without an end");
    assert_eq!(lines.next().unwrap(), None);
}

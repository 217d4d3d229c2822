//! Run, fail at step N, restart, check; N + 1, until it passes.

use super::super::log::Log;
use super::*;
use crate::storage::{Fault, Filesystem};

const FAULTS: [Fault; 4] = [Fault::Error, Fault::ShortWrite, Fault::LostSync, Fault::PowerCut];

/// Records `count` frames, a sync every few of them, through whatever fails: a failed step is tried again. Returns
/// what was reported durable last.
fn record_frames(log: &mut Log, count: u64) -> u64 {
    for n in 0..count {
        log.append(at(n), frame(n));
        // Writing alone must not be needed for syncing, nor do harm before it.
        if n % 2 == 0 {
            let _ = log.write();
        }
        if n % 3 == 2 {
            let _ = log.sync();
        }
    }
    if log.sync().is_err() {
        let _ = log.sync();
    }
    log.durable_seq()
}

/// What must hold for every disk that a restart may find when `durable` was the last number reported.
fn check(fs: &Simulated, durable: u64, context: &str) {
    let (before, _) = read(fs);
    let (mut log, recovery) = open(fs).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert!(recovery.last_seq >= durable, "{context}: {} of {durable} durable records", recovery.last_seq);
    let recovered = log.next_seq() - 1;
    log.append(at(2000), frame(999));
    log.sync().unwrap();
    let (entries, summary) = read(fs);
    let found = frames(&entries);
    // Whole, but for what was never durable: all frames in order from the first, then the new one.
    let expected: Vec<u64> = (0..found.len() as u64 - 1).chain([999]).collect();
    assert_eq!(found, expected, "{context}");
    assert!(found.len() as u64 > durable, "{context}: {} frames of {durable} durable ones", found.len() - 1);
    assert_eq!(summary.missing, 0, "{context}: {summary:?}");
    assert_eq!(summary.unfinished_bytes, 0, "{context}");
    assert_eq!(summary.last_seq, recovered + 1, "{context}");
    assert!(frames(&before).iter().all(|n| found.contains(n)), "{context}: the restart lost something");
}

#[test]
fn no_failure_at_any_step_loses_a_durable_record() {
    for fault in FAULTS {
        for step in 1.. {
            let fs = Simulated::default();
            let (mut log, _) = open(&fs).unwrap();
            let first = fs.operations();
            fs.fail_at(step, fault);
            let durable = record_frames(&mut log, 30);
            let struck = fs.operations() - first >= step;
            drop(log);
            assert!(
                durable == 30 || fault == Fault::PowerCut,
                "{fault:?} at {step}: one failure is got over"
            );
            for seed in 0..10 {
                check(&fs.after_power_cut(seed), durable, &format!("{fault:?} at {step}, outcome {seed}"));
            }
            if fault != Fault::PowerCut {
                fs.heal();
                check(&fs, durable, &format!("{fault:?} at {step}, process killed"));
            }
            if !struck {
                assert!(step > 40, "only {step} steps were struck");
                break;
            }
        }
    }
}

/// The same while opening: a restart that fails or loses power on its way must not make things worse.
#[test]
fn no_failure_while_opening_makes_things_worse() {
    for fault in FAULTS {
        for outcome in 0..20 {
            for step in 1.. {
                let fs = Simulated::default();
                let (mut log, _) = open(&fs).unwrap();
                let durable = record_frames(&mut log, 8);
                log.append(at(50), frame(8));
                log.append(at(50), frame(9));
                let _ = log.write();
                let fs = fs.after_power_cut(outcome);
                fs.fail_at(step, fault);
                let opened = open(&fs);
                let struck = fs.operations() >= step;
                if let Ok((mut log, _)) = opened {
                    let _ = log.sync();
                }
                for seed in 0..4 {
                    check(
                        &fs.after_power_cut(seed),
                        durable,
                        &format!("{fault:?} at {step}, {outcome}, {seed}"),
                    );
                }
                if !struck {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_torn_tail_is_cut_and_counted_and_its_number_is_explained() {
    let fs = Simulated::default();
    let (mut log, recovery) = open(&fs).unwrap();
    assert_eq!(recovery, Recovery::default());
    log.append(at(0), frame(0));
    log.append(at(1), frame(1));
    log.sync().unwrap();
    drop(log);
    let segment = Path::new(DIR).join("trace-v1-00000001.jsonl");
    let whole = fs.len(&segment).unwrap();
    fs.append(&segment).unwrap().write_all(b"{\"seq\":3,\"boot\":\"07").unwrap();

    let (_, summary) = read(&fs);
    assert_eq!((summary.records, summary.unfinished_bytes, summary.is_whole()), (2, 19, true));
    let (mut log, recovery) = open(&fs).unwrap();
    assert_eq!((recovery.last_seq, recovery.cut_bytes, recovery.cut_lines), (2, 19, 1));
    assert_eq!(fs.len(&segment).unwrap(), whole);
    log.append(at(3), frame(2));
    log.sync().unwrap();
    let (entries, summary) = read(&fs);
    let seqs: Vec<u64> = entries.iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, [1, 2, 4, 5], "the torn record's number is not given again");
    assert_eq!((summary.cut_off, summary.missing), (1, 0));
    assert_eq!(summary.gaps, [super::super::Gap { first: 3, last: 3, cause: super::super::Cause::CutOff }]);
}

#[test]
fn damage_in_the_middle_is_passed_over_and_the_missing_numbers_are_named() {
    let fs = Simulated::default();
    let (mut log, _) = open(&fs).unwrap();
    for n in 0..9 {
        log.append(at(n), frame(n));
    }
    log.sync().unwrap();
    drop(log);
    let segment = Path::new(DIR).join("trace-v1-00000001.jsonl");
    let len = fs.len(&segment).unwrap() as usize;
    fs.flip_bit(&segment, len / 2);
    let (entries, summary) = read(&fs);
    assert_eq!((entries.len(), summary.damaged_lines, summary.missing), (8, 1, 1));
    assert_eq!(
        summary.gaps,
        [super::super::Gap { first: 5, last: 5, cause: super::super::Cause::Unexplained }]
    );
    let (_, recovery) = open(&fs).unwrap();
    assert_eq!((recovery.last_seq, recovery.cut_bytes), (9, 0), "damage before the last whole record stays");
}

#[test]
fn a_full_disk_keeps_what_is_durable_and_goes_on_when_there_is_room() {
    let fs = Simulated::default();
    let (mut log, _) = open(&fs).unwrap();
    fs.set_capacity(Some(2000));
    let mut durable = 0;
    for n in 0..20 {
        log.append(at(n), frame(n));
        if log.sync().is_ok() {
            durable = log.durable_seq();
        }
    }
    assert!(durable > 2 && durable < 15, "{durable}");
    assert_eq!(frames(&read(&fs).0), (0..durable).collect::<Vec<_>>());
    assert!(fs.list(Path::new(DIR)).unwrap().len() < 4, "a full disk must not be littered with segments");
    fs.set_capacity(None);
    log.sync().unwrap();
    assert_eq!(log.durable_seq(), 20);
    assert_eq!(frames(&read(&fs).0), (0..20).collect::<Vec<_>>());
}

#[test]
fn segments_end_at_their_size_and_follow_each_other_without_a_hole() {
    let fs = Simulated::default();
    let (mut log, _) = open(&fs).unwrap();
    for n in 0..40 {
        log.append(at(n), frame(n));
        log.sync().unwrap();
    }
    let names = fs.list(Path::new(DIR)).unwrap();
    assert!(names.len() > 5, "{names:?}");
    for name in &names[..names.len() - 1] {
        let len = fs.len(&Path::new(DIR).join(name)).unwrap();
        assert!((SEGMENT_BYTES..SEGMENT_BYTES + 500).contains(&len), "{name}: {len}");
    }
    let (entries, summary) = read(&fs);
    assert_eq!(frames(&entries), (0..40).collect::<Vec<_>>());
    assert!(summary.is_whole() && summary.gaps.is_empty());
}

#[test]
fn a_segment_that_somebody_removes_is_noticed_and_another_one_begun() {
    let fs = Simulated::default();
    let (mut log, _) = open(&fs).unwrap();
    for n in 0..3 {
        log.append(at(n), frame(n));
    }
    log.sync().unwrap();
    assert_eq!(log.lost_segment(), None);
    log.append(at(3), frame(3));
    log.write().unwrap();
    let segment = Path::new(DIR).join("trace-v1-00000001.jsonl");
    fs.remove(&segment).unwrap();
    assert_eq!(log.lost_segment(), Some(segment));
    log.sync().unwrap();
    let (entries, summary) = read(&fs);
    assert_eq!(frames(&entries), [3], "what was not durable yet is not lost");
    assert_eq!(summary.missing, 3, "and what is lost is named");
}

#[test]
fn segments_of_a_newer_version_are_left_alone_and_numbers_begin_after_theirs() {
    let fs = Simulated::default();
    let (mut log, _) = open(&fs).unwrap();
    log.append(at(0), frame(0));
    log.sync().unwrap();
    drop(log);
    let newer = Path::new(DIR).join("trace-v2-00000001.jsonl");
    let mut content = Vec::new();
    super::super::line::encode(&Entry { seq: 50, at: at(1), record: frame(49) }, &mut content).unwrap();
    content.extend_from_slice(b"{\"seq\":51,\"what\":\"nobody knows\"}\n");
    crate::storage::write_atomically(&fs, &newer, &content).unwrap();

    let (mut log, recovery) = open(&fs).unwrap();
    assert_eq!((recovery.newer_segments, recovery.last_seq), (1, 1));
    assert_eq!(log.append(at(2), frame(50)), 51);
    log.sync().unwrap();
    assert!(log.begin_forget(at(3), Duration::from_secs(3600), None).unwrap().is_some());
    log.finish_forget(at(3)).unwrap();
    assert_eq!(crate::storage::read_bounded(&fs, &newer, 10_000).unwrap(), content);
    let (_, summary) = read(&fs);
    assert!(summary.newer_segments == 1 && !summary.is_whole(), "{summary:?}");
}

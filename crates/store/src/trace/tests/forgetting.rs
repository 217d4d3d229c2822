//! Forgetting: gone is gone, the rest stays, and a crash at any step ends in "done".

use super::super::record::{Merge, Pause, Start};
use super::super::{Cause, Gap, VERSION};
use super::*;
use crate::storage::{Fault, Filesystem};

/// Twenty minutes with a frame every 30 s, a start and a pause, over several segments.
fn recording(fs: &Simulated) -> Log {
    let (mut log, _) = open(fs).unwrap();
    let start = Start {
        trace_version: VERSION,
        program: "oupn-edge".into(),
        device: String::new(),
        board: String::new(),
        source: "rooms".into(),
        compute: "cpu".into(),
        settings: serde_json::Value::Null,
        frame: 0,
        resumed_from: None,
        recorded: None,
        continues: None,
    };
    log.append(at(0), Record::Start(Box::new(start)));
    for n in 0..40 {
        log.append(at(30 * n), frame(n));
        if n == 30 {
            log.append(at(30 * n), Record::Pause(Pause { by: "test".into() }));
        }
        if n % 4 == 0 {
            log.sync().unwrap();
        }
    }
    log.sync().unwrap();
    log
}

/// Now, when ten minutes back lies between frames 19 and 20.
fn now() -> Stamp {
    at(10 * 60 + 19 * 30 + 15)
}

const TEN_MINUTES: Duration = Duration::from_secs(600);

fn check_forgotten(fs: &Simulated, context: &str) {
    let (entries, summary) = read(fs);
    assert_eq!(frames(&entries), (0..20).collect::<Vec<_>>(), "{context}");
    let forgets: Vec<_> = entries
        .iter()
        .filter_map(|entry| if let Record::Forget(forget) = &entry.record { Some(forget) } else { None })
        .collect();
    assert_eq!(forgets.len(), 1, "{context}: {forgets:?}");
    assert_eq!((forgets[0].removed, forgets[0].from_seq, forgets[0].until_seq), (20, 22, 42), "{context}");
    assert!(
        entries.iter().any(|entry| matches!(entry.record, Record::Start(_))),
        "{context}: bookkeeping stays"
    );
    assert!(
        entries.iter().any(|entry| matches!(entry.record, Record::Pause(_))),
        "{context}: bookkeeping stays"
    );
    assert_eq!((summary.missing, summary.damaged_lines), (0, 0), "{context}: {summary:?}");
    let known = |gap: &Gap| matches!(gap.cause, Cause::Forgotten | Cause::CutOff);
    assert!(summary.gaps.iter().all(known), "{context}: {summary:?}");
    // Each removed record is a missing number or the number of the record that stands for a run.
    let standing = entries.iter().filter(|entry| matches!(entry.record, Record::Forgotten(_))).count() as u64;
    assert_eq!(summary.forgotten + standing, 20, "{context}");
    // Nothing of them is left anywhere in the folder.
    for name in fs.list(Path::new(DIR)).unwrap() {
        let bytes = crate::storage::read_bounded(fs, &Path::new(DIR).join(&name), 1 << 20).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!((20..40).all(|n| !text.contains(&format!("\"frame\":{n},"))), "{context}: {name}");
    }
}

#[test]
fn the_last_minutes_go_and_the_rest_stays() {
    let fs = Simulated::default();
    let mut log = recording(&fs);
    let pending = log.begin_forget(now(), TEN_MINUTES, None).unwrap().unwrap();
    assert_eq!((pending.from_seq, pending.until_seq), (22, 42));
    assert_eq!(log.finish_forget(now()).unwrap(), 20);
    check_forgotten(&fs, "done");
    assert_eq!(log.finish_forget(now()).unwrap(), 0, "nothing is pending any more");

    log.append(at(2000), frame(100));
    log.sync().unwrap();
    let (entries, summary) = read(&fs);
    assert_eq!(*frames(&entries).last().unwrap(), 100);
    assert!(summary.is_whole());
    let (mut log, recovery) = open(&fs).unwrap();
    assert_eq!((recovery.cut_bytes, recovery.pending_forget), (0, None));
    assert_eq!(log.begin_forget(at(100_000), TEN_MINUTES, None).unwrap(), None, "nothing is that young");
}

/// What was joined tells what was seen, as frames do.
#[test]
fn merges_of_that_time_go_and_earlier_ones_stay() {
    let fs = Simulated::default();
    let (mut log, _) = open(&fs).unwrap();
    let merge = |n: u64| Record::Merge(Merge { from: n, into: 0, frame: 2 * n, similarity: 0.9 });
    for n in 1..=40 {
        log.append(at(30 * n), merge(n));
    }
    log.sync().unwrap();
    log.begin_forget(at(30 * 41), TEN_MINUTES, None).unwrap().unwrap();
    assert_eq!(log.finish_forget(at(30 * 41)).unwrap(), 19, "those of the last 600 s");
    let merges = |entry: &Entry| match &entry.record {
        Record::Merge(merge) => Some(merge.from),
        _ => None,
    };
    let (entries, summary) = read(&fs);
    assert_eq!(entries.iter().filter_map(merges).collect::<Vec<_>>(), (1..=21).collect::<Vec<_>>());
    assert!(summary.is_whole(), "{summary:?}");
}

#[test]
fn forgetting_again_further_back_works() {
    let fs = Simulated::default();
    let mut log = recording(&fs);
    log.begin_forget(now(), TEN_MINUTES, None).unwrap().unwrap();
    log.finish_forget(now()).unwrap();
    log.begin_forget(now(), Duration::from_secs(15 * 60), None).unwrap().unwrap();
    assert_eq!(log.finish_forget(now()).unwrap(), 10);
    let (entries, summary) = read(&fs);
    assert_eq!(frames(&entries), (0..10).collect::<Vec<_>>());
    assert!(summary.is_whole());
}

#[test]
fn what_one_forget_decided_and_did_not_finish_the_next_one_includes() {
    let fs = Simulated::default();
    let mut log = recording(&fs);
    let first = log.begin_forget(now(), TEN_MINUTES, None).unwrap().unwrap();
    // Nothing came of it. A minute later somebody asks for the last five minutes.
    let later = at(10 * 60 + 19 * 30 + 15 + 60);
    let second = log.begin_forget(later, Duration::from_secs(300), None).unwrap().unwrap();
    assert_eq!((second.from_seq, second.until_seq), (first.from_seq, 42));
    assert_eq!(second.last_s, 660.0, "pictures of the first one's time go, too");
    assert_eq!(log.finish_forget(later).unwrap(), 20);
    check_forgotten(&fs, "both");
    // And if nothing is as young as asked for, the first is still to be finished.
    let mut log = recording(&Simulated::default());
    let first = log.begin_forget(now(), TEN_MINUTES, None).unwrap();
    assert_eq!(log.begin_forget(at(100_000), TEN_MINUTES, None).unwrap(), first);
}

/// Run, fail at step N, restart, finish, check; N + 1, until it passes.
#[test]
fn a_failure_at_any_step_is_made_good_after_a_restart() {
    for fault in [Fault::Error, Fault::ShortWrite, Fault::LostSync, Fault::PowerCut] {
        for step in 1.. {
            let fs = Simulated::default();
            let mut log = recording(&fs);
            let before = fs.operations();
            fs.fail_at(step, fault);
            let begun = log.begin_forget(now(), TEN_MINUTES, None);
            let decided = begun.is_ok();
            let done = decided && log.finish_forget(now()).is_ok();
            let struck = fs.operations() - before >= step;
            if decided && !done && fault != Fault::PowerCut {
                // The same process may also try again.
                log.finish_forget(now()).unwrap();
                check_forgotten(&fs, &format!("{fault:?} at {step}, tried again"));
            }
            drop(log);
            for seed in 0..8 {
                let context = format!("{fault:?} at {step}, outcome {seed}");
                let fs = fs.after_power_cut(seed);
                let (mut log, recovery) = open(&fs).unwrap();
                assert!(!done || recovery.pending_forget.is_none(), "{context}: done, but not for good");
                assert!(decided || recovery.cut_bytes == 0, "{context}");
                if recovery.pending_forget.is_some() {
                    log.finish_forget(at(5000)).unwrap();
                }
                if decided || recovery.pending_forget.is_some() {
                    check_forgotten(&fs, &context);
                } else {
                    assert_eq!(
                        frames(&read(&fs).0),
                        (0..40).collect::<Vec<_>>(),
                        "{context}: nothing was decided"
                    );
                }
            }
            if !struck {
                assert!(done);
                break;
            }
        }
    }
}

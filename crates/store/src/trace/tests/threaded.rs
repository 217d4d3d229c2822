//! The writer with its thread: durability as reported, a stalled disk, a full one, the end.

use std::sync::mpsc;

use super::super::record::{DropReason, Dropped, Pause};
use super::super::{DiskLevel, DiskSettings, Summary, TraceSettings, TraceWriter};
use super::*;
use crate::clock::ManualClock;
use crate::storage::{Fault, write_atomically};

/// Long enough that a busy machine does not matter; every wait ends as soon as it can.
const TIMEOUT: Duration = Duration::from_secs(60);

fn settings() -> TraceSettings {
    TraceSettings {
        segment_bytes: SEGMENT_BYTES,
        queue_records: 64,
        buffer_bytes: 4000,
        sync_interval: Duration::from_millis(5),
        sync_records: 8,
        no_answer: TIMEOUT,
        disk: DiskSettings {
            low_bytes: 0,
            critical_bytes: 0,
            reserve_bytes: 0,
            check_interval: Duration::from_millis(5),
        },
    }
}

fn writer_with(fs: &Simulated, settings: TraceSettings) -> (TraceWriter, Recovery, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(at(0)));
    let fs = Arc::new(fs.clone());
    let (writer, recovery) = TraceWriter::open(fs, Path::new(DIR), settings, clock.clone()).unwrap();
    (writer, recovery, clock)
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Each number is a record or explained, and the frames are those of `accepted`.
fn check_whole(fs: &Simulated, accepted: &[u64]) -> Summary {
    let (entries, summary) = read(fs);
    assert_eq!(frames(&entries), accepted);
    assert_eq!((summary.missing, summary.damaged_lines), (0, 0), "{summary:?}");
    summary
}

#[test]
fn what_is_flushed_survives_a_power_cut_and_the_rest_follows() {
    let fs = Simulated::default();
    let (writer, recovery, _) = writer_with(&fs, settings());
    assert_eq!(recovery, Recovery::default());
    for n in 0..20 {
        assert!(writer.record(frame(n)));
    }
    assert_eq!(writer.flush(TIMEOUT).unwrap(), 20);
    assert_eq!(writer.durable_seq(), 20);
    assert_eq!(frames(&read(&fs.after_power_cut(3)).0).len(), 20);
    for n in 20..30 {
        writer.record(frame(n));
    }
    wait_until("the interval syncs without being asked", || writer.durable_seq() == 30);
    writer.close(TIMEOUT).unwrap();
    check_whole(&fs, &(0..30).collect::<Vec<_>>());
}

#[test]
fn records_from_many_threads_are_all_there_each_thread_in_its_order() {
    let fs = Simulated::default();
    let (writer, _, _) = writer_with(&fs, TraceSettings { queue_records: 1000, ..settings() });
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let recorder = writer.recorder();
            scope.spawn(move || (0..50).for_each(|n| assert!(recorder.record(frame(1000 * thread + n)))));
        }
    });
    writer.close(TIMEOUT).unwrap();
    let (entries, summary) = read(&fs);
    assert!(summary.is_whole() && summary.gaps.is_empty());
    for thread in 0..4 {
        let mine: Vec<u64> = frames(&entries).into_iter().filter(|n| n / 1000 == thread).collect();
        assert_eq!(mine, (0..50).map(|n| 1000 * thread + n).collect::<Vec<_>>());
    }
}

#[test]
fn the_folder_of_a_running_recording_reads_as_a_whole_beginning() {
    let fs = Simulated::default();
    let (writer, _, _) = writer_with(&fs, TraceSettings { queue_records: 10_000, ..settings() });
    let recorder = writer.recorder();
    let busy = std::thread::spawn(move || (0..3000).for_each(|n| assert!(recorder.record(frame(n)))));
    let mut last = 0;
    while last < 3000 {
        let (entries, summary) = read(&fs);
        assert_eq!(frames(&entries), (0..entries.len() as u64).collect::<Vec<_>>());
        assert!(summary.is_whole() && summary.gaps.is_empty(), "{summary:?}");
        assert!(summary.last_seq >= last, "what was there stays there");
        last = summary.last_seq;
    }
    busy.join().unwrap();
}

#[test]
fn a_stalled_disk_never_holds_up_the_live_path_and_what_is_dropped_is_named() {
    let fs = Simulated::default();
    let (writer, _, _) = writer_with(&fs, settings());
    writer.record(frame(0));
    writer.flush(TIMEOUT).unwrap();
    fs.set_stalled(true);
    // That this returns at all is the point: nobody else could let the disk go.
    let accepted: Vec<u64> = (1..500).filter(|&n| writer.record(frame(n))).collect();
    assert!(accepted.len() < 400, "the queue is bounded");
    assert!(writer.record(Record::Pause(Pause { by: "an event finds room".into() })));
    assert!(writer.flush(Duration::from_millis(20)).is_err());
    assert_eq!(writer.durable_seq(), 1);
    fs.set_stalled(false);
    writer.flush(TIMEOUT).unwrap();
    assert!(writer.record(frame(500)));
    writer.close(TIMEOUT).unwrap();

    let frames: Vec<u64> = [0].into_iter().chain(accepted.iter().copied()).chain([500]).collect();
    let summary = check_whole(&fs, &frames);
    assert_eq!(summary.dropped, 499 - accepted.len() as u64, "exactly what was refused");
    let (entries, _) = read(&fs);
    assert!(
        entries
            .iter()
            .any(|e| matches!(&e.record, Record::Dropped(Dropped { reason: DropReason::QueueFull, .. })))
    );
}

#[test]
fn refused_records_are_counted_even_when_nothing_follows() {
    let fs = Simulated::default();
    let (writer, _, _) = writer_with(&fs, settings());
    writer.flush(TIMEOUT).unwrap();
    fs.set_stalled(true);
    let accepted: Vec<u64> = (0..500).filter(|&n| writer.record(frame(n))).collect();
    fs.set_stalled(false);
    writer.close(TIMEOUT).unwrap();
    let summary = check_whole(&fs, &accepted);
    assert_eq!(summary.dropped, 500 - accepted.len() as u64);
}

#[test]
fn a_failing_disk_is_got_over_and_told_of() {
    for fault in [Fault::Error, Fault::ShortWrite, Fault::LostSync] {
        for step in 1..8 {
            let fs = Simulated::default();
            let (writer, _, _) = writer_with(&fs, settings());
            writer.flush(TIMEOUT).unwrap();
            fs.fail_at(step, fault);
            for n in 0..30 {
                writer.record(frame(n));
                writer.flush(TIMEOUT).unwrap();
            }
            assert_eq!(writer.trouble(), None);
            writer.close(TIMEOUT).unwrap();
            check_whole(&fs, &(0..30).collect::<Vec<_>>());
            let (entries, _) = read(&fs.after_power_cut(step));
            let told = entries.iter().any(|entry| matches!(entry.record, Record::WriteTrouble(_)));
            assert!(told, "{fault:?} at {step}");
        }
    }
}

#[test]
fn trouble_is_told_while_it_lasts_and_not_waited_for() {
    let fs = Simulated::default();
    let (writer, _, _) = writer_with(&fs, settings());
    writer.record(frame(0));
    writer.flush_unless_trouble(TIMEOUT).unwrap();
    fs.set_capacity(Some(0));
    writer.record(frame(1));
    let error = writer.flush_unless_trouble(Duration::from_secs(3600)).unwrap_err();
    let trouble = writer.trouble().unwrap();
    assert!(error.to_string().contains(&trouble.what), "{error}");
    // Attempts later it is still the same trouble.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(writer.trouble().unwrap().since, trouble.since);
    fs.set_capacity(None);
    writer.flush(TIMEOUT).unwrap();
    assert_eq!(writer.trouble(), None);
    writer.close(TIMEOUT).unwrap();
    check_whole(&fs, &[0, 1]);
}

#[test]
fn a_disk_that_does_not_answer_is_trouble_too() {
    let fs = Simulated::default();
    let (writer, _, _) =
        writer_with(&fs, TraceSettings { no_answer: Duration::from_millis(1), ..settings() });
    writer.flush(TIMEOUT).unwrap();
    fs.set_stalled(true);
    writer.record(frame(0));
    wait_until("the disk counts as silent", || writer.trouble().is_some());
    assert!(writer.trouble().unwrap().what.contains("does not answer"));
    fs.set_stalled(false);
    writer.flush(TIMEOUT).unwrap();
    wait_until("it answers again", || writer.trouble().is_none());
}

#[test]
fn a_full_disk_takes_the_reserve_and_the_trace_goes_on() {
    let fs = Simulated::default();
    fs.set_capacity(Some(20_000));
    let disk = DiskSettings {
        low_bytes: 3000,
        critical_bytes: 500,
        reserve_bytes: 8000,
        // Longer than the test: only a failed write can find out.
        check_interval: Duration::from_secs(3600),
    };
    let (writer, _, _) = writer_with(&fs, TraceSettings { disk, ..settings() });
    writer.record(frame(0));
    writer.flush(TIMEOUT).unwrap();
    assert_eq!(writer.disk_level(), DiskLevel::Ample);
    write_atomically(&fs, &Path::new(DIR).join("checkpoint"), &[0; 11_000]).unwrap();
    for n in 1..20 {
        writer.record(frame(n));
        writer.flush(TIMEOUT).unwrap();
    }
    assert_eq!(writer.disk_level(), DiskLevel::Critical);
    writer.close(TIMEOUT).unwrap();
    check_whole(&fs, &(0..20).collect::<Vec<_>>());
    let (entries, _) = read(&fs);
    let told = entries.iter().any(|entry| matches!(&entry.record, Record::Disk(disk) if !disk.reserve_held));
    assert!(told, "the trace says that the reserve was given back");
}

#[test]
fn the_level_of_the_disk_is_watched_and_recorded() {
    let fs = Simulated::default();
    fs.set_capacity(Some(100_000));
    let disk = DiskSettings {
        low_bytes: 50_000,
        critical_bytes: 20_000,
        reserve_bytes: 10_000,
        check_interval: Duration::from_millis(2),
    };
    let (writer, _, _) = writer_with(&fs, TraceSettings { disk, ..settings() });
    writer.flush(TIMEOUT).unwrap();
    for (size, level) in
        [(55_000, DiskLevel::Low), (25_000, DiskLevel::Critical), (100_000, DiskLevel::Ample)]
    {
        fs.set_capacity(Some(size));
        wait_until("the level is seen", || writer.disk_level() == level);
    }
    writer.close(TIMEOUT).unwrap();
    let levels: Vec<DiskLevel> = read(&fs)
        .0
        .iter()
        .filter_map(|entry| if let Record::Disk(disk) = &entry.record { Some(disk.level) } else { None })
        .collect();
    assert_eq!(levels, [DiskLevel::Low, DiskLevel::Critical, DiskLevel::Ample]);
}

#[test]
fn closing_on_a_dead_disk_gives_up_and_says_what_is_lost() {
    let fs = Simulated::default();
    let (writer, _, _) = writer_with(&fs, settings());
    writer.flush(TIMEOUT).unwrap();
    fs.fail_at(1, Fault::PowerCut);
    writer.record(frame(0));
    writer.record(frame(1));
    let error = writer.close(Duration::from_millis(50)).unwrap_err();
    assert!(error.to_string().contains("last 2 records"), "{error}");
    assert_eq!(error.exit_code(), 1);
}

#[test]
fn forgetting_while_recording() {
    let fs = Simulated::default();
    let (writer, _, clock) = writer_with(&fs, settings());
    for n in 0..40 {
        clock.set(at(60 * n));
        writer.record(frame(n));
        writer.flush(TIMEOUT).unwrap();
    }
    clock.set(at(60 * 40));
    let pending = writer.begin_forget(Duration::from_secs(600)).unwrap().unwrap();
    assert_eq!((pending.from_seq, pending.until_seq), (32, 40));
    let (recorder, (said, heard)) = (writer.recorder(), mpsc::channel());
    let busy = std::thread::spawn(move || {
        said.send(()).unwrap();
        (100..120).for_each(|n| assert!(recorder.record(frame(n))));
    });
    heard.recv().unwrap();
    assert_eq!(writer.finish_forget().unwrap(), 9);
    busy.join().unwrap();
    writer.close(TIMEOUT).unwrap();
    let summary = check_whole(&fs, &(0..31).chain(100..120).collect::<Vec<_>>());
    assert!(summary.forgotten > 0);

    let (writer, recovery, _) = writer_with(&fs, settings());
    assert_eq!(recovery.pending_forget, None);
    assert_eq!(writer.begin_forget(Duration::ZERO).unwrap(), None);
    assert_eq!(writer.finish_forget().unwrap(), 0);
    let recorder = writer.recorder();
    writer.close(TIMEOUT).unwrap();
    assert!(recorder.finish_forget().is_err(), "after the end there is nobody to ask");
    assert!(recorder.flush(Duration::from_millis(1)).is_ok(), "and nothing left to wait for");
}

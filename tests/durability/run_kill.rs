//! A recording that is killed at 200 random moments: nothing that it had called durable is lost, and it always goes on.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use oupn_edge::random::{Purpose, Random};
use oupn_edge::run::checkpoint::decode;
use oupn_edge::run::remembered::Remembered;
use oupn_edge::run::socket;
use oupn_edge::storage::{CheckpointStore, OsFilesystem};
use oupn_edge::trace::{Entry, Reader, Record};

const ROUNDS: u32 = 200;

/// The longest that a round lasts. The moments lie evenly in it: some in the middle of starting.
const LONGEST: Duration = Duration::from_millis(700);

fn start(data: &Path, settings: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oupn-edge"));
    command
        .args([
            "--camera",
            "rooms",
            "--realtime",
            "off",
            "--period",
            "100ms",
            "--reserve",
            "0",
            "--threads",
            "1",
        ])
        .args(["--checkpoint-every", "100ms", "--config", settings.to_str().unwrap()])
        .args(["--data", data.to_str().unwrap()])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

#[test]
fn nothing_durable_is_lost_at_200_random_moments() {
    let folder = tempfile::tempdir().unwrap();
    let settings = folder.path().join("settings.toml");
    let text =
        "encoder = \"conv-4\"\nimage_height = 16\nimage_width = 16\nwindow = 6\nstride = 3\nslots = 8\n";
    std::fs::write(&settings, text).unwrap();
    let data = folder.path().join("data");
    let mut random = Random::new(1, Purpose::World, 99);
    let (mut most_durable, mut answers, mut kept) = (0, 0, Kept::default());
    for round in 0..ROUNDS {
        let mut child = start(&data, &settings).spawn().unwrap();
        let (over, alive) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (watched, ended, answered) = (data.clone(), Arc::clone(&over), Arc::clone(&alive));
        // What the recording says of itself until it is killed.
        let watcher = std::thread::spawn(move || {
            let (mut durable, mut answers) = (0, 0);
            while !ended.load(Ordering::Acquire) {
                if let Ok(status) = socket::ask(&watched, "status", None) {
                    durable = durable.max(status["durable_seq"].as_u64().unwrap());
                    answers += 1;
                    answered.store(true, Ordering::Release);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            (durable, answers)
        });
        // Every other moment is counted from the first answer: however slow the machine is, the recording gets on.
        while round % 2 == 1 && !alive.load(Ordering::Acquire) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(2));
        }
        std::thread::sleep(LONGEST.mul_f64(random.unit()));
        let by_itself = child.try_wait().unwrap();
        assert!(by_itself.is_none(), "round {round}: it ended by itself: {by_itself:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        over.store(true, Ordering::Release);
        let (durable, heard) = watcher.join().unwrap();
        let before = most_durable;
        most_durable = most_durable.max(durable);
        answers += heard;
        if data.join("trace").exists() {
            kept = kept.check(round, &data, before, most_durable);
        }
    }
    // The last word: it starts once more, goes on and ends in order.
    let status = start(&data, &settings).args(["--frames", "5"]).status().unwrap();
    assert!(status.success());
    kept = kept.check(ROUNDS, &data, most_durable, most_durable);
    assert!(answers > u64::from(ROUNDS), "the recording was hardly ever asked: {answers}");
    assert!(most_durable > u64::from(ROUNDS), "hardly anything was recorded: {most_durable}");
    let (torn, cut) = (kept.never_written.len(), kept.cut_bytes);
    eprintln!("{most_durable} durable records, {answers} answers, {torn} torn ones ({cut} bytes)");
}

/// What the killed processes have left so far.
#[derive(Default)]
struct Kept {
    seqs: BTreeSet<u64>,
    /// Numbers that a record says are missing. A kill tears lines (a write of several pages ends between two of them),
    /// and a slow disk drops records: both only such as were never called durable.
    never_written: BTreeSet<u64>,
    cut_bytes: u64,
}

impl Kept {
    /// Reads everything again. `before` was durable when the round's process started, `durable` when it was killed.
    fn check(&self, round: u32, data: &Path, before: u64, durable: u64) -> Self {
        let now = Self::read(data);
        if let Some(lost) = self.seqs.difference(&now.seqs).next() {
            panic!("round {round}: record {lost} was there after an earlier round and is gone");
        }
        if let Some(lost) = now.never_written.difference(&self.never_written).find(|&&seq| seq <= before) {
            panic!("round {round}: record {lost} was durable and was given up");
        }
        let last = now.seqs.last().copied().unwrap_or(0);
        assert!(
            last >= durable,
            "round {round}: record {durable} was durable, but the trace ends with {last}"
        );
        for seq in 1..=last {
            let known = now.seqs.contains(&seq) || now.never_written.contains(&seq);
            assert!(known, "round {round}: record {seq} is missing without a word");
        }
        let store = CheckpointStore::open(Arc::new(OsFilesystem), &data.join("checkpoints")).unwrap();
        if let Some(newest) = store.list().unwrap().first() {
            // Whole or not there: a checkpoint with a name has its content.
            let bytes = store.load(newest).unwrap();
            let plan = Remembered::read(&OsFilesystem, data).unwrap().unwrap().settings.plan().unwrap();
            decode(&newest.path, &bytes, &plan).unwrap();
        }
        now
    }

    fn read(data: &Path) -> Self {
        let mut kept = Self::default();
        for entry in Reader::open(Arc::new(OsFilesystem), &data.join("trace")).unwrap() {
            let Entry { seq, record, .. } = entry.unwrap();
            kept.seqs.insert(seq);
            kept.never_written.extend(record.missing_from().unwrap_or(seq)..seq);
            if let Record::Recovered(recovered) = record {
                kept.cut_bytes += recovered.cut_bytes;
            }
        }
        kept
    }
}

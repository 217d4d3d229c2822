//! Parts of a run that fail: threads that end, a disk in trouble, checkpoints that are no good, forgets that are cut short.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{plan, small_settings};
use crate::camera::{Capture, Counters, Frame, Kind, Next, Source};
use crate::device::clock::{Clock, Stamp, SystemClock};
use crate::device::service::ServiceManager;
use crate::run::Session;
use crate::run::checkpoint::{self, LivePart, Restored, encode};
use crate::run::feed::Feed;
use crate::run::liveness::Liveness;
use crate::run::plan::RunPlan;
use crate::run::requests::Command;
use crate::storage::{CheckpointStore, Faulty, Keep, Mark, OsFilesystem, Simulated};
use crate::trace::{Place, Reader, Record, Recorder, StopReason, TraceSettings, TraceWriter};
use crate::{Error, Result};

const LONG: Duration = Duration::from_secs(120);

/// A camera that takes three pictures, and then breaks in some way.
#[derive(Debug)]
struct Breaking {
    frames: u64,
    how: Breakage,
}

#[derive(Debug)]
enum Breakage {
    /// A fault of the program.
    Panics,
    /// A driver that never returns, until it is let go.
    Hangs(Arc<AtomicBool>),
}

impl Source for Breaking {
    fn kind(&self) -> Kind {
        Kind::Live
    }
    fn identity(&self) -> String {
        "breaking".to_owned()
    }
    fn describe(&self) -> String {
        "a camera that breaks".to_owned()
    }
    fn next(&mut self, frame: &mut Frame) -> Result<Next> {
        std::thread::sleep(Duration::from_millis(20));
        if self.frames == 3 {
            match &self.how {
                Breakage::Panics => panic!("this camera is broken on purpose"),
                Breakage::Hangs(released) => {
                    while !released.load(Ordering::Acquire) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    return Ok(Next::End);
                }
            }
        }
        frame.rgb = vec![u8::try_from(self.frames).unwrap_or(0); 3 * 32 * 32];
        (frame.width, frame.height, frame.sequence) = (32, 32, self.frames);
        frame.monotonic_ns = SystemClock::new().now().mono_ns;
        self.frames += 1;
        Ok(Next::Frame)
    }
    fn seek(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
    fn rate(&self) -> Option<f64> {
        None
    }
    fn counters(&self) -> Counters {
        Counters { frames: self.frames, ..Counters::default() }
    }
}

fn with_camera(plan: &RunPlan, how: Breakage) -> Session {
    let mut session = Session::open(plan).unwrap();
    let reopen = || Err(Error::Device("not there".to_owned()));
    let source = Box::new(Breaking { frames: 0, how });
    session.feed = Feed::Camera(Capture::with(source, Box::new(reopen)).unwrap());
    session
}

/// Why the last start ended, according to the trace.
fn last_word(data: &Path) -> (StopReason, String) {
    let reader = Reader::open(Arc::new(OsFilesystem), &data.join("trace")).unwrap();
    let stop = reader.filter_map(|entry| match entry.unwrap().record {
        Record::Stop(stop) => Some((stop.reason, stop.detail.unwrap_or_default())),
        _ => None,
    });
    stop.last().unwrap()
}

#[test]
fn a_capture_thread_that_dies_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let session = with_camera(&plan(folder.path(), small_settings()), Breakage::Panics);
    let error = session.run().unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().contains("camera's thread"), "{error}");
    let (reason, detail) = last_word(folder.path());
    assert_eq!(reason, StopReason::Error);
    assert!(detail.contains("camera's thread"), "{detail}");
}

#[test]
fn a_capture_thread_that_hangs_starves_the_watchdog_and_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let released = Arc::new(AtomicBool::new(false));
    let mut session =
        with_camera(&plan(folder.path(), small_settings()), Breakage::Hangs(Arc::clone(&released)));
    let address = folder.path().join("notify");
    let manager = UnixDatagram::bind(&address).unwrap();
    session.journal.manager =
        ServiceManager::connect(address.as_os_str().as_bytes(), Some(Duration::from_secs(1))).unwrap();
    // Fed only when a picture has come since the last time.
    session.liveness = Liveness::with_timeouts(Duration::ZERO, Duration::from_secs(2), Instant::now());
    // The manager's queue is short: somebody has to read it.
    let heard = std::thread::spawn(move || {
        manager.set_read_timeout(Some(LONG)).unwrap();
        let mut fed = 0;
        loop {
            let mut buffer = [0; 1000];
            let len = manager.recv(&mut buffer).unwrap();
            match &buffer[..len] {
                b"WATCHDOG=1" => fed += 1,
                b"STOPPING=1" => return fed,
                _ => {}
            }
        }
    });
    let error = session.run().map(|_| ()).unwrap_err();
    released.store(true, Ordering::Release);
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().contains("brought nothing"), "{error}");
    let fed = heard.join().unwrap();
    assert!((1..=3).contains(&fed), "fed {fed} times by three pictures");
}

/// A clock that breaks the thread which asks for the time, on demand.
#[derive(Debug)]
struct Bomb {
    clock: SystemClock,
    armed: AtomicBool,
}

impl Clock for Bomb {
    fn now(&self) -> Stamp {
        assert!(
            !(self.armed.load(Ordering::Acquire) && std::thread::current().name() == Some("trace")),
            "this thread is broken on purpose"
        );
        self.clock.now()
    }
}

/// A recorder whose thread has died.
fn dead_recorder() -> (TraceWriter, Recorder) {
    let clock = Arc::new(Bomb { clock: SystemClock::new(), armed: AtomicBool::new(false) });
    let fs = Arc::new(Simulated::with_dir("/trace"));
    let clock_of_trace: Arc<dyn Clock> = Arc::<Bomb>::clone(&clock);
    let (writer, _) =
        TraceWriter::open(fs, Path::new("/trace"), TraceSettings::default(), clock_of_trace).unwrap();
    assert!(!writer.has_died());
    clock.armed.store(true, Ordering::Release);
    // The command makes the thread ask for the time; the answer is that there is nobody.
    assert!(writer.remove_forgotten().is_err());
    while !writer.has_died() {
        std::thread::sleep(Duration::from_millis(2));
    }
    let recorder = writer.recorder();
    (writer, recorder)
}

#[test]
fn a_trace_thread_that_dies_ends_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let mut session = Session::open(&plan(folder.path(), small_settings())).unwrap();
    let (_writer, recorder) = dead_recorder();
    session.journal.recorder = recorder;
    let error = session.run().map(|_| ()).unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().contains("writes the trace"), "{error}");
}

#[test]
fn a_trace_thread_that_dies_is_told_to_those_who_wait() {
    let (writer, recorder) = dead_recorder();
    recorder.record(Record::Pause(crate::trace::Pause { by: "test".to_owned() }));
    assert!(recorder.flush(LONG).is_err());
    assert!(recorder.begin_forget(Duration::from_secs(1)).is_err());
    assert!(writer.close(LONG).unwrap_err().to_string().contains("the last 1 records"));
    assert!(!recorder.has_died(), "from now on it is closed");
}

fn recorded(plan: &RunPlan, frames: u64) {
    let plan = RunPlan { frames: Some(frames), realtime: false, ..plan.clone() };
    Session::open(&plan).unwrap().run().unwrap();
}

fn store(data: &Path) -> CheckpointStore {
    CheckpointStore::open(Arc::new(OsFilesystem), &data.join("checkpoints")).unwrap()
}

fn newest(plan: &RunPlan) -> (crate::storage::Checkpoint, Restored) {
    let network = plan.settings.plan().unwrap();
    checkpoint::newest(&store(&plan.data), Faulty::Leave, &network, &plan.settings).unwrap().unwrap()
}

/// Saves the newest checkpoint once more, changed.
fn save_changed(
    plan: &RunPlan,
    change: impl FnOnce(&mut LivePart, &mut crate::learner::update::LearnerState),
) {
    let (file, Restored { mut live, mut learner, card, .. }) = newest(plan);
    change(&mut live, &mut learner);
    let bytes = encode(
        &live,
        |to, header| crate::learner::saved::save(&learner, to, header),
        &plan.settings.to_toml(),
        &card.to_toml().unwrap(),
    )
    .unwrap();
    let mark =
        Mark { trace_seq: file.mark.trace_seq + 1, running: file.mark.running + Duration::from_secs(60) };
    store(&plan.data).save(mark, &bytes, Keep::LastTwoAndOlder).unwrap();
}

#[test]
fn weights_that_give_no_numbers_are_given_up_for_older_ones() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), small_settings());
    recorded(&plan, 8);
    // Finite, with the right checksum, and so large that the first product is not.
    save_changed(&plan, |_, learner| learner.parameters.values.iter_mut().for_each(|value| *value = 3e38));
    let before = store(&plan.data).list().unwrap().len();
    let plan_of_more = RunPlan { frames: Some(8), realtime: false, ..plan.clone() };
    let ended = Session::open(&plan_of_more).unwrap().run().unwrap();
    assert_eq!(ended.frames, 8, "frames are seen again");
    assert_eq!(ended.corrupt, 10, "no more were lost than it takes to be sure");
    assert!(
        std::fs::read_dir(plan.data.join("checkpoints")).unwrap().any(|file| file
            .unwrap()
            .file_name()
            .to_string_lossy()
            .ends_with(".damaged"))
    );
    assert_eq!(store(&plan.data).list().unwrap().len(), before, "one less, and the one of the end");
}

#[test]
fn weights_that_give_no_numbers_end_the_run_if_there_are_no_older_ones() {
    let folder = tempfile::tempdir().unwrap();
    let source = plan(&folder.path().join("source"), small_settings());
    recorded(&source, 1);
    save_changed(&source, |_, learner| learner.parameters.values.iter_mut().for_each(|value| *value = 3e38));
    // A checkpoint is a weight file, too.
    let mut plan = plan(&folder.path().join("data"), small_settings());
    plan.model = Some(store(&source.data).list().unwrap()[0].path.clone());
    (plan.frames, plan.realtime) = (Some(40), false);
    let error = Session::open(&plan).unwrap().run().map(|_| ()).unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(error.to_string().contains("no checkpoint to go back to"), "{error}");
}

#[test]
fn a_checkpoint_knows_which_numbers_the_trace_has_used() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), small_settings());
    recorded(&plan, 8);
    let (_, first) = newest(&plan);
    assert_eq!((first.live.used.frames, first.live.header.frame), (8, 8));
    assert_eq!(first.live.used.categories, first.live.memory.next_id());

    // The trace reached further than the checkpoint that is gone on from; numbers are remembered all the same.
    recorded(&plan, 8);
    std::fs::remove_file(newest(&plan).0.path).unwrap();
    recorded(&plan, 2);
    let (_, later) = newest(&plan);
    assert_eq!((later.live.used.frames, later.live.header.frame), (16, 10));
    // Another source begins after all of them.
    let other = RunPlan { camera: "rooms:7".into(), ..plan };
    recorded(&other, 1);
    assert_eq!(newest(&other).1.live.header.frame, 17);
}

#[test]
fn a_forget_that_is_cut_short_brings_nothing_back() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), small_settings());
    let pending = folder.path().join("trace/forget-pending.json");
    recorded(&plan, 8);
    recorded(&plan, 8);
    // As far as the process got: the records are gone, a checkpoint of now is not there yet.
    let open = Session::open(&RunPlan { realtime: false, ..plan.clone() }).unwrap();
    let place = Place {
        frame: open.next_frame,
        category: open.live.memory.next_id(),
        sequence: open.feed.next_sequence(),
    };
    assert_eq!(place.frame, 16);
    let forget = open.journal.recorder.begin_forget_at(Duration::from_secs(3600), place).unwrap().unwrap();
    store(&plan.data).remove_from(forget.from_seq).unwrap();
    open.journal.recorder.remove_forgotten().unwrap();
    drop(open);
    assert!(pending.exists() && store(&plan.data).list().unwrap().is_empty());

    for round in ["once", "twice"] {
        let open = Session::open(&RunPlan { realtime: false, ..plan.clone() }).unwrap();
        assert_eq!(open.next_frame, place.frame, "{round}: numbers are not given twice");
        assert_eq!(open.live.memory.next_id(), place.category, "{round}");
        assert_eq!(
            open.feed.next_sequence(),
            place.sequence,
            "{round}: what was forgotten is not seen again"
        );
        assert!(pending.exists(), "{round}: until a checkpoint says the same");
    }
    recorded(&plan, 3);
    assert!(!pending.exists());
    assert_eq!(newest(&plan).1.live.header.frame, 19);
}

/// Asks for something while the run goes on, from its first frames on.
fn ask_meanwhile(session: Session, command: Command) -> (Result<String>, Result<()>) {
    let (requests, status) = (session.requests.clone(), Arc::clone(&session.status));
    let answer = Arc::new(Mutex::new(None));
    let told = Arc::clone(&answer);
    let asking = std::thread::spawn(move || {
        while status.look(|now| now.updates) < 1 {
            std::thread::sleep(Duration::from_millis(5));
        }
        *told.lock().unwrap() = Some(requests.ask(command, "page", LONG));
        requests.ask(Command::Stop, "page", LONG).unwrap();
    });
    let ended = session.run().map(|_| ());
    asking.join().unwrap();
    let answer = answer.lock().unwrap().take().unwrap();
    (answer, ended)
}

#[test]
fn a_forget_ends_with_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), small_settings());
    let session = Session::open(&plan).unwrap();
    let status = Arc::clone(&session.status);
    let (answer, ended) = ask_meanwhile(session, Command::Forget(Duration::from_secs(3600)));
    assert!(answer.unwrap().contains("its beginning"));
    ended.unwrap();
    assert!(!folder.path().join("trace/forget-pending.json").exists());
    assert!(
        status.look(|now| now.curves.len() as u64) < status.look(|now| now.updates),
        "old lessons are gone"
    );
    assert!(store(&plan.data).list().unwrap().len() >= 2, "one of the forget, one of the end");
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_trouble_that_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), small_settings());
    let session = Session::open(&plan).unwrap();
    let status = Arc::clone(&session.status);
    std::fs::remove_dir_all(plan.data.join("checkpoints")).unwrap();
    std::fs::write(plan.data.join("checkpoints"), b"in the way").unwrap();
    let (answer, ended) = ask_meanwhile(session, Command::Checkpoint);
    assert!(answer.unwrap_err().to_string().contains("no checkpoint could be written"));
    ended.unwrap();
    let trouble = status.look(|now| now.disk_trouble.clone()).unwrap();
    assert!(trouble.what.contains("no checkpoint could be written"), "{trouble:?}");
}

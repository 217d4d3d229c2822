//! The run as a whole, with stand-ins where the real thing would hide what is to be seen.

mod faults;
mod steps;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::checkpoint::{CheckpointWriter, LiveHeader, LivePart, decode, encode};
use super::device_trainer::InUse;
use super::learning::{Job, Judged, Learned, LearnerThread, Lesson, Student};
use super::plan::RunPlan;
use super::status::Status;
use super::{Session, learning, start};
use crate::camera::Options;
use crate::config::{EncoderKind, Preset, Settings};
use crate::encoder::ModelCard;
use crate::encoder::device::DeviceChoice;
use crate::learner::update::{LearnerState, Refusal, Update};
use crate::learner::{Published, saved};
use crate::live::KeptFrames;
use crate::memory::{Control, LiveMemory};
use crate::storage::OsFilesystem;
use crate::tensors::Tensor;
use crate::trace::{Reader, Record, SkipReason};
use crate::windows::Sample;
use crate::{Error, Result};

fn small_settings() -> Settings {
    let mut settings = Preset::Saycam.settings();
    settings.encoder = EncoderKind::Conv4;
    (settings.image_height, settings.image_width) = (16, 16);
    (settings.window, settings.stride, settings.slots) = (6, 3, 8);
    settings
}

fn plan(data: &std::path::Path, settings: Settings) -> RunPlan {
    RunPlan {
        data: data.to_path_buf(),
        camera: "rooms".into(),
        camera_options: Options::default(),
        settings,
        model: None,
        period: Duration::from_millis(100),
        calibrate: true,
        realtime: true,
        frames: None,
        time: None,
        checkpoint_every: Duration::from_secs(3600),
        keep_thumbnails: false,
        keep_window: false,
        device: DeviceChoice::Cpu,
        threads: 1,
        memory_budget: 64 << 20,
        reserve_bytes: 0,
        name: None,
        device_name: "test".into(),
    }
}

/// Frames of the run.
const FRAMES: u64 = 60;

/// The same tensors with another padding are another network: that must not go by unseen.
#[test]
fn weights_of_another_network_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = plan(&folder.path().join("first"), small_settings());
    (first.frames, first.realtime) = (Some(2), false);
    Session::open(&first).unwrap().run().unwrap();
    let checkpoints = std::fs::read_dir(first.data.join("checkpoints")).unwrap();
    let weights = checkpoints.map(|entry| entry.unwrap().path()).next().unwrap();

    let other = Settings { padding: crate::encoder::Padding::Symmetric, ..small_settings() };
    assert_ne!(other.padding, small_settings().padding);
    let epsilon = Settings { norm_epsilon: 0.125, ..small_settings() };
    for settings in [other, epsilon] {
        let mut second = plan(&folder.path().join("second"), settings.clone());
        second.model = Some(weights.clone());
        let gone_on = RunPlan { settings, ..first.clone() };
        for plan in [second, gone_on] {
            let error = Session::open(&plan).map(|_| ()).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("its weights are of"), "{error}");
        }
    }
    Session::open(&first).unwrap();
}

/// A learner that does not come to an end before the live path has gone on by twenty frames.
struct Slow {
    state: LearnerState,
    status: Arc<Status>,
}

impl Student for Slow {
    fn learn(&mut self, _: &Lesson) -> Result<Learned> {
        let frames = || self.status.look(|now| now.frames);
        let (before, since) = (frames(), Instant::now());
        while frames() < (before + 20).min(FRAMES) {
            if since.elapsed() > Duration::from_secs(120) {
                return Err(Error::Device("the live path waits for the learner".into()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(Error::Device("this learner learns nothing".into()))
    }

    fn save(&self, tensors: &mut BTreeMap<String, Tensor>, header: &mut HashMap<String, String>) {
        saved::save(&self.state, tensors, header);
    }

    fn publish(&mut self, _: &KeptFrames) -> Result<Judged> {
        Err(Error::Device("never asked".into()))
    }

    fn restore(&mut self, _: LearnerState, _: Option<InUse>) -> Result<Published> {
        Err(Error::Device("never asked".into()))
    }
}

#[test]
fn a_slow_learner_never_delays_a_frame() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(folder.path(), small_settings());
    plan.frames = Some(FRAMES);
    let mut session = Session::open(&plan).unwrap();
    let student = Slow { state: start::fresh(&plan).unwrap(), status: Arc::clone(&session.status) };
    let checkpoints = CheckpointWriter {
        store: session.store.clone(),
        recorder: session.journal.recorder.clone(),
        settings: String::new(),
        card: String::new(),
    };
    session.learner =
        LearnerThread::start(Box::new(student), checkpoints, learning::pool(1).unwrap()).unwrap();
    let status = Arc::clone(&session.status);
    let ended = session.run().unwrap();
    assert_eq!(ended.frames, FRAMES);
    // About three lessons fit in; each ended because the live path had gone on, not because it gave up.
    assert!((2..=4).contains(&ended.skipped), "{}", ended.skipped);
    // No frame was left out: the camera's numbers of the samples follow each other.
    let frames: Vec<u64> = status.look(|now| now.ribbon.iter().map(|moment| moment.frame).collect());
    assert_eq!(frames, (0..FRAMES).collect::<Vec<_>>());
}

/// A learner that says how many threads it may use.
struct Counting(LearnerState, Arc<AtomicUsize>);

impl Student for Counting {
    fn learn(&mut self, _: &Lesson) -> Result<Learned> {
        self.1.store(rayon::current_num_threads(), Ordering::Relaxed);
        Err(Error::Device("this learner learns nothing".into()))
    }

    fn save(&self, tensors: &mut BTreeMap<String, Tensor>, header: &mut HashMap<String, String>) {
        saved::save(&self.0, tensors, header);
    }

    fn publish(&mut self, _: &KeptFrames) -> Result<Judged> {
        Err(Error::Device("never asked".into()))
    }

    fn restore(&mut self, _: LearnerState, _: Option<InUse>) -> Result<Published> {
        Err(Error::Device("never asked".into()))
    }
}

#[test]
fn learning_uses_as_many_threads_as_it_was_told() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), small_settings());
    let session = Session::open(&plan).unwrap();
    for threads in [1, 3] {
        let seen = Arc::new(AtomicUsize::new(0));
        let student = Counting(start::fresh(&plan).unwrap(), Arc::clone(&seen));
        let checkpoints = CheckpointWriter {
            store: session.store.clone(),
            recorder: session.journal.recorder.clone(),
            settings: String::new(),
            card: String::new(),
        };
        let pool = learning::pool(threads).unwrap();
        let mut learner = LearnerThread::start(Box::new(student), checkpoints, pool).unwrap();
        learner.give(Job::Learn(Lesson { samples: Vec::new(), stride: 1, beta: None })).unwrap();
        assert!(learner.wait(Duration::from_secs(60)).unwrap().is_some());
        assert_eq!(seen.load(Ordering::Relaxed), threads);
    }
}

/// A learner whose every update is thrown away.
struct Unlucky(LearnerState);

impl Student for Unlucky {
    fn learn(&mut self, lesson: &Lesson) -> Result<Learned> {
        let update = Update {
            refused: Some(Refusal::LossNotFinite),
            gradient_norm: f64::INFINITY,
            ..Update::unknown(&[], 0.0)
        };
        Ok(Learned {
            update,
            step: 0,
            seconds: 0.0,
            control: Control::default(),
            last_frame: lesson.samples[lesson.samples.len() - 1].frame,
            window: lesson.samples.len(),
            stride: lesson.stride,
        })
    }

    fn save(&self, tensors: &mut BTreeMap<String, Tensor>, header: &mut HashMap<String, String>) {
        saved::save(&self.0, tensors, header);
    }

    fn publish(&mut self, _: &KeptFrames) -> Result<Judged> {
        Err(Error::Device("never asked".into()))
    }

    fn restore(&mut self, _: LearnerState, _: Option<InUse>) -> Result<Published> {
        Err(Error::Device("never asked".into()))
    }
}

#[test]
fn an_update_that_is_thrown_away_is_an_event_and_the_live_path_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(folder.path(), small_settings());
    (plan.frames, plan.realtime) = (Some(12), false);
    let mut session = Session::open(&plan).unwrap();
    let checkpoints = CheckpointWriter {
        store: session.store.clone(),
        recorder: session.journal.recorder.clone(),
        settings: String::new(),
        card: String::new(),
    };
    let student = Unlucky(start::fresh(&plan).unwrap());
    session.learner =
        LearnerThread::start(Box::new(student), checkpoints, learning::pool(1).unwrap()).unwrap();
    let ended = session.run().unwrap();
    assert_eq!((ended.frames, ended.updates, ended.skipped), (12, 0, 3));
    let reader = Reader::open(Arc::new(OsFilesystem), &folder.path().join("trace")).unwrap();
    let skipped = reader.filter_map(|entry| match entry.unwrap().record {
        Record::UpdateSkipped(skipped) => Some((skipped.frame, skipped.reason, skipped.loss.is_nan())),
        _ => None,
    });
    let expected = [5, 8, 11].map(|frame| (frame, SkipReason::LossNotFinite, true));
    assert_eq!(skipped.collect::<Vec<_>>(), expected);
}

/// A checkpoint of a small run, with everything that one can hold.
fn checkpoint_bytes() -> (Vec<u8>, crate::encoder::Plan) {
    let settings = small_settings();
    let network = settings.plan().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let learner = start::fresh(&plan(folder.path(), settings.clone())).unwrap();
    let mut memory = LiveMemory::new(settings.slots, network.features).unwrap();
    let embedding = vec![0.5; network.features];
    memory.observe(&embedding, &settings.control(), &settings.rules()).unwrap();
    let pixels: Arc<[u8]> = Arc::from(vec![7; network.image.len()]);
    let companion = Some((13, Arc::clone(&pixels)));
    let samples = vec![Sample { frame: 4, sequence: 10, pixels, companion }];
    let live = LivePart {
        header: LiveHeader {
            frame: 5,
            samples: vec![(4, 10, Some(13))],
            ids: memory.ids().to_vec(),
            ages: memory.ages().to_vec(),
            next_id: memory.next_id(),
            ..LiveHeader::default()
        },
        used: super::checkpoint::NumbersUsed { seq: 9, frames: 5, categories: 1 },
        memory,
        exemplars: Vec::new(),
        control: settings.control(),
        samples,
        keep_window: true,
    };
    let card = ModelCard::known().unwrap()[0].to_toml().unwrap();
    (
        encode(&live, |to, header| saved::save(&learner, to, header), &settings.to_toml(), &card).unwrap(),
        network,
    )
}

#[test]
fn a_checkpoint_comes_back_with_its_pixels() {
    let (bytes, network) = checkpoint_bytes();
    let restored = decode(Path::new("x"), &bytes, &network).unwrap();
    assert_eq!(restored.live.samples[0].pixels[..], vec![7; network.image.len()]);
    assert_eq!(restored.live.samples[0].companion.as_ref().unwrap().0, 13);
    assert_eq!((restored.live.header.frame, restored.live.memory.next_id()), (5, 1));
    assert_eq!((restored.live.used.seq, restored.live.used.frames), (9, 5));
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    /// The store's checksum keeps damage away from the reader; should any get there, it is refused or read, never a panic.
    #[test]
    fn no_damage_to_a_checkpoint_makes_its_reader_panic(
        changes in proptest::collection::vec((0usize..1 << 20, proptest::num::u8::ANY), 1..40),
        cut in proptest::option::of(0usize..1 << 20),
        in_header in proptest::bool::ANY,
    ) {
        let (mut bytes, network) = checkpoint_bytes();
        // The header is JSON at the beginning: damage there reaches the most code.
        let reach = if in_header { 4096.min(bytes.len()) } else { bytes.len() };
        for (at, value) in changes {
            bytes[at % reach] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut % bytes.len());
        }
        let _ = decode(Path::new("x"), &bytes, &network);
    }
}

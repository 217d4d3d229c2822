//! The run as a whole, with stand-ins where the real thing would hide what is to be seen.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::checkpoint::Keeper;
use super::learning::{Learned, LearnerThread, Lesson, Publication, Student};
use super::plan::RunPlan;
use super::status::Status;
use super::{Run, assembly};
use crate::camera::Options;
use crate::config::{EncoderKind, Preset, Settings};
use crate::encoder::device::DeviceChoice;
use crate::learner::update::LearnerState;
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
        device_name: "test".into(),
    }
}

/// Frames of the run.
const FRAMES: u64 = 60;

/// A learner that does not come to an end before the live path has gone on by twenty frames.
struct Slow {
    state: LearnerState,
    status: Arc<Status>,
}

impl Student for Slow {
    fn learn(&mut self, _: &Lesson) -> Result<Learned> {
        let frames = || self.status.look(|now| now.frames);
        let (before, patience) = (frames(), Instant::now());
        while frames() < (before + 20).min(FRAMES) {
            if patience.elapsed() > Duration::from_secs(120) {
                return Err(Error::Device("the live path waits for the learner".into()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(Error::Device("this learner learns nothing".into()))
    }

    fn state(&self) -> &LearnerState {
        &self.state
    }

    fn restore(&mut self, _: LearnerState) -> Result<Publication> {
        Err(Error::Device("never asked".into()))
    }
}

#[test]
fn a_slow_learner_never_delays_a_frame() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(folder.path(), small_settings());
    plan.frames = Some(FRAMES);
    let mut run = Run::open(&plan).unwrap();
    let student = Slow { state: assembly::untaught(&plan).unwrap(), status: Arc::clone(&run.status) };
    let keeper = Keeper {
        store: run.recording.store.clone(),
        recorder: run.recording.recorder.clone(),
        settings: String::new(),
        card: String::new(),
    };
    run.recording.learner = LearnerThread::start(Box::new(student), keeper).unwrap();
    let status = Arc::clone(&run.status);
    let ended = run.run().unwrap();
    assert_eq!(ended.frames, FRAMES);
    // About three lessons fit in; each ended because the live path had gone on, not because it gave up.
    assert!((2..=4).contains(&ended.skipped), "{}", ended.skipped);
    // No frame was left out: the camera's numbers of the samples follow each other.
    let frames: Vec<u64> = status.look(|now| now.ribbon.iter().map(|moment| moment.frame).collect());
    assert_eq!(frames, (0..FRAMES).collect::<Vec<_>>());
}

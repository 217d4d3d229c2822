//! A made-up recording with everything in it that a trace can tell: categories that come and go, learning, pauses, a lost
//! camera, heat, a restart after a power cut. Written by the real writer, from a seed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use oupn_edge::config::Preset;
use oupn_edge::device::clock::{BootId, ManualClock, Stamp};
use oupn_edge::random::{Purpose, Random};
use oupn_edge::storage::OsFilesystem;
use oupn_edge::trace::{
    Calibration, Camera, CameraState, Checkpoint, Frame, Health, Losses, Pause, Record, Resume, RunnerUp,
    Start, Stop, StopReason, Stride, Temperature, TraceSettings, TraceWriter, Update,
};

/// Seconds between frames.
pub(crate) const INTERVAL: u64 = 4;

/// What a made-up recording is like.
#[derive(Debug, Clone)]
pub(crate) struct Day {
    pub(crate) device: &'static str,
    pub(crate) seed: u64,
    /// Frames in each of the two boots.
    pub(crate) frames: u64,
}

impl Default for Day {
    fn default() -> Self {
        Self { device: "head-camera-7", seed: 1, frames: 900 }
    }
}

/// The first moment of a boot that began so many seconds after the recording did.
fn boot(number: u8, seconds: i64) -> Stamp {
    let wall = Timestamp::from_second(1_800_000_000 + seconds).ok();
    Stamp { boot: BootId::from_bytes([number; 16]), mono_ns: 17_000_000_000, wall, synced: true }
}

struct Writing<'a> {
    day: &'a Day,
    clock: Arc<ManualClock>,
    trace: TraceWriter,
    frame: u64,
    update: u64,
    categories: Vec<u64>,
    next: u64,
    now: u64,
}

impl Day {
    /// Writes the recording into the trace folder `dir`. Returns the numbers of frames and updates in it.
    pub(crate) fn write(&self, dir: &Path) -> (u64, u64) {
        let mut state = Writing::open(self, dir, boot(1, 0), None);
        state.morning(self.frames);
        // The plug is pulled: no `stop`. The next boot begins an hour later.
        let (frame, update, categories, next, now) =
            (state.frame, state.update, state.categories.clone(), state.next, state.now);
        state.trace.close(Duration::from_secs(60)).unwrap();
        let later = boot(2, 3600 + i64::try_from(self.frames * INTERVAL).unwrap());
        let mut state = Writing::open(self, dir, later, Some(frame));
        (state.frame, state.update, state.categories, state.next, state.now) =
            (frame, update, categories, next, now);
        state.afternoon(self.frames);
        let (frames, updates) = (state.frame, state.update);
        let seconds = (self.frames * INTERVAL) as f32;
        state.say(Record::Stop(Stop {
            reason: StopReason::Signal,
            detail: None,
            frames: frames - frame,
            updates: updates - update,
            seconds,
        }));
        state.trace.close(Duration::from_secs(60)).unwrap();
        (frames, updates)
    }
}

impl<'a> Writing<'a> {
    fn open(day: &'a Day, dir: &Path, at: Stamp, resumed: Option<u64>) -> Self {
        let clock = Arc::new(ManualClock::new(at));
        let mut settings = TraceSettings { segment_bytes: 200_000, ..TraceSettings::default() };
        settings.disk.reserve_bytes = 0;
        let (trace, _) =
            TraceWriter::open(Arc::new(OsFilesystem), dir, settings, Arc::clone(&clock) as _).unwrap();
        let state = Self { day, clock, trace, frame: 0, update: 0, categories: Vec::new(), next: 0, now: 0 };
        state.say(Record::Start(Box::new(Start {
            trace_version: 1,
            program: "oupn-edge 0.1.0".to_owned(),
            device: day.device.to_owned(),
            board: "Jetson Orin Nano <Developer Kit>, R36.4, 15W".to_owned(),
            source: "/dev/v4l/by-id/usb-Camera \"Wide\" & Co".to_owned(),
            compute: "CPU, 6 threads".to_owned(),
            settings: serde_json::to_value(Preset::Saycam.settings()).unwrap(),
            frame: resumed.unwrap_or(0),
            resumed_from: resumed.map(|frame| format!("checkpoint-{frame:08}.safetensors")),
            recorded: Some(false),
            continues: None,
        })));
        state.camera(CameraState::Opened, Some("640×480 MJPG at 30"), None);
        state
    }

    fn say(&self, record: Record) {
        assert!(self.trace.record(record), "the queue was full");
    }

    fn camera(&self, state: CameraState, detail: Option<&str>, away_s: Option<f32>) {
        self.say(Record::Camera(Camera { state, detail: detail.map(str::to_owned), away_s }));
    }

    fn morning(&mut self, frames: u64) {
        for n in 0..frames {
            if n == 75 {
                self.say(Record::Calibration(Calibration {
                    from: -12.0,
                    to: -8.4,
                    frames: 75,
                    similarity: Some(0.75),
                }));
            }
            if n == frames / 2 {
                self.say(Record::Pause(Pause { by: "page".to_owned() }));
                self.clock.advance(Duration::from_secs(300));
                self.say(Record::Resume(Resume { by: "page".to_owned(), paused_s: 300.0 }));
            }
            self.see(n, frames);
        }
    }

    fn afternoon(&mut self, frames: u64) {
        for n in 0..frames {
            if n == frames / 3 {
                self.camera(CameraState::Lost, Some("the device is gone"), None);
                self.clock.advance(Duration::from_secs(90));
                self.camera(CameraState::Back, None, Some(90.0));
            }
            if n == frames / 2 || n == frames * 3 / 4 {
                let hot = n == frames / 2;
                let celsius = if hot { 88.5 } else { 79.0 };
                let zone = "tj-thermal".to_owned();
                self.say(Record::Temperature(Temperature { hot, zone, celsius, limit: 85.0 }));
                let (from, to) = if hot { (15, 45) } else { (45, 15) };
                self.say(Record::Stride(Stride {
                    from,
                    to,
                    reason: "updates take longer than frames".into(),
                }));
            }
            self.see(n, frames);
        }
    }

    /// One frame and what belongs to it.
    fn see(&mut self, n: u64, frames: u64) {
        let mut random = Random::new(self.day.seed, Purpose::World, self.frame);
        // Looks wander: mostly the same thing again, often one of a few favourites, seldom something new.
        let draw = random.between(0.0, 1.0);
        let early = (-(self.frame as f32) / 250.0).exp();
        let created = self.categories.is_empty() || draw < 0.012 + 0.25 * early;
        let mut evicted = None;
        let category = if created {
            self.next += 1;
            if self.categories.len() >= 75 {
                evicted = Some(self.categories.remove(random.between(20.0, 74.0) as usize));
            }
            self.categories.push(self.next);
            self.next
        } else if draw < 0.72 {
            self.now
        } else {
            let favourite = (random.between(0.0, 1.0).powi(2) * self.categories.len() as f32) as usize;
            self.categories[favourite.min(self.categories.len() - 1)]
        };
        self.now = category;
        let sure = random.between(0.55, 0.99);
        let u_hat = if created { sure } else { 1.0 - sure };
        let other = self.categories[(self.frame % self.categories.len() as u64) as usize];
        self.clock.advance(Duration::from_millis(INTERVAL * 1000 - 100));
        let captured_ns = Some(self.now_ns());
        self.clock.advance(Duration::from_millis(100));
        self.say(Record::Frame(Frame {
            frame: self.frame,
            category,
            created,
            evicted,
            u_hat,
            similarity: if created { random.between(0.2, 0.7) } else { random.between(0.7, 0.98) },
            share: (!created).then_some(sure * 0.9),
            runners_up: vec![RunnerUp { category: other, share: 0.05, similarity: 0.4 }],
            captured_ns,
            source_ns: None,
            camera_sequence: Some(self.frame * 120 + u64::from(self.frame % 50 == 7)),
            latency_ms: Some(100.0),
            truth: None,
        }));
        self.frame += 1;
        if self.frame.is_multiple_of(500) {
            self.trace.flush(Duration::from_secs(60)).unwrap();
        }
        if n.is_multiple_of(15) {
            self.look_at_machine(n as f32 / frames as f32, &mut random);
        }
        if self.frame.is_multiple_of(15) && self.frame >= 75 {
            self.learn(&mut random);
        }
        if self.frame.is_multiple_of(300) {
            let file = Some(format!("checkpoint-{:08}.safetensors", self.frame));
            self.say(Record::Checkpoint(Checkpoint {
                frame: self.frame,
                file,
                bytes: 27 << 20,
                seconds: 0.8,
                error: None,
            }));
        }
    }

    fn look_at_machine(&self, part: f32, random: &mut Random) {
        self.say(Record::Health(Health {
            camera_frames: self.frame * 120,
            camera_missed: self.frame / 50,
            camera_corrupt: self.frame / 400,
            free_bytes: Some((38 << 30) - self.frame * 700_000),
            resident_bytes: Some(1_600 << 20),
            available_bytes: Some(3_900 << 20),
            celsius: Some(52.0 + 30.0 * (3.1 * part).sin().max(0.0) + random.between(-1.0, 1.0)),
            watts: Some(9.0 + random.between(-1.5, 1.5)),
            gpu_load: None,
            gpu_megahertz: None,
        }));
    }

    fn learn(&mut self, random: &mut Random) {
        self.update += 1;
        let progress = (-(self.update as f32) / 30.0).exp();
        let noise = random.between(-0.12, 0.12);
        let self_supervised = 1.1 + 2.6 * progress + noise;
        let creation = 0.2 + 0.5 * progress;
        self.say(Record::Update(Update {
            update: self.update,
            frame: self.frame - 1,
            window: 75,
            stride: 15,
            losses: Losses {
                total: self_supervised + 0.3 * creation,
                self_supervised,
                entropy: 0.9 * progress + 0.4,
                creation,
            },
            mean_u_hat: 0.25 + 0.5 * progress,
            categories: self.categories.len() as u32,
            collapse: 0.021 + 0.006 * progress + 0.02 * noise,
            gradient_norm: 3.0 + 4.0 * progress,
            inv_tau: 10.0 + 0.01 * self.update as f32,
            beta: -8.4 + 0.004 * self.update as f32,
            gamma: 1.0,
            learning_rate: 1e-5,
            seconds: 21.0 + 5.0 * noise,
        }));
    }

    fn now_ns(&self) -> u64 {
        use oupn_edge::device::clock::Clock as _;
        self.clock.now().mono_ns
    }
}

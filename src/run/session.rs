//! A run: opened step by step, then the loop of frames in, categories out, windows to the learner.
//!
//! One iteration takes at most a fraction of a second, so that requests are heard and the watchdog is fed whatever the
//! camera does. With `realtime` the learner works beside the loop and its results are taken up when they are there.
//! Without, there is no real time to miss: the loop waits for each update, and the run is the same every time.
//!
//! What happens is told in one way only: [`Journal::tell`].

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::anchor::Anchor;
use super::checkpoint::{CheckpointWriter, NumbersUsed};
use super::compute::Compute;
use super::engine::Core;
use super::feed::{Feed, Poll};
use super::folder::Folder;
use super::journal::{Event, FrameEvent, Journal};
use super::learning::LearnerThread;
use super::live::{Changes, LivePath};
use super::liveness::Liveness;
use super::machine::{self, Machine};
use super::pace::StridePace;
use super::paused;
use super::plan::RunPlan;
use super::remembered::Remembered;
use super::requests::{Request, Requests};
use super::resume::{Before, Position};
use super::sampler::Sampler;
use super::score::Score;
use super::signals::Signals;
use super::socket::ControlSocket;
use super::start::Start;
use super::status::{Picture, Seen, Snapshot, Status};
use super::thumbnails::Thumbnails;
use crate::camera::{self, Camera, Frame, Life};
use crate::device::clock::{Clock, SystemClock};
use crate::device::service::ServiceManager;
use crate::device::{Sensors, board};
use crate::memory::Joined;
use crate::storage::{CheckpointStore, Filesystem, FolderLock, OsFilesystem};
use crate::trace::{self, CameraState, DiskLevel, DiskTrouble, StopReason, TraceWriter};
use crate::views::Pairing;
use crate::windows::{Sample, WindowSource};
use crate::{Error, Result};

/// How long closing the trace may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(20);

/// By how much the threshold must have moved for the trace to say so.
const TOLD_CHANGE: f64 = 0.01;

/// What decides when a run ends and how it goes about its work.
#[derive(Clone, Debug)]
pub struct LoopOptions {
    /// The source's name, as given.
    pub camera: String,
    /// Time between samples.
    pub period: Duration,
    /// Whether time is real: see the [module](self).
    pub realtime: bool,
    /// Whether windows need companions.
    pub companions: bool,
    /// Frames to see in this start.
    pub frames: Option<u64>,
    /// Time of the source to see in this start.
    pub time: Option<Duration>,
    /// Time between checkpoints.
    pub checkpoint_every: Duration,
    /// Whether checkpoints hold the window's pixels.
    pub keep_window: bool,
    /// Time that the program had run on this folder before this start.
    pub ran_before: Duration,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Why.
    pub reason: StopReason,
    /// Frames of this start.
    pub frames: u64,
    /// Updates applied in this start.
    pub updates: u64,
    /// Updates thrown away in this start.
    pub skipped: u64,
    /// How often new weights were compared with those in use, and how often they were taken up, in this start.
    pub compared: (u64, u64),
    /// Pictures that could not be used.
    pub corrupt: u64,
    /// What else is missing of the source, and why: it was cut off, or is damaged.
    pub missing: Option<String>,
    /// Categories that live.
    pub categories: usize,
    /// Categories created over all starts.
    pub created: u64,
    /// Categories that were joined into older ones in this start.
    pub merges: u64,
    /// How long it took.
    pub seconds: f64,
    /// Categories against the truth, where the source knows it.
    pub score: Score,
}

/// What a run is doing.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    /// Frames are looked at.
    Running,
    /// Nothing is looked at, since then.
    Paused(Instant),
    /// The loop ends with its next iteration.
    Stopping(Ending),
}

/// Why a loop ends.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ending {
    /// In order.
    Reason(StopReason),
    /// There is no learner any more, for this reason. Nothing would be learned or kept; the next start goes on from the
    /// last checkpoint.
    LearnerGone(String),
}

/// A run that is ready to go, or under way. Dropping it lets go of everything.
pub struct Session {
    /// What watchers see.
    pub status: Arc<Status>,
    /// What they can ask for.
    pub requests: Requests,
    pub(super) options: LoopOptions,
    pub(super) feed: Feed,
    pub(super) sampler: Sampler,
    pub(super) live: LivePath,
    /// The samples in reach of learning.
    pub(super) windows: Box<dyn WindowSource>,
    /// Frames between updates.
    pub(super) pace: StridePace,
    pub(super) learner: LearnerThread,
    pub(super) journal: Journal,
    /// The checkpoints, for `forget`.
    pub(super) store: CheckpointStore,
    /// What the run was started with.
    pub(super) plan: RunPlan,
    pub(super) clock: Arc<dyn Clock>,
    /// What watchers ask for.
    pub(super) waiting: Receiver<Request>,
    /// What the system asks for.
    pub(super) signals: Signals,
    pub(super) machine: Machine,
    /// What trains, and what of it was told.
    compute: Compute,
    /// Pictures of categories on the disk, if asked for.
    pub(super) thumbnails: Option<Thumbnails>,
    /// The number of the next frame.
    pub(super) next_frame: u64,
    /// The numbers that the trace had used when this start began.
    pub(super) used: NumbersUsed,
    /// Whether pictures come.
    pub(super) liveness: Liveness,
    /// The files and folders that must stay where they are.
    pub(super) anchors: Vec<Anchor>,
    /// Whether the trace has segments of a newer version of the program.
    pub(super) newer_trace: bool,
    pub(super) phase: Phase,
    pub(super) state: LoopState,
    writer: TraceWriter,
    _socket: Option<ControlSocket>,
    _lock: FolderLock,
}

/// What the loop remembers from one iteration to the next, since the start of the program.
#[derive(Debug)]
pub(super) struct LoopState {
    pub(super) start: Instant,
    pub(super) first_time: Option<u64>,
    pub(super) last_time: u64,
    pub(super) frames: u64,
    pub(super) updates: u64,
    pub(super) skipped: u64,
    pub(super) corrupt: u64,
    pub(super) last_checkpoint: Instant,
    pub(super) frames_at_checkpoint: u64,
    pub(super) collapsed: bool,
    pub(super) camera_away_since: Option<Instant>,
    /// The source's pictures at the last look at the machine.
    pub(super) pictures: u64,
    /// Updates since weights were published.
    pub(super) unpublished: u64,
    /// The threshold that the trace knows of.
    pub(super) told_similarity: Option<f64>,
    /// Pictures that a camera took before this time are not looked at.
    pub(super) not_before: u64,
    /// Frames in a row whose embedding was not finite.
    pub(super) not_finite: u32,
    /// Why no checkpoint could be written, and since when.
    pub(super) checkpoint_trouble: Option<DiskTrouble>,
    /// A forget has removed what it must, and ends with the next checkpoint.
    pub(super) forget_to_end: bool,
    pub(super) score: Score,
}

impl LoopState {
    fn new(unpublished: u64, forget_to_end: bool) -> Self {
        Self {
            start: Instant::now(),
            first_time: None,
            last_time: 0,
            frames: 0,
            updates: 0,
            skipped: 0,
            corrupt: 0,
            last_checkpoint: Instant::now(),
            frames_at_checkpoint: 0,
            collapsed: false,
            camera_away_since: None,
            pictures: 0,
            unpublished,
            told_similarity: None,
            not_before: 0,
            not_finite: 0,
            checkpoint_trouble: None,
            forget_to_end,
            score: Score::default(),
        }
    }
}

impl Session {
    /// Opens everything that the plan names: the folder, the model, the source and the place in it, the threads. After this
    /// only the world can fail.
    pub fn open(plan: &RunPlan) -> Result<Self> {
        let fs: Arc<dyn Filesystem> = Arc::new(OsFilesystem);
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let camera: Camera = plan.camera.parse()?;
        let network = plan.settings.plan()?;
        let settings = &plan.settings;

        let folder = Folder::open(Arc::clone(&fs), &plan.data, plan.reserve_bytes, Arc::clone(&clock))?;
        // First of all, so that the lock goes last, whatever fails.
        let Folder { lock, writer, recovery, store, .. } = folder;
        let start = Start::resume_or_new(plan, &network, &store)?;
        let resumed_from = start.resumed_from.clone();
        let mut before = Before {
            // What it saw before is not to be seen again.
            forgot_at: recovery.pending_forget.and_then(|pending| pending.place),
            ..Before::default()
        };
        let remembered = Remembered::read(&*fs, &plan.data)?.map(|remembered| remembered.camera);
        before.header = start.restored.as_ref().map(|restored| restored.live.header.clone());
        before.same_source = Before::is_same_source(plan, remembered.as_deref(), before.header.as_ref());

        let Core { mut live, trainer, pool, compute, card } = Core::new(plan, &network, start, &mut before)?;
        let mut feed = Feed::open(plan, &camera, before.next_sequence())?;
        // Only now: a source that could not be opened is not this recording's.
        Remembered::of(plan).write(&*fs, &plan.data)?;
        let continues = feed.playback().map(|_| before.same_source);
        let (frames, categories) = trace::numbers_after(&*fs, &plan.data.join("trace"), before.used.seq)?;
        before.used.frames = before.used.frames.max(frames);
        before.used.categories = before.used.categories.max(categories);
        let position = Position::restore(plan, before, &mut feed, &mut live)?;

        let status = Arc::new(Status::new(Snapshot {
            device: plan.device_name.clone(),
            data: plan.data.clone(),
            started: Some(clock.now()),
            feed: super::status::Feed { description: feed.describe(), present: true, ..Default::default() },
            period_s: plan.period.as_secs_f64(),
            stride: position.pace.stride(),
            categories: live.categories() as u64,
            created: live.memory.next_id(),
            compute: compute.told().to_owned(),
            ..Snapshot::default()
        }));
        let journal = Journal {
            recorder: writer.recorder(),
            status: Arc::clone(&status),
            manager: ServiceManager::from_env(),
        };
        journal.tell(Event::Started(Box::new(trace::Start {
            trace_version: trace::VERSION,
            program: concat!("oupn-edge ", env!("CARGO_PKG_VERSION")).to_owned(),
            device: plan.device_name.clone(),
            board: board_name(),
            source: feed.describe(),
            compute: compute.told().to_owned(),
            settings: serde_json::to_value(settings).unwrap_or_default(),
            frame: position.next_frame,
            resumed_from,
            recorded: Some(continues.is_some()),
            continues,
        })));
        journal.tell(Event::Camera(trace::Camera {
            state: CameraState::Opened,
            detail: Some(feed.describe()),
            away_s: None,
        }));
        let mut phase = Phase::Running;
        if paused::is_set(&*fs, &plan.data) {
            phase = Phase::Paused(Instant::now());
            journal.tell(Event::Paused { by: "restart" });
        }

        let (requests, waiting) = Requests::queue();
        let socket = match ControlSocket::open(&plan.data, Arc::clone(&status), requests.clone()) {
            Ok(socket) => Some(socket),
            // A path that is too long, a file system without sockets: the recording is worth more.
            Err(error) => {
                log::warn!("{error}: `pause`, `resume`, `forget` and `status` cannot reach this recording");
                None
            }
        };
        let checkpoints = CheckpointWriter {
            store: store.clone(),
            recorder: writer.recorder(),
            settings: settings.to_toml(),
            card,
        };
        let size = network.image;
        let thumbnails = plan.keep_thumbnails.then(|| Thumbnails::open(&plan.data, size.width, size.height));
        Ok(Self {
            options: LoopOptions {
                camera: plan.camera.clone(),
                period: plan.period,
                realtime: plan.realtime || matches!(feed, Feed::Camera(_)),
                companions: settings.views == Pairing::NextFrame,
                frames: plan.frames,
                time: plan.time,
                checkpoint_every: plan.checkpoint_every,
                keep_window: plan.keep_window,
                ran_before: position.ran_before,
            },
            learner: LearnerThread::start(Box::new(trainer), checkpoints, pool)?,
            plan: plan.clone(),
            signals: Signals::listen()?,
            machine: Machine::new(Sensors::system(), &plan.data),
            compute,
            sampler: position.sampler,
            windows: position.windows,
            pace: position.pace,
            next_frame: position.next_frame,
            used: position.used,
            thumbnails: thumbnails.transpose()?,
            liveness: Liveness::new(Instant::now()),
            anchors: vec![Anchor::of(lock.path().to_path_buf())?, Anchor::of(plan.data.join("trace"))?],
            newer_trace: recovery.newer_segments > 0,
            state: LoopState::new(position.unpublished, recovery.pending_forget.is_some()),
            status,
            requests,
            feed,
            live,
            journal,
            store,
            clock,
            waiting,
            phase,
            writer,
            _socket: socket,
            _lock: lock,
        })
    }

    /// Runs until something ends it; the trace then says why.
    pub fn run(mut self) -> Result<Ended> {
        let ended = self.run_to_end();
        // Who asks now is told at once that the recording has ended. The threads end before the trace does; the socket goes
        // after it, and the lock last.
        let Self { writer, learner, feed, waiting, .. } = self;
        drop((waiting, feed, learner));
        match (ended, writer.close(CLOSE_TIMEOUT)) {
            (Ok(ended), closed) => closed.map(|()| ended),
            // What ended the run is the first thing to know.
            (Err(error), closed) => {
                if let Err(closing) = closed {
                    log::error!("{closing}");
                }
                Err(error)
            }
        }
    }

    fn run_to_end(&mut self) -> Result<Ended> {
        self.journal.tell(Event::Ready);
        if self.state.forget_to_end {
            self.save();
        }
        let outcome = self.run_loop();
        self.journal.tell(Event::Stopping);
        let (reason, detail) = match &outcome {
            Ok(reason) => (*reason, self.feed.missing()),
            Err(error) => (StopReason::Error, Some(error.to_string())),
        };
        if let Err(error) = self.finish() {
            log::error!("{error}");
        }
        self.note_compute();
        let seconds = self.state.start.elapsed().as_secs_f64();
        self.journal.tell(Event::Stopped(trace::Stop {
            reason,
            detail,
            frames: self.state.frames,
            updates: self.state.updates,
            #[allow(clippy::cast_possible_truncation)]
            seconds: seconds as f32,
        }));
        outcome?;
        Ok(Ended {
            reason,
            frames: self.state.frames,
            updates: self.state.updates,
            skipped: self.state.skipped,
            compared: self.journal.status.look(|now| (now.comparisons, now.publications)),
            corrupt: self.state.corrupt + self.feed.counters().corrupt,
            missing: self.feed.missing(),
            categories: self.live.categories(),
            created: self.live.memory.next_id(),
            merges: self.journal.status.look(|now| now.merges),
            seconds,
            score: self.state.score.clone(),
        })
    }

    fn run_loop(&mut self) -> Result<StopReason> {
        let mut frame = Frame::default();
        loop {
            self.watch_threads()?;
            if let Some(reason) = self.limit_reached() {
                self.stop(Ending::Reason(reason));
            }
            if let Phase::Stopping(Ending::Reason(reason)) = &self.phase {
                return Ok(*reason);
            }
            self.poll_requests();
            self.poll_learner(Duration::ZERO);
            self.note_compute();
            if let Phase::Stopping(Ending::LearnerGone(why)) = &self.phase {
                return Err(Error::Device(why.clone()));
            }
            let ended = self.poll_camera();
            self.look_at_machine()?;
            self.watch_disk();
            match self.phase {
                Phase::Running => {
                    match self.feed.next(&self.sampler, self.clock.now().mono_ns, &mut frame)? {
                        Poll::Frame(time) if self.is_too_old(&frame) => {
                            log::debug!("passed over a picture of {time} ns")
                        }
                        Poll::Frame(time) => self.look(&frame, time)?,
                        Poll::Nothing => {}
                        Poll::End => return Ok(StopReason::EndOfSource),
                    }
                    self.start_update();
                    self.checkpoint_if_due();
                }
                Phase::Paused(_) => self.feed.pass(),
                Phase::Stopping(_) => {}
            }
            // Only now: the last picture of a camera that has ended is still looked at.
            if ended {
                self.stop(Ending::Reason(StopReason::EndOfSource));
            }
        }
    }

    /// Ends the loop with its next iteration. The first reason counts.
    pub(super) fn stop(&mut self, ending: Ending) {
        if !matches!(self.phase, Phase::Stopping(_)) {
            self.phase = Phase::Stopping(ending);
        }
    }

    /// Whether nothing is looked at because somebody asked for it.
    pub(super) fn is_paused(&self) -> bool {
        matches!(self.phase, Phase::Paused(_))
    }

    /// Whether there is a learner to wait for.
    pub(super) fn has_learner(&self) -> bool {
        !matches!(self.phase, Phase::Stopping(Ending::LearnerGone(_)))
    }

    fn is_too_old(&self, frame: &Frame) -> bool {
        matches!(self.feed, Feed::Camera(_)) && frame.monotonic_ns < self.state.not_before
    }

    /// What was asked for beforehand has come about.
    fn limit_reached(&self) -> Option<StopReason> {
        let state = &self.state;
        let seen = Duration::from_nanos(state.last_time.saturating_sub(state.first_time.unwrap_or(0)));
        if self.signals.end() {
            Some(StopReason::Signal)
        } else if self.options.frames.is_some_and(|frames| state.frames >= frames) {
            Some(StopReason::Frames)
        } else if self.options.time.is_some_and(|time| state.first_time.is_some() && seen >= time) {
            Some(StopReason::Time)
        } else {
            None
        }
    }

    /// Does with a frame what it is wanted for.
    fn look(&mut self, frame: &Frame, time: u64) -> Result<()> {
        let start = Instant::now();
        self.state.first_time.get_or_insert(time);
        self.state.last_time = time;
        let wanted = self.sampler.wants(time, self.next_frame);
        if !wanted.sample && wanted.companion_of.is_none() {
            return Ok(());
        }
        let pixels = self.live.prepare(frame)?;
        if let Some(sample) = wanted.companion_of {
            self.windows.add_companion(sample, frame.sequence, Arc::clone(&pixels));
        }
        if !wanted.sample {
            return Ok(());
        }
        let recognised = match self.live.recognise(self.next_frame, frame.sequence, &pixels) {
            Ok(recognised) => recognised,
            Err(error) => return self.note_not_finite(&error),
        };
        self.state.not_finite = 0;
        let at = self.feed.stamp(self.clock.now(), time);
        let mut record = super::observed::observed(self.next_frame, &recognised.observation);
        record.camera_sequence = Some(frame.sequence);
        record.truth = frame.truth.map(u64::from);
        if matches!(self.feed, Feed::Camera(_)) {
            record.captured_ns = Some(frame.monotonic_ns);
            let latency = at.mono_ns.saturating_sub(frame.monotonic_ns);
            record.latency_ms = Some(Duration::from_nanos(latency).as_secs_f32() * 1e3);
        } else {
            // Also of pictures without times: never the moment at which they happen to be read.
            record.source_ns = Some(time);
            record.latency_ms = Some(start.elapsed().as_secs_f32() * 1e3);
        }
        self.state.score.add(record.truth, record.category);
        if record.created
            && let Some(thumbnails) = &mut self.thumbnails
            && self.journal.recorder.disk_level() == DiskLevel::Ample
        {
            thumbnails.keep(record.category, at, self.live.colours());
        }
        let size = self.live.size();
        // An encoder that reads plain colours has seen just what people see.
        let rgb = if size.channels == 3 { Arc::clone(&pixels) } else { Arc::from(self.live.colours()) };
        let picture = Picture { rgb, width: size.width, height: size.height };
        self.windows.push(Sample {
            frame: self.next_frame,
            sequence: frame.sequence,
            pixels,
            companion: None,
        });
        self.next_frame += 1;
        self.state.frames += 1;
        self.journal.tell(Event::Frame(Box::new(FrameEvent {
            seen: Seen { record, at, picture },
            categories: self.live.categories() as u64,
            created: self.live.memory.next_id(),
            kept: (self.live.kept.len() as u64, self.live.kept.bytes() as u64),
            progress: self.progress(),
        })));
        self.note_changes(recognised.changes);
        self.measure_if_due();
        Ok(())
    }

    /// Notes what a measurement has changed.
    #[allow(clippy::cast_possible_truncation)]
    pub(super) fn note_changes(&mut self, changes: Changes) {
        let (categories, created) = (self.live.categories() as u64, self.live.memory.next_id());
        let frame = self.next_frame.saturating_sub(1);
        for &Joined { from, into, similarity } in &changes.joined {
            self.journal.tell(Event::Merged(trace::Merge { from, into, frame, similarity }));
        }
        let Some((from, to)) = changes.threshold else { return };
        // It moves a little all the time.
        if self.state.told_similarity.is_some_and(|told| (to - told).abs() < TOLD_CHANGE) {
            return;
        }
        self.state.told_similarity = Some(to);
        let beta = |similarity: f64| self.live.beta_of(similarity) as f32;
        let frames = self.live.kept.pictures().len() as u32;
        let record =
            trace::Calibration { from: beta(from), to: beta(to), frames, similarity: Some(to as f32) };
        self.journal.tell(Event::Calibrated { record, categories, created });
    }

    /// Takes what happened to the camera; whether it has ended.
    #[allow(clippy::cast_possible_truncation)]
    fn poll_camera(&mut self) -> bool {
        let mut ended = self.feed.life() == Life::Ended;
        for event in self.feed.events() {
            let (state, detail, away_s) = match event {
                camera::Event::Lost { reason } => {
                    self.state.camera_away_since = Some(Instant::now());
                    (CameraState::Lost, Some(reason), None)
                }
                camera::Event::Back => {
                    self.sampler.restart();
                    let away = self.state.camera_away_since.take().map(|since| since.elapsed().as_secs_f32());
                    (CameraState::Back, Some(self.feed.describe()), away)
                }
                camera::Event::Frozen { seconds } => (CameraState::Frozen, None, Some(seconds as f32)),
                camera::Event::Moves => (CameraState::Moving, None, None),
                camera::Event::Ended => {
                    ended = true;
                    continue;
                }
            };
            self.journal.tell(Event::Camera(trace::Camera { state, detail, away_s }));
        }
        ended
    }

    /// Says that something else trains from now on, if it does.
    fn note_compute(&mut self) {
        if let Some(change) = self.compute.change() {
            self.journal.tell(Event::Compute(change));
        }
    }

    fn look_at_machine(&mut self) -> Result<()> {
        let counters = self.feed.counters();
        let Some(look) = self.machine.look_if_due(&counters) else { return Ok(()) };
        if let Some(temperature) = look.temperature {
            self.journal.tell(Event::Temperature(temperature));
        }
        let new = counters.frames.saturating_sub(self.state.pictures);
        self.state.pictures = counters.frames;
        self.journal.tell(Event::Health {
            health: look.health,
            record: look.record,
            rate: new as f32 / machine::EVERY.as_secs_f32(),
            counters,
            disk: self.journal.recorder.disk_level(),
        });
        if let Some(change) = self.pace.set_hot(self.machine.is_hot()) {
            self.journal.tell(Event::Stride(change));
        }
        self.watch_folder()
    }
}

/// The machine in words: its board, its system, its power mode.
fn board_name() -> String {
    let board = board::read(Path::new("/"));
    [board.model, board.release, board.power_mode].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("feed", &self.feed).finish_non_exhaustive()
    }
}

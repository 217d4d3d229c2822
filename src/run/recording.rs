//! The loop: frames in, categories out, lessons to the learner, everything told to trace and status.
//!
//! One iteration takes at most a fraction of a second, so that requests are heard and the watchdog is fed whatever the
//! camera does. With `realtime` the learner works beside the loop and its results are taken up when they are there.
//! Without, there is no real time to miss: the loop waits for each lesson, and the run is the same every time.

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::anchor::Anchor;
use super::checkpoint::{LiveHeader, LivePart, NumbersUsed};
use super::feed::{Fed, Feed};
use super::learning::{Job, LearnerThread};
use super::live::LivePath;
use super::liveness::Liveness;
use super::machine::Machine;
use super::pace::StridePace;
use super::plan::RunPlan;
use super::ring::{Ring, Sample};
use super::sampler::Sampler;
use super::score::Score;
use super::signals::Signals;
use super::status::{Picture, Request, Seen, Status};
use super::thumbnails::Thumbnails;
use crate::camera::{Event, Frame, Life};
use crate::device::clock::Clock;
use crate::device::service::ServiceManager;
use crate::storage::CheckpointStore;
use crate::trace::{self, CameraState, DiskLevel, DiskTrouble, Record, Recorder, StopReason};
use crate::{Error, Result};

/// How long the end of a run, or of what it had learned, waits for a lesson and a checkpoint that are under way. All of the end
/// together must fit into the two minutes that the service manager gives it.
pub(super) const END_PATIENCE: Duration = Duration::from_secs(60);

/// How long the end waits for a disk that is in trouble.
const TROUBLE_PATIENCE: Duration = Duration::from_secs(5);

/// What decides when a run ends and how it goes about its work.
#[derive(Clone, Debug)]
pub struct Terms {
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
    /// Pictures that could not be used.
    pub corrupt: u64,
    /// What else is missing of the source, and why: it was cut off, or is damaged.
    pub missing: Option<String>,
    /// Categories that live.
    pub categories: usize,
    /// Categories founded over all starts.
    pub founded: u64,
    /// How long it took.
    pub seconds: f64,
    /// Categories against the truth, where the source knows it.
    pub score: Score,
}

/// A run under way.
pub struct Recording {
    /// How to go about it.
    pub terms: Terms,
    /// Where frames come from.
    pub feed: Feed,
    /// When to look.
    pub sampler: Sampler,
    /// The live path.
    pub live: LivePath,
    /// The samples in reach of learning.
    pub ring: Ring,
    /// Frames between updates.
    pub pace: StridePace,
    /// The learner.
    pub learner: LearnerThread,
    /// The trace.
    pub recorder: Recorder,
    /// The checkpoints, for `forget`.
    pub store: CheckpointStore,
    /// What the run was started with.
    pub origin: RunPlan,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What watchers see.
    pub status: Arc<Status>,
    /// What they ask for.
    pub requests: Receiver<Request>,
    /// What the system asks for.
    pub signals: Signals,
    /// Who is told that all is well.
    pub manager: ServiceManager,
    /// The machine's health.
    pub machine: Machine,
    /// Pictures of categories on the disk, if asked for.
    pub thumbnails: Option<Thumbnails>,
    /// The number of the next frame.
    pub next_frame: u64,
    /// The numbers that the trace had used when this start began.
    pub used: NumbersUsed,
    /// Whether pictures come.
    pub liveness: Liveness,
    /// The files and folders that must stay where they are.
    pub anchors: Vec<Anchor>,
    /// Whether the trace has segments of a newer version of the program.
    pub newer_trace: bool,
    /// What the loop counts.
    pub counts: Counts,
}

/// What the loop counts, from the start of the program on.
#[derive(Debug)]
pub struct Counts {
    pub(super) start: Instant,
    pub(super) first_time: Option<u64>,
    pub(super) last_time: u64,
    pub(super) frames: u64,
    pub(super) updates: u64,
    pub(super) skipped: u64,
    pub(super) corrupt: u64,
    pub(super) last_checkpoint: Instant,
    pub(super) frames_at_checkpoint: u64,
    pub(super) paused_since: Option<Instant>,
    pub(super) collapsed: bool,
    pub(super) camera_away_since: Option<Instant>,
    pub(super) calibrated: bool,
    /// Why there is no learner any more.
    pub(super) learner_gone: Option<String>,
    /// Pictures that a camera took before this time are not looked at.
    pub(super) not_before: u64,
    /// Frames in a row whose embedding was not finite.
    pub(super) not_finite: u32,
    /// Why no checkpoint could be written, and since when.
    pub(super) checkpoint_trouble: Option<DiskTrouble>,
    /// A forget has removed what it must, and ends with the next checkpoint.
    pub(super) forget_to_end: bool,
    pub(super) stop: bool,
    pub(super) ended: bool,
    pub(super) score: Score,
}

impl Default for Counts {
    fn default() -> Self {
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
            paused_since: None,
            collapsed: false,
            camera_away_since: None,
            calibrated: false,
            learner_gone: None,
            not_before: 0,
            not_finite: 0,
            checkpoint_trouble: None,
            forget_to_end: false,
            stop: false,
            ended: false,
            score: Score::default(),
        }
    }
}

impl Counts {
    /// Goes on from a checkpoint.
    pub(super) fn resume(&mut self, calibrated: bool) {
        self.calibrated = calibrated;
    }
}

impl Recording {
    /// Runs until something ends it; the trace then says why.
    pub fn run(mut self) -> Result<Ended> {
        self.manager.ready();
        if self.counts.forget_to_end {
            self.save();
        }
        let outcome = self.run_loop();
        self.manager.stopping();
        let (reason, detail) = match &outcome {
            Ok(reason) => (*reason, self.feed.missing()),
            Err(error) => (StopReason::Error, Some(error.to_string())),
        };
        if let Err(error) = self.finish() {
            log::error!("{error}");
        }
        let seconds = self.counts.start.elapsed().as_secs_f64();
        self.recorder.record(Record::Stop(trace::Stop {
            reason,
            detail,
            frames: self.counts.frames,
            updates: self.counts.updates,
            #[allow(clippy::cast_possible_truncation)]
            seconds: seconds as f32,
        }));
        outcome?;
        Ok(Ended {
            reason,
            frames: self.counts.frames,
            updates: self.counts.updates,
            skipped: self.counts.skipped,
            corrupt: self.counts.corrupt + self.feed.counters().corrupt,
            missing: self.feed.missing(),
            categories: self.live.categories(),
            founded: self.live.memory.next_id(),
            seconds,
            score: self.counts.score,
        })
    }

    fn run_loop(&mut self) -> Result<StopReason> {
        let mut frame = Frame::default();
        loop {
            self.watch_threads()?;
            if let Some(reason) = self.reason_to_stop() {
                return Ok(reason);
            }
            self.hear_requests();
            self.hear_learner(Duration::ZERO);
            if let Some(reason) = &self.counts.learner_gone {
                // Nothing would be learned or kept any more; the next start goes on from the last checkpoint.
                return Err(Error::Device(reason.clone()));
            }
            self.hear_camera();
            self.look_at_machine()?;
            self.watch_disk();
            if self.counts.paused_since.is_some() {
                self.feed.pass();
                continue;
            }
            match self.feed.next(&self.sampler, self.clock.now().mono_ns, &mut frame)? {
                Fed::Frame(time) if self.is_too_old(&frame) => {
                    log::debug!("passed over a picture of {time} ns")
                }
                Fed::Frame(time) => self.look(&frame, time)?,
                Fed::Nothing => {}
                Fed::End => return Ok(StopReason::EndOfSource),
            }
            self.teach();
            self.checkpoint_if_due();
        }
    }

    fn is_too_old(&self, frame: &Frame) -> bool {
        matches!(self.feed, Feed::Camera(_)) && frame.monotonic_ns < self.counts.not_before
    }

    fn reason_to_stop(&self) -> Option<StopReason> {
        let counts = &self.counts;
        let seen = Duration::from_nanos(counts.last_time.saturating_sub(counts.first_time.unwrap_or(0)));
        if counts.stop || self.signals.end() {
            Some(StopReason::Signal)
        } else if counts.ended {
            Some(StopReason::EndOfSource)
        } else if self.terms.frames.is_some_and(|frames| counts.frames >= frames) {
            Some(StopReason::Frames)
        } else if self.terms.time.is_some_and(|time| counts.first_time.is_some() && seen >= time) {
            Some(StopReason::Time)
        } else {
            None
        }
    }

    /// Does with a frame what it is wanted for.
    fn look(&mut self, frame: &Frame, time: u64) -> Result<()> {
        let start = Instant::now();
        self.counts.first_time.get_or_insert(time);
        self.counts.last_time = time;
        let wanted = self.sampler.wants(time, self.next_frame);
        if !wanted.sample && wanted.companion_of.is_none() {
            return Ok(());
        }
        let pixels = self.live.prepare(frame)?;
        if let Some(sample) = wanted.companion_of {
            self.ring.add_companion(sample, frame.sequence, Arc::clone(&pixels));
        }
        if !wanted.sample {
            return Ok(());
        }
        let recognised = match self.live.recognise(&pixels) {
            Ok(recognised) => recognised,
            Err(error) => return self.note_not_finite(&error),
        };
        self.counts.not_finite = 0;
        let at = self.feed.stamp(self.clock.now(), time);
        let mut record = trace::Frame::observed(self.next_frame, &recognised.observation);
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
        self.counts.score.add(record.truth, record.category);
        if record.created
            && let Some(thumbnails) = &mut self.thumbnails
            && self.recorder.disk_level() == DiskLevel::Ample
        {
            thumbnails.keep(record.category, at, self.live.colours());
        }
        self.recorder.record_at(at, Record::Frame(record.clone()));
        if let Some((from, to, frames)) = recognised.calibrated {
            self.counts.calibrated = true;
            #[allow(clippy::cast_possible_truncation)]
            self.recorder.record(Record::Calibration(trace::Calibration {
                from: from as f32,
                to: to as f32,
                frames: frames as u32,
            }));
        }
        self.ring.push(Sample { frame: self.next_frame, sequence: frame.sequence, pixels, companion: None });
        self.next_frame += 1;
        self.counts.frames += 1;
        self.measure_if_due();
        self.tell(record, at);
        Ok(())
    }

    fn tell(&self, record: trace::Frame, at: crate::device::clock::Stamp) {
        let size = self.live.size();
        let picture = Picture { rgb: Arc::from(self.live.colours()), width: size.width, height: size.height };
        let (categories, founded) = (self.live.categories() as u64, self.live.memory.next_id());
        let durable = self.recorder.durable_seq();
        let progress = self.progress();
        self.status.change(|now| {
            now.note_frame(Seen { record, at, picture });
            now.categories = categories;
            now.founded = founded;
            now.durable_seq = durable;
            now.progress = progress;
        });
    }

    #[allow(clippy::cast_possible_truncation)]
    fn hear_camera(&mut self) {
        self.counts.ended |= self.feed.life() == Life::Ended;
        for event in self.feed.events() {
            let away = |since: Option<Instant>| since.map(|since| since.elapsed().as_secs_f32());
            let (state, detail, away_s) = match event {
                Event::Lost { reason } => {
                    log::warn!("camera lost: {reason}; it is tried again until it is back");
                    self.counts.camera_away_since = Some(Instant::now());
                    (CameraState::Lost, Some(reason), None)
                }
                Event::Back => {
                    log::info!("camera back");
                    self.sampler.restart();
                    let away_s = away(self.counts.camera_away_since.take());
                    (CameraState::Back, Some(self.feed.describe()), away_s)
                }
                Event::Frozen { seconds } => {
                    log::warn!("the camera has sent the same picture for {seconds:.0} s");
                    (CameraState::Frozen, None, Some(seconds as f32))
                }
                Event::Moves => (CameraState::Moving, None, None),
                Event::Ended => {
                    self.counts.ended = true;
                    continue;
                }
            };
            let present = !matches!(state, CameraState::Lost);
            self.recorder.record(Record::Camera(trace::Camera { state, detail, away_s }));
            self.status.change(|now| now.feed.present = present);
        }
    }

    fn look_at_machine(&mut self) -> Result<()> {
        let Some(health) = self.machine.look_if_due(&self.feed.counters(), &self.recorder) else {
            return Ok(());
        };
        self.watch_folder()?;
        if let Some(change) = self.pace.set_hot(self.machine.is_hot()) {
            self.recorder.record(Record::Stride(change));
        }
        let (counters, level) = (self.feed.counters(), self.recorder.disk_level());
        self.tell_manager();
        self.status.change(|now| {
            now.feed.rate =
                counters.frames.saturating_sub(now.feed.frames) as f32 / super::machine::EVERY.as_secs_f32();
            now.feed.frames = counters.frames;
            now.feed.missed = counters.gaps;
            now.feed.corrupt = counters.corrupt;
            now.health = health;
            now.disk = Some(level);
        });
        Ok(())
    }

    fn checkpoint_if_due(&mut self) {
        let due = self.counts.last_checkpoint.elapsed() >= self.terms.checkpoint_every;
        // While the disk fails it stays due: it is written as soon as the disk works again.
        if due && self.counts.frames > self.counts.frames_at_checkpoint && self.recorder.trouble().is_none() {
            self.save();
        }
    }

    /// Has a checkpoint written, unless one is being written already.
    pub(super) fn save(&mut self) -> bool {
        if self.counts.learner_gone.is_some() || self.learner.is_saving() {
            return false;
        }
        self.counts.last_checkpoint = Instant::now();
        self.counts.frames_at_checkpoint = self.counts.frames;
        let part = Box::new(self.live_part());
        match self.learner.give(Job::Save(part)) {
            Ok(given) => given,
            Err(error) => {
                self.learner_is_gone(&error);
                false
            }
        }
    }

    fn live_part(&self) -> LivePart {
        let memory = &self.live.memory;
        let samples: Vec<Sample> = self.ring.samples().cloned().collect();
        LivePart {
            header: LiveHeader {
                frame: self.next_frame,
                next_sequence: self.feed.next_sequence(),
                sampler: self.sampler.clone(),
                stride: self.pace.stride(),
                window_start: self.ring.next_start(),
                samples: samples
                    .iter()
                    .map(|sample| {
                        let companion = sample.companion.as_ref().map(|(sequence, _)| *sequence);
                        (sample.frame, sample.sequence, companion)
                    })
                    .collect(),
                ids: memory.ids().to_vec(),
                ages: memory.ages().to_vec(),
                next_id: memory.next_id(),
                calibrated: self.counts.calibrated,
                running_s: (self.terms.ran_before + self.counts.start.elapsed()).as_secs(),
                camera: self.terms.camera.clone(),
            },
            // Records that are durable by now tell of frames and categories below these.
            used: NumbersUsed {
                seq: self.recorder.durable_seq(),
                frames: self.used.frames.max(self.next_frame),
                categories: self.used.categories.max(memory.next_id()),
            },
            memory: memory.clone(),
            control: self.live.control,
            calibrator: self.live.calibrator.clone(),
            samples,
            keep_window: self.terms.keep_window,
        }
    }

    /// Waits for what is under way and writes the last checkpoint.
    fn finish(&mut self) -> Result<()> {
        let deadline = Instant::now() + END_PATIENCE;
        self.settle_until(deadline);
        if self.counts.frames > 0 && self.recorder.trouble().is_none() && self.save() {
            self.settle_until(deadline);
        }
        let begun = Instant::now();
        loop {
            self.manager.alive();
            let Err(error) = self.recorder.flush(Duration::from_secs(1)) else { return Ok(()) };
            let in_vain = self.recorder.trouble().is_some() && begun.elapsed() >= TROUBLE_PATIENCE;
            if in_vain || self.recorder.has_died() || Instant::now() >= deadline {
                return Err(error);
            }
        }
    }

    /// Waits until the learner has nothing under way.
    pub(super) fn settle(&mut self, patience: Duration) {
        self.settle_until(Instant::now() + patience);
    }

    fn settle_until(&mut self, deadline: Instant) {
        while (self.learner.busy_since().is_some() || self.learner.is_saving() || self.learner.is_measuring())
            && self.counts.learner_gone.is_none()
            && Instant::now() < deadline
        {
            self.manager.alive();
            self.hear_learner(Duration::from_millis(200));
        }
    }
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("feed", &self.feed).finish_non_exhaustive()
    }
}

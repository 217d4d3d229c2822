//! The learner's thread: lessons and checkpoints in, one at a time; reports out.
//!
//! The thread owns everything that learning changes. It gets a [`Job`], works on it for as long as that takes, and answers
//! with a [`Report`]; the live path never waits for it. Both queues are short and the live path has at most one lesson, one
//! publication and one checkpoint under way, so neither can fill up. New weights travel as an `Arc` that the live path takes up
//! between two frames, together with the kept pictures as these weights see them.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::checkpoint::{CheckpointWriter, LivePart};
use super::device_trainer::InUse;
use super::live::Fresh;
use crate::learner::update::{LearnerState, Update};
use crate::learner::{Published, WindowOfFrames};
use crate::live::KeptFrames;
use crate::live::score::Comparison;
use crate::memory::Control;
use crate::tensors::Tensor;
use crate::trace;
use crate::views::Pixels;
use crate::windows::Sample;
use crate::{Error, Result};

/// The threads in which views and the memory's windows are computed; 0 for as many as the machine has.
pub(super) fn pool(threads: usize) -> Result<ThreadPool> {
    ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("learn-{index}"))
        .build()
        .map_err(|error| Error::Device(format!("{threads} threads cannot be had: {error}")))
}

/// How long dropping the learner waits for what is under way.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// A window to learn from.
#[derive(Debug)]
pub struct Lesson {
    /// Its frames.
    pub samples: Vec<Sample>,
    /// The frames after which the next window begins.
    pub stride: usize,
    /// β as the live path has measured it: what a learner that has learned nothing yet starts with.
    pub beta: Option<f64>,
}

/// What became of weights that were to be published.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The last update that went into them.
    pub step: u64,
    /// The newest weights beside those in use; none if there was too little to compare them by.
    pub comparison: Option<Comparison>,
    /// The weights to take up, if they are to be.
    pub fresh: Option<Fresh>,
    /// Whether the learner went back to the weights in use.
    pub went_back: bool,
}

impl Lesson {
    /// As the trainer reads it. Views are numbered by the window's first frame: whatever happened in between, the same frames
    /// give the same views. A sample without a companion stands in for it itself.
    pub(super) fn window(&self) -> WindowOfFrames<'_> {
        WindowOfFrames {
            number: self.samples.first().map_or(0, |sample| sample.frame),
            frames: self.samples.iter().map(|sample| Pixels::Bytes(&sample.pixels)).collect(),
            next: (self.samples.iter())
                .map(|sample| sample.companion.as_ref().map_or(&sample.pixels, |(_, pixels)| pixels))
                .map(|pixels| Pixels::Bytes(pixels))
                .collect(),
            stride: self.stride,
        }
    }
}

/// What became of a lesson.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The update.
    pub update: Update,
    /// Updates applied over all restarts, this one included.
    pub step: u64,
    /// How long it took, views included.
    pub seconds: f64,
    /// 1/τ, β, γ after it.
    pub control: Control,
    /// Number of the window's last frame.
    pub last_frame: u64,
    /// Frames of the window.
    pub window: usize,
    /// Frames to the next one.
    pub stride: usize,
}

/// Somebody who learns from windows: the trainer, or a test's stand-in for it.
pub trait Student: Send {
    /// Learns from one window.
    fn learn(&mut self, lesson: &Lesson) -> Result<Learned>;
    /// Adds everything that learning has changed so far to what a file will hold.
    fn save(&self, tensors: &mut BTreeMap<String, Tensor>, header: &mut HashMap<String, String>);
    /// Sets batch norm's statistics to those of these samples, if nothing was learned yet, and says what the encoder is then.
    fn measure(&mut self, _samples: &[Sample]) -> Result<Option<Published>> {
        Ok(None)
    }
    /// Compares the weights as they are now with those in use, by these frames. If they are better they are the ones in use from
    /// now on, and come back with the frames as they see them.
    fn publish(&mut self, kept: &KeptFrames) -> Result<Judged>;
    /// Goes on from another state, with these weights in use if they are not the state's own, and says what those are.
    fn restore(&mut self, state: LearnerState, in_use: Option<InUse>) -> Result<Published>;
}

/// What the thread is asked to do.
#[derive(Debug)]
pub enum Job {
    /// Learn from a window.
    Learn(Lesson),
    /// Publish the weights if they are better than those in use, by these frames.
    Publish(Box<KeptFrames>),
    /// Write a checkpoint with this part of the live path.
    Save(Box<LivePart>),
    /// Measure batch norm's statistics on these samples.
    Measure(Vec<Sample>),
    /// Go on from this state, with these weights in use if they are not its own.
    Restore(Box<(LearnerState, Option<InUse>)>),
}

/// What it answers.
#[derive(Debug)]
pub enum Report {
    /// Of a lesson.
    Learned(Box<Result<Learned>>),
    /// Of a publication.
    Published(Box<Result<Judged>>),
    /// Of a checkpoint.
    Saved(trace::Checkpoint),
    /// Of measured statistics.
    Measured(Box<Result<Option<Published>>>),
    /// Of another state.
    Restored(Result<Published>),
}

/// The live path's end of the thread.
#[derive(Debug)]
pub struct LearnerThread {
    jobs: Option<SyncSender<Job>>,
    reports: Receiver<Report>,
    thread: Option<JoinHandle<()>>,
    lesson_since: Option<Instant>,
    publishing: bool,
    saving: bool,
    measuring: bool,
}

impl LearnerThread {
    /// Starts the thread.
    ///
    /// What the student does in parallel runs in `pool`.
    pub fn start(
        mut student: Box<dyn Student>,
        checkpoints: CheckpointWriter,
        pool: ThreadPool,
    ) -> Result<Self> {
        let (jobs, incoming) = sync_channel(4);
        let (outgoing, reports) = sync_channel(4);
        let work = move || {
            while let Ok(job) = incoming.recv() {
                let report = match job {
                    Job::Learn(lesson) => Report::Learned(Box::new(pool.install(|| student.learn(&lesson)))),
                    Job::Publish(kept) => Report::Published(Box::new(student.publish(&kept))),
                    Job::Save(live) => Report::Saved(
                        checkpoints.save(&live, |tensors, header| student.save(tensors, header)),
                    ),
                    Job::Measure(samples) => Report::Measured(Box::new(student.measure(&samples))),
                    Job::Restore(state) => {
                        let (state, in_use) = *state;
                        Report::Restored(student.restore(state, in_use))
                    }
                };
                if outgoing.send(report).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("learner".to_owned()).spawn(work);
        let thread = thread.map_err(|error| Error::io("the learner's thread", error))?;
        Ok(Self {
            jobs: Some(jobs),
            reports,
            thread: Some(thread),
            lesson_since: None,
            publishing: false,
            saving: false,
            measuring: false,
        })
    }

    /// Since when a lesson has been under way.
    pub fn busy_since(&self) -> Option<Instant> {
        self.lesson_since
    }

    /// Whether weights are being published.
    pub fn is_publishing(&self) -> bool {
        self.publishing
    }

    /// Whether anything is under way.
    pub fn is_at_work(&self) -> bool {
        self.lesson_since.is_some() || self.publishing || self.saving || self.measuring
    }

    /// Whether a checkpoint is under way.
    pub fn is_saving(&self) -> bool {
        self.saving
    }

    /// Whether statistics are being measured.
    pub fn is_measuring(&self) -> bool {
        self.measuring
    }

    /// Gives the thread something to do, unless the same is under way already. Never waits.
    ///
    /// # Errors
    /// If the thread has ended.
    pub fn give(&mut self, job: Job) -> Result<bool> {
        match &job {
            Job::Learn(_) if self.lesson_since.is_some() => return Ok(false),
            Job::Publish(_) if self.publishing => return Ok(false),
            Job::Save(_) if self.saving => return Ok(false),
            Job::Measure(_) if self.measuring => return Ok(false),
            _ => {}
        }
        let (lesson, save) = (matches!(job, Job::Learn(_)), matches!(job, Job::Save(_)));
        let (measure, publish) = (matches!(job, Job::Measure(_)), matches!(job, Job::Publish(_)));
        match self.jobs.as_ref().map(|jobs| jobs.try_send(job)) {
            Some(Ok(())) => {
                if lesson {
                    self.lesson_since = Some(Instant::now());
                }
                self.publishing |= publish;
                self.saving |= save;
                self.measuring |= measure;
                Ok(true)
            }
            Some(Err(TrySendError::Full(_))) => Ok(false),
            Some(Err(TrySendError::Disconnected(_))) | None => Err(gone()),
        }
    }

    /// The next report, if there is one already.
    pub fn report(&mut self) -> Result<Option<Report>> {
        match self.reports.try_recv() {
            Ok(report) => Ok(Some(self.noted(report))),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(gone()),
        }
    }

    /// The next report, waiting for it for up to `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> Result<Option<Report>> {
        match self.reports.recv_timeout(timeout) {
            Ok(report) => Ok(Some(self.noted(report))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(gone()),
        }
    }

    fn noted(&mut self, report: Report) -> Report {
        match &report {
            Report::Learned(_) => self.lesson_since = None,
            Report::Published(_) => self.publishing = false,
            Report::Saved(_) => self.saving = false,
            Report::Measured(_) => self.measuring = false,
            Report::Restored(_) => {}
        }
        report
    }
}

impl Drop for LearnerThread {
    fn drop(&mut self) {
        // The thread ends when the queue does, after what is under way. Who wanted that finished has waited for it already.
        self.jobs = None;
        let Some(thread) = self.thread.take() else { return };
        let deadline = Instant::now() + DROP_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.reports.recv_timeout(left) {
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => {
                    return log::warn!(
                        "learning does not come to an end; it is left to end with the program"
                    );
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if thread.join().is_err() {
            log::error!("the learner's thread had failed");
        }
    }
}

fn gone() -> Error {
    Error::Device("the learner has ended unexpectedly: categories go on without learning".to_owned())
}

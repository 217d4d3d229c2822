//! The trace as the rest of the program sees it: records go in at once, a thread brings them to the disk.

use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::disk::{DiskGuard, DiskLevel};
use super::forget::PendingForget;
use super::log::Log;
use super::queue::Queue;
use super::record::Record;
use super::recovery::Recovery;
use super::settings::TraceSettings;
use super::worker::{PAUSES, Worker};
use crate::device::clock::{Clock, Stamp};
use crate::storage::Filesystem;
use crate::{Error, Result};

/// How long dropping the writer without [`TraceWriter::close`] waits for the disk.
const PATIENCE: Duration = Duration::from_secs(5);

/// The trace of a running recording. Has every method of [`Recorder`], and ends the trace when closed or dropped.
#[derive(Debug)]
pub struct TraceWriter {
    recorder: Recorder,
    thread: Option<JoinHandle<()>>,
}

/// A handle to put records into the trace, for any thread to have.
#[derive(Debug, Clone)]
pub struct Recorder {
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// Tells the thread that there is something to do.
    pub(super) work: Condvar,
    /// Tells those who wait that the thread has got further.
    pub(super) progress: Condvar,
    pub(super) durable_seq: AtomicU64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) sync_wanted: bool,
    pub(super) command: Option<Command>,
    /// Items of the queue that are durable by now.
    pub(super) settled: u64,
    pub(super) level: DiskLevel,
    pub(super) trouble: Option<String>,
    pub(super) close_by: Option<Instant>,
    pub(super) ended: bool,
}

/// What the thread is asked to do beside writing.
#[derive(Debug)]
pub(super) enum Command {
    BeginForget(Duration, SyncSender<Result<Option<PendingForget>>>),
    FinishForget(SyncSender<Result<u64>>),
}

impl TraceWriter {
    /// Opens the trace in `dir` and mends what a crash left; see [`Recovery`]. The folder must be this process's alone
    /// ([`crate::storage::FolderLock`]).
    pub fn open(
        fs: Arc<dyn Filesystem>,
        dir: &Path,
        settings: TraceSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, Recovery)> {
        let (log, recovery) = Log::open(Arc::clone(&fs), dir, settings.segment_bytes, clock.now())?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue: Queue::new(settings.queue_records),
                sync_wanted: false,
                command: None,
                settled: 0,
                level: DiskLevel::Ample,
                trouble: None,
                close_by: None,
                ended: false,
            }),
            work: Condvar::new(),
            progress: Condvar::new(),
            durable_seq: AtomicU64::new(log.durable_seq()),
        });
        let guard = DiskGuard::new(&*fs, dir, settings.disk.clone());
        let recorder = Recorder { shared: Arc::clone(&shared), clock: Arc::clone(&clock) };
        let worker = Worker::new(log, guard, shared, clock, settings);
        let thread = std::thread::Builder::new().name("trace".to_owned()).spawn(move || worker.run());
        let thread = thread.map_err(|e| Error::io(dir, e))?;
        Ok((Self { recorder, thread: Some(thread) }, recovery))
    }

    /// A handle for another thread.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Writes what is left and ends the trace. Says so if that could not be done within `patience`.
    pub fn close(mut self, patience: Duration) -> Result<()> {
        self.end(patience)
    }

    fn end(&mut self, patience: Duration) -> Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let mut state = self.recorder.shared.state();
        state.queue.note_refused();
        state.close_by = Some(Instant::now() + patience);
        self.recorder.shared.work.notify_one();
        // Beyond the thread's own patience only a call that hangs in the kernel can keep it; then it is left alone.
        let wait = patience + PAUSES.1;
        let (state, _) = self
            .recorder
            .shared
            .progress
            .wait_timeout_while(state, wait, |state| !state.ended)
            .unwrap_or_else(PoisonError::into_inner);
        let (ended, unsettled) = (state.ended, state.queue.accepted() - state.settled);
        let trouble = state.trouble.clone();
        drop(state);
        if ended {
            // It has nothing left to do but return.
            let _ = thread.join();
        }
        if ended && unsettled == 0 {
            return Ok(());
        }
        let trouble = trouble.unwrap_or_else(|| "the disk does not answer".to_owned());
        Err(Error::Device(format!("the last {unsettled} records of the trace are lost: {trouble}")))
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        if let Err(error) = self.end(PATIENCE) {
            log::error!("{error}");
        }
    }
}

impl Deref for TraceWriter {
    type Target = Recorder;

    fn deref(&self) -> &Recorder {
        &self.recorder
    }
}

impl Recorder {
    /// Puts a record into the trace, stamped with now. Never waits for the disk. Returns whether it was taken: if not,
    /// the queue was full because the disk is too slow, and the trace will say so.
    pub fn record(&self, record: Record) -> bool {
        self.record_at(self.clock.now(), record)
    }

    /// As [`Recorder::record`], for something that happened at `at`.
    pub fn record_at(&self, at: Stamp, record: Record) -> bool {
        let mut state = self.shared.state();
        state.sync_wanted |= record.is_urgent();
        let taken = state.queue.push(at, record);
        self.shared.work.notify_one();
        taken
    }

    /// Everything up to this number is on the disk.
    pub fn durable_seq(&self) -> u64 {
        self.shared.durable_seq.load(Ordering::Acquire)
    }

    /// Waits until everything recorded so far is durable, and returns the number up to which it is. Not for the live
    /// path. An error if it takes longer than `patience`.
    pub fn flush(&self, patience: Duration) -> Result<u64> {
        let mut state = self.shared.state();
        let wanted = state.queue.accepted();
        state.sync_wanted = true;
        self.shared.work.notify_one();
        let (state, _) = self
            .shared
            .progress
            .wait_timeout_while(state, patience, |state| state.settled < wanted && !state.ended)
            .unwrap_or_else(PoisonError::into_inner);
        if state.settled >= wanted {
            return Ok(self.durable_seq());
        }
        let trouble = state.trouble.clone().unwrap_or_else(|| "the disk is too slow".to_owned());
        Err(Error::Device(format!("the trace could not be brought to the disk: {trouble}")))
    }

    /// How much room the disk has, as of the last look.
    pub fn disk_level(&self) -> DiskLevel {
        self.shared.state().level
    }

    /// What is wrong with writing just now, if anything is.
    pub fn trouble(&self) -> Option<String> {
        self.shared.state().trouble.clone()
    }

    /// Decides which records are younger than `last` and notes durably that they are to be forgotten. `None` if there
    /// are none. The caller then removes what else knows of that time (checkpoints from
    /// [`PendingForget::from_seq`] on, thumbnails) and calls [`Recorder::finish_forget`].
    pub fn begin_forget(&self, last: Duration) -> Result<Option<PendingForget>> {
        self.ask(|reply| Command::BeginForget(last, reply))
    }

    /// Removes the records that were decided on, now or before a restart. Returns how many there were.
    pub fn finish_forget(&self) -> Result<u64> {
        self.ask(Command::FinishForget)
    }

    fn ask<T>(&self, command: impl FnOnce(SyncSender<Result<T>>) -> Command) -> Result<T> {
        let (reply, answer) = sync_channel(1);
        let mut state = self.shared.state();
        if state.ended {
            return Err(closed());
        }
        if state.command.is_some() {
            return Err(Error::input("another forget is under way: wait until it is done"));
        }
        state.command = Some(command(reply));
        drop(state);
        self.shared.work.notify_one();
        answer.recv().unwrap_or_else(|_| Err(closed()))
    }
}

fn closed() -> Error {
    Error::Device("the trace has been closed".to_owned())
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The trace as the rest of the program sees it: records go in at once, a thread brings them to the disk.

use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::disk::{DiskGuard, DiskLevel};
use super::forget::{PendingForget, Place};
use super::log::Log;
use super::queue::Queue;
use super::record::Record;
use super::recovery::Recovery;
use super::settings::TraceSettings;
use super::worker::{PAUSES, Worker};
use crate::clock::{Clock, Stamp};
use crate::storage::Filesystem;
use crate::{Error, Result};

/// How long dropping the writer without [`TraceWriter::close`] waits for the disk.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What is wrong with the disk, and since when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskTrouble {
    /// What is wrong, in a sentence.
    pub what: String,
    /// Since when.
    pub since: Instant,
}

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
    pub(super) no_answer: Duration,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: Queue,
    pub(super) sync_wanted: bool,
    pub(super) command: Option<Command>,
    /// Items of the queue that are durable by now.
    pub(super) settled: u64,
    pub(super) level: DiskLevel,
    pub(super) trouble: Option<DiskTrouble>,
    /// Since when there have been records that are not durable.
    pub(super) waiting_since: Option<Instant>,
    pub(super) close_by: Option<Instant>,
    pub(super) ended: bool,
}

/// What the thread is asked to do beside writing.
#[derive(Debug)]
pub(super) enum Command {
    BeginForget(Duration, Option<Place>, SyncSender<Result<Option<PendingForget>>>),
    RemoveForgotten(SyncSender<Result<u64>>),
    EndForget(SyncSender<Result<()>>),
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
        let mut guard = DiskGuard::new(&*fs, dir, settings.disk.clone());
        guard.make_room(&*fs);
        let (log, recovery) = Log::open(Arc::clone(&fs), dir, settings.segment_bytes, clock.now())?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue: Queue::new(settings.queue_records),
                sync_wanted: false,
                command: None,
                settled: 0,
                level: DiskLevel::Ample,
                trouble: None,
                waiting_since: None,
                close_by: None,
                ended: false,
            }),
            work: Condvar::new(),
            progress: Condvar::new(),
            durable_seq: AtomicU64::new(log.durable_seq()),
            no_answer: settings.no_answer,
        });
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

    /// Writes what is left and ends the trace. Says so if that could not be done within `timeout`.
    pub fn close(mut self, timeout: Duration) -> Result<()> {
        self.end(timeout)
    }

    fn end(&mut self, timeout: Duration) -> Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let mut state = self.recorder.shared.state();
        state.queue.note_refused();
        state.close_by = Some(Instant::now() + timeout);
        self.recorder.shared.work.notify_one();
        // Beyond the thread's own timeout only a call that hangs in the kernel can keep it; then it is left alone.
        let wait = timeout + PAUSES.1;
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
        let trouble = trouble.map_or_else(|| "the disk does not answer".to_owned(), |trouble| trouble.what);
        Err(Error::Device(format!("the last {unsettled} records of the trace are lost: {trouble}")))
    }
}

impl Drop for TraceWriter {
    fn drop(&mut self) {
        if let Err(error) = self.end(TIMEOUT) {
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
        if taken {
            state.waiting_since.get_or_insert_with(Instant::now);
        }
        self.shared.work.notify_one();
        taken
    }

    /// Everything up to this number is on the disk.
    pub fn durable_seq(&self) -> u64 {
        self.shared.durable_seq.load(Ordering::Acquire)
    }

    /// Waits until everything recorded so far is durable, and returns the number up to which it is. Not for the live
    /// path. An error if it takes longer than `timeout`.
    pub fn flush(&self, timeout: Duration) -> Result<u64> {
        self.flush_while(timeout, |_| true)
    }

    /// As [`Recorder::flush`], but gives up at once when the disk fails.
    pub fn flush_unless_trouble(&self, timeout: Duration) -> Result<u64> {
        self.flush_while(timeout, |state| state.trouble.is_none())
    }

    fn flush_while(&self, timeout: Duration, go_on: impl Fn(&State) -> bool) -> Result<u64> {
        let mut state = self.shared.state();
        let wanted = state.queue.accepted();
        state.sync_wanted = true;
        self.shared.work.notify_one();
        let (state, _) = self
            .shared
            .progress
            .wait_timeout_while(state, timeout, |state| {
                state.settled < wanted && !state.ended && go_on(state)
            })
            .unwrap_or_else(PoisonError::into_inner);
        if state.settled >= wanted {
            return Ok(self.durable_seq());
        }
        let trouble = match (&state.trouble, state.ended) {
            (Some(trouble), _) => trouble.what.clone(),
            (None, true) => "it has ended".to_owned(),
            (None, false) => "the disk is too slow".to_owned(),
        };
        Err(Error::Device(format!("the trace could not be brought to the disk: {trouble}")))
    }

    /// How much room the disk has, as of the last look.
    pub fn disk_level(&self) -> DiskLevel {
        self.shared.state().level
    }

    /// What is wrong with writing just now, if anything is.
    pub fn trouble(&self) -> Option<DiskTrouble> {
        let state = self.shared.state();
        let waiting = state.waiting_since.filter(|since| since.elapsed() > self.shared.no_answer);
        let silent =
            || waiting.map(|since| DiskTrouble { what: "the disk does not answer".to_owned(), since });
        state.trouble.clone().or_else(silent)
    }

    /// Whether the thread that writes has ended although nobody closed the trace: nothing is recorded any more.
    pub fn has_died(&self) -> bool {
        let state = self.shared.state();
        state.ended && state.close_by.is_none()
    }

    /// Decides which records are younger than `last` and notes durably that they are to be forgotten. `None` if there
    /// are none. The caller then removes what else knows of that time (checkpoints from
    /// [`PendingForget::from_seq`] on, thumbnails) and calls [`Recorder::finish_forget`], or its two halves.
    pub fn begin_forget(&self, last: Duration) -> Result<Option<PendingForget>> {
        self.ask(|reply| Command::BeginForget(last, None, reply))
    }

    /// As [`Recorder::begin_forget`], and notes where the recording is.
    pub fn begin_forget_at(&self, last: Duration, place: Place) -> Result<Option<PendingForget>> {
        self.ask(|reply| Command::BeginForget(last, Some(place), reply))
    }

    /// Removes the records that were decided on, now or before a restart. Returns how many there were. That they are to be
    /// forgotten stays noted until [`Recorder::end_forget`].
    pub fn remove_forgotten(&self) -> Result<u64> {
        self.ask(Command::RemoveForgotten)
    }

    /// The forgetting is over: nothing is left that knows of it.
    pub fn end_forget(&self) -> Result<()> {
        self.ask(Command::EndForget)
    }

    /// [`Recorder::remove_forgotten`], then [`Recorder::end_forget`].
    pub fn finish_forget(&self) -> Result<u64> {
        let removed = self.remove_forgotten()?;
        self.end_forget()?;
        Ok(removed)
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

//! The thread of the trace: takes records from the queue, brings them to the disk, and gets over whatever fails.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::disk::DiskGuard;
use super::log::Log;
use super::queue::Item;
use super::record::{DropReason, Dropped, Record, WriteTrouble};
use super::settings::TraceSettings;
use super::writer::{Command, DiskTrouble, Shared};
use crate::clock::Clock;

/// The pauses between attempts to write while the disk fails: the first and the longest.
pub(super) const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Records taken from the queue at a time.
const BATCH: usize = 256;

/// The thread's side.
pub(super) struct Worker {
    log: Log,
    guard: DiskGuard,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
    settings: TraceSettings,
    progress: Progress,
}

/// Where the thread stands.
struct Progress {
    /// Items taken from the queue.
    taken: u64,
    /// Records that are not durable, and since when there are any.
    unsynced: u64,
    unsynced_since: Option<Instant>,
    sync_now: bool,
    next_look: Instant,
    trouble: Option<Trouble>,
}

/// Writing fails.
struct Trouble {
    error: String,
    since: Instant,
    attempts: u64,
    pause: Duration,
    retry_at: Instant,
}

impl Worker {
    pub(super) fn new(
        log: Log,
        guard: DiskGuard,
        shared: Arc<Shared>,
        clock: Arc<dyn Clock>,
        settings: TraceSettings,
    ) -> Self {
        Self { log, guard, shared, clock, settings, progress: Progress::new() }
    }

    pub(super) fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let (command, closing) = self.wait_for_work(&mut batch);
            for item in batch.drain(..) {
                self.take(item);
            }
            let now = Instant::now();
            if now >= self.progress.next_look {
                self.look_at_disk(now);
            }
            if let Some(command) = command {
                self.carry_out(command);
            }
            let may_try = self.progress.trouble.as_ref().is_none_or(|trouble| now >= trouble.retry_at);
            if may_try || closing.is_some() {
                self.bring_to_disk(closing.is_some());
            }
            if let Some(close_by) = closing {
                let finished = self.shared.state().queue.is_empty() && self.log.pending_bytes() == 0;
                if finished || Instant::now() >= close_by {
                    break;
                }
            }
        }
    }

    /// Waits until something is to be done, and takes some of the queue. The records are turned into lines outside
    /// the lock, which the live path needs.
    fn wait_for_work(&mut self, batch: &mut Vec<Item>) -> (Option<Command>, Option<Instant>) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.state();
        loop {
            let room = self.log.pending_bytes() < self.settings.buffer_bytes;
            let to_take = room && !state.queue.is_empty();
            let wait = self.next_deadline().saturating_duration_since(Instant::now());
            let to_sync = state.sync_wanted && self.progress.trouble.is_none();
            if to_take || to_sync || state.command.is_some() || wait.is_zero() {
                break;
            }
            if state.close_by.is_some() && self.progress.trouble.is_none() {
                break;
            }
            let until_close = state.close_by.map(|by| by.saturating_duration_since(Instant::now()));
            if until_close == Some(Duration::ZERO) {
                break;
            }
            let wait = until_close.map_or(wait, |until| until.min(wait));
            state = shared.work.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.progress.sync_now |= std::mem::take(&mut state.sync_wanted);
        let command = state.command.take();
        // A forget concerns everything said before it: then all of the queue is taken, which is bounded as well.
        let room = self.log.pending_bytes() < self.settings.buffer_bytes;
        while command.is_some() || room && batch.len() < BATCH {
            let Some(item) = state.queue.pop() else { break };
            batch.push(item);
        }
        (command, state.close_by)
    }

    /// When the thread has to wake up by itself.
    fn next_deadline(&self) -> Instant {
        let sync_due = self.progress.unsynced_since.map(|since| since + self.settings.sync_interval);
        let retry_due = self.progress.trouble.as_ref().map(|trouble| trouble.retry_at);
        let due = if retry_due.is_some() { retry_due } else { sync_due };
        due.map_or(self.progress.next_look, |due| due.min(self.progress.next_look))
    }

    fn take(&mut self, item: Item) {
        match item {
            Item::Record(at, record) => {
                self.log.append(at, record);
            }
            Item::Refused(at, count) => {
                log::error!("the disk is too slow: {count} records of the trace were dropped");
                self.log.skip(count, at, |missing_from| {
                    Record::Dropped(Dropped { missing_from, reason: DropReason::QueueFull })
                });
            }
        }
        self.progress.taken += 1;
        self.appended();
    }

    /// Appends a record of the thread's own.
    fn say(&mut self, record: Record) {
        self.log.append(self.clock.now(), record);
        self.appended();
    }

    fn appended(&mut self) {
        self.progress.unsynced += 1;
        self.progress.unsynced_since.get_or_insert_with(Instant::now);
    }

    fn look_at_disk(&mut self, now: Instant) {
        self.progress.next_look = now + self.settings.disk.check_interval;
        if let Some(lost) = self.log.lost_segment() {
            log::error!(
                "{}: somebody removed the segment that was being written: its records are lost, another one is begun",
                lost.display()
            );
        }
        let fs = Arc::clone(&self.log.fs);
        match self.guard.look(&*fs) {
            Ok(None) => {}
            Ok(Some(disk)) => {
                log::warn!("disk room is {:?}: {} bytes are free", disk.level, disk.free_bytes);
                self.say(Record::Disk(disk));
            }
            Err(error) => log::warn!("the disk's free room cannot be told: {error}"),
        }
        self.shared.state().level = self.guard.level();
    }

    fn bring_to_disk(&mut self, closing: bool) {
        let now = Instant::now();
        let due =
            self.progress.unsynced_since.is_some_and(|since| now >= since + self.settings.sync_interval);
        let many = self.progress.unsynced >= self.settings.sync_records;
        let full = self.log.pending_bytes() >= self.settings.buffer_bytes;
        let sync = due || many || full || closing || self.progress.sync_now;
        match if sync { self.log.sync() } else { self.log.write() } {
            Ok(()) => {
                if let Some(trouble) = self.progress.trouble.take() {
                    self.recovered(trouble);
                } else if sync {
                    self.settle();
                }
            }
            Err(error) => self.failed(error),
        }
    }

    /// Everything taken is durable: tells those who want to know.
    fn settle(&mut self) {
        self.progress.unsynced = 0;
        self.progress.unsynced_since = None;
        self.progress.sync_now = false;
        self.shared.durable_seq.store(self.log.durable_seq(), Ordering::Release);
        let mut state = self.shared.state();
        state.settled = self.progress.taken;
        state.trouble = None;
        state.waiting_since = (state.settled < state.queue.accepted()).then(Instant::now);
        self.shared.progress.notify_all();
    }

    /// Writing works again: says what was wrong, and syncs that soon.
    fn recovered(&mut self, trouble: Trouble) {
        log::warn!("the trace is written again after {} failed attempts", trouble.attempts);
        let seconds = trouble.since.elapsed().as_secs_f32();
        let Trouble { error, attempts, .. } = trouble;
        self.say(Record::WriteTrouble(WriteTrouble { error, attempts, seconds }));
        self.progress.sync_now = true;
        self.shared.state().sync_wanted = true;
    }

    fn failed(&mut self, error: io::Error) {
        let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let fs = Arc::clone(&self.log.fs);
        let given_back = if full { self.guard.full(&*fs) } else { None };
        let now = Instant::now();
        let message = format!("{}: {error}", self.log.dir.display());
        let trouble = self.progress.trouble.get_or_insert_with(|| {
            log::error!("the trace cannot be written, records wait in memory: {message}");
            Trouble { error: message.clone(), since: now, attempts: 0, pause: PAUSES.0, retry_at: now }
        });
        trouble.attempts += 1;
        // The room of the reserve is tried at once; else each pause is twice the last.
        if given_back.is_none() {
            trouble.retry_at = now + trouble.pause;
            trouble.pause = (trouble.pause * 2).min(PAUSES.1);
        } else {
            trouble.retry_at = now;
        }
        let since = trouble.since;
        if let Some(disk) = given_back {
            log::warn!("the disk is full: the reserve has been given back for the trace");
            self.say(Record::Disk(disk));
        }
        let mut state = self.shared.state();
        state.level = self.guard.level();
        state.trouble = Some(DiskTrouble { what: message, since });
        // Some of those who wait do not wait for trouble to pass.
        self.shared.progress.notify_all();
    }

    fn carry_out(&mut self, command: Command) {
        let now = self.clock.now();
        // A caller that no longer waits has no use for the answer.
        match command {
            Command::BeginForget(last, place, reply) => {
                drop(reply.send(self.log.begin_forget(now, last, place)))
            }
            Command::RemoveForgotten(reply) => drop(reply.send(self.log.remove_forgotten(now))),
            Command::EndForget(reply) => drop(reply.send(self.log.end_forget())),
        }
        // Both sync what was appended; if that failed, the next attempt to write will tell.
        if self.log.pending_bytes() == 0 && self.progress.trouble.is_none() {
            self.settle();
        }
    }
}

impl Drop for Worker {
    /// However the thread ends, also by a panic, everybody hears of it.
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.ended = true;
        // Whoever waits for an answer gets one: its channel closes.
        state.command = None;
        self.shared.progress.notify_all();
    }
}

impl Progress {
    fn new() -> Self {
        Self {
            taken: 0,
            unsynced: 0,
            unsynced_since: None,
            sync_now: true,
            next_look: Instant::now(),
            trouble: None,
        }
    }
}

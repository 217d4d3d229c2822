//! What others ask of a recording, and what it does about it: pause, resume, forget, checkpoint, stop.

use std::time::{Duration, Instant};

use super::checkpoint::{self, Restored};
use super::feed::Feed;
use super::journal::Event;
use super::learning::Job;
use super::live::Threshold;
use super::paused;
use super::requests::{Command, Request};
use super::saving::END_TIMEOUT;
use super::session::{Ending, Phase, Session};
use super::start::fresh;
use super::thumbnails;
use crate::memory::LiveMemory;
use crate::storage::{Faulty, OsFilesystem};
use crate::trace::{Place, StopReason};
use crate::{Error, Result};

/// How long a pause waits for its record to reach the disk. The pause itself does not wait.
const PAUSE_TIMEOUT: Duration = Duration::from_secs(5);

impl Session {
    pub(super) fn poll_requests(&mut self) {
        if self.signals.take_toggle() {
            // Nobody waits for this answer.
            if let Err(error) = self.handle(Command::Toggle, "signal") {
                log::error!("{error}");
            }
        }
        while let Ok(Request { command, by, answer }) = self.waiting.try_recv() {
            let outcome = self.handle(command, by);
            if let Some(answer) = answer {
                // Whoever asked may have gone.
                let _ = answer.try_send(outcome);
            } else if let Err(error) = outcome {
                log::warn!("{error}");
            }
        }
    }

    fn handle(&mut self, command: Command, by: &'static str) -> Result<String> {
        let paused = self.is_paused();
        match command {
            Command::Toggle if paused => self.handle(Command::Resume, by),
            Command::Toggle => self.handle(Command::Pause, by),
            Command::Pause if paused => self.keep_pause().map(|()| "it is paused already".into()),
            Command::Pause => {
                // A run that is about to end goes on ending; the next start is paused.
                if self.phase == Phase::Running {
                    self.phase = Phase::Paused(Instant::now());
                }
                self.journal.tell(Event::Paused { by });
                self.keep_pause()?;
                Ok("paused: nothing is looked at until `oupn-edge resume`".into())
            }
            Command::Resume => self.resume(by),
            Command::Checkpoint => {
                self.settle(END_TIMEOUT);
                if self.save() {
                    self.settle(END_TIMEOUT);
                }
                match &self.state.checkpoint_trouble {
                    None => Ok("a checkpoint was written; the trace says how".into()),
                    Some(trouble) => Err(Error::Device(trouble.what.clone())),
                }
            }
            Command::Stop => {
                self.stop(Ending::Reason(StopReason::Signal));
                Ok("the recording ends".into())
            }
            Command::Forget(last) => self.forget(last),
        }
    }

    fn resume(&mut self, by: &'static str) -> Result<String> {
        let cleared = paused::clear(&OsFilesystem, &self.plan.data);
        let Phase::Paused(since) = self.phase else { return Ok("it is not paused".into()) };
        self.phase = Phase::Running;
        if matches!(self.feed, Feed::Camera(_)) {
            self.sampler.restart();
            // What the camera has at hand was taken while nobody was to look.
            self.state.not_before = self.clock.now().mono_ns;
        }
        self.journal.tell(Event::Resumed { by, paused_s: since.elapsed().as_secs_f32() });
        cleared.map(|()| "the recording goes on".into()).map_err(|error| {
            Error::Device(format!(
                "the recording goes on, but would be paused again after a restart: {}: {error}",
                self.plan.data.display()
            ))
        })
    }

    /// Makes the pause outlive a restart; nothing is looked at meanwhile.
    ///
    /// # Errors
    /// If it could not be noted on the disk. The recording is paused all the same.
    fn keep_pause(&mut self) -> Result<()> {
        paused::set(&OsFilesystem, &self.plan.data).map_err(|error| {
            Error::Device(format!(
                "paused, but a restart would go on recording: {}: {error}",
                self.plan.data.display()
            ))
        })?;
        if let Err(error) = self.journal.recorder.flush_unless_trouble(PAUSE_TIMEOUT) {
            log::warn!("the pause is kept, but its record in the trace is not yet: {error}");
        }
        Ok(())
    }

    /// Removes the last records and returns the learner to a checkpoint from before them.
    fn forget(&mut self, last: Duration) -> Result<String> {
        self.settle(END_TIMEOUT);
        if self.learner.busy_since().is_some() || self.learner.is_saving() {
            return Err(Error::Device("learning does not come to an end; try again".into()));
        }
        let place = Place {
            frame: self.next_frame,
            category: self.live.memory.next_id(),
            sequence: self.feed.next_sequence(),
        };
        let Some(pending) = self.journal.recorder.begin_forget_at(last, place)? else {
            return Ok("there is nothing that young to forget".into());
        };
        // Told at the end: one picture that cannot be removed keeps nothing else from being forgotten.
        let pictures = thumbnails::forget(&self.plan.data, &pending);
        self.journal.tell(Event::Forgotten);
        self.store.remove_from(pending.from_seq)?;
        self.windows.forget(self.next_frame);
        self.live.kept.forget();
        self.sampler.restart();
        let restored = self.return_to_checkpoint()?;
        let removed = self.journal.recorder.remove_forgotten()?;
        // No crash may bring back a state, or a place in a recording, from before this moment: that there is something to
        // forget stays noted until a checkpoint of now is on the disk.
        self.state.forget_to_end = true;
        if self.save() {
            self.settle(END_TIMEOUT);
        }
        log::info!("forgot the last {} s: {removed} records", last.as_secs());
        let records = crate::words::counted(removed, "record was", "records were");
        if let Err(error) = pictures {
            log::error!("not everything was forgotten: {error}");
            return Err(Error::Device(format!("{records} removed, but {error}")));
        }
        let mut answer = format!("{records} removed and the learner returned to {restored}");
        if self.newer_trace {
            answer.push_str("; what a newer version of this program recorded was not touched: only that one can forget it");
        }
        Ok(answer)
    }

    /// Goes on from the newest checkpoint that can be used, or from the beginning, and says which it was. The learner must be
    /// idle.
    pub(super) fn return_to_checkpoint(&mut self) -> Result<String> {
        // Categories that were given a number keep it: it is in the trace, or was.
        let next_id = self.live.memory.next_id();
        let settings = &self.plan.settings;
        let newest = checkpoint::newest(&self.store, Faulty::PutAside, &settings.plan()?, settings);
        let newest = newest.unwrap_or_else(|error| {
            log::warn!("{error}: no checkpoint can be used");
            None
        });
        let (memory, control, learner, name) = match newest {
            Some((file, Restored { live, learner, in_use, .. })) => {
                self.live.control = live.control;
                self.live.restore_threshold(&live.header);
                self.state.unpublished = live.header.unpublished;
                // Directions alone: the pictures of before are gone.
                let dimension = live.memory.prototypes().dimension();
                self.live.kept.restore_directions(&live.header.kept, &live.exemplars, dimension);
                (live.memory, live.control, (learner, in_use), format!("checkpoint {}", file.number))
            }
            None => {
                let prototypes = self.live.memory.prototypes();
                let memory = LiveMemory::new(prototypes.slots(), prototypes.dimension())?;
                let learner = fresh(&self.plan)?;
                self.live.set_threshold(self.plan.calibrate.then(Threshold::default));
                self.state.unpublished = 0;
                (memory, learner.control, (learner, None), "its beginning".to_owned())
            }
        };
        let memory = memory.with_writes(settings.live_writes).with_slots(settings.live_slots)?;
        self.live.memory = memory.with_next_id(next_id);
        self.learner.give(Job::Restore(Box::new(learner)))?;
        // The thread is idle, so it answers at once.
        self.poll_learner(END_TIMEOUT);
        self.live.control = control;
        self.live.set_threshold(self.live.threshold);
        Ok(name)
    }
}

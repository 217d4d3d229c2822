//! What others ask of a recording, and what it does about it: pause, resume, forget, checkpoint, stop.

use std::time::{Duration, Instant};

use super::assembly::{untaught, with_next_id};
use super::checkpoint::{self, Restored};
use super::feed::Feed;
use super::learning::Job;
use super::paused;
use super::recording::{END_PATIENCE, Recording};
use super::status::{Request, Snapshot, Wish};
use super::thumbnails;
use crate::calibration::Calibrator;
use crate::memory::LiveMemory;
use crate::storage::{Faulty, OsFilesystem};
use crate::trace::{self, Place, Record};
use crate::{Error, Result};

/// How long a pause waits for its record to reach the disk. The pause itself does not wait.
const PAUSE_PATIENCE: Duration = Duration::from_secs(5);

impl Recording {
    pub(super) fn hear_requests(&mut self) {
        if self.signals.take_toggle() {
            // Nobody waits for this answer.
            if let Err(error) = self.grant(Wish::Toggle, "signal") {
                log::error!("{error}");
            }
        }
        while let Ok(Request { wish, by, answer }) = self.requests.try_recv() {
            let outcome = self.grant(wish, by);
            if let Some(answer) = answer {
                // Whoever asked may have gone.
                let _ = answer.try_send(outcome);
            } else if let Err(error) = outcome {
                log::warn!("{error}");
            }
        }
    }

    fn grant(&mut self, wish: Wish, by: &'static str) -> Result<String> {
        let paused = self.counts.paused_since.is_some();
        match wish {
            Wish::Toggle if paused => self.grant(Wish::Resume, by),
            Wish::Toggle => self.grant(Wish::Pause, by),
            Wish::Pause if paused => self.keep_pause().map(|()| "it is paused already".into()),
            Wish::Resume if !paused => Ok("it is not paused".into()),
            Wish::Pause => {
                self.counts.paused_since = Some(Instant::now());
                self.recorder.record(Record::Pause(trace::Pause { by: by.into() }));
                self.status.change(|now| now.paused = true);
                log::info!("paused by {by}: nothing is looked at");
                self.keep_pause()?;
                self.tell_manager();
                Ok("paused: nothing is looked at until `oupn-edge resume`".into())
            }
            Wish::Resume => {
                let cleared = paused::clear(&OsFilesystem, &self.origin.data);
                let since = self.counts.paused_since.take();
                let paused_s = since.map_or(0.0, |since| since.elapsed().as_secs_f32());
                if matches!(self.feed, Feed::Camera(_)) {
                    self.sampler.restart();
                    // What the camera has at hand was taken while nobody was to look.
                    self.counts.not_before = self.clock.now().mono_ns;
                }
                self.recorder.record(Record::Resume(trace::Resume { by: by.into(), paused_s }));
                self.status.change(|now| now.paused = false);
                log::info!("resumed by {by}");
                self.tell_manager();
                cleared.map(|()| "the recording goes on".into()).map_err(|error| {
                    Error::Device(format!(
                        "the recording goes on, but would be paused again after a restart: {}: {error}",
                        self.origin.data.display()
                    ))
                })
            }
            Wish::Checkpoint => {
                self.settle(END_PATIENCE);
                if self.save() {
                    self.settle(END_PATIENCE);
                }
                match &self.counts.checkpoint_trouble {
                    None => Ok("a checkpoint was written; the trace says how".into()),
                    Some(trouble) => Err(Error::Device(trouble.what.clone())),
                }
            }
            Wish::Stop => {
                self.counts.stop = true;
                Ok("the recording ends".into())
            }
            Wish::Forget(last) => self.forget(last),
        }
    }

    /// Makes the pause outlive a restart; nothing is looked at meanwhile.
    ///
    /// # Errors
    /// If it could not be noted on the disk. The recording is paused all the same.
    fn keep_pause(&mut self) -> Result<()> {
        paused::set(&OsFilesystem, &self.origin.data).map_err(|error| {
            Error::Device(format!(
                "paused, but a restart would go on recording: {}: {error}",
                self.origin.data.display()
            ))
        })?;
        if let Err(error) = self.recorder.flush_unless_trouble(PAUSE_PATIENCE) {
            log::warn!("the pause is kept, but its record in the trace is not yet: {error}");
        }
        Ok(())
    }

    /// Removes the last records and returns the learner to a checkpoint from before them.
    fn forget(&mut self, last: Duration) -> Result<String> {
        self.settle(END_PATIENCE);
        if self.learner.busy_since().is_some() || self.learner.is_saving() {
            return Err(Error::Device("learning does not come to an end; try again".into()));
        }
        let place = Place {
            frame: self.next_frame,
            category: self.live.memory.next_id(),
            sequence: self.feed.next_sequence(),
        };
        let Some(pending) = self.recorder.begin_forget_at(last, place)? else {
            return Ok("there is nothing that young to forget".into());
        };
        // Told at the end: one picture that cannot be removed keeps nothing else from being forgotten.
        let pictures = thumbnails::forget(&self.origin.data, &pending);
        self.status.change(Snapshot::forget_what_was_seen);
        self.store.remove_from(pending.from_seq)?;
        self.ring.clear(self.next_frame);
        self.sampler.restart();
        let restored = self.return_to_checkpoint()?;
        let removed = self.recorder.remove_forgotten()?;
        // No crash may bring back a state, or a place in a recording, from before this moment: that there is something to
        // forget stays noted until a checkpoint of now is on the disk.
        self.counts.forget_to_end = true;
        if self.save() {
            self.settle(END_PATIENCE);
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
        let settings = &self.origin.settings;
        let newest = checkpoint::newest(&self.store, Faulty::PutAside, &settings.plan()?, settings.slots);
        let newest = newest.unwrap_or_else(|error| {
            log::warn!("{error}: no checkpoint can be used");
            None
        });
        let (memory, control, learner, name) = match newest {
            Some((file, Restored { live, learner, .. })) => {
                self.live.calibrator = live.calibrator;
                self.counts.calibrated = live.header.calibrated;
                (live.memory, live.control, learner, format!("checkpoint {}", file.number))
            }
            None => {
                let prototypes = self.live.memory.prototypes();
                let memory = LiveMemory::new(prototypes.slots(), prototypes.dimension())?;
                let learner = untaught(&self.origin)?;
                // The embeddings it has gathered are of frames that are forgotten.
                let calibrator = self.origin.calibrate.then(|| Calibrator::new(prototypes.dimension()));
                self.live.calibrator = calibrator;
                self.counts.calibrated = false;
                (memory, learner.control, learner, "its beginning".to_owned())
            }
        };
        self.live.memory = with_next_id(&memory, next_id)?;
        self.learner.give(Job::Restore(Box::new(learner)))?;
        // The thread is idle, so it answers at once.
        self.hear_learner(END_PATIENCE);
        self.live.control = control;
        Ok(name)
    }
}

//! Checkpoints, from the loop's side: when one is due, what the live path puts into it, and waiting for what is under way.

use std::time::{Duration, Instant};

use super::checkpoint::{LiveHeader, LivePart, NumbersUsed};
use super::journal::Event;
use super::learning::Job;
use super::session::Session;
use crate::Result;
use crate::trace::{self, DiskTrouble};
use crate::windows::Kept;

/// How long the end of a run, or of what it had learned, waits for an update and a checkpoint that are under way. All of the
/// end together must fit into the two minutes that the service manager gives it.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the end waits for a disk that is in trouble.
const TROUBLE_TIMEOUT: Duration = Duration::from_secs(5);

impl Session {
    pub(super) fn checkpoint_if_due(&mut self) {
        let due = self.state.last_checkpoint.elapsed() >= self.options.checkpoint_every;
        let news = self.state.frames > self.state.frames_at_checkpoint;
        // While the disk fails it stays due: it is written as soon as the disk works again.
        if due && news && self.journal.recorder.trouble().is_none() {
            self.save();
        }
    }

    /// Has a checkpoint written, unless one is being written already.
    pub(super) fn save(&mut self) -> bool {
        // What is being published is in the learner's state before it is in the live path's.
        if !self.has_learner() || self.learner.is_saving() || self.learner.is_publishing() {
            return false;
        }
        self.state.last_checkpoint = Instant::now();
        self.state.frames_at_checkpoint = self.state.frames;
        let part = Box::new(self.live_part());
        match self.learner.give(Job::Save(part)) {
            Ok(given) => given,
            Err(error) => {
                self.learner_is_gone(&error);
                false
            }
        }
    }

    /// Takes what the learner says of a checkpoint.
    pub(super) fn note_checkpoint(&mut self, record: trace::Checkpoint) {
        let since = self.state.checkpoint_trouble.take().map_or_else(Instant::now, |before| before.since);
        self.state.checkpoint_trouble = record
            .error
            .as_ref()
            .map(|error| DiskTrouble { what: format!("no checkpoint could be written: {error}"), since });
        // A checkpoint that knows nothing of what was forgotten is there: from now on no restart can bring it back.
        if record.error.is_none() && self.state.forget_to_end {
            match self.journal.recorder.end_forget() {
                Ok(()) => self.state.forget_to_end = false,
                Err(error) => log::warn!("{error}: the forget is ended with the next checkpoint"),
            }
        }
        self.journal.tell(Event::Checkpoint(record));
    }

    fn live_part(&self) -> LivePart {
        let memory = &self.live.memory;
        let Kept { samples, next_start } = self.windows.kept();
        LivePart {
            header: LiveHeader {
                frame: self.next_frame,
                next_sequence: self.feed.next_sequence(),
                sampler: self.sampler.clone(),
                stride: self.pace.stride(),
                window_start: next_start,
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
                averaged: memory.frames().to_vec(),
                similarity: self.live.threshold.map(|threshold| threshold.similarity),
                settled: self.live.threshold.is_none_or(|threshold| threshold.settled),
                kept: self.live.kept.places(),
                unpublished: self.state.unpublished,
                running_s: (self.options.ran_before + self.state.start.elapsed()).as_secs(),
                camera: self.options.camera.clone(),
            },
            // Records that are durable by now tell of frames and categories below these.
            used: NumbersUsed {
                seq: self.journal.recorder.durable_seq(),
                frames: self.used.frames.max(self.next_frame),
                categories: self.used.categories.max(memory.next_id()),
            },
            memory: memory.clone(),
            exemplars: self.live.kept.exemplar_directions(),
            control: self.live.control,
            samples,
            keep_window: self.options.keep_window,
        }
    }

    /// Waits for what is under way and writes the last checkpoint.
    pub(super) fn finish(&mut self) -> Result<()> {
        let deadline = Instant::now() + END_TIMEOUT;
        self.settle_until(deadline);
        if self.state.frames > 0 && self.journal.recorder.trouble().is_none() && self.save() {
            self.settle_until(deadline);
        }
        let begun = Instant::now();
        loop {
            self.journal.alive();
            let Err(error) = self.journal.recorder.flush(Duration::from_secs(1)) else { return Ok(()) };
            let in_vain = self.journal.recorder.trouble().is_some() && begun.elapsed() >= TROUBLE_TIMEOUT;
            if in_vain || self.journal.recorder.has_died() || Instant::now() >= deadline {
                return Err(error);
            }
        }
    }

    /// Waits until the learner has nothing under way.
    pub(super) fn settle(&mut self, timeout: Duration) {
        self.settle_until(Instant::now() + timeout);
    }

    fn settle_until(&mut self, deadline: Instant) {
        while self.learner.is_at_work() && self.has_learner() && Instant::now() < deadline {
            self.journal.alive();
            self.poll_learner(Duration::from_millis(200));
        }
    }
}

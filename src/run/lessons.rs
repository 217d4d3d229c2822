//! The loop's side of learning: windows handed over when they are due, results taken up and recorded.

use std::time::{Duration, Instant};

use super::learning::{Job, Learned, Lesson, Report};
use super::recording::Recording;
use crate::Error;
use crate::learner::update::Refusal;
use crate::trace::{self, DiskTrouble, Record, SkipReason};

/// Below this spread of the embeddings they count as collapsed; 1 means that they point everywhere alike.
const COLLAPSE_LIMIT: f32 = 0.02;

impl Recording {
    /// Gives the learner the next window if one is due and it is free.
    pub(super) fn teach(&mut self) {
        if self.counts.learner_gone.is_some() {
            return;
        }
        if self.learner.busy_since().is_some() {
            return;
        }
        let Some(due) = self.ring.due(self.pace.stride(), self.terms.companions) else { return };
        if due.left_out > 0 {
            log::warn!(
                "{} frames were too old to learn from: learning is too slow for the camera",
                due.left_out
            );
        }
        let stride = self.pace.stride();
        let beta = std::mem::take(&mut self.counts.calibrated).then_some(self.live.control.beta);
        if let Some(change) = self.pace.launched(due.late, due.left_out) {
            self.recorder.record(Record::Stride(change));
        }
        let lesson = Lesson { samples: due.samples, stride, beta };
        match self.learner.give(Job::Learn(lesson)) {
            Ok(_) => {}
            Err(error) => return self.learner_is_gone(&error),
        }
        let (since, stride) = (self.learner.busy_since(), self.pace.stride());
        self.status.change(|now| {
            now.learning_since = since;
            now.stride = stride;
        });
        if !self.terms.realtime {
            while self.learner.busy_since().is_some() && self.counts.learner_gone.is_none() {
                self.manager.alive();
                self.hear_learner(Duration::from_millis(200));
            }
        }
    }

    /// Remembers why; the loop ends the recording with it.
    pub(super) fn learner_is_gone(&mut self, error: &Error) {
        self.counts.learner_gone.get_or_insert_with(|| error.to_string());
    }

    /// Takes what the learner has to say, waiting for the first word for up to `patience`.
    pub(super) fn hear_learner(&mut self, patience: Duration) {
        if self.counts.learner_gone.is_some() {
            return;
        }
        let mut heard = if patience.is_zero() { self.learner.report() } else { self.learner.wait(patience) };
        loop {
            match heard {
                Ok(None) => return,
                Ok(Some(report)) => self.take_report(report),
                Err(error) => return self.learner_is_gone(&error),
            }
            heard = self.learner.report();
        }
    }

    fn take_report(&mut self, report: Report) {
        match report {
            Report::Learned(learned) => match *learned {
                Ok(learned) => self.take_lesson(learned),
                Err(error) => {
                    log::error!("learning failed: {error}");
                    self.skip(self.next_frame.saturating_sub(1), SkipReason::Failed, f32::NAN, f32::NAN);
                }
            },
            Report::Saved(record) => self.note_checkpoint(record),
            Report::Measured(outcome) => self.take_measured(*outcome),
            Report::Restored(Ok(publication)) => {
                if let Err(error) = self.live.take_up(publication) {
                    log::error!("{error}");
                }
            }
            Report::Restored(Err(error)) => log::error!("the learner could not be taken back: {error}"),
        }
        let since = self.learner.busy_since();
        self.status.change(|now| now.learning_since = since);
    }

    fn note_checkpoint(&mut self, record: trace::Checkpoint) {
        let since = self.counts.checkpoint_trouble.take().map_or_else(Instant::now, |before| before.since);
        self.counts.checkpoint_trouble = record
            .error
            .as_ref()
            .map(|error| DiskTrouble { what: format!("no checkpoint could be written: {error}"), since });
        // A checkpoint that knows nothing of what was forgotten is there: from now on no restart can bring it back.
        if record.error.is_none() && self.counts.forget_to_end {
            match self.recorder.end_forget() {
                Ok(()) => self.counts.forget_to_end = false,
                Err(error) => log::warn!("{error}: the forget is ended with the next checkpoint"),
            }
        }
        self.recorder.record(Record::Checkpoint(record));
    }

    #[allow(clippy::cast_possible_truncation)]
    fn take_lesson(&mut self, learned: Learned) {
        let update = &learned.update;
        if let Some(refusal) = update.refused {
            log::warn!("update skipped: {refusal}");
            let reason = match refusal {
                Refusal::EmbeddingNotFinite | Refusal::LossNotFinite => SkipReason::LossNotFinite,
                Refusal::GradientNotFinite(_) => SkipReason::GradientNotFinite,
                Refusal::GradientTooLong => SkipReason::GradientTooLong,
            };
            let (loss, gradient) = (update.losses.total as f32, update.gradient_norm as f32);
            return self.skip(learned.last_frame, reason, loss, gradient);
        }
        self.counts.updates += 1;
        self.pace.took(learned.seconds, self.terms.period.as_secs_f64());
        let control = learned.publication.as_ref().map_or(self.live.control, |new| new.control);
        if let Some(publication) = learned.publication.clone() {
            // While β is still being calibrated, the live path's own is the newer one.
            let beta = self.live.control.beta;
            if let Err(error) = self.live.take_up(publication) {
                log::error!("{error}");
            }
            if self.counts.calibrated {
                self.live.control.beta = beta;
            }
        }
        let record = trace::Update {
            update: learned.step,
            frame: learned.last_frame,
            window: learned.window as u32,
            stride: learned.stride as u32,
            losses: trace::Losses {
                total: update.losses.total as f32,
                self_supervised: update.losses.self_supervised as f32,
                entropy: update.losses.entropy as f32,
                creation: update.losses.creation as f32,
            },
            mean_u_hat: update.mean_new_probability as f32,
            categories: self.live.categories() as u32,
            collapse: update.spread as f32,
            gradient_norm: update.gradient_norm as f32,
            inv_tau: control.inv_tau as f32,
            beta: control.beta as f32,
            gamma: control.gamma as f32,
            learning_rate: learned.learning_rate as f32,
            seconds: learned.seconds as f32,
        };
        self.watch_for_collapse(record.collapse);
        self.recorder.record(Record::Update(record.clone()));
        self.status.change(|now| now.note_lesson(record));
    }

    fn skip(&mut self, frame: u64, reason: SkipReason, loss: f32, gradient_norm: f32) {
        self.counts.skipped += 1;
        let skipped = trace::UpdateSkipped { frame, reason, loss, gradient_norm };
        self.recorder.record(Record::UpdateSkipped(skipped));
        self.status.change(|now| now.skipped_updates += 1);
    }

    fn watch_for_collapse(&mut self, level: f32) {
        // A little more is asked for the way back, so that a level at the limit is one event and not many.
        let limit = if self.counts.collapsed { COLLAPSE_LIMIT * 1.5 } else { COLLAPSE_LIMIT };
        let collapsed = level < limit;
        if collapsed == self.counts.collapsed {
            return;
        }
        self.counts.collapsed = collapsed;
        if collapsed {
            log::warn!("all frames look alike to the encoder (spread {level:.3}): learning has collapsed");
        }
        self.recorder.record(Record::Collapse(trace::Collapse { collapsed, level, limit: COLLAPSE_LIMIT }));
        self.status.change(|now| now.collapsed = collapsed);
    }
}

//! The loop's side of learning: windows handed over when they are due, results taken up and recorded.

use std::time::Duration;

use super::journal::Event;
use super::learning::{Job, Judged, Learned, LearnerThread, Lesson, Report};
use super::session::{Ending, Phase, Session};
use crate::learner::update::Refusal;
use crate::live::score::Comparison;
use crate::trace::{self, PublicationOutcome, SkipReason};
use crate::{Error, Result};

/// Below this spread of the embeddings they count as collapsed; 1 means that they point everywhere alike.
const COLLAPSE_LIMIT: f32 = 0.02;

/// How many times what embedding the kept pictures takes must have gone into learning before weights are published again.
const PUBLICATION_SHARE: u64 = 10;

impl Session {
    /// Gives the learner the next window if one is due and it is free.
    pub(super) fn start_update(&mut self) {
        if !self.has_learner() || self.learner.busy_since().is_some() {
            return;
        }
        let Some(due) = self.windows.due(self.pace.stride(), self.options.companions) else { return };
        if due.left_out > 0 {
            log::warn!(
                "{} frames were too old to learn from: learning is too slow for the camera",
                due.left_out
            );
        }
        let stride = self.pace.stride();
        let beta = self.live.threshold.map(|_| self.live.control.beta);
        if let Some(change) = self.pace.launched(due.late, due.left_out) {
            self.journal.tell(Event::Stride(change));
        }
        let lesson = Lesson { samples: due.samples, stride, beta };
        match self.learner.give(Job::Learn(lesson)) {
            Ok(_) => {}
            Err(error) => return self.learner_is_gone(&error),
        }
        self.tell_learning();
        if !self.options.realtime {
            let under_way =
                |learner: &LearnerThread| learner.busy_since().is_some() || learner.is_publishing();
            while under_way(&self.learner) && self.has_learner() {
                self.journal.alive();
                self.poll_learner(Duration::from_millis(200));
            }
        }
    }

    /// Has the weights compared with those in use, and published if they are better, when that is due: the kept pictures are to cost at most a tenth of what learning costs.
    fn publish_if_due(&mut self) {
        let pictures = self.live.kept.pictures();
        let settings = &self.plan.settings;
        // There and back, and once more for the weights' own gradient.
        let passes = 3 * (1 + settings.second_views) * settings.window;
        if self.state.unpublished * passes as u64 <= PUBLICATION_SHARE * pictures.len() as u64 {
            return;
        }
        if let Err(error) = self.learner.give(Job::Publish(Box::new(self.live.kept.clone()))) {
            self.learner_is_gone(&error);
        }
    }

    /// Takes up new weights if they were found to be better; says how they compare either way.
    fn take_judged(&mut self, judged: Result<Judged>) {
        self.state.unpublished = 0;
        let taken = judged.and_then(|judged| {
            let outcome = match (&judged.fresh, judged.went_back) {
                (Some(_), _) => PublicationOutcome::Published,
                (None, true) => PublicationOutcome::WentBack,
                (None, false) => PublicationOutcome::Waits,
            };
            self.tell_comparison(judged.step, judged.comparison, outcome);
            judged.fresh.map(|fresh| self.live.take_up(fresh)).transpose()
        });
        match taken {
            Ok(changes) => self.note_changes(changes.unwrap_or_default()),
            Err(error) => log::error!("what was learned could not be taken up: {error}"),
        }
    }

    #[allow(clippy::cast_possible_truncation)]
    fn tell_comparison(&self, update: u64, comparison: Option<Comparison>, outcome: PublicationOutcome) {
        let number =
            |of: fn(&Comparison) -> f64| comparison.as_ref().map_or(f32::NAN, |known| of(known) as f32);
        self.journal.tell(Event::Compared(trace::Publication {
            update,
            frame: self.next_frame.saturating_sub(1),
            outcome,
            before: number(|known| known.before),
            after: number(|known| known.after),
            error: number(|known| known.error),
            questions: comparison.map_or(0, |known| known.questions as u32),
        }));
    }

    /// Remembers why; the loop ends the recording with it.
    pub(super) fn learner_is_gone(&mut self, error: &Error) {
        self.phase = Phase::Stopping(Ending::LearnerGone(error.to_string()));
    }

    /// Takes what the learner has to say, waiting for the first word for up to `timeout`.
    pub(super) fn poll_learner(&mut self, timeout: Duration) {
        if !self.has_learner() {
            return;
        }
        let mut heard = if timeout.is_zero() { self.learner.report() } else { self.learner.wait(timeout) };
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
                Ok(learned) => self.take_update(learned),
                Err(error) => {
                    log::error!("learning failed: {error}");
                    self.skip(self.next_frame.saturating_sub(1), SkipReason::Failed, f32::NAN, f32::NAN);
                }
            },
            Report::Published(judged) => self.take_judged(*judged),
            Report::Saved(record) => self.note_checkpoint(record),
            Report::Measured(outcome) => self.take_measured(*outcome),
            Report::Restored(Ok(publication)) => {
                if let Err(error) = self.live.use_weights(publication) {
                    log::error!("{error}");
                }
            }
            Report::Restored(Err(error)) => log::error!("the learner could not be taken back: {error}"),
        }
        self.tell_learning();
    }

    fn tell_learning(&self) {
        self.journal.tell(Event::Learning { since: self.learner.busy_since(), stride: self.pace.stride() });
    }

    #[allow(clippy::cast_possible_truncation)]
    fn take_update(&mut self, learned: Learned) {
        let update = &learned.update;
        if let Some(refusal) = update.refused {
            log::warn!("update skipped: {refusal}");
            let reason = match refusal {
                Refusal::EmbeddingNotFinite | Refusal::LossNotFinite => SkipReason::LossNotFinite,
                Refusal::GradientNotFinite(_) => SkipReason::GradientNotFinite,
                Refusal::GradientTooLong => SkipReason::GradientTooLong,
            };
            let (loss, gradient) = (update.loss as f32, update.gradient_norm as f32);
            return self.skip(learned.last_frame, reason, loss, gradient);
        }
        self.state.updates += 1;
        self.pace.took(learned.seconds, self.options.period.as_secs_f64());
        self.state.unpublished += 1;
        let control = learned.control;
        let record = trace::Update {
            update: learned.step,
            frame: learned.last_frame,
            window: learned.window as u32,
            stride: learned.stride as u32,
            losses: trace::Losses {
                total: update.loss as f32,
                // The other objectives have one term, and neither entropy nor creation.
                self_supervised: update.terms.first().map_or(f32::NAN, |(_, first)| *first as f32),
                entropy: update.term("entropy") as f32,
                creation: update.term("new") as f32,
            },
            mean_u_hat: update.mean_new_probability as f32,
            categories: self.live.categories() as u32,
            collapse: update.spread as f32,
            gradient_norm: update.gradient_norm as f32,
            inv_tau: control.inv_tau as f32,
            beta: control.beta as f32,
            gamma: control.gamma as f32,
            learning_rate: update.learning_rate as f32,
            seconds: learned.seconds as f32,
        };
        self.watch_for_collapse(record.collapse);
        self.journal.tell(Event::Update(record));
        self.publish_if_due();
    }

    fn skip(&mut self, frame: u64, reason: SkipReason, loss: f32, gradient_norm: f32) {
        self.state.skipped += 1;
        self.journal.tell(Event::Skipped(trace::UpdateSkipped { frame, reason, loss, gradient_norm }));
    }

    fn watch_for_collapse(&mut self, level: f32) {
        // A little more is asked for the way back, so that a level at the limit is one event and not many.
        let limit = if self.state.collapsed { COLLAPSE_LIMIT * 1.5 } else { COLLAPSE_LIMIT };
        let collapsed = level < limit;
        if collapsed == self.state.collapsed {
            return;
        }
        self.state.collapsed = collapsed;
        self.journal.tell(Event::Collapse(trace::Collapse { collapsed, level, limit: COLLAPSE_LIMIT }));
    }
}

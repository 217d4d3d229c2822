//! A start from random weights: batch norm's statistics come from the first frames, and only then is β calibrated.
//!
//! Random weights come with statistics of nothing (mean 0, variance 1). With these a deep encoder sees all frames alike, and
//! no β can tell them apart. So after 5, 10 and 20 frames the learner measures the statistics of the frames so far. The
//! live path then sees these frames again: their embeddings are made anew, β is calibrated from those, and the memory becomes
//! what it would be had it seen the frames so from the first one on; so it does whenever β is calibrated again. What the trace
//! says of those frames stays; categories may be joined or divided. After the first update the statistics follow the
//! learner's windows, as they do after a warm start.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use super::learning::Job;
use super::session::Session;
use crate::kernels::vector;
use crate::learner::Published;
use crate::memory::{Control, LiveMemory, Rules};
use crate::{Error, Result};

/// The numbers of frames after which the statistics are measured.
const MOMENTS: [usize; 3] = [5, 10, 20];

/// The last of them.
pub(super) const LAST: usize = MOMENTS[MOMENTS.len() - 1];

impl Session {
    /// Has the statistics measured, if this is a cold start and the frame that was just sampled makes it the moment.
    pub(super) fn measure_if_due(&mut self) {
        let cold = self.live.cold && self.has_learner();
        let frames = self.live.calibrator.as_ref().map_or(0, |calibrator| calibrator.frames());
        let samples = self.windows.kept().samples;
        // Pictures of earlier frames may be gone: after a restart with a camera, or with a short window.
        if !cold || !MOMENTS.contains(&frames) || samples.len() != frames {
            return;
        }
        if let Err(error) = self.learner.give(Job::Measure(samples)) {
            return self.learner_is_gone(&error);
        }
        // Where there is no real time to miss, the run is to be the same every time.
        while !self.options.realtime && self.learner.is_measuring() && self.has_learner() {
            self.journal.alive();
            self.poll_learner(Duration::from_millis(200));
        }
    }

    /// Goes on with the statistics that were measured; none if learning has begun meanwhile.
    pub(super) fn take_measured(&mut self, outcome: Result<Option<Published>>) {
        match outcome.and_then(|publication| publication.map_or(Ok(()), |new| self.see_again(new))) {
            Ok(()) => {}
            Err(error) => log::warn!("the statistics of the first frames could not be used: {error}"),
        }
    }

    fn see_again(&mut self, publication: Published) -> Result<()> {
        let control = self.live.control;
        self.live.take_up(publication)?;
        self.live.control = control;
        let pictures: Vec<Arc<[u8]>> =
            self.windows.kept().samples.into_iter().map(|sample| sample.pixels).collect();
        if let Some(calibrated) = self.live.see_again(&pictures)? {
            self.note_calibration(calibrated);
        }
        Ok(())
    }
}

/// The memory as it would be, had it seen the frames with the embeddings `new` instead of `old`. A category keeps the number
/// under which its first frame was recorded, unless another category has it.
pub(super) fn replayed(
    memory: &LiveMemory,
    old: &[f32],
    new: &[f32],
    control: &Control,
    rules: &Rules,
) -> Result<LiveMemory> {
    let (slots, dimension) = (memory.prototypes().slots(), memory.prototypes().dimension());
    let mut again = LiveMemory::new(slots, dimension)?;
    let (mut numbers, mut given) = (Vec::new(), HashSet::new());
    let mut next = memory.next_id();
    for (old, new) in old.chunks_exact(dimension).zip(new.chunks_exact(dimension)) {
        if !again.observe(new, control, rules)?.created {
            continue;
        }
        let number = nearest(memory, old).filter(|number| !given.contains(number)).unwrap_or(next);
        next = next.max(number + 1);
        given.insert(number);
        numbers.push(number);
    }
    // The replay numbers its categories from 0 on, in the order in which they were created.
    let number = |id: &u64| usize::try_from(*id).ok().and_then(|id| numbers.get(id)).copied();
    let ids =
        again.ids().iter().map(|id| number(id).ok_or_else(|| Error::input("a category without a number")));
    let ids = if numbers.is_empty() { Ok(again.ids().to_vec()) } else { ids.collect() };
    LiveMemory::from_parts(again.prototypes().clone(), ids?, again.ages().to_vec(), next)
}

/// The category whose prototype is most similar to an embedding.
fn nearest(memory: &LiveMemory, embedding: &[f32]) -> Option<u64> {
    let prototypes = memory.prototypes();
    let used = (0..prototypes.slots()).filter(|slot| prototypes.counts()[*slot] > 0.0);
    let similarity = |slot: usize| {
        let prototype = prototypes.vector(slot);
        vector::dot(prototype, embedding) / vector::dot(prototype, prototype).sqrt().max(f32::MIN_POSITIVE)
    };
    let best = used.map(|slot| (slot, similarity(slot))).max_by(|a, b| a.1.total_cmp(&b.1));
    best.and_then(|(slot, _)| memory.ids().get(slot).copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;

    #[test]
    fn categories_keep_the_number_of_their_first_frame() {
        let settings = Preset::Saycam.settings();
        let (control, rules) = (settings.control(), settings.rules());
        let mut memory = LiveMemory::new(8, 2).unwrap();
        // Seen badly, each of four frames is a category of its own.
        let old = [[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.7, 0.3]];
        for frame in &old {
            assert!(memory.observe(frame, &control, &rules).unwrap().created);
        }
        // Seen well, frames 0 and 1 are one thing, 2 and 3 another.
        let new = [[1.0, 0.0], [1.0, 0.01], [0.0, 1.0], [0.01, 1.0]];
        let control = Control { beta: control.inv_tau * -0.5, ..control };
        let again = replayed(&memory, old.as_flattened(), new.as_flattened(), &control, &rules).unwrap();
        assert_eq!((again.prototypes().in_use(), again.next_id()), (2, 4));
        let slots = (0..8).filter(|slot| again.prototypes().counts()[*slot] > 0.0);
        assert_eq!(slots.map(|slot| again.ids()[slot]).collect::<Vec<_>>(), [0, 2]);
    }
}

//! A start from random weights: batch norm's statistics come from the first frames, before anything is measured with them.
//!
//! Random weights come with statistics of nothing (mean 0, variance 1). With these a deep encoder sees all frames alike, and
//! no threshold can tell them apart. So after 5, 10, 20 and 40 frames the learner measures the statistics of the frames so far. The
//! live path then sees these frames again: their embeddings are made anew, the threshold is measured from those, and the memory
//! becomes what it would be had it seen the frames so from the first one on. What the trace
//! says of those frames stays; categories may be joined or divided. After the first update the statistics follow the
//! learner's windows, as they do after a warm start.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::learning::Job;
use super::live::Fresh;
use super::session::Session;
use crate::learner::Published;
use crate::live::KeptFrame;
use crate::memory::{Control, LiveMemory, Rules};
use crate::{Error, Result};

/// The numbers of frames after which the statistics are measured.
const MOMENTS: [usize; 4] = [5, 10, 20, 40];

impl Session {
    /// Has the statistics measured, if this is a cold start and the frame that was just sampled makes it the moment.
    pub(super) fn measure_if_due(&mut self) {
        let cold = self.live.cold && self.has_learner();
        let frames = self.live.kept.first_frames().map_or(0, |frames| frames.len());
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

    fn see_again(&mut self, published: Published) -> Result<()> {
        let changes = self.live.take_up(Fresh { published, directions: HashMap::new() })?;
        self.note_changes(changes);
        Ok(())
    }
}

/// The memory as it would be, had it seen these frames as they look now, and the category of each of them. A category keeps
/// the number under which its first frame was recorded, unless another category has it.
pub(super) fn replayed(
    memory: &LiveMemory,
    frames: &[KeptFrame],
    control: &Control,
    rules: &Rules,
) -> Result<(LiveMemory, Vec<u64>)> {
    let (slots, dimension) = (memory.prototypes().slots(), memory.prototypes().dimension());
    let mut again = LiveMemory::new(slots, dimension)?.with_writes(memory.writes());
    let (mut numbers, mut given, mut categories) = (Vec::<u64>::new(), HashSet::new(), Vec::new());
    let mut next = memory.next_id();
    for frame in frames {
        let observation = again.observe(&frame.direction, control, rules)?;
        categories.push(observation.category);
        if observation.created {
            let number = if given.contains(&frame.category) { next } else { frame.category };
            next = next.max(number + 1);
            given.insert(number);
            numbers.push(number);
        }
    }
    // The replay numbers its categories from 0 on, in the order in which they were created.
    let number = |id: &u64| {
        let known = usize::try_from(*id).ok().and_then(|id| numbers.get(id)).copied();
        known.ok_or_else(|| Error::input("a category without a number"))
    };
    let categories = categories.iter().map(number).collect::<Result<Vec<_>>>()?;
    let unused = |slot: usize| again.prototypes().counts()[slot] <= 0.0;
    let ids = again.ids().iter().enumerate().map(|(slot, id)| if unused(slot) { Ok(0) } else { number(id) });
    let ids = ids.collect::<Result<Vec<_>>>()?;
    let renamed = LiveMemory::from_parts(again.prototypes().clone(), ids, again.ages().to_vec(), next)?;
    let renamed = renamed.with_writes(memory.writes()).with_frames(again.frames().to_vec())?;
    Ok((renamed, categories))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Preset;
    use crate::memory::Writes;

    #[test]
    fn categories_keep_the_number_of_their_first_frame() {
        let settings = Preset::Saycam.settings();
        let (control, rules) = (settings.control(), settings.rules());
        let mut memory = LiveMemory::new(8, 2).unwrap().with_writes(Writes::Hard);
        // Seen badly, each of four frames is a category of its own.
        for frame in [[1.0, 0.0], [0.9, 0.1], [0.8, 0.2], [0.7, 0.3]] {
            assert!(memory.observe(&frame, &control, &rules).unwrap().created);
        }
        // Seen well, frames 0 and 1 are one thing, 2 and 3 another.
        let well = [[1.0, 0.0], [1.0, 0.01], [0.0, 1.0], [0.01, 1.0]].into_iter().enumerate();
        let frames = well.map(|(at, direction)| KeptFrame {
            frame: at as u64,
            sequence: at as u64,
            category: at as u64,
            pixels: None,
            direction: Arc::from(direction),
        });
        let control = Control { beta: control.inv_tau * -0.5, ..control };
        let (again, categories) = replayed(&memory, &frames.collect::<Vec<_>>(), &control, &rules).unwrap();
        assert_eq!((again.prototypes().in_use(), again.next_id()), (2, 4));
        let slots = (0..8).filter(|slot| again.prototypes().counts()[*slot] > 0.0);
        assert_eq!(slots.map(|slot| again.ids()[slot]).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(categories, [0, 0, 2, 2]);
    }
}

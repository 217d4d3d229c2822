//! Which of the sampled frames form the next window to learn from: the seam at which another memory of frames is put in.
//!
//! A source holds pictures of people's lives. So whoever writes one also writes [`WindowSource::forget`], which must leave none
//! of them; a recording's `forget` calls it, and a test below asks it of every source there is.

pub mod long;
mod ring;

use std::fmt;
use std::sync::Arc;

pub use long::{LongMemory, LongRules};
pub use ring::Ring;

/// A sampled frame as learning sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its number, from 0 over all restarts.
    pub frame: u64,
    /// The source's own number of the picture.
    pub sequence: u64,
    /// Height × width × channels.
    pub pixels: Arc<[u8]>,
    /// The picture a moment later, with the source's number of it.
    pub companion: Option<(u64, Arc<[u8]>)>,
}

/// A window that is due.
#[derive(Clone, Debug)]
pub struct Due {
    /// Its samples.
    pub samples: Vec<Sample>,
    /// How many samples came after its last one by now: the learner was late.
    pub late: usize,
    /// Samples that were left out before it, since they were gone.
    pub left_out: u64,
}

/// What a source holds, so that a run can go on from it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// The samples that windows may still be made of, oldest first.
    pub samples: Vec<Sample>,
    /// The frame with which the next window begins.
    pub next_start: u64,
}

/// A memory of frames that windows are made of.
pub trait WindowSource: fmt::Debug + Send {
    /// Adds the newest sample.
    fn push(&mut self, sample: Sample);

    /// Gives the sample of this frame its companion, if it is still here.
    fn add_companion(&mut self, frame: u64, sequence: u64, pixels: Arc<[u8]>);

    /// The next window, if its last frame has been sampled. With `companions`, the newest sample is waited for until it has
    /// its own; one that got none, because the camera was lost, stands in for it itself.
    fn due(&mut self, stride: usize, companions: bool) -> Option<Due>;

    /// Forgets every picture; the next window begins with frame `next_start`.
    fn forget(&mut self, next_start: u64);

    /// What it holds.
    fn kept(&self) -> Kept;

    /// Goes on with what [`kept`](Self::kept) gave.
    fn restore(&mut self, kept: Kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every source there is, empty, for windows of four frames. A new one goes here.
    fn all() -> Vec<Box<dyn WindowSource>> {
        vec![Box::new(Ring::new(4, 0))]
    }

    /// A sample whose pixels can be asked after.
    fn sample(frame: u64, pixels: &Arc<[u8]>) -> Sample {
        let companion = Some((frame + 1, Arc::clone(pixels)));
        Sample { frame, sequence: frame, pixels: Arc::clone(pixels), companion }
    }

    #[test]
    fn what_is_forgotten_is_held_nowhere() {
        for mut source in all() {
            let pixels: Arc<[u8]> = Arc::from([1, 2, 3]);
            for frame in 0..40 {
                source.push(sample(frame, &pixels));
                source.due(2, true);
            }
            assert!(Arc::strong_count(&pixels) > 1, "{source:?} holds nothing: the test shows nothing");
            source.forget(40);
            assert_eq!(Arc::strong_count(&pixels), 1, "{source:?} still holds a picture");
            assert_eq!(source.kept(), Kept { samples: Vec::new(), next_start: 40 });
            assert!(source.due(2, true).is_none());
        }
    }

    #[test]
    fn what_is_kept_goes_on_the_same() {
        for (mut whole, mut resumed) in all().into_iter().zip(all()) {
            let pixels: Arc<[u8]> = Arc::from([1]);
            let frames = |due: Option<Due>| due.map(|due| (due.samples, due.late, due.left_out));
            for frame in 0..7 {
                whole.push(sample(frame, &pixels));
                whole.due(2, true);
            }
            resumed.restore(whole.kept());
            for frame in 7..20 {
                whole.push(sample(frame, &pixels));
                resumed.push(sample(frame, &pixels));
                assert_eq!(frames(whole.due(2, true)), frames(resumed.due(2, true)), "{whole:?}");
            }
        }
    }
}

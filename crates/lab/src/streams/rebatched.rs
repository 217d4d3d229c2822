//! The frames of a stream in windows of another length, or in no order at all.
//!
//! Windows of a stream of episodes are whole episodes. Here they have any length, and may begin in the middle of one; or their frames
//! are drawn from a pool of several thousand, as those who learn from shuffled data have it. Window number n is still a function of
//! n: each has episodes of its own, of which it takes what it needs.

use super::{LearningStream, WindowFrames};
use crate::encoder::plan::Shape;
use crate::random::{Purpose, Random};
use crate::{Result, choices};

choices! {
    /// The order in which a learner is shown the frames of a stream.
    pub enum Order {
        Online = "online": "As they come",
        Iid = "iid": "Drawn from a pool of some 4,000 frames, independent of each other",
    }
}

/// Frames of the pool that a window without an order is drawn from: the shuffle buffer of the paper's released code.
const POOL: usize = 4000;

/// See the [module](self).
pub struct Rebatched {
    /// Where frames come from.
    pub inner: Box<dyn LearningStream>,
    /// Frames of a window.
    pub frames: usize,
    /// Their order.
    pub order: Order,
    /// Of the shuffling.
    pub seed: u64,
}

impl LearningStream for Rebatched {
    fn shape(&self) -> Shape {
        self.inner.shape()
    }

    fn frames(&self) -> usize {
        self.frames
    }

    fn classes(&self) -> usize {
        self.inner.classes()
    }

    fn window(&self, number: u64) -> Result<WindowFrames<'_>> {
        let needed = if self.order == Order::Iid { POOL.max(self.frames) } else { self.frames };
        // One more than would be enough if all were whole.
        let episodes = (needed.div_ceil(self.inner.frames().max(1)) + 1) as u64;
        let mut pool = WindowFrames::default();
        for episode in 0..episodes {
            let WindowFrames { frames, next, labels, drawings } =
                self.inner.window(number.wrapping_mul(episodes).wrapping_add(episode))?;
            pool.frames.extend(frames);
            pool.next.extend(next);
            pool.labels.extend(labels);
            pool.drawings.extend(drawings);
        }
        let mut order: Vec<usize> = (0..pool.frames.len()).collect();
        if self.order == Order::Iid {
            Random::new(!self.seed, Purpose::Episodes, !number).shuffle(&mut order);
        }
        order.truncate(self.frames);
        Ok(WindowFrames {
            frames: picked(&order, &pool.frames),
            next: picked(&order, &pool.next),
            labels: picked(&order, &pool.labels),
            drawings: picked(&order, &pool.drawings),
        })
    }
}

/// The chosen ones, where there are any.
fn picked<T: Clone>(order: &[usize], all: &[T]) -> Vec<T> {
    order.iter().filter_map(|&at| all.get(at).cloned()).collect()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::collections::BTreeSet;

    use super::*;

    /// Episodes of 20 frames; a frame's bytes are its episode and its place in it.
    struct Counted;

    impl LearningStream for Counted {
        fn shape(&self) -> Shape {
            Shape { height: 1, width: 2, channels: 1 }
        }
        fn frames(&self) -> usize {
            20
        }
        fn classes(&self) -> usize {
            20
        }
        fn window(&self, number: u64) -> Result<WindowFrames<'_>> {
            let frames = (0..20).map(|place| Cow::Owned(vec![number as u8, place])).collect();
            Ok(WindowFrames { frames, labels: (0..20).collect(), ..WindowFrames::default() })
        }
    }

    fn stream(frames: usize, order: Order) -> Rebatched {
        Rebatched { inner: Box::new(Counted), frames, order, seed: 3 }
    }

    #[test]
    fn windows_have_the_length_asked_for_and_keep_the_order() {
        for frames in [5, 20, 33] {
            let stream = stream(frames, Order::Online);
            let window = stream.window(2).unwrap();
            assert_eq!((window.frames.len(), window.labels.len()), (frames, frames));
            let shown: Vec<&[u8]> = window.frames.iter().map(|frame| &frame[..]).collect();
            assert!(shown.is_sorted(), "{shown:?}");
            let other = stream.window(3).unwrap();
            assert!(other.frames.iter().all(|frame| !shown.contains(&&frame[..])), "no frame twice");
        }
    }

    #[test]
    fn frames_without_order_come_from_many_episodes_with_their_labels() {
        let stream = stream(30, Order::Iid);
        let window = stream.window(1).unwrap();
        let of: BTreeSet<u8> = window.frames.iter().map(|frame| frame[0]).collect();
        // Thirty of 4,020 frames in 201 episodes: few coincide.
        assert!(of.len() > 20, "{of:?}");
        for (frame, label) in window.frames.iter().zip(&window.labels) {
            assert_eq!(usize::from(frame[1]), *label);
        }
        let again = stream.window(1).unwrap();
        assert_eq!(again.frames, window.frames);
        assert_ne!(stream.window(2).unwrap().frames, window.frames);
    }
}

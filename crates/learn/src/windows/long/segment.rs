//! A segment: frames of the stream that followed each other and were alike. Few of them are kept, the ones that differ most.

use std::sync::Arc;

use crate::kernels::vector::dot;

/// A kept frame.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame {
    /// Its number in the stream.
    pub(super) number: u64,
    pub(super) pixels: Arc<[u8]>,
    /// Its embedding, of length 1.
    pub(super) embedding: Vec<f32>,
    /// Similarity of its last neighbour that counts: who is nearer is one of its nearest. From the last grouping; −1 before.
    pub(super) reach: f32,
}

impl Frame {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.pixels.len() + size_of_val(&self.embedding[..])
    }
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Segment {
    /// Its number: how many ended before it.
    pub(super) number: u64,
    /// Its first and last frame, kept or not.
    pub(super) first: u64,
    pub(super) last: u64,
    /// Kept frames, oldest first.
    pub(super) frames: Vec<Frame>,
    /// The group that it belongs to; segments of the same group show the same thing.
    pub(super) group: u64,
    /// The place in the draw for room: the highest goes first.
    pub(super) lot: f64,
}

impl Segment {
    /// Frames that it covers, kept or not.
    pub(super) fn length(&self) -> u64 {
        self.last - self.first + 1
    }

    pub(super) fn covers(&self, frame: u64) -> bool {
        (self.first..=self.last).contains(&frame)
    }

    pub(super) fn bytes(&self) -> usize {
        self.frames.iter().map(Frame::bytes).sum()
    }

    /// Adds the next frame; beyond `most` the one goes that is nearest to another. Of the two nearest, that is the one which is
    /// nearer to the others, so that the ends of a turn stay and its middle is thinned.
    pub(super) fn push(&mut self, frame: Frame, most: usize) {
        self.last = frame.number;
        self.frames.push(frame);
        if self.frames.len() <= most {
            return;
        }
        let nearness = |at: usize| {
            let others = self.frames.iter().enumerate().filter(|(other, _)| *other != at);
            let mut near: Vec<f32> =
                others.map(|(_, other)| dot(&other.embedding, &self.frames[at].embedding)).collect();
            near.sort_by(|a, b| b.total_cmp(a));
            near
        };
        let by_nearness = |a: &Vec<f32>, b: &Vec<f32>| {
            let differing = a.iter().zip(b).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne());
            differing.unwrap_or(std::cmp::Ordering::Equal)
        };
        let all: Vec<Vec<f32>> = (0..self.frames.len()).map(nearness).collect();
        if let Some((at, _)) = all.iter().enumerate().max_by(|(_, a), (_, b)| by_nearness(a, b)) {
            self.frames.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame at this angle.
    fn frame(number: u64, angle: f32) -> Frame {
        let embedding = vec![angle.cos(), angle.sin()];
        Frame { number, pixels: Arc::from([]), embedding, reach: -1.0 }
    }

    #[test]
    fn the_frames_that_are_kept_span_the_turn() {
        let first = frame(10, 0.0);
        let mut segment = Segment { number: 0, first: 10, last: 10, frames: vec![first], group: 0, lot: 0.0 };
        for step in 1..30u8 {
            // A long stop in the middle of the turn.
            let turned = step.min(10) + step.saturating_sub(20);
            segment.push(frame(10 + u64::from(step), f32::from(turned) * 0.05), 4);
        }
        let angles: Vec<f32> =
            segment.frames.iter().map(|frame| frame.embedding[1].atan2(frame.embedding[0])).collect();
        assert_eq!((segment.first, segment.last, segment.length()), (10, 39, 30));
        assert_eq!(angles.len(), 4);
        assert!(angles[0] < 0.05 && angles[3] > 0.9, "{angles:?}");
        // Two steps and more: thinning frame by frame is not even, but keeps no neighbours.
        assert!(angles.windows(2).all(|pair| pair[1] - pair[0] > 0.09), "{angles:?}");
    }
}

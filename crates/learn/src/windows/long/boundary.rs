//! Where a segment of the stream ends: consecutive embeddings that are less alike than usual.
//!
//! What is usual depends on the encoder and on the camera's world, and it changes while the encoder learns. So it is measured: the
//! lowest quarter of the last similarities are boundaries. That is a little more often than people look at something else, at a frame
//! every four seconds. A cut too many costs little, since segments of the same thing are found to belong together later; a cut that is
//! missed joins two things for good.

use std::collections::VecDeque;

use crate::kernels::vector::dot;

/// Similarities that say what is usual.
const REMEMBERED: usize = 256;
/// As many are needed before anything is said.
const NEEDED: usize = 20;
/// The share of similarities that are boundaries.
const SHARE: f64 = 0.25;

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Boundaries {
    pub(super) similarities: VecDeque<f32>,
    /// The embedding of the last frame, of length 1.
    pub(super) last: Vec<f32>,
}

/// How a frame follows the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// Too little has been seen to tell.
    Unknown,
    /// It belongs to the same segment.
    On,
    /// A new segment begins with it.
    Anew,
}

impl Boundaries {
    /// Takes the next frame's embedding, of length 1; `adjacent` if its frame came right after the last one.
    pub(super) fn add(&mut self, embedding: &[f32], adjacent: bool) -> Follows {
        let known = self.similarities.len() >= NEEDED;
        let similarity = (adjacent && !self.last.is_empty()).then(|| dot(&self.last, embedding));
        self.last.clear();
        self.last.extend_from_slice(embedding);
        let Some(similarity) = similarity else {
            return if known { Follows::Anew } else { Follows::Unknown };
        };
        let anew = known && similarity < self.usual();
        if self.similarities.len() == REMEMBERED {
            self.similarities.pop_front();
        }
        self.similarities.push_back(similarity);
        match (known, anew) {
            (false, _) => Follows::Unknown,
            (true, true) => Follows::Anew,
            (true, false) => Follows::On,
        }
    }

    /// The similarity below which a frame begins a segment.
    fn usual(&self) -> f32 {
        let mut sorted: Vec<f32> = self.similarities.iter().copied().collect();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let at = (SHARE * sorted.len() as f64) as usize;
        let (_, usual, _) = sorted.select_nth_unstable_by(at, f32::total_cmp);
        *usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    /// Looks of five frames at things that have nothing in common: all ends are found but for those that only teach what is usual.
    #[test]
    fn looks_end_where_the_thing_changes() {
        let mut boundaries = Boundaries::default();
        let mut random = Random::new(1, Purpose::World, 0);
        for frame in 0..200 {
            let (thing, turn) = (frame / 5 % 4, 0.1 * (frame % 5) as f32 + random.between(0.0, 0.02));
            let mut embedding = [0.0f32; 8];
            (embedding[2 * thing], embedding[2 * thing + 1]) = (turn.cos(), turn.sin());
            let follows = boundaries.add(&embedding, true);
            if frame < 21 {
                assert_eq!(follows, Follows::Unknown, "{frame}");
            } else if frame % 5 == 0 {
                assert_eq!(follows, Follows::Anew, "{frame}");
            }
        }
        // About a quarter and no more, whatever the world does.
        let cuts = (0..1000)
            .map(|_| std::array::from_fn::<f32, 8, _>(|_| random.normal() as f32))
            .map(|embedding| embedding.map(|x| x / dot(&embedding, &embedding).sqrt()))
            .filter(|embedding| boundaries.add(embedding, true) == Follows::Anew)
            .count();
        assert!((120..320).contains(&cuts), "{cuts}");
        assert_eq!(boundaries.add(&[1.0; 8], false), Follows::Anew, "after a gap");
    }
}

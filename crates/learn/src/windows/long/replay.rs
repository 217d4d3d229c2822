//! Second views out of a group, and whole windows of groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::LongMemory;
use super::segment::Frame;
use crate::kernels::vector::dot;
use crate::random::{Purpose, Random};

/// Frames of a group in a window, where there are groups enough.
const OF_EACH: usize = 5;
/// Fewer groups make no window: everything in it would be the same few things.
const FEWEST: usize = 4;

/// A window made of the memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    /// Its frames.
    pub frames: Vec<Arc<[u8]>>,
    /// For each of them a second view: another frame of its group.
    pub seconds: Vec<Arc<[u8]>>,
}

/// One of the half of these frames that are least like an embedding.
pub(super) fn unlike<'a>(
    frames: impl Iterator<Item = &'a Frame>,
    embedding: &[f32],
    random: &mut Random,
) -> Option<&'a Frame> {
    let mut by_similarity: Vec<(f32, &Frame)> =
        frames.map(|frame| (dot(&frame.embedding, embedding), frame)).collect();
    // Not sorted by number alone: equal pictures come back, and their order must not depend on the sort.
    by_similarity.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.number.cmp(&b.1.number)));
    let half = by_similarity.len().div_ceil(2);
    by_similarity.get(random.below(half)).map(|(_, frame)| *frame)
}

impl LongMemory {
    /// A window of so many frames: a few of each of some groups, in a random order, and for each frame a second view out of its
    /// group. `number` is the window's: the same number gives the same window of the same memory. None while there are too few
    /// groups of two segments or more.
    pub fn replay_window(&self, number: u64, frames: usize) -> Option<Replay> {
        let mut random = Random::new(self.rules.seed, Purpose::Replay, number << 2 | 1);
        let mut groups = BTreeMap::<u64, (usize, Vec<&Frame>)>::new();
        for segment in &self.closed {
            let (segments, frames) = groups.entry(segment.group).or_default();
            *segments += 1;
            frames.extend(&segment.frames);
        }
        let mut groups: Vec<Vec<&Frame>> =
            (groups.into_values()).filter(|(segments, _)| *segments > 1).map(|(_, frames)| frames).collect();
        if groups.len() < FEWEST {
            return None;
        }
        random.shuffle(&mut groups);
        groups.truncate(frames.div_ceil(OF_EACH));
        let each = frames.div_ceil(groups.len());
        let mut drawn = Vec::new();
        for (group, members) in groups.iter_mut().enumerate() {
            random.shuffle(members);
            // A small group shows some of its frames twice.
            drawn.extend(members.iter().cycle().take(each).map(|frame| (group, *frame)));
        }
        random.shuffle(&mut drawn);
        drawn.truncate(frames);
        let second = |(group, frame): &(usize, &Frame)| {
            let others = groups[*group].iter().filter(|other| other.number != frame.number).copied();
            let second = unlike(others, &frame.embedding, &mut random);
            Arc::clone(&second.unwrap_or(frame).pixels)
        };
        Some(Replay {
            seconds: drawn.iter().map(second).collect(),
            frames: drawn.iter().map(|(_, frame)| Arc::clone(&frame.pixels)).collect(),
        })
    }
}

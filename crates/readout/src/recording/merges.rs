//! Which category each one ended up in, after the merges of a recording.
//!
//! A frame's record keeps the number that it was given at the time (`live`). When two categories turn out to be one, a record
//! says that the younger was joined into the older, and whoever reads the recording afterwards may go by that (`final`).
//! [`Recording::open`](super::Recording::open) finds the merges; every reader asks them through [`Merges::ended`].
//!
//! A merge counts unless the recording took it back. After a crash it goes on from a checkpoint, and if that is older than
//! the merge, both categories are alive again. Two things tell so: a later frame has the number that was gone, or a later session
//! has the frame of the merge again. If the categories are joined a second time, that merge counts.

use std::collections::{BTreeMap, HashMap};

use super::Session;
use crate::choices;
use crate::trace::{Merge, Record};

choices! {
    /// Which of its numbers a category is called by.
    #[derive(Default)]
    pub enum Categories {
        #[default]
        Final = "final": "As they ended up: what was joined later has the number of the older one from its first frame on",
        Live = "live": "As they were given at the time, before anything was joined",
    }
}

/// The merges of a recording that count. Grows with their number, some tens of bytes each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Merges {
    /// By the category that is gone.
    into: HashMap<u64, Joined>,
}

/// Where a category went.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Joined {
    into: u64,
    session: usize,
    frame: u64,
}

impl Merges {
    /// Takes the next record of the trace, in a session counted from 1.
    pub(super) fn note(&mut self, record: &Record, session: usize) {
        match record {
            Record::Merge(merge) if merge.is_sound() => {
                let Merge { from, into, frame, .. } = *merge;
                self.into.insert(from, Joined { into, session, frame });
            }
            Record::Frame(frame) => drop(self.into.remove(&frame.category)),
            _ => {}
        }
    }

    /// Leaves out what a later session went back behind.
    pub(super) fn settle(&mut self, sessions: &[Session]) {
        self.into.retain(|_, joined| !is_seen_again(sessions, joined.session, joined.frame));
    }

    /// The category that this one ended up in: itself, unless it was joined into another.
    pub fn ended(&self, category: u64) -> u64 {
        // Every step leads to a lower number, so this ends.
        let mut ended = category;
        while let Some(joined) = self.into.get(&ended) {
            ended = joined.into;
        }
        ended
    }

    /// The number of a category in this view.
    pub fn named(&self, category: u64, categories: Categories) -> u64 {
        match categories {
            Categories::Final => self.ended(category),
            Categories::Live => category,
        }
    }

    /// How many categories were joined into another.
    pub fn len(&self) -> usize {
        self.into.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.into.is_empty()
    }

    /// The categories that were joined into each surviving one, directly or by way of others, in rising order.
    pub fn by_survivor(&self) -> BTreeMap<u64, Vec<u64>> {
        let mut joined: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for &gone in self.into.keys() {
            joined.entry(self.ended(gone)).or_default().push(gone);
        }
        joined.values_mut().for_each(|gone| gone.sort_unstable());
        joined
    }
}

/// Whether a session after this one has the frame again.
pub(super) fn is_seen_again(sessions: &[Session], session: usize, frame: u64) -> bool {
    sessions.iter().skip(session).any(|later| later.frames.contains(&frame))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Frame, Pause};

    fn merge(from: u64, into: u64) -> Record {
        Record::Merge(Merge { from, into, frame: 0, similarity: 0.9 })
    }

    fn frame(category: u64) -> Record {
        let record = serde_json::json!({
            "frame": 0, "category": category, "created": false, "u_hat": 0.5, "similarity": 0.5,
        });
        Record::Frame(serde_json::from_value::<Frame>(record).unwrap())
    }

    fn merges(records: &[Record]) -> Merges {
        let mut merges = Merges::default();
        records.iter().for_each(|record| merges.note(record, 1));
        merges
    }

    #[test]
    fn a_chain_leads_to_its_end_in_whatever_order_it_was_made() {
        for order in [[merge(9, 5), merge(5, 2)], [merge(5, 2), merge(9, 5)]] {
            let merges = merges(&order);
            assert_eq!([9, 5, 2, 1].map(|category| merges.ended(category)), [2, 2, 2, 1]);
            assert_eq!(merges.named(9, Categories::Live), 9);
            assert_eq!(merges.by_survivor(), BTreeMap::from([(2, vec![5, 9])]));
        }
        assert_eq!(merges(&[Record::Pause(Pause { by: String::new() })]).len(), 0);
    }

    /// The oracle is a walk over all merges that stops when it comes back to where it was.
    #[test]
    fn whatever_a_trace_says_every_category_ends_somewhere() {
        for seed in 0..200_u64 {
            let draw = |n: u64| (seed.wrapping_mul(6364136223846793005) >> (n % 48)).wrapping_mul(n + 7) % 6;
            let pairs: Vec<(u64, u64)> = (0..8).map(|n| (draw(3 * n), draw(3 * n + 1))).collect();
            let merges = merges(&pairs.iter().map(|&(from, into)| merge(from, into)).collect::<Vec<_>>());
            let sound: HashMap<u64, u64> = pairs.into_iter().filter(|(from, into)| from > into).collect();
            for category in 0..6 {
                let mut ended = category;
                for _ in 0..6 {
                    ended = sound.get(&ended).copied().unwrap_or(ended);
                }
                assert_eq!(merges.ended(category), ended, "{seed}");
            }
        }
    }

    #[test]
    fn a_category_joined_into_itself_or_an_older_one_into_a_younger_is_passed_over() {
        let merges = merges(&[merge(4, 4), merge(1, 2), merge(2, 3), merge(3, 1)]);
        assert_eq!([1, 2, 3, 4].map(|category| merges.ended(category)), [1, 2, 1, 4]);
        assert_eq!(merges.len(), 1);
    }

    #[test]
    fn a_category_that_is_seen_again_is_alive_until_it_is_joined_again() {
        let crashed = merges(&[frame(9), merge(9, 5), frame(5), frame(9)]);
        assert_eq!((crashed.ended(9), crashed.len()), (9, 0));
        let again = merges(&[frame(9), merge(9, 5), frame(9), merge(9, 2)]);
        assert_eq!(again.ended(9), 2);
        // What was joined into it before is part of it again.
        let part = merges(&[merge(12, 9), merge(9, 5), frame(9)]);
        assert_eq!((part.ended(12), part.ended(9)), (9, 9));
    }
}

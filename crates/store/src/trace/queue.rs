//! The queue between those who have something to say and the thread that writes it: bounded, and honest about it.

use std::collections::VecDeque;

use super::record::Record;
use crate::clock::Stamp;

/// What waits in the queue.
#[derive(Debug, PartialEq)]
pub(super) enum Item {
    /// A record.
    Record(Stamp, Record),
    /// So many records were refused here, the first of them at that moment.
    Refused(Stamp, u64),
}

/// A queue of fixed length that counts what it refuses, and keeps the count in its place.
#[derive(Debug)]
pub(super) struct Queue {
    items: VecDeque<Item>,
    capacity: usize,
    refused: Option<(Stamp, u64)>,
    accepted: u64,
}

impl Queue {
    pub(super) fn new(capacity: usize) -> Self {
        let capacity = capacity.max(8);
        Self { items: VecDeque::with_capacity(capacity), capacity, refused: None, accepted: 0 }
    }

    /// Takes a record in, or refuses and counts it.
    ///
    /// An eighth of the room is kept for records that are not frames. Once a frame has been refused, further ones are,
    /// until the queue is half empty: one long hole is easier to live with than many short ones.
    pub(super) fn push(&mut self, at: Stamp, record: Record) -> bool {
        // One place is for the count of the refused.
        let room = match (record.is_frame(), self.refused) {
            (true, None) => self.capacity - self.capacity / 8,
            (true, Some(_)) => self.capacity / 2,
            (false, _) => self.capacity - 1,
        };
        if self.items.len() >= room {
            let (_, count) = self.refused.get_or_insert((at, 0));
            *count += 1;
            return false;
        }
        self.note_refused();
        self.push_item(Item::Record(at, record));
        true
    }

    /// Puts the count of the refused into its place, if there is one. Called before the end, too.
    pub(super) fn note_refused(&mut self) {
        if let Some((at, count)) = self.refused.take() {
            self.push_item(Item::Refused(at, count));
        }
    }

    fn push_item(&mut self, item: Item) {
        self.items.push_back(item);
        self.accepted += 1;
    }

    pub(super) fn pop(&mut self) -> Option<Item> {
        self.items.pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How many items were ever taken in.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, SystemClock};
    use crate::trace::record::{Forgotten, Pause};
    use proptest::prelude::*;

    fn event() -> Record {
        Record::Pause(Pause { by: String::new() })
    }

    fn frame(frame: u64) -> Record {
        crate::trace::tests::frame(frame)
    }

    #[test]
    fn events_find_room_where_frames_no_longer_do() {
        let at = SystemClock::new().now();
        let mut queue = Queue::new(16);
        let accepted = (0..30).filter(|&n| queue.push(at, frame(n))).count();
        assert_eq!(accepted, 14);
        assert!(queue.push(at, event()));
        assert!(!queue.push(at, event()), "full: one item and the count of the refused went in");
        let items: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(items[14], Item::Refused(at, 16));
        assert_eq!(items[15], Item::Record(at, event()));
        assert!(queue.push(at, frame(30)));
        assert_eq!(queue.pop(), Some(Item::Refused(at, 1)));
    }

    proptest! {
        /// Whatever the order of pushes and pops: each push comes out once, as itself or in a count, in order; and the
        /// queue never exceeds its room.
        #[test]
        fn nothing_is_lost_uncounted(steps in prop::collection::vec(0u8..4, 0..400), capacity in 8usize..40) {
            let at = SystemClock::new().now();
            let mut queue = Queue::new(capacity);
            let (mut pushed, mut out) = (0u64, Vec::new());
            for step in steps {
                match step {
                    0 => out.extend(queue.pop()),
                    1 => {
                        let kind = Forgotten { missing_from: pushed, removed: 0, request: 0 };
                        queue.push(at, Record::Forgotten(kind));
                        pushed += 1;
                    }
                    _ => {
                        queue.push(at, frame(pushed));
                        pushed += 1;
                    }
                }
                prop_assert!(queue.items.len() <= capacity);
            }
            queue.note_refused();
            out.extend(std::iter::from_fn(|| queue.pop()));
            prop_assert_eq!(out.len() as u64, queue.accepted());
            let mut next = 0;
            for item in out {
                match item {
                    Item::Refused(_, count) => next += count,
                    Item::Record(_, Record::Frame(record)) => { prop_assert_eq!(record.frame, next); next += 1; }
                    Item::Record(_, Record::Forgotten(record)) => { prop_assert_eq!(record.missing_from, next); next += 1; }
                    Item::Record(..) => prop_assert!(false),
                }
            }
            prop_assert_eq!(next, pushed);
        }
    }
}

//! Where tensors live: one arena, placed ahead of time from their lifetimes.
//!
//! A call is a sequence of steps, forward through the blocks and back. Every tensor is alive over a known range of steps,
//! so its place is decided before anything runs: the arena's length is the peak, to the byte, and whether a budget suffices
//! is known at the start. The arena stays from call to call; a page is only ever fetched from the system once.

use std::ops::Range;

use crate::kernels::Aligned;

/// Numbers to which places are rounded: a page, so that tensors do not share one.
const GRAIN: usize = 1024;

/// A tensor to be placed.
#[derive(Clone, Debug)]
pub(super) struct Lifetime {
    /// How many numbers.
    pub(super) length: usize,
    /// The first and the last step at which it is alive.
    pub(super) first: usize,
    pub(super) last: usize,
}

/// The most that is alive at any step, in numbers: a lower bound of what [`place`] needs.
pub(super) fn peak(tensors: &[Lifetime]) -> usize {
    let steps = tensors.iter().map(|tensor| tensor.last + 1).max().unwrap_or(0);
    (0..steps)
        .map(|step| {
            let alive = tensors.iter().filter(|tensor| (tensor.first..=tensor.last).contains(&step));
            alive.map(|tensor| tensor.length.next_multiple_of(GRAIN)).sum()
        })
        .max()
        .unwrap_or(0)
}

/// Places every tensor so that no two that are alive together overlap, large ones first, each as low as it fits. Returns
/// the places and the length of the arena.
pub(super) fn place(tensors: &[Lifetime]) -> (Vec<Range<usize>>, usize) {
    let mut order: Vec<usize> = (0..tensors.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(tensors[*index].length));
    let mut places: Vec<Range<usize>> = vec![0..0; tensors.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut total = 0;
    for index in order {
        let tensor = &tensors[index];
        let length = tensor.length.next_multiple_of(GRAIN);
        if length == 0 {
            continue;
        }
        let mut rivals: Vec<&Range<usize>> = placed
            .iter()
            .filter(|other| tensors[**other].first <= tensor.last && tensor.first <= tensors[**other].last)
            .map(|other| &places[*other])
            .collect();
        rivals.sort_by_key(|place| place.start);
        let mut start = 0;
        for rival in rivals {
            if start + length <= rival.start {
                break;
            }
            start = start.max(rival.end.next_multiple_of(GRAIN));
        }
        places[index] = start..start + tensor.length;
        placed.push(index);
        total = total.max(start + length);
    }
    (places, total)
}

/// The memory itself.
#[derive(Debug, Default)]
pub(super) struct Arena {
    numbers: Aligned,
}

impl Arena {
    /// Makes room; what was in it is lost if it has to grow.
    pub(super) fn reserve(&mut self, length: usize) {
        self.numbers.reserve(length);
    }

    /// Bytes held.
    pub(super) fn bytes(&self) -> usize {
        self.numbers.len() * size_of::<f32>()
    }

    /// The numbers at one place.
    pub(super) fn get(&self, place: &Range<usize>) -> &[f32] {
        &self.numbers[place.clone()]
    }

    /// The numbers at several places, which must not overlap: tensors that are alive together do not.
    pub(super) fn split<const N: usize>(&mut self, places: [&Range<usize>; N]) -> [&mut [f32]; N] {
        let places = places.map(|place| if place.is_empty() { 0..0 } else { place.clone() });
        match self.numbers.get_disjoint_mut(places) {
            Ok(slices) => slices,
            Err(error) => unreachable!("tensors alive together overlap or lie outside the arena: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn tensors_alive_together_never_overlap(list in prop::collection::vec((0usize..9000, 0usize..20, 0usize..20), 0..30)) {
            let tensors: Vec<Lifetime> = list
                .into_iter()
                .map(|(length, first, more)| Lifetime { length, first, last: first + more })
                .collect();
            let (places, total) = place(&tensors);
            for (a, place_a) in tensors.iter().zip(&places) {
                prop_assert_eq!(place_a.len(), a.length);
                prop_assert!(place_a.end <= total);
                for (b, place_b) in tensors.iter().zip(&places) {
                    let together = a.first <= b.last && b.first <= a.last;
                    let overlap = place_a.start < place_b.end && place_b.start < place_a.end;
                    prop_assert!(std::ptr::eq(a, b) || !together || !overlap);
                }
            }
            prop_assert!(peak(&tensors) <= total);
        }
    }

    #[test]
    fn what_is_dead_makes_room() {
        let tensor = |first, last| Lifetime { length: 5000, first, last };
        let (_, total) = place(&[tensor(0, 1), tensor(1, 2), tensor(2, 3), tensor(3, 4)]);
        assert_eq!(total, 2 * 5000usize.next_multiple_of(GRAIN));
    }
}

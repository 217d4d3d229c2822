//! Frames in parallel, with results that do not depend on the number of threads or on who did what.
//!
//! The frames of a call are dealt into a fixed number of groups. A group is worked through in order by one thread and sums
//! into its own accumulators, and the accumulators are merged in the order of the groups. Threads only decide when a group
//! runs, never what it computes.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::kernels::Aligned;
use crate::kernels::norm::{GradientSums, Moments};
use crate::{Error, Result};

/// Groups of a call that has at least as many frames: enough for the threads of any board to share evenly, few enough that
/// their accumulators stay small.
const GROUPS: usize = 24;

/// Buffers of one thread.
const BUFFERS: usize = 6;

/// Some frames and what was summed over them.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) frames: Range<usize>,
    /// Moments of each panel.
    pub(super) moments: Vec<Moments>,
    /// Sums for a batch norm's gradient, of each panel.
    pub(super) gradients: Vec<GradientSums>,
    /// Gradients of weights, or other long sums.
    pub(super) weights: Aligned,
    /// Second moments and other sums that need more digits.
    pub(super) exact: Vec<f64>,
}

impl Group {
    /// Sets `panels` moments and gradient sums, `weights` and `exact` sums to zero.
    pub(super) fn clear(&mut self, panels: usize, weights: usize, exact: usize) {
        self.moments.clear();
        self.moments.resize(panels, Moments::default());
        self.gradients.clear();
        self.gradients.resize(panels, GradientSums::default());
        self.weights.reserve(weights);
        self.weights[..weights].fill(0.0);
        self.exact.clear();
        self.exact.resize(exact, 0.0);
    }
}

/// Frames dealt evenly, in order.
pub(super) fn deal(count: usize) -> Vec<Group> {
    let groups = count.clamp(1, GROUPS);
    (0..groups)
        .map(|group| Group {
            frames: group * count / groups..(group + 1) * count / groups,
            ..Group::default()
        })
        .collect()
}

/// Memory of one thread, reused from call to call.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    buffers: [Aligned; BUFFERS],
    /// Where a frame is worked on for which nothing is held.
    pub(super) values: Aligned,
    /// The same for gradients.
    pub(super) gradients: Aligned,
}

impl Scratch {
    /// Buffers of at least these lengths, with whatever is in them, and the two frame memories.
    pub(super) fn parts<const N: usize>(
        &mut self,
        lengths: [usize; N],
    ) -> ([&mut [f32]; N], &mut Aligned, &mut Aligned) {
        const { assert!(N <= BUFFERS) };
        let mut buffers = self.buffers.iter_mut();
        let parts = lengths.map(|length| {
            let Some(buffer) = buffers.next() else { unreachable!("there are {BUFFERS} buffers") };
            buffer.reserve(length);
            &mut buffer[..length]
        });
        (parts, &mut self.values, &mut self.gradients)
    }
}

/// The threads and their memories.
#[derive(Debug)]
pub(super) struct Workers {
    pool: ThreadPool,
    scratch: Vec<Mutex<Scratch>>,
}

impl Workers {
    pub(super) fn new(threads: usize) -> Result<Self> {
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("encoder-{index}"))
            .build()
            .map_err(|error| Error::Device(format!("cannot start {threads} encoder threads: {error}")))?;
        let scratch = (0..pool.current_num_threads()).map(|_| Mutex::default()).collect();
        Ok(Self { pool, scratch })
    }

    /// How many threads there are.
    pub(super) fn threads(&self) -> usize {
        self.scratch.len()
    }

    /// Runs `work` for every group, each with its own view of the tensors.
    pub(super) fn run<T: Send>(
        &self,
        groups: &mut [Group],
        views: Vec<T>,
        work: impl Fn(&mut Group, T, &mut Scratch) + Sync,
    ) {
        assert_eq!(groups.len(), views.len(), "one view a group");
        self.pool.install(|| {
            groups.par_iter_mut().zip(views).with_max_len(1).for_each(|(group, view)| {
                let thread = rayon::current_thread_index().unwrap_or(0);
                // A poisoned lock means that another group panicked, which ends the call anyway.
                let mut scratch = self.scratch[thread].lock().unwrap_or_else(PoisonError::into_inner);
                work(group, view, &mut scratch);
            });
        });
    }

    /// `to[i] = Σ` over groups of their weight sum `from + i`, in the order of the groups.
    pub(super) fn merge_weights(&self, groups: &[Group], from: usize, to: &mut [f32]) {
        const PART: usize = 1 << 14;
        self.pool.install(|| {
            to.par_chunks_mut(PART).enumerate().for_each(|(part, to)| {
                let start = from + part * PART;
                to.fill(0.0);
                for group in groups {
                    crate::kernels::norm::add(to, &group.weights[start..start + to.len()]);
                }
            });
        });
    }
}

/// Moments of each panel over all groups.
pub(super) fn merge_moments(groups: &[Group], panels: Range<usize>) -> Vec<Moments> {
    panels
        .map(|panel| {
            let mut merged = Moments::default();
            groups.iter().for_each(|group| merged.merge(&group.moments[panel]));
            merged
        })
        .collect()
}

/// Gradient sums of each panel over all groups.
pub(super) fn merge_gradients(groups: &[Group], panels: Range<usize>) -> Vec<GradientSums> {
    panels
        .map(|panel| {
            let mut merged = GradientSums::default();
            groups.iter().for_each(|group| merged.merge(&group.gradients[panel]));
            merged
        })
        .collect()
}

/// Exact sums over all groups.
pub(super) fn merge_exact(groups: &[Group], range: Range<usize>) -> Vec<f64> {
    range.map(|index| groups.iter().map(|group| group.exact[index]).sum()).collect()
}

/// A tensor of the arena with as many numbers for each frame, for the first frames of a call.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    numbers: &'a mut [f32],
    stride: usize,
    first: usize,
}

impl<'a> Frames<'a> {
    /// Deals the tensor out to the groups: each gets its own frames, as far as they are there.
    pub(super) fn deal(mut numbers: &'a mut [f32], stride: usize, groups: &[Group]) -> Vec<Self> {
        groups
            .iter()
            .map(|group| {
                let length = (group.frames.len() * stride).min(numbers.len());
                let (own, rest) = std::mem::take(&mut numbers).split_at_mut(length);
                numbers = rest;
                Self { numbers: own, stride, first: group.frames.start }
            })
            .collect()
    }

    /// The numbers of a frame of this group, if they are held.
    pub(super) fn get(&mut self, frame: usize) -> Option<&mut [f32]> {
        let start = (frame - self.first) * self.stride;
        self.numbers.get_mut(start..start + self.stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_every_frame_once_and_evenly() {
        for count in [1, 2, 23, 24, 25, 150, 300] {
            let groups = deal(count);
            assert_eq!(groups.len(), count.min(GROUPS));
            assert_eq!(groups.first().unwrap().frames.start, 0);
            assert_eq!(groups.last().unwrap().frames.end, count);
            assert!(groups.windows(2).all(|pair| pair[0].frames.end == pair[1].frames.start));
            let sizes: Vec<usize> = groups.iter().map(|group| group.frames.len()).collect();
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn a_tensor_is_dealt_as_far_as_it_goes() {
        let groups = deal(30);
        let mut numbers: Vec<f32> = (0..20).flat_map(|frame| [frame as f32; 3]).collect();
        let mut views = Frames::deal(&mut numbers, 3, &groups);
        for (group, view) in groups.iter().zip(&mut views) {
            for frame in group.frames.clone() {
                let expected = (frame < 20).then_some([frame as f32; 3]);
                assert_eq!(view.get(frame).map(|numbers| &*numbers), expected.as_ref().map(|e| &e[..]));
            }
        }
    }

    #[test]
    fn merging_does_not_depend_on_the_threads() {
        let merged = [1, 2, 5].map(|threads| {
            let workers = Workers::new(threads).unwrap();
            let mut groups = deal(50);
            let views = vec![(); groups.len()];
            workers.run(&mut groups, views, |group, (), _| {
                group.clear(0, 20_000, 1);
                for frame in group.frames.clone() {
                    for (i, sum) in group.weights.iter_mut().enumerate() {
                        *sum += 1.0 / (1 + frame * i) as f32;
                    }
                    group.exact[0] += 1.0;
                }
            });
            let mut sums = vec![9.0; 19_000];
            workers.merge_weights(&groups, 1000, &mut sums);
            assert_eq!(merge_exact(&groups, 0..1), [50.0]);
            sums
        });
        assert!(merged.iter().all(|sums| *sums == merged[0]));
        let exact: f64 = (0..50).map(|frame| 1.0 / f64::from(1 + frame * 1007)).sum();
        assert!((f64::from(merged[0][7]) - exact).abs() < 1e-6);
    }
}

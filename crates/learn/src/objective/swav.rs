//! SwAV (Caron et al. 2020): the assignment of one view to prototypes is to be told from the other view.
//!
//! Assignments are made so that over the window all prototypes are used alike (Sinkhorn and Knopp), and carry no gradient. With a
//! queue, the assignments are balanced over the projections of earlier frames too. The prototypes are part of the head; after
//! each update they are made to have the length 1.

use std::collections::BTreeMap;

use candle_core::{Device, Result as Computed, Tensor as Values};

use super::autograd::{ByAutograd, Loss};
use super::head::{Bound, Layout, Mlp, Slot, Weights, carried_name, carried_part, directions, log_softmax};
use super::widths::Widths;
use crate::config::Settings;
use crate::tensors::Tensor;
use crate::{Error, Result};

/// Divides the scores of the views that tell.
const TEMPERATURE: f64 = 0.1;

/// Divides the scores that assignments are made of.
const SHARPNESS: f32 = 0.05;

/// Rounds of balancing.
const ROUNDS: usize = 3;

/// Updates before the queue is asked.
const QUEUE_FROM: u64 = 2000;

/// See the [module](self).
pub struct SwAv {
    projector: Mlp,
    prototypes: Slot,
    output: usize,
    queue: Option<Queue>,
}

impl SwAv {
    /// The objective for embeddings of so many numbers, with a random head and an empty queue, or none.
    pub fn objective(settings: &Settings, dimension: usize, queue: bool) -> ByAutograd<Self> {
        Self::with(settings, dimension, queue, Widths::of(settings))
    }

    pub(super) fn with(
        settings: &Settings,
        dimension: usize,
        queue: bool,
        widths: Widths,
    ) -> ByAutograd<Self> {
        let mut layout = Layout::default();
        let projector = widths.projector(&mut layout, dimension);
        let prototypes = layout.prototypes(&widths);
        // A run that is shorter than the paper's asks the queue in the same way, only sooner.
        let from = QUEUE_FROM.min(settings.steps / 10);
        let queue = queue.then(|| Queue::new(widths.queue, widths.output, from));
        let loss = Self { projector, prototypes, output: widths.output, queue };
        ByAutograd::new(settings, loss, Weights::new(layout, settings.seed))
    }
}

impl Layout {
    fn prototypes(&mut self, widths: &Widths) -> Slot {
        self.matrix("prototypes", widths.prototypes, widths.output)
    }
}

impl Loss for SwAv {
    fn name(&self) -> &'static str {
        if self.queue.is_some() { "swav-queue" } else { "swav" }
    }

    fn terms(&self) -> &'static [&'static str] {
        &["swapped"]
    }

    fn loss(&mut self, rows: &Values, frames: usize, step: u64, weights: &Bound) -> Computed<Vec<Values>> {
        let views = directions(&self.projector.forward(weights, rows)?)?;
        let prototypes = weights.get(self.prototypes).t()?;
        let scores = views.matmul(&prototypes)?;
        let earlier = match self.queue.as_ref().filter(|queue| queue.is_asked(step)) {
            Some(queue) => queue.rows()?.matmul(&prototypes.detach())?.flatten_all()?.to_vec1()?,
            None => Vec::new(),
        };
        let count = scores.dim(1)?;
        let assigned = |view: usize| {
            let own = scores.narrow(0, view * frames, frames)?.flatten_all()?.to_vec1::<f32>()?;
            let all = [earlier.as_slice(), own.as_slice()].concat();
            let shares = assignments(&all, count).split_off(earlier.len());
            Values::from_vec(shares, (frames, count), &Device::Cpu)
        };
        let crossed = Values::cat(&[assigned(1)?, assigned(0)?], 0)?;
        let told = log_softmax(&(&scores / TEMPERATURE)?)?;
        if let Some(queue) = &mut self.queue {
            queue.next = views.narrow(0, 0, frames)?.flatten_all()?.to_vec1()?;
        }
        Ok(vec![((crossed * told)?.sum_all()? * (-0.5 / frames as f64))?])
    }

    fn applied(&mut self, weights: &mut Weights) {
        for prototype in weights.values_mut(self.prototypes).chunks_exact_mut(self.output) {
            let length = prototype.iter().map(|value| value * value).sum::<f32>().sqrt();
            prototype.iter_mut().for_each(|value| *value /= length.max(1e-12));
        }
        if let Some(queue) = &mut self.queue {
            queue.push();
        }
    }

    fn put_aside(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.aside.get_or_insert_with(|| std::mem::take(&mut queue.held));
        }
    }

    fn take_up(&mut self) {
        if let Some(queue) = &mut self.queue
            && let Some(held) = queue.aside.take()
        {
            queue.held = held;
        }
    }

    fn carried(&self) -> BTreeMap<String, Tensor> {
        let Some(Queue { held, width, .. }) = &self.queue else { return BTreeMap::new() };
        let rows = Tensor { shape: vec![held.len() / width, *width], values: held.clone() };
        BTreeMap::from([(carried_name(self.name(), QUEUE), rows)])
    }

    fn carry(&mut self, from: &BTreeMap<String, Tensor>) -> Result<()> {
        let name = self.name();
        let Some(queue) = &mut self.queue else { return Ok(()) };
        let rows = from.get(&carried_name(name, QUEUE)).and_then(|tensor| tensor.shape.first().copied());
        let rows = rows.unwrap_or(0);
        if rows > queue.capacity {
            return Err(Error::input(format!(
                "the checkpoint's queue has {rows} rows, more than the {} that it can hold",
                queue.capacity
            )));
        }
        queue.held = carried_part(from, name, QUEUE, &[rows, queue.width])?;
        Ok(())
    }
}

/// The queue's name among what is carried on.
const QUEUE: &str = "queue";

/// Projections of view 1 of the newest frames.
struct Queue {
    /// Oldest first.
    held: Vec<f32>,
    capacity: usize,
    width: usize,
    from: u64,
    /// Those of the window that was run last.
    next: Vec<f32>,
    /// What was held before a window that does not follow the last one.
    aside: Option<Vec<f32>>,
}

impl Queue {
    fn new(capacity: usize, width: usize, from: u64) -> Self {
        Self { held: Vec::new(), capacity, width, from, next: Vec::new(), aside: None }
    }

    /// From some update on, if it is full.
    fn is_asked(&self, step: u64) -> bool {
        step >= self.from && self.held.len() == self.capacity * self.width
    }

    fn rows(&self) -> Computed<Values> {
        Values::from_slice(&self.held, (self.held.len() / self.width, self.width), &Device::Cpu)
    }

    fn push(&mut self) {
        self.held.append(&mut self.next);
        let excess = self.held.len().saturating_sub(self.capacity * self.width);
        self.held.drain(..excess);
    }
}

/// Shares of `count` prototypes for each row of scores: each row's sum is 1, and all prototypes get nearly as much.
fn assignments(scores: &[f32], count: usize) -> Vec<f32> {
    let mut shares = scores.to_vec();
    for row in shares.chunks_exact_mut(count) {
        // The largest is taken off before the exponential; the row is made to add up to 1 in any case.
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter_mut().for_each(|score| *score = ((*score - largest) / SHARPNESS).exp());
        scale(row, 1.0);
    }
    let mut sums = vec![0.0; count];
    for _ in 0..ROUNDS {
        sums.fill(0.0f32);
        for row in shares.chunks_exact(count) {
            sums.iter_mut().zip(row).for_each(|(sum, share)| *sum += share);
        }
        // What no row has any of stays so.
        sums.iter_mut().for_each(|sum| *sum = if *sum > 0.0 { 1.0 / (*sum * count as f32) } else { 0.0 });
        for row in shares.chunks_exact_mut(count) {
            row.iter_mut().zip(&sums).for_each(|(share, factor)| *share *= factor);
            scale(row, 1.0);
        }
    }
    shares
}

/// Makes a row add up to `total`.
fn scale(row: &mut [f32], total: f32) {
    let sum = row.iter().sum::<f32>();
    row.iter_mut().for_each(|share| *share *= total / sum.max(f32::MIN_POSITIVE));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    /// Rows add up to 1 exactly by construction; after three rounds the prototypes' totals are alike within a few percent.
    #[test]
    fn assignments_use_all_prototypes_alike() {
        let mut random = Random::new(3, Purpose::Sampling, 0);
        let (rows, count) = (400, 5);
        let scores: Vec<f32> =
            (0..rows * count).map(|at| 0.02 * random.normal() as f32 + 0.01 * (at % count) as f32).collect();
        let shares = assignments(&scores, count);
        for row in shares.chunks_exact(count) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5);
        }
        for prototype in 0..count {
            let total: f32 = shares.iter().skip(prototype).step_by(count).sum();
            assert!((total / (rows as f32 / count as f32) - 1.0).abs() < 0.05, "{prototype}: {total}");
        }
        let plain: f32 =
            scores.iter().skip(4).step_by(count).sum::<f32>() - scores.iter().step_by(count).sum::<f32>();
        assert!(plain > 1.0, "the scores themselves favour the last prototype");
    }

    #[test]
    fn a_queue_holds_the_newest_and_is_asked_when_it_is_full() {
        let mut queue = Queue::new(3, 2, 5);
        for number in 0..4 {
            assert!(!queue.is_asked(9) || number > 2);
            queue.next = vec![number as f32; 2];
            queue.push();
        }
        assert_eq!(queue.held, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]);
        assert!(queue.is_asked(5) && !queue.is_asked(4));
    }
}

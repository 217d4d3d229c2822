//! Online unsupervised prototypical networks: the memory's window with its three losses, and their exact gradient.

use std::collections::BTreeMap;

use rayon::prelude::*;

use super::{Answer, Objective, Question};
use crate::config::Settings;
use crate::learner::saved::{put_prototypes, take_prototypes};
use crate::learner::schedule::kappa;
use crate::memory::window::ControlGradient;
use crate::memory::{Losses, Noise, Prototypes, Rules, Variant, Window, WindowInput};
use crate::random::{Purpose, Random};
use crate::tensors::Tensor;
use crate::{Error, Result};

/// The name of the learning memory among what is carried on.
const MEMORY: &str = "memory";

/// The names of the losses: L_self, L_ent, L_new.
pub const TERMS: [&str; 3] = ["self", "entropy", "new"];

/// See the [module](self).
pub struct Oupn {
    rules: Rules,
    seed: u64,
    /// The learning memory, carried from window to window.
    memory: Prototypes<f32>,
    /// The same, while a window is learned from that does not follow the last one.
    aside: Option<Prototypes<f32>>,
    /// The memory's window, once for each second view.
    windows: Vec<Window<f32>>,
    noise: [NoiseBuffer; 2],
}

#[derive(Clone, Debug, Default)]
struct NoiseBuffer {
    creation: Vec<f32>,
    assignment: Vec<f32>,
}

impl Oupn {
    /// An empty memory for embeddings of so many numbers.
    ///
    /// # Errors
    /// If the settings ask for a memory or window that cannot be.
    pub fn new(settings: &Settings, dimension: usize) -> Result<Self> {
        Ok(Self {
            rules: settings.rules(),
            seed: settings.seed,
            memory: Prototypes::new(settings.slots, dimension)?,
            aside: None,
            windows: (0..settings.second_views)
                .map(|_| Window::new(settings.window, settings.slots, dimension))
                .collect::<Result<_>>()?,
            noise: Default::default(),
        })
    }

    /// The random numbers of an update: a function of seed and step alone.
    fn draw_noise(&mut self, frames: usize, step: u64) {
        if !self.rules.straight_through {
            return;
        }
        let mut random = Random::new(self.seed, Purpose::Sampling, step);
        let samples_assignment = self.rules.variant == Variant::Paper;
        let assignments = if samples_assignment { frames * self.memory.slots() } else { 0 };
        for noise in &mut self.noise {
            noise.creation.clear();
            noise.creation.extend((0..frames).map(|_| random.logistic() as f32));
            noise.assignment.clear();
            noise.assignment.extend((0..assignments).map(|_| random.gumbel() as f32));
        }
    }
}

impl Objective for Oupn {
    fn terms(&self) -> &'static [&'static str] {
        &TERMS
    }

    /// The memory is written by view 1 alone, so with several second views it goes the same way each time, and only what they
    /// are asked differs: the average of the windows' losses is the loss of them all.
    fn run(&mut self, question: &Question<'_>, d_embeddings: &mut [f32]) -> Result<Answer> {
        let &Question { embeddings, control, step, stride } = question;
        let numbers = embeddings.frames * embeddings.dimension;
        self.draw_noise(embeddings.frames, step);
        let noise = self.rules.straight_through.then_some(Noise {
            creation: self.noise.each_ref().map(|noise| &noise.creation[..]),
            assignment: self.noise.each_ref().map(|noise| &noise.assignment[..]),
        });
        let (memory, rules, first) = (&self.memory, &self.rules, embeddings.first());
        let kappa = kappa(step);
        let run = |(window, second): (&mut Window<f32>, &[f32])| {
            window.run(&WindowInput {
                embeddings: [first, second],
                memory,
                control,
                rules,
                kappa,
                noise,
                stride,
            })
        };
        self.windows.par_iter_mut().zip(embeddings.seconds().par_chunks_exact(numbers)).try_for_each(run)?;

        let (d_first, d_seconds) = d_embeddings.split_at_mut(numbers);
        d_first.fill(0.0);
        let mut losses = Losses::default();
        let mut d_control = ControlGradient::default();
        let share = 1.0 / self.windows.len() as f64;
        for (window, d_second) in self.windows.iter().zip(d_seconds.chunks_exact_mut(numbers)) {
            for (sum, d) in d_first.iter_mut().zip(window.d_embeddings(0)) {
                *sum += share as f32 * d;
            }
            for (d_second, d) in d_second.iter_mut().zip(window.d_embeddings(1)) {
                *d_second = share as f32 * d;
            }
            losses.add_scaled(share, window.losses());
            d_control.add_scaled(share, window.d_control());
        }
        let outcomes = self.windows[0].outcomes();
        let values = [losses.self_supervised, losses.entropy, losses.creation];
        Ok(Answer {
            loss: losses.total,
            terms: TERMS.into_iter().zip(values).collect(),
            d_control,
            mean_new_probability: outcomes.iter().map(|outcome| outcome.new_probability).sum::<f64>()
                / outcomes.len().max(1) as f64,
            created: outcomes.iter().filter(|outcome| outcome.created).count(),
        })
    }

    fn commit(&mut self) {
        self.memory.clone_from(self.windows[0].memory_after_stride());
    }

    fn put_aside(&mut self) {
        if self.aside.is_none() {
            let mut empty = self.memory.clone();
            empty.clear();
            self.aside = Some(std::mem::replace(&mut self.memory, empty));
        }
    }

    fn take_up(&mut self) {
        if let Some(memory) = self.aside.take() {
            self.memory = memory;
        }
    }

    fn in_use(&self) -> usize {
        self.memory.in_use()
    }

    fn carried(&self) -> BTreeMap<String, Tensor> {
        let mut tensors = BTreeMap::new();
        put_prototypes(MEMORY, &self.memory, &mut tensors);
        tensors
    }

    fn carry(&mut self, from: &BTreeMap<String, Tensor>) -> Result<()> {
        if !from.contains_key("memory.counts") {
            return Err(super::other_objective(from, "oupn"));
        }
        let memory = take_prototypes(from, MEMORY, self.memory.dimension())?;
        check_slots(from, self.memory.slots())?;
        self.memory = memory;
        Ok(())
    }
}

/// Refuses a memory that is not of these settings' making: another number of slots.
///
/// # Errors
/// If it has another number of slots.
pub fn check_slots(carried: &BTreeMap<String, Tensor>, slots: usize) -> Result<()> {
    let counts = carried.get(&format!("{MEMORY}.counts")).map_or(0, |counts| counts.values.len());
    if counts == slots {
        return Ok(());
    }
    Err(Error::input(format!(
        "the checkpoint's memory has {counts} slots, the settings ask for {slots}: keep the setting, or use another --data folder"
    )))
}

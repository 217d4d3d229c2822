//! The memory of the live path: tells at once which category a frame belongs to.
//!
//! Slots are fixed in number, category ids are not: each founded category gets the next number, and a number is never
//! given twice, so a trace stays unambiguous after its categories were forgotten. [`LiveMemory::observe`] allocates
//! nothing.

use heapless::Vec as FixedVec;

use super::prototypes::Prototypes;
use super::rules::{Control, Rules};
use super::step::{self, Assignment, NORM_EPSILON};
use crate::kernels::vector;
use crate::{Error, Result};

/// How many candidates an observation names.
pub const RUNNERS_UP: usize = 5;

/// A category beside a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The category's id.
    pub category: u64,
    /// ŷ: its share of the frame before the write.
    pub share: f32,
    /// The cosine between frame and prototype before the write.
    pub similarity: f32,
}

/// What the memory says of one frame.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The frame's category: the nearest one, or the one it founded.
    pub category: u64,
    /// Whether the frame founded it.
    pub created: bool,
    /// The category that was forgotten to make room.
    pub evicted: Option<u64>,
    /// û: the probability that the frame belongs to no known category.
    pub new_probability: f32,
    /// Cosine to the nearest prototype before the write; 0 in an empty memory.
    pub similarity: f32,
    /// The most similar categories before the write, best first.
    pub top: FixedVec<Candidate, RUNNERS_UP>,
}

/// A fixed number of prototypes with names.
#[derive(Clone, Debug)]
pub struct LiveMemory {
    prototypes: Prototypes<f32>,
    ids: Vec<u64>,
    ages: Vec<u64>,
    next_id: u64,
    /// ‖P_k‖ + ε, kept current by every write.
    norms: Vec<f64>,
    /// Scratch: the cosine and ŷ of the current frame.
    cosines: Vec<f64>,
    y_hat: Vec<f64>,
}

impl LiveMemory {
    /// An empty memory of `slots` prototypes of `dimension` numbers.
    pub fn new(slots: usize, dimension: usize) -> Result<Self> {
        let prototypes = Prototypes::new(slots, dimension)?;
        Self::from_parts(prototypes, vec![0; slots], vec![0; slots], 0)
    }

    /// A memory as it was: prototypes, the id and the age of each slot, and the id that comes next.
    pub fn from_parts(
        prototypes: Prototypes<f32>,
        ids: Vec<u64>,
        ages: Vec<u64>,
        next_id: u64,
    ) -> Result<Self> {
        let slots = prototypes.slots();
        if ids.len() != slots || ages.len() != slots {
            return Err(Error::input(format!(
                "a memory of {slots} slots with {} ids and {} ages",
                ids.len(),
                ages.len()
            )));
        }
        let used =
            || ids.iter().zip(prototypes.counts()).filter(|(_, count)| **count > 0.0).map(|(id, _)| *id);
        if let Some(id) = used().find(|id| *id >= next_id) {
            return Err(Error::input(format!(
                "category {id} exists but the next new one would be {next_id}"
            )));
        }
        let norms = (0..slots).map(|slot| norm(prototypes.vector(slot))).collect();
        Ok(Self { prototypes, ids, ages, next_id, norms, cosines: vec![0.0; slots], y_hat: vec![0.0; slots] })
    }

    /// The prototypes and their counts.
    pub fn prototypes(&self) -> &Prototypes<f32> {
        &self.prototypes
    }

    /// The category id of each slot; meaningful where the slot is in use.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// Frames since each slot's category was founded.
    pub fn ages(&self) -> &[u64] {
        &self.ages
    }

    /// The id that the next founded category gets; also the number of categories founded so far.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Categorises one embedding and learns from it (E-step, decision, M-step, decay).
    ///
    /// An embedding of the wrong length, with a NaN or an infinity, or so large that its norm overflows is refused and
    /// leaves the memory as it was.
    pub fn observe(&mut self, z: &[f32], control: &Control, rules: &Rules) -> Result<Observation> {
        let square = f64::from(vector::dot(z, z));
        if z.len() != self.prototypes.dimension() {
            return Err(Error::input(format!(
                "an embedding of {} numbers for a memory of dimension {}",
                z.len(),
                self.prototypes.dimension()
            )));
        }
        if !square.is_finite() {
            return Err(Error::input("an embedding that is not finite; the frame was not counted"));
        }
        let z_norm = square.sqrt() + NORM_EPSILON;

        for slot in 0..self.ids.len() {
            let count = f64::from(self.prototypes.counts()[slot]);
            let inner =
                if count > 0.0 { f64::from(vector::dot(self.prototypes.vector(slot), z)) } else { 0.0 };
            self.cosines[slot] = inner / (z_norm * self.norms[slot]);
            self.y_hat[slot] = step::logit(control, count, inner, z_norm, self.norms[slot]);
        }
        let expectation = step::expect(control, &mut self.y_hat);
        let top = self.candidates();
        let similarity = top.first().map_or(0.0, |best| best.similarity);

        let created = expectation.new_probability > rules.threshold;
        let weakest = step::weakest(self.prototypes.counts().iter().map(|count| f64::from(*count)));
        let mut evicted = None;
        let mut category = self.ids[expectation.nearest];
        if created {
            if self.prototypes.counts()[weakest] > 0.0 {
                evicted = Some(self.ids[weakest]);
            }
            category = self.next_id;
            self.next_id += 1;
            self.ids[weakest] = category;
            self.ages[weakest] = 0;
        }
        self.write(z, rules, expectation.new_probability, created, weakest);
        Ok(Observation {
            category,
            created,
            evicted,
            new_probability: expectation.new_probability as f32,
            similarity,
            top,
        })
    }

    /// M-step for every slot that the frame touches, then decay and ageing.
    fn write(&mut self, z: &[f32], rules: &Rules, new_probability: f64, created: bool, weakest: usize) {
        for slot in 0..self.ids.len() {
            let assignment = Assignment {
                count: f64::from(self.prototypes.counts()[slot]),
                share: self.y_hat[slot],
                gate: 1.0 - new_probability,
                new: f64::from(u8::from(created)),
                weakest: slot == weakest,
            };
            let write = assignment.write(rules.variant, rules.decay);
            if created && slot == weakest {
                // Copied, not blended: whatever the slot held before, the new prototype is the embedding.
                self.prototypes.vector_mut(slot).copy_from_slice(z);
                self.norms[slot] = norm(z);
            } else if write.gain > 0.0 {
                let vector = self.prototypes.vector_mut(slot);
                let square = vector::blend(vector, write.keep as f32, write.gain as f32, z);
                self.norms[slot] = f64::from(square).sqrt() + NORM_EPSILON;
            }
            if write.count > 0.0 {
                // Weeks of decay must not round a count to zero: a category is forgotten by eviction alone.
                self.prototypes.counts_mut()[slot] = (write.count as f32).max(f32::MIN_POSITIVE);
                self.ages[slot] += 1;
            }
        }
    }

    /// The best slots in use by cosine, best first; the lowest slot of equals first.
    fn candidates(&self) -> FixedVec<Candidate, RUNNERS_UP> {
        let mut best: FixedVec<usize, RUNNERS_UP> = FixedVec::new();
        for slot in 0..self.ids.len() {
            if self.prototypes.counts()[slot] <= 0.0 {
                continue;
            }
            let place = best.iter().position(|other| self.cosines[slot] > self.cosines[*other]);
            let place = place.unwrap_or(best.len());
            if place < RUNNERS_UP {
                if best.is_full() {
                    best.pop();
                }
                // Cannot fail: `place` is within the list, and the list is not full any more.
                let _ = best.insert(place, slot);
            }
        }
        best.iter()
            .map(|&slot| Candidate {
                category: self.ids[slot],
                share: self.y_hat[slot] as f32,
                similarity: self.cosines[slot] as f32,
            })
            .collect()
    }
}

fn norm(vector: &[f32]) -> f64 {
    f64::from(vector::dot(vector, vector)).sqrt() + NORM_EPSILON
}

//! The bare state of a memory: K prototypes of D numbers, and how much each one weighs.

use crate::kernels::Real;
use crate::{Error, Result};

/// The most slots that a memory may have.
pub const MAX_SLOTS: usize = 1024;

/// K slots, each a prototype and its decayed count. A slot is in use if and only if its count is above zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Prototypes<F> {
    slots: usize,
    dimension: usize,
    vectors: Vec<F>,
    counts: Vec<F>,
}

impl<F: Real> Prototypes<F> {
    /// An empty memory.
    pub fn new(slots: usize, dimension: usize) -> Result<Self> {
        if !(1..=MAX_SLOTS).contains(&slots) {
            return Err(Error::input(format!("a memory of {slots} slots; expected 1 to {MAX_SLOTS}")));
        }
        if dimension == 0 {
            return Err(Error::input("a memory of dimension 0; expected at least 1"));
        }
        let zero = F::from_f64(0.0);
        Ok(Self { slots, dimension, vectors: vec![zero; slots * dimension], counts: vec![zero; slots] })
    }

    /// A memory with this content: `vectors` holds one prototype after the other.
    pub fn from_parts(dimension: usize, vectors: Vec<F>, counts: Vec<F>) -> Result<Self> {
        let mut memory = Self::new(counts.len(), dimension)?;
        if vectors.len() != memory.vectors.len() {
            return Err(Error::input(format!(
                "a memory of {} slots and dimension {dimension} needs {} numbers; got {}",
                counts.len(),
                memory.vectors.len(),
                vectors.len()
            )));
        }
        if let Some(slot) = counts.iter().position(|c| !c.to_f64().is_finite() || c.to_f64() < 0.0) {
            return Err(Error::input(format!("the count of slot {slot} is not a finite number ≥ 0")));
        }
        if let Some(at) = vectors.iter().position(|v| !v.to_f64().is_finite()) {
            return Err(Error::input(format!("the prototype of slot {} is not finite", at / dimension)));
        }
        memory.vectors = vectors;
        memory.counts = counts;
        Ok(memory)
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.vectors.fill(F::from_f64(0.0));
        self.counts.fill(F::from_f64(0.0));
    }

    /// K.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// D.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// All prototypes, one after the other.
    pub fn vectors(&self) -> &[F] {
        &self.vectors
    }

    /// The prototype of one slot.
    pub fn vector(&self, slot: usize) -> &[F] {
        &self.vectors[slot * self.dimension..][..self.dimension]
    }

    /// The decayed count of every slot; 0 marks a slot that is not in use.
    pub fn counts(&self) -> &[F] {
        &self.counts
    }

    /// The number of slots in use.
    pub fn in_use(&self) -> usize {
        self.counts.iter().filter(|count| count.to_f64() > 0.0).count()
    }

    pub(super) fn vector_mut(&mut self, slot: usize) -> &mut [F] {
        &mut self.vectors[slot * self.dimension..][..self.dimension]
    }

    pub(super) fn counts_mut(&mut self) -> &mut [F] {
        &mut self.counts
    }
}

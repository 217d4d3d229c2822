//! The memory of the live path: tells at once which category a frame belongs to.
//!
//! Slots are fixed in number, category ids are not: each category gets the next number when it is created, and a number is
//! never given twice, so a trace stays unambiguous after its categories were forgotten. [`LiveMemory::observe`] allocates
//! nothing.
//!
//! **Writes.** The paper spreads a frame over all prototypes, by its similarity to each. A learning window needs that for its
//! gradient. In a memory that lives for hours it blurs: at 1/τ = 10 the most similar category gets a quarter of a frame, and
//! the rest draws all other prototypes towards the mean. So a device writes [hard](Writes::Hard): a frame belongs to one
//! category, whose prototype is the plain mean of its frames' directions.

use heapless::Vec as FixedVec;
use serde::{Deserialize, Serialize};

use super::prototypes::Prototypes;
use super::rules::{Control, Rules};
use super::step::{self, Assignment, NORM_EPSILON};
use crate::kernels::vector;
use crate::{Error, Result};

/// How many candidates an observation names.
pub const RUNNERS_UP: usize = 5;

/// How a frame is written into the live memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writes {
    /// Into its own category alone.
    Hard,
    /// Into every category by its share, as in the paper.
    #[default]
    Soft,
}

/// What counts are multiplied by after each frame with hard writes. There they only decide which category makes room when the
/// memory is full: one that was seen often and not long ago stays.
const HARD_DECAY: f64 = 0.999;

/// Two categories that were joined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Joined {
    /// The younger one, which is gone.
    pub from: u64,
    /// The older one, which has all frames of both.
    pub into: u64,
    /// The cosine of their prototypes.
    pub similarity: f32,
}

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
    /// The frame's category: the nearest one, or the one it created.
    pub category: u64,
    /// Whether the frame created it.
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
    writes: Writes,
    /// The frames that each prototype is the mean of; with hard writes.
    frames: Vec<u64>,
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
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let frames = prototypes.counts().iter().map(|count| count.ceil() as u64).collect();
        Ok(Self {
            prototypes,
            ids,
            ages,
            next_id,
            writes: Writes::default(),
            frames,
            norms,
            cosines: vec![0.0; slots],
            y_hat: vec![0.0; slots],
        })
    }

    /// The same memory, written into in this way from now on.
    #[must_use]
    pub fn with_writes(mut self, writes: Writes) -> Self {
        self.writes = writes;
        self
    }

    /// How it is written into.
    pub fn writes(&self) -> Writes {
        self.writes
    }

    /// The same memory, whose prototypes are the means of so many frames.
    ///
    /// # Errors
    /// If that is not one number for each slot.
    pub fn with_frames(mut self, frames: Vec<u64>) -> Result<Self> {
        if frames.len() != self.frames.len() {
            return Err(Error::input(format!(
                "a memory of {} slots with {} numbers of frames",
                self.ids.len(),
                frames.len()
            )));
        }
        self.frames = frames;
        Ok(self)
    }

    /// The same memory, whose next category has at least this number.
    #[must_use]
    pub fn with_next_id(mut self, next_id: u64) -> Self {
        self.next_id = self.next_id.max(next_id);
        self
    }

    /// The same memory with at least so many slots.
    ///
    /// # Errors
    /// If that is more than a memory may have.
    pub fn with_slots(self, slots: usize) -> Result<Self> {
        let (held, dimension) = (self.ids.len(), self.prototypes.dimension());
        if slots <= held {
            return Ok(self);
        }
        let mut vectors = self.prototypes.vectors().to_vec();
        vectors.resize(slots * dimension, 0.0);
        let mut counts = self.prototypes.counts().to_vec();
        counts.resize(slots, 0.0);
        let longer = |numbers: &[u64]| [numbers, &vec![0; slots - held]].concat();
        let prototypes = Prototypes::from_parts(dimension, vectors, counts)?;
        let memory = Self::from_parts(prototypes, longer(&self.ids), longer(&self.ages), self.next_id)?;
        memory.with_writes(self.writes).with_frames(longer(&self.frames))
    }

    /// The prototypes and their counts.
    pub fn prototypes(&self) -> &Prototypes<f32> {
        &self.prototypes
    }

    /// The category id of each slot; meaningful where the slot is in use.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// Frames since each slot's category was created.
    pub fn ages(&self) -> &[u64] {
        &self.ages
    }

    /// The frames that each slot's prototype is the mean of; with hard writes.
    pub fn frames(&self) -> &[u64] {
        &self.frames
    }

    /// The slot of a category that lives.
    pub fn slot_of(&self, category: u64) -> Option<usize> {
        self.used().find(|slot| self.ids[*slot] == category)
    }

    /// The slots in use.
    fn used(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ids.len()).filter(|slot| self.prototypes.counts()[*slot] > 0.0)
    }

    /// The id that the next category gets; also the number of categories created so far.
    pub fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Categorises one embedding and learns from it (E-step, decision, M-step, decay).
    ///
    /// # Errors
    /// As [`observe_among`](Self::observe_among).
    pub fn observe(&mut self, z: &[f32], control: &Control, rules: &Rules) -> Result<Observation> {
        self.observe_among(z, control, rules, |_, cosine| cosine)
    }

    /// As [`observe`](Self::observe), with more to go by than prototypes: `similarity` says how similar the frame is to a category,
    /// given the category and the cosine to its prototype.
    ///
    /// An embedding of the wrong length, with a NaN or an infinity, or so large that its norm overflows is refused and
    /// leaves the memory as it was.
    pub fn observe_among(
        &mut self,
        z: &[f32],
        control: &Control,
        rules: &Rules,
        similarity: impl Fn(u64, f64) -> f64,
    ) -> Result<Observation> {
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
            let cosine = inner / (z_norm * self.norms[slot]);
            if count > 0.0 {
                self.cosines[slot] = similarity(self.ids[slot], cosine);
                self.y_hat[slot] = control.inv_tau * self.cosines[slot];
            } else {
                self.cosines[slot] = cosine;
                self.y_hat[slot] = step::UNUSED_LOGIT;
            }
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
        match self.writes {
            Writes::Soft => self.write(z, rules, expectation.new_probability, created, weakest),
            Writes::Hard => {
                self.write_hard(z, z_norm, if created { weakest } else { expectation.nearest }, created)
            }
        }
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

    /// Averages the frame's direction into one slot, then decays and ages all.
    #[allow(clippy::cast_possible_truncation)]
    fn write_hard(&mut self, z: &[f32], z_norm: f64, slot: usize, created: bool) {
        let before = if created { 0 } else { self.frames[slot] };
        let share = 1.0 / (before + 1) as f64;
        let vector = self.prototypes.vector_mut(slot);
        if created {
            vector.fill(0.0);
        }
        let square = vector::blend(vector, (1.0 - share) as f32, (share / z_norm) as f32, z);
        self.norms[slot] = f64::from(square).sqrt() + NORM_EPSILON;
        self.frames[slot] = before + 1;
        let counts = self.prototypes.counts_mut();
        counts[slot] = if created { 1.0 } else { counts[slot] + 1.0 };
        for (count, age) in counts.iter_mut().zip(&mut self.ages).filter(|(count, _)| **count > 0.0) {
            *count = (*count * HARD_DECAY as f32).max(f32::MIN_POSITIVE);
            *age += 1;
        }
    }

    /// Puts another prototype in the place of a category's own, because the encoder has changed.
    ///
    /// # Errors
    /// If it is of another dimension or not finite; then nothing has changed.
    pub fn move_prototype(&mut self, slot: usize, prototype: &[f32]) -> Result<()> {
        let fits =
            prototype.len() == self.prototypes.dimension() && prototype.iter().all(|value| value.is_finite());
        if !fits || slot >= self.ids.len() {
            return Err(Error::input("a prototype that does not fit the memory"));
        }
        self.prototypes.vector_mut(slot).copy_from_slice(prototype);
        self.norms[slot] = norm(prototype);
        Ok(())
    }

    /// Joins categories that have turned out to be one: those whose prototypes are each other's most similar ones, and at least
    /// so similar. A category is joined at most once a call, so that no chain of pairs can run through many.
    pub fn join_alike(&mut self, similarity: f64) -> Vec<Joined> {
        let used: Vec<usize> = self.used().collect();
        let nearest: Vec<Option<(usize, f64)>> = used
            .iter()
            .map(|&a| {
                let others = used.iter().enumerate().filter(|(_, b)| **b != a);
                let cosines = others.map(|(at, &b)| (at, self.cosine_of(a, b)));
                cosines.max_by(|x, y| x.1.total_cmp(&y.1))
            })
            .collect();
        let mut joined = Vec::new();
        for (at, found) in nearest.iter().enumerate() {
            let Some((other, cosine)) = *found else { continue };
            let mutual = nearest[other].is_some_and(|(back, _)| back == at);
            if other > at && mutual && cosine >= similarity {
                joined.push(self.join(used[at], used[other], cosine));
            }
        }
        joined
    }

    /// Joins the categories of two slots; the older one has both from now on.
    #[allow(clippy::cast_possible_truncation)]
    fn join(&mut self, a: usize, b: usize, cosine: f64) -> Joined {
        let (into, from) = if self.ids[a] < self.ids[b] { (a, b) } else { (b, a) };
        let all = (self.frames[into] + self.frames[from]).max(1);
        let (keep, gain) = (self.frames[into].max(1) as f64, self.frames[from].max(1) as f64);
        let taken = self.prototypes.vector(from).to_vec();
        let vector = self.prototypes.vector_mut(into);
        let square =
            vector::blend(vector, (keep / (keep + gain)) as f32, (gain / (keep + gain)) as f32, &taken);
        self.norms[into] = f64::from(square).sqrt() + NORM_EPSILON;
        self.frames[into] = all;
        let count = self.prototypes.counts()[from];
        self.prototypes.counts_mut()[into] += count;
        self.prototypes.counts_mut()[from] = 0.0;
        Joined { from: self.ids[from], into: self.ids[into], similarity: cosine as f32 }
    }

    fn cosine_of(&self, a: usize, b: usize) -> f64 {
        let inner = vector::dot(self.prototypes.vector(a), self.prototypes.vector(b));
        f64::from(inner) / (self.norms[a] * self.norms[b])
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

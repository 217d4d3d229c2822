//! The few pictures that a live memory keeps, so that its categories outlive a change of the encoder.
//!
//! When the encoder has learned, prototypes made with its old weights mean nothing to the new ones. So a few frames of every
//! category are kept and embedded again before new weights are taken up: [`Exemplars`]. Beside them some pairs of consecutive
//! samples, from which the [threshold](super::threshold) is measured: [`Pairs`].
//!
//! All of this lives in RAM alone, within a budget of bytes, and is gone with [`KeptFrames::forget`]. A checkpoint names the
//! frames, for sources that can be read again; it never holds their pixels.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::threshold::Pair;
use crate::kernels::vector;

/// Pairs that are kept: as many as [`Pairs::SPACING`] spreads over twenty minutes, at a sample every 4 s.
const PAIRS: usize = 48;

/// A picture that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct KeptFrame {
    /// The sample's number.
    pub frame: u64,
    /// The source's own number of the picture.
    pub sequence: u64,
    /// The category that it was given at the time.
    pub category: u64,
    /// Its pixels; none after a restart with a camera, since no picture is written to the disk.
    pub pixels: Option<Arc<[u8]>>,
    /// Its direction: the embedding by the encoder in use, of length 1.
    pub direction: Arc<[f32]>,
}

/// A picture that is kept, by name alone: the sample's number, the source's, the category that it was given at the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place(pub u64, pub u64, pub u64);

/// Which pictures are kept, by name alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Places {
    /// The exemplars of each category.
    pub exemplars: Vec<(u64, Vec<Place>)>,
    /// The pairs.
    pub pairs: Vec<(Place, Place)>,
    /// The last sample.
    pub last: Option<Place>,
    /// Samples between two pairs.
    pub spacing: u64,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct KeptFrames {
    exemplars: BTreeMap<u64, Vec<KeptFrame>>,
    each: usize,
    budget: usize,
    pairs: VecDeque<(KeptFrame, KeptFrame)>,
    last: Option<KeptFrame>,
    spacing: u64,
}

impl KeptFrames {
    /// The most samples between two pairs.
    pub const SPACING: u64 = 8;

    /// Nothing yet; at most `each` pictures of a category, and all of them in at most `budget` bytes.
    pub fn new(each: usize, budget: usize) -> Self {
        Self { exemplars: BTreeMap::new(), each, budget, pairs: VecDeque::new(), last: None, spacing: 1 }
    }

    /// Takes note of a sample.
    pub fn add(&mut self, frame: KeptFrame) {
        if let Some(last) = self.last.replace(frame.clone())
            && last.frame + 1 == frame.frame
        {
            self.add_pair(last, frame.clone());
        }
        if self.each == 0 {
            return;
        }
        let own = self.exemplars.entry(frame.category).or_default();
        own.push(frame);
        if own.len() > self.each {
            remove_least_telling(own);
        }
        while self.bytes() > self.budget && self.make_room() {}
    }

    fn add_pair(&mut self, first: KeptFrame, second: KeptFrame) {
        if first.frame % self.spacing != 0 {
            return;
        }
        self.pairs.push_back((first, second));
        while self.pairs.len() > PAIRS {
            if self.spacing < Self::SPACING {
                self.spacing *= 2;
                let spacing = self.spacing;
                self.pairs.retain(|(first, _)| first.frame % spacing == 0);
            } else {
                self.pairs.pop_front();
            }
        }
    }

    /// Drops a picture of the category that has most of them; whether there was one to drop.
    fn make_room(&mut self) -> bool {
        let fullest = self.exemplars.values_mut().max_by_key(|own| own.len());
        let dropped = match fullest {
            Some(own) if own.len() > 1 => {
                remove_least_telling(own);
                true
            }
            // Only single pictures are left: the oldest goes.
            Some(_) => {
                let oldest = self.exemplars.iter().min_by_key(|(_, own)| own.first().map(|kept| kept.frame));
                oldest.map(|(category, _)| *category).is_some_and(|category| self.exemplars.remove(&category).is_some())
            }
            None => false,
        };
        dropped
    }

    /// Puts the exemplars of other categories in the place of all.
    pub fn assign(&mut self, frames: impl IntoIterator<Item = (u64, KeptFrame)>) {
        self.exemplars.clear();
        for (category, frame) in frames {
            if let Some(last) = self.last.as_mut().filter(|last| last.frame == frame.frame) {
                last.category = category;
            }
            if self.each == 0 {
                continue;
            }
            let own = self.exemplars.entry(category).or_default();
            own.push(frame);
            if own.len() > self.each {
                remove_least_telling(own);
            }
        }
    }

    /// The category is no more.
    pub fn remove(&mut self, category: u64) {
        self.exemplars.remove(&category);
    }

    /// One category has become a part of another.
    pub fn join(&mut self, from: u64, into: u64) {
        let Some(theirs) = self.exemplars.remove(&from) else { return };
        let own = self.exemplars.entry(into).or_default();
        own.extend(theirs);
        own.sort_by_key(|kept| kept.frame);
        while own.len() > self.each {
            remove_least_telling(own);
        }
        if let Some(last) = self.last.as_mut().filter(|last| last.category == from) {
            last.category = into;
        }
    }

    /// Forgets every picture.
    pub fn forget(&mut self) {
        *self = Self::new(self.each, self.budget);
    }

    /// How similar a frame of this direction is to a category whose prototype has that cosine to it: the mean of that and of the
    /// most similar exemplar. The frame just before counts in full: who looks at a thing and goes on looking sees the same thing.
    pub fn similarity(&self, direction: &[f32], category: u64, cosine: f64) -> f64 {
        let to = |kept: &KeptFrame| f64::from(vector::dot(&kept.direction, direction));
        let nearest = self.exemplars_of(category).iter().map(to).max_by(f64::total_cmp);
        let similarity = nearest.map_or(cosine, |nearest| 0.5 * (cosine + nearest));
        match &self.last {
            Some(last) if last.category == category => similarity.max(to(last)),
            _ => similarity,
        }
    }

    /// The exemplars of a category.
    pub fn exemplars_of(&self, category: u64) -> &[KeptFrame] {
        self.exemplars.get(&category).map_or(&[], Vec::as_slice)
    }

    /// The pairs, for the threshold.
    pub fn pairs(&self) -> Vec<Pair<'_>> {
        let pairs = self.pairs.iter();
        pairs
            .map(|(first, second)| Pair {
                frame: first.frame,
                first: &first.direction,
                second: &second.direction,
            })
            .collect()
    }

    /// The samples since the last [`forget`](Self::forget), if all of them are still here: while pairs need no spacing yet.
    pub fn first_frames(&self) -> Option<Vec<&KeptFrame>> {
        let all = self.spacing == 1 && self.last.is_some();
        all.then(|| self.pairs.iter().map(|(first, _)| first).chain(&self.last).collect())
    }

    /// Every frame once, by the number of its sample.
    pub fn frames(&self) -> BTreeMap<u64, &KeptFrame> {
        self.all().map(|kept| (kept.frame, kept)).collect()
    }

    /// Every picture once, by the number of its sample.
    pub fn pictures(&self) -> BTreeMap<u64, Arc<[u8]>> {
        self.all().filter_map(|kept| Some((kept.frame, Arc::clone(kept.pixels.as_ref()?)))).collect()
    }

    fn all(&self) -> impl Iterator<Item = &KeptFrame> {
        let pairs = self.pairs.iter().flat_map(|(first, second)| [first, second]);
        self.exemplars.values().flatten().chain(pairs).chain(&self.last)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut KeptFrame> {
        let pairs = self.pairs.iter_mut().flat_map(|(first, second)| [first, second]);
        self.exemplars.values_mut().flatten().chain(pairs).chain(&mut self.last)
    }

    /// Gives every picture its new direction; `direction_of` is asked once for each.
    ///
    /// # Errors
    /// The first that it gives.
    pub fn turn<E>(&mut self, mut direction_of: impl FnMut(&KeptFrame) -> Result<Arc<[f32]>, E>) -> Result<(), E> {
        let mut turned: BTreeMap<u64, Arc<[f32]>> = BTreeMap::new();
        for kept in self.all_mut() {
            let direction = match turned.get(&kept.frame) {
                Some(known) => Arc::clone(known),
                None => direction_of(kept)?,
            };
            turned.insert(kept.frame, Arc::clone(&direction));
            kept.direction = direction;
        }
        Ok(())
    }

    /// How many pictures are kept of categories.
    pub fn len(&self) -> usize {
        self.exemplars.values().map(Vec::len).sum()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the pictures of categories take, with their directions.
    pub fn bytes(&self) -> usize {
        let bytes = |kept: &KeptFrame| kept.pixels.as_ref().map_or(0, |pixels| pixels.len()) + 4 * kept.direction.len();
        self.exemplars.values().flatten().map(bytes).sum()
    }

    /// Which pictures are kept, by name.
    pub fn places(&self) -> Places {
        let place = |kept: &KeptFrame| Place(kept.frame, kept.sequence, kept.category);
        Places {
            exemplars: (self.exemplars.iter())
                .map(|(category, own)| (*category, own.iter().map(place).collect()))
                .collect(),
            pairs: self.pairs.iter().map(|(first, second)| (place(first), place(second))).collect(),
            last: self.last.as_ref().map(place),
            spacing: self.spacing,
        }
    }

    /// The directions of all exemplars, in the order of [`places`](Self::places).
    pub fn exemplar_directions(&self) -> Vec<f32> {
        self.exemplars.values().flatten().flat_map(|kept| kept.direction.iter().copied()).collect()
    }

    /// Goes on with exemplars of which there are directions alone: after a restart with a camera.
    pub fn restore_directions(&mut self, places: &Places, directions: &[f32], dimension: usize) {
        self.forget();
        let mut directions = directions.chunks_exact(dimension);
        for (category, own) in &places.exemplars {
            for (Place(frame, sequence, given), direction) in own.iter().zip(&mut directions) {
                let (frame, sequence, given) = (*frame, *sequence, *given);
                let kept = KeptFrame { frame, sequence, category: given, pixels: None, direction: direction.into() };
                self.exemplars.entry(*category).or_default().push(kept);
            }
        }
    }

    /// Goes on with the pictures of these places; `read` is asked once for each.
    ///
    /// # Errors
    /// The first that it gives; then nothing is kept.
    pub fn restore<E>(
        &mut self,
        places: &Places,
        mut read: impl FnMut(Place) -> Result<KeptFrame, E>,
    ) -> Result<(), E> {
        self.forget();
        let mut known: BTreeMap<u64, KeptFrame> = BTreeMap::new();
        let mut get = |place: Place| match known.get(&place.0) {
            Some(kept) => Ok(kept.clone()),
            None => read(place).inspect(|kept| {
                known.insert(place.0, kept.clone());
            }),
        };
        let mut again = Self::new(self.each, self.budget);
        for (category, own) in &places.exemplars {
            let own = own.iter().map(|place| get(*place)).collect::<Result<Vec<_>, E>>()?;
            again.exemplars.insert(*category, own);
        }
        for (first, second) in &places.pairs {
            again.pairs.push_back((get(*first)?, get(*second)?));
        }
        again.last = places.last.map(get).transpose()?;
        again.spacing = places.spacing.clamp(1, Self::SPACING);
        *self = again;
        Ok(())
    }
}

/// The direction of an embedding: the same, of length 1.
pub fn direction(embedding: &[f32]) -> Arc<[f32]> {
    let norm = vector::dot(embedding, embedding).sqrt().max(f32::MIN_POSITIVE);
    embedding.iter().map(|value| value / norm).collect()
}

/// Drops the picture that is most like another one: of the two that are most alike, the older.
fn remove_least_telling(own: &mut Vec<KeptFrame>) {
    let mut closest = (f32::NEG_INFINITY, 0);
    for a in 0..own.len() {
        for b in a + 1..own.len() {
            let cosine = vector::dot(&own[a].direction, &own[b].direction);
            if cosine > closest.0 {
                closest = (cosine, a);
            }
        }
    }
    if closest.1 < own.len() {
        own.remove(closest.1);
    }
}

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

/// Pairs that are kept: as many as [`Pairs::SPACING`] spreads over twenty-five minutes, at a sample every 4 s.
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
    /// The category that it belongs to by now.
    pub looking_at: Option<u64>,
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
    /// The category that the last sample belongs to by now.
    looking_at: Option<u64>,
    spacing: u64,
}

impl KeptFrames {
    /// The most samples between two pairs.
    pub const SPACING: u64 = 8;

    /// Nothing yet; at most `each` pictures of a category, and all of them in at most `budget` bytes.
    pub fn new(each: usize, budget: usize) -> Self {
        Self {
            exemplars: BTreeMap::new(),
            each,
            budget,
            pairs: VecDeque::new(),
            last: None,
            looking_at: None,
            spacing: 1,
        }
    }

    /// Takes note of a sample.
    pub fn add(&mut self, frame: KeptFrame) {
        self.looking_at = Some(frame.category);
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
        if !first.frame.is_multiple_of(self.spacing) {
            return;
        }
        self.pairs.push_back((first, second));
        while self.pairs.len() > PAIRS {
            if self.spacing < Self::SPACING {
                self.spacing *= 2;
                let spacing = self.spacing;
                self.pairs.retain(|(first, _)| first.frame.is_multiple_of(spacing));
            } else {
                self.pairs.pop_front();
            }
        }
    }

    /// Drops a picture of the category that has most of them; whether there was one to drop.
    fn make_room(&mut self) -> bool {
        let fullest = self.exemplars.values_mut().max_by_key(|own| own.len());
        match fullest {
            Some(own) if own.len() > 1 => {
                remove_least_telling(own);
                true
            }
            // Only single pictures are left: the oldest goes.
            Some(_) => {
                let oldest = self.exemplars.iter().min_by_key(|(_, own)| own.first().map(|kept| kept.frame));
                oldest
                    .map(|(category, _)| *category)
                    .is_some_and(|category| self.exemplars.remove(&category).is_some())
            }
            None => false,
        }
    }

    /// Puts the exemplars of other categories in the place of all.
    pub fn assign(&mut self, frames: impl IntoIterator<Item = (u64, KeptFrame)>) {
        self.exemplars.clear();
        for (category, frame) in frames {
            if self.last.as_ref().is_some_and(|last| last.frame == frame.frame) {
                self.looking_at = Some(category);
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
        if self.looking_at == Some(from) {
            self.looking_at = Some(into);
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
            Some(last) if self.looking_at == Some(category) => similarity.max(to(last)),
            _ => similarity,
        }
    }

    /// The exemplars of a category.
    pub fn exemplars_of(&self, category: u64) -> &[KeptFrame] {
        self.exemplars.get(&category).map_or(&[], Vec::as_slice)
    }

    /// Every category of which something is kept, with its exemplars.
    pub fn categories(&self) -> impl Iterator<Item = (u64, &[KeptFrame])> {
        self.exemplars.iter().map(|(category, own)| (*category, own.as_slice()))
    }

    /// The pairs of consecutive samples.
    pub fn consecutive(&self) -> impl Iterator<Item = (&KeptFrame, &KeptFrame)> {
        self.pairs.iter().map(|(first, second)| (first, second))
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
    pub fn turn<E>(
        &mut self,
        mut direction_of: impl FnMut(&KeptFrame) -> Result<Arc<[f32]>, E>,
    ) -> Result<(), E> {
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
        let bytes = |kept: &KeptFrame| {
            kept.pixels.as_ref().map_or(0, |pixels| pixels.len()) + 4 * kept.direction.len()
        };
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
            looking_at: self.looking_at,
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
                let kept =
                    KeptFrame { frame, sequence, category: given, pixels: None, direction: direction.into() };
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
        again.looking_at = places.looking_at;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame that looks in the direction of this angle, in degrees.
    fn frame(number: u64, category: u64, degrees: f32, pixels: &Arc<[u8]>) -> KeptFrame {
        let (sin, cos) = degrees.to_radians().sin_cos();
        let pixels = Some(Arc::clone(pixels));
        KeptFrame { frame: number, sequence: 10 * number, category, pixels, direction: Arc::from([cos, sin]) }
    }

    fn picture() -> Arc<[u8]> {
        Arc::from([7; 100])
    }

    fn numbers(kept: &KeptFrames, category: u64) -> Vec<u64> {
        kept.exemplars_of(category).iter().map(|kept| kept.frame).collect()
    }

    #[test]
    fn the_frames_that_are_kept_differ() {
        let mut kept = KeptFrames::new(3, 1 << 20);
        for (number, degrees) in [0.0, 1.0, 40.0, 80.0, 81.0].into_iter().enumerate() {
            kept.add(frame(number as u64, 5, degrees, &picture()));
        }
        assert_eq!(numbers(&kept, 5), [1, 2, 4], "of two that are alike the newer one");
    }

    #[test]
    fn memory_is_bounded_and_every_category_keeps_one_as_long_as_it_can() {
        let each = 100 + 4 * 2;
        let mut kept = KeptFrames::new(5, 8 * each);
        for number in 0..200u64 {
            kept.add(frame(number, number % 8, number as f32, &picture()));
            assert!(kept.bytes() <= 8 * each, "{}", kept.bytes());
        }
        assert!((0..8).all(|category| kept.exemplars_of(category).len() == 1));
        assert!(kept.pairs().len() <= PAIRS);
        // More categories than fit: the oldest picture goes.
        kept.add(frame(200, 9, 0.0, &picture()));
        assert_eq!((kept.len(), numbers(&kept, 9)), (8, vec![200]));
        assert!(numbers(&kept, 192 % 8).is_empty());
    }

    #[test]
    fn pairs_are_consecutive_and_spread_out_as_the_stream_goes_on() {
        let mut kept = KeptFrames::new(5, 1 << 20);
        for number in (0..30).chain(40..1000) {
            kept.add(frame(number, 0, number as f32, &picture()));
            if number == 29 {
                assert_eq!(kept.first_frames().map(|frames| frames.len()), Some(30));
            }
        }
        let frames: Vec<u64> = kept.pairs().iter().map(|pair| pair.frame).collect();
        assert_eq!(frames.len(), PAIRS);
        assert!(frames.windows(2).all(|two| two[1] == two[0] + KeptFrames::SPACING), "{frames:?}");
        assert!(frames.contains(&992) && kept.first_frames().is_none());
    }

    #[test]
    fn what_is_forgotten_is_held_nowhere() {
        let pixels = picture();
        let mut kept = KeptFrames::new(5, 1 << 20);
        (0..100).for_each(|number| kept.add(frame(number, number / 10, number as f32, &pixels)));
        kept.join(3, 2);
        assert!(Arc::strong_count(&pixels) > 1);
        kept.forget();
        assert_eq!(
            (Arc::strong_count(&pixels), kept.places()),
            (1, Places { spacing: 1, ..Places::default() })
        );
    }

    #[test]
    fn categories_that_are_joined_keep_the_most_different_frames_of_both() {
        let mut kept = KeptFrames::new(2, 1 << 20);
        for (number, category, degrees) in [(0, 1, 0.0), (1, 4, 1.0), (2, 4, 50.0)] {
            kept.add(frame(number, category, degrees, &picture()));
        }
        // The next frame goes on looking at what was 4.
        kept.join(4, 1);
        assert_eq!((numbers(&kept, 1), numbers(&kept, 4)), (vec![1, 2], vec![]));
        assert!(
            (kept.similarity(&frame(3, 0, 52.0, &picture()).direction, 1, 0.0) - 2f64.to_radians().cos())
                .abs()
                < 1e-6
        );
    }

    #[test]
    fn similarity_is_half_the_prototypes_and_half_the_nearest_frames() {
        let mut kept = KeptFrames::new(5, 1 << 20);
        kept.add(frame(0, 1, 0.0, &picture()));
        kept.add(frame(1, 1, 60.0, &picture()));
        kept.add(frame(2, 2, 180.0, &picture()));
        let seen = frame(3, 0, 60.0, &picture()).direction;
        assert!((kept.similarity(&seen, 1, 0.5) - 0.75).abs() < 1e-6);
        assert!((kept.similarity(&seen, 8, 0.5) - 0.5).abs() < 1e-6, "of this one nothing is kept");
    }

    #[test]
    fn places_lead_back_to_the_same_frames() {
        let mut kept = KeptFrames::new(3, 1 << 20);
        (0..200).for_each(|number| kept.add(frame(number, number / 40, number as f32, &picture())));
        let (places, mut asked) = (kept.places(), Vec::new());
        let mut again = KeptFrames::new(3, 1 << 20);
        let read = |Place(number, sequence, category)| {
            asked.push(number);
            assert_eq!(sequence, 10 * number);
            Ok::<_, ()>(frame(number, category, number as f32, &picture()))
        };
        again.restore(&places, read).unwrap();
        assert_eq!(again.places(), places);
        asked.sort_unstable();
        assert!(asked.windows(2).all(|two| two[0] < two[1]), "each is read once");
        assert_eq!(again.exemplar_directions(), kept.exemplar_directions());
        // Without pictures, the directions alone.
        let mut bare = KeptFrames::new(3, 1 << 20);
        bare.restore_directions(&places, &kept.exemplar_directions(), 2);
        assert_eq!((bare.exemplar_directions(), bare.pictures().len()), (kept.exemplar_directions(), 0));
        // A picture that is gone leaves nothing half done.
        assert!(again.restore(&places, |_| Err::<KeptFrame, _>("gone")).is_err());
        assert!(again.is_empty());
    }
}

//! The roaming sampler: an online stream of classes that come and go with their contexts.
//!
//! An episode visits a few contexts. Within each, classes appear by a Chinese restaurant process: what was seen often is
//! likely to be seen again, and now and then there is something new. The contexts are interleaved, and the camera
//! changes between them at random. Class number c of context s is the s-th class of the c-th group (an alphabet, a
//! super-category), so contexts share groups but not classes. Data without groups is dealt out: no two contexts share a
//! class while there are enough of them.
//!
//! Two quirks of the released code are left out. Its short episodes are padded with frames that count in batch norm alone;
//! here they are short. It shuffles the classes of all super-classes but the last; here of all.
//!
//! Episode number n is a function of (seed, n) alone.

use std::collections::BTreeMap;

use super::images::ImageSet;
use crate::random::{Purpose, Random};

/// The numbers of the sampler.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roaming {
    /// Contexts of an episode.
    pub contexts: usize,
    /// The most frames of one context.
    pub frames_per_context: usize,
    /// The most classes of one context. One that would need more ends early.
    pub classes_per_context: usize,
    /// The most pictures of one class.
    pub images_per_class: usize,
    /// Discount of the restaurant process: how much less than its share a known class gets.
    pub discount: f64,
    /// Its strength: how readily new classes appear.
    pub strength: f64,
    /// Probability, after each frame, of drawing a context anew.
    pub switch: f64,
}

impl Roaming {
    /// RoamingOmniglot: 150 frames, about 43 classes.
    pub const OMNIGLOT: Self = Self {
        contexts: 5,
        frames_per_context: 30,
        classes_per_context: 10,
        images_per_class: 6,
        discount: 0.2,
        strength: 1.0,
        switch: 0.2,
    };

    /// RoamingImageNet: 48 frames, about 18 classes.
    pub const IMAGENET: Self = Self {
        contexts: 3,
        frames_per_context: 16,
        classes_per_context: 16,
        images_per_class: 5,
        switch: 0.25,
        ..Self::OMNIGLOT
    };

    /// The most frames of an episode.
    pub fn frames(&self) -> usize {
        self.contexts * self.frames_per_context
    }

    /// Episode number `number` of the stream with this seed.
    pub fn episode(&self, set: &ImageSet, seed: u64, number: u64) -> Episode {
        let mut random = Random::new(seed, Purpose::Episodes, number);
        let sequence = self.sequence(&mut random);
        let table = ClassTable::new(set, self.classes_per_context, &mut random);
        let mut pictures = Pictures::new(set);
        let mut episode = Episode::default();
        let mut names = Vec::new();
        for (context, index) in sequence {
            let Some(class) = table.class(context, index) else { continue };
            let Some(image) = pictures.next(set, class, &mut random) else { continue };
            let label = names.iter().position(|known| *known == class).unwrap_or_else(|| {
                names.push(class);
                names.len() - 1
            });
            episode.images.push(image);
            episode.labels.push(label);
        }
        episode
    }

    /// The (context, class number within it) of every frame.
    fn sequence(&self, random: &mut Random) -> Vec<(usize, usize)> {
        let contexts: Vec<Vec<usize>> = (0..self.contexts).map(|_| self.restaurant(random)).collect();
        let mut waiting: Vec<_> = contexts.iter().map(|context| context.iter().copied()).collect();
        let mut left: usize = contexts.iter().map(Vec::len).sum();
        let mut sequence = Vec::with_capacity(left);
        let mut current = 0;
        while left > 0 {
            let next = waiting.get_mut(current).and_then(Iterator::next);
            let Some(index) = next else {
                current = random.below(self.contexts);
                continue;
            };
            sequence.push((current, index));
            left -= 1;
            if random.unit() < self.switch {
                current = random.below(self.contexts);
            }
        }
        sequence
    }

    /// Class numbers of one context: tables of a Chinese restaurant, in the order in which guests sit down.
    fn restaurant(&self, random: &mut Random) -> Vec<usize> {
        let mut guests: Vec<usize> = Vec::new();
        let mut order = Vec::with_capacity(self.frames_per_context);
        while order.len() < self.frames_per_context {
            let mut place = random.unit() * (order.len() as f64 + self.strength);
            let table = guests.iter().position(|&count| {
                place -= count as f64 - self.discount;
                place < 0.0
            });
            match table {
                Some(full) if guests[full] >= self.images_per_class => continue,
                Some(table) => {
                    guests[table] += 1;
                    order.push(table);
                }
                None if guests.len() == self.classes_per_context => break,
                None => {
                    order.push(guests.len());
                    guests.push(1);
                }
            }
        }
        order
    }
}

/// A drawn sequence of pictures with what they show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Episode {
    /// Pictures of the set, by number.
    pub images: Vec<usize>,
    /// Their classes, numbered by first appearance. Only a measure may look at them.
    pub labels: Vec<usize>,
}

/// Which class stands for a number in a context, this time.
enum ClassTable {
    /// The classes of each group in random order, and the groups too.
    Grouped(Vec<Vec<usize>>),
    /// All classes in random order; every context takes its own run of them.
    Flat { classes: Vec<usize>, per_context: usize },
}

impl ClassTable {
    fn new(set: &ImageSet, per_context: usize, random: &mut Random) -> Self {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (number, class) in set.classes().iter().enumerate() {
            let Some(group) = class.group else {
                let mut classes: Vec<usize> = (0..set.classes().len()).collect();
                random.shuffle(&mut classes);
                return Self::Flat { classes, per_context };
            };
            groups.entry(group).or_default().push(number);
        }
        let mut groups: Vec<Vec<usize>> = groups.into_values().collect();
        random.shuffle(&mut groups);
        groups.iter_mut().for_each(|group| random.shuffle(group));
        Self::Grouped(groups)
    }

    /// The class of number `index` in a context; numbers wrap where there are fewer groups or classes.
    fn class(&self, context: usize, index: usize) -> Option<usize> {
        match self {
            Self::Grouped(groups) => wrapped(wrapped(groups, index)?, context).copied(),
            Self::Flat { classes, per_context } => {
                wrapped(classes, context * per_context + index % per_context).copied()
            }
        }
    }
}

fn wrapped<T>(items: &[T], index: usize) -> Option<&T> {
    items.get(index.checked_rem(items.len())?)
}

/// Pictures of each class without repetition, until all of them were shown.
struct Pictures {
    order: Vec<Vec<usize>>,
}

impl Pictures {
    fn new(set: &ImageSet) -> Self {
        Self { order: vec![Vec::new(); set.classes().len()] }
    }

    fn next(&mut self, set: &ImageSet, class: usize, random: &mut Random) -> Option<usize> {
        let waiting = self.order.get_mut(class)?;
        if waiting.is_empty() {
            waiting.extend(set.classes()[class].images.clone());
            random.shuffle(waiting);
        }
        waiting.pop()
    }
}

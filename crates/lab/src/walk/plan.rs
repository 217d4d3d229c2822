//! Where a walk goes: which thing is looked at, for how long, and from which side.

use crate::random::{Purpose, Random};

/// Things in a room.
const ROOM: usize = 8;

/// Objects that there are.
const OBJECTS: usize = 100;

/// The probability of going to some room before a look.
const MOVES: f32 = 0.1;

/// The probability that a look goes to a favourite of the room; otherwise to any of its things.
const FAVOURITES: f32 = 0.5;

/// The probability that of the favourites the first is looked at; if not, that the second is, and so on.
const FIRST: f32 = 0.25;

/// The probability that a look ends with a sample.
const ENDS: f32 = 0.2;

/// How a walk is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkPlan {
    /// Start of every random choice.
    pub seed: u64,
    /// Samples.
    pub samples: usize,
    /// Things in all rooms; as many of COIL-100's as there are, at most.
    pub things: usize,
}

/// A thing, looked at for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// The object's number, from 1.
    pub object: usize,
    /// The room.
    pub room: usize,
    /// Samples.
    pub samples: usize,
    /// The angle of the first of them, in steps of 5°.
    pub angle: usize,
    /// Steps by which it turns from one sample to the next, forwards or back.
    pub turns: isize,
}

impl WalkPlan {
    /// How many rooms there are.
    pub fn rooms(&self) -> usize {
        self.things().len().div_ceil(ROOM)
    }

    /// The things, room by room.
    fn things(&self) -> Vec<usize> {
        let mut things: Vec<usize> = (1..=OBJECTS).collect();
        Random::new(self.seed, Purpose::World, 2).shuffle(&mut things);
        things.truncate(self.things.max(2));
        things
    }

    /// Every look.
    pub fn looks(&self) -> Vec<Look> {
        let things = self.things();
        let rooms: Vec<&[usize]> = things.chunks(ROOM).collect();
        let mut random = Random::new(self.seed, Purpose::World, 3);
        let (mut looks, mut left) = (Vec::new(), self.samples);
        let (mut room, mut last) = (0, None);
        while left > 0 {
            if random.chance(MOVES) {
                room = random.below(rooms.len());
            }
            // A room of one thing is left for another.
            if rooms[room].len() == 1 && last == Some(rooms[room][0]) {
                room = (room + 1) % rooms.len();
            }
            let object = loop {
                let object = some_thing(rooms[room], &mut random);
                if last != Some(object) {
                    break object;
                }
            };
            let mut samples = 1;
            while samples < left && !random.chance(ENDS) {
                samples += 1;
            }
            let speed = [-3, -2, -1, 1, 2, 3][random.below(6)];
            looks.push(Look { object, room, samples, angle: random.below(72), turns: speed });
            last = Some(object);
            left -= samples;
        }
        looks
    }
}

fn some_thing(room: &[usize], random: &mut Random) -> usize {
    if !random.chance(FAVOURITES) {
        return room[random.below(room.len())];
    }
    room.iter().copied().find(|_| random.chance(FIRST)).unwrap_or(room[room.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(seed: u64) -> WalkPlan {
        WalkPlan { seed, samples: 900, things: 32 }
    }

    #[test]
    fn a_walk_looks_returns_and_moves_on() {
        for seed in 0..5 {
            let looks = plan(seed).looks();
            assert_eq!(looks.iter().map(|look| look.samples).sum::<usize>(), 900);
            assert!(looks.windows(2).all(|two| two[0].object != two[1].object));
            let mean = 900.0 / looks.len() as f64;
            assert!((4.0..6.0).contains(&mean), "a look has five samples, not {mean}");
            let mut things: Vec<usize> = looks.iter().map(|look| look.object).collect();
            things.sort_unstable();
            things.dedup();
            assert!((24..=32).contains(&things.len()), "{} things", things.len());
            // A thing has its room.
            for look in &looks {
                assert!(looks.iter().all(|other| other.object != look.object || other.room == look.room));
            }
        }
        assert_eq!(plan(3).looks(), plan(3).looks());
        assert_ne!(plan(3).looks(), plan(4).looks());
    }

    #[test]
    fn small_walks_end_too() {
        for things in [0, 1, 2, 9, 200] {
            let looks = WalkPlan { seed: 1, samples: 50, things }.looks();
            assert_eq!(looks.iter().map(|look| look.samples).sum::<usize>(), 50);
        }
    }
}

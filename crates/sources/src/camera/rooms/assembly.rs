//! Things without end: each is put together anew from a few solids, and painted.

use super::maths::{Vector, sine_cosine};
use super::shape::Solid;
use super::texture::{Pattern, Texture};
use super::thing::{Part, SIZE, Thing};
use crate::random::Random;

/// The most parts, before some are mirrored.
const PARTS: usize = 5;

/// A thing like no other, around the origin.
pub(super) fn assembled(random: &mut Random) -> Thing {
    let textures: Vec<Texture> = (0..1 + random.below(3)).map(|_| painted(random)).collect();
    let mut parts = Vec::new();
    let count = 1 + random.below(PARTS);
    let two_sided = random.chance(0.4);
    while parts.len() < count {
        let solid = any_solid(random);
        let middle = match parts.len() {
            0 => Vector::default(),
            known => {
                let part = &parts[random.below(known)];
                beside(random, part, &solid)
            }
        };
        let texture = random.below(textures.len());
        let turn = if random.chance(0.5) { (1.0, 0.0) } else { any_turn(random) };
        // What is not in the middle may have its like on the other side.
        let mirrored = (two_sided && middle.x.abs() > 0.05).then(|| Part {
            solid,
            middle: Vector::new(-middle.x, middle.y, middle.z),
            turn: (turn.0, -turn.1),
            texture,
        });
        parts.push(Part { solid, middle, turn, texture });
        parts.extend(mirrored);
    }
    Thing::around(None, parts, textures)
}

fn painted(random: &mut Random) -> Texture {
    let (kind, vivid) = (random.below(Pattern::KINDS), random.between(0.0, 1.0));
    let pattern = Pattern::new(random, kind, vivid);
    // A third is nearly of one colour.
    let pattern = if random.chance(0.35) { pattern.calm(random.between(8.0, 30.0)) } else { pattern };
    Texture::new(SIZE, SIZE, |x, y| pattern.at(x, y))
}

fn any_solid(random: &mut Random) -> Solid {
    // From 5 to 30 cm, small ones more often: a square of something even.
    let mut length = || {
        let share = random.between(0.0, 1.0);
        0.05 + 0.25 * share * share
    };
    let (a, b, c) = (length(), length(), length());
    match random.below(5) {
        0 | 1 => Solid::Box(Vector::new(a, b, c)),
        2 => Solid::Cone { bottom: a, top: a, half: b },
        3 => Solid::Cone { bottom: a, top: a * random.between(0.0, 0.9), half: b },
        _ => Solid::Ellipsoid(Vector::new(a, b, c)),
    }
}

/// A place where a solid touches another one, above it more often than elsewhere.
fn beside(random: &mut Random, part: &Part, solid: &Solid) -> Vector {
    let reach = |solid: &Solid| match *solid {
        Solid::Box(half) | Solid::Ellipsoid(half) => half,
        Solid::Cone { bottom, top, half } => {
            let wide = (bottom + top) / 2.0;
            Vector::new(wide, half, wide)
        }
    };
    let (from, to) = (reach(&part.solid), reach(solid));
    let sum = (from + to) * random.between(0.75, 1.0);
    let mut aside = |most: f32| random.between(-most, most);
    let (x, y, z) = (aside(from.x), aside(from.y), aside(from.z));
    part.middle
        + match random.below(6) {
            0 => Vector::new(sum.x, y, z),
            1 => Vector::new(-sum.x, y, z),
            2 => Vector::new(x, y, sum.z),
            3 => Vector::new(x, -sum.y, z),
            _ => Vector::new(x * 0.5, sum.y, z * 0.5),
        }
}

fn any_turn(random: &mut Random) -> (f32, f32) {
    let (sine, cosine) = sine_cosine(f64::from(random.between(0.0, std::f32::consts::TAU)));
    (cosine as f32, sine as f32)
}

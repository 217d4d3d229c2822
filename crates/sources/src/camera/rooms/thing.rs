//! The things of the world: how each is put together from solids and patterns.
//!
//! A thing's looks follow from the world's seed and the thing's number alone. Its build repeats every [`BUILDS`] things with other
//! proportions, colours and patterns, so that neither shape nor colour by itself tells one thing from another.

use super::maths::{Vector, sine_cosine};
use super::shape::Solid;
use super::texture::{Pattern, Texture};
use crate::random::Random;

/// Ways to build a thing.
const BUILDS: usize = 12;

/// Pixels of a thing's textures per metre, and their size: a pattern repeats after 0.64 m.
pub(super) const DENSITY: f32 = 100.0;
pub(super) const SIZE: usize = 64;

/// A solid at its place in the room.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) solid: Solid,
    pub(super) middle: Vector,
    /// Cosine and sine of its turn about the vertical.
    pub(super) turn: (f32, f32),
    /// Which of the thing's textures covers it.
    pub(super) texture: usize,
}

/// Something that stands in a room.
#[derive(Debug)]
pub(super) struct Thing {
    /// Its number, if it is one of the objects that can be attended to; furniture has none.
    pub(super) instance: Option<u32>,
    pub(super) parts: Vec<Part>,
    pub(super) textures: Vec<Texture>,
    /// Sphere around all parts.
    pub(super) middle: Vector,
    /// See `middle`.
    pub(super) radius: f32,
}

impl Thing {
    /// The object of this number, standing on the spot.
    pub(super) fn object(random: &mut Random, instance: u32, spot: Vector) -> Self {
        let number = instance as usize;
        let kind = (number * 7 + number / Pattern::KINDS) % Pattern::KINDS;
        let mut textures = Vec::with_capacity(2);
        for kind in [kind, random.below(Pattern::KINDS)] {
            let purity = random.between(0.45, 1.0);
            let pattern = Pattern::new(random, kind, purity);
            textures.push(Texture::new(SIZE, SIZE, |x, y| pattern.at(x, y)));
        }
        let (sine, cosine) = sine_cosine(f64::from(random.between(0.0, std::f32::consts::TAU)));
        let turn = (cosine as f32, sine as f32);
        let parts = build(random, number % BUILDS)
            .into_iter()
            .map(|(solid, offset, texture)| Part {
                solid,
                middle: spot + offset.turned(turn.0, turn.1),
                turn,
                texture,
            })
            .collect();
        Self::around(Some(instance), parts, textures)
    }

    /// A plain block of furniture from the floor up to a height.
    pub(super) fn block(random: &mut Random, spot: Vector, half_width: f32, height: f32) -> Self {
        let (kind, purity, period) =
            ([0, 5, 9][random.below(3)], random.between(0.1, 0.4), random.between(6.0, 14.0));
        let pattern = Pattern::new(random, kind, purity).calm(period);
        let half = Vector::new(half_width, height / 2.0, half_width);
        let part = Part {
            solid: Solid::Box(half),
            middle: spot + Vector::new(0.0, height / 2.0, 0.0),
            turn: (1.0, 0.0),
            texture: 0,
        };
        Self::around(None, vec![part], vec![Texture::new(SIZE, SIZE, |x, y| pattern.at(x, y))])
    }

    /// Made of these parts.
    pub(super) fn around(instance: Option<u32>, parts: Vec<Part>, textures: Vec<Texture>) -> Self {
        let count = parts.len() as f32;
        let middle = parts.iter().fold(Vector::default(), |sum, part| sum + part.middle) * (1.0 / count);
        let reach = |part: &Part| {
            let away = part.middle - middle;
            away.dot(away).sqrt() + part.solid.radius()
        };
        let radius = parts.iter().map(reach).fold(0.0, f32::max);
        Self { instance, parts, textures, middle, radius }
    }
}

/// Solids with the places of their middles above the spot, and the texture of each.
fn build(random: &mut Random, kind: usize) -> Vec<(Solid, Vector, usize)> {
    let size = random.between(0.85, 1.2);
    let mut length = |low: f32, high: f32| random.between(low, high) * size;
    let block = |x: f32, y: f32, z: f32| Solid::Box(Vector::new(x, y, z));
    let ball = |x: f32, y: f32, z: f32| Solid::Ellipsoid(Vector::new(x, y, z));
    let cone = |bottom: f32, top: f32, half: f32| Solid::Cone { bottom, top, half };
    let at = |y: f32| Vector::new(0.0, y, 0.0);
    match kind {
        0 => {
            let half = length(0.2, 0.34);
            vec![(block(length(0.16, 0.3), half, length(0.16, 0.3)), at(half), 0)]
        }
        1 => {
            let (radius, half) = (length(0.14, 0.26), length(0.2, 0.34));
            vec![(cone(radius, radius, half), at(half), 0)]
        }
        2 => {
            let radius = length(0.22, 0.32);
            vec![(ball(radius, radius, radius), at(radius + 0.04), 0), (cone(0.14, 0.1, 0.05), at(0.05), 1)]
        }
        3 => {
            let half = length(0.26, 0.38);
            vec![(cone(length(0.24, 0.34), 0.0, half), at(half), 0)]
        }
        4 => {
            let (lower, upper) = (length(0.14, 0.2), length(0.1, 0.18));
            vec![
                (block(length(0.24, 0.32), lower, length(0.2, 0.3)), at(lower), 0),
                (block(length(0.12, 0.18), upper, length(0.12, 0.18)), at(2.0 * lower + upper), 1),
            ]
        }
        // A lamp.
        5 => {
            let (stem, shade) = (length(0.2, 0.3), length(0.12, 0.18));
            vec![
                (cone(0.16, 0.14, 0.025), at(0.025), 1),
                (cone(0.03, 0.03, stem), at(stem), 1),
                (cone(length(0.24, 0.3), length(0.1, 0.16), shade), at(2.0 * stem + shade * 0.6), 0),
            ]
        }
        // A figure of two balls.
        6 => {
            let (body, head) = (length(0.2, 0.26), length(0.12, 0.17));
            vec![
                (ball(body, body, body), at(body), 0),
                (ball(head, head, head), at(2.0 * body + head * 0.8), 1),
            ]
        }
        // A stool.
        7 => {
            let (half, wide) = (length(0.18, 0.26), length(0.2, 0.28));
            let mut parts = vec![(block(wide, 0.05, wide), at(2.0 * half + 0.05), 0)];
            for (x, z) in [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)] {
                let foot = Vector::new(x * wide * 0.8, half, z * wide * 0.8);
                parts.push((cone(0.035, 0.035, half), foot, 1));
            }
            parts
        }
        // A robot: box, head, arms.
        8 => {
            let (body, wide, head) = (length(0.18, 0.24), length(0.16, 0.22), length(0.1, 0.14));
            let arm = |side: f32| Vector::new(side * (wide + 0.06), body * 1.3, 0.0);
            vec![
                (block(wide, body, wide * 0.7), at(body), 0),
                (ball(head, head * 1.15, head), at(2.0 * body + head), 1),
                (cone(0.05, 0.05, body * 0.6), arm(-1.0), 1),
                (cone(0.05, 0.05, body * 0.6), arm(1.0), 1),
            ]
        }
        // A mushroom.
        9 => {
            let (stem, cap) = (length(0.18, 0.26), length(0.24, 0.34));
            vec![
                (cone(length(0.1, 0.14), 0.08, stem), at(stem), 1),
                (ball(cap, cap * 0.5, cap), at(2.0 * stem + 0.04), 0),
            ]
        }
        // A tower of three drums.
        10 => {
            let radii = [length(0.22, 0.3), length(0.16, 0.22), length(0.1, 0.15)];
            let half = length(0.09, 0.13);
            let drum = |(index, radius): (usize, f32)| {
                (cone(radius, radius, half), at(half * (2 * index + 1) as f32), index % 2)
            };
            radii.into_iter().enumerate().map(drum).collect()
        }
        // A sign on a pole, with a ball on top.
        _ => {
            let (pole, wide, high) = (length(0.14, 0.2), length(0.24, 0.34), length(0.14, 0.22));
            let top = 2.0 * (pole + high);
            vec![
                (cone(0.04, 0.04, pole), at(pole), 1),
                (block(wide, high, 0.04), at(2.0 * pole + high), 0),
                (ball(0.08, 0.08, 0.08), at(top + 0.07), 1),
            ]
        }
    }
}

//! A room: its light, the things along its walls, and its six surfaces painted with light and shadow already in them.

use super::maths::Vector;
use super::texture::{Pattern, Texture, colour};
use super::thing::Thing;
use crate::random::{Purpose, Random};

/// Attendable objects in a room.
pub(super) const OBJECTS: usize = 8;

/// Pixels of the painted surfaces per metre.
pub(super) const DENSITY: f32 = 56.0;

/// How far from the walls objects stand, and how far from them the walker stays.
const RING: f32 = 0.7;
/// See [`RING`].
pub(super) const AISLE: f32 = 1.6;

/// A rectangular room with a corner at the origin.
#[derive(Debug)]
pub(super) struct Room {
    /// Its far corner: width, height, depth.
    pub(super) size: Vector,
    /// The objects come first, in the order of their numbers.
    pub(super) things: Vec<Thing>,
    /// Floor, ceiling, and the walls at x = 0, x = width, z = 0, z = depth.
    pub(super) surfaces: [Texture; 6],
    pub(super) light: Light,
    /// Where the door is: walks begin and end here.
    pub(super) door: Vector,
}

/// A lamp under the ceiling and what all surfaces scatter of it.
#[derive(Debug)]
pub(super) struct Light {
    lamp: Vector,
    ambient: f32,
    power: f32,
    tint: [f32; 3],
}

impl Light {
    /// A lamp at this place.
    pub(super) fn new(lamp: Vector, ambient: f32, power: f32, tint: [f32; 3]) -> Self {
        Self { lamp, ambient, power, tint }
    }

    /// How much of each colour a surface with this normal returns at this place.
    pub(super) fn at(&self, place: Vector, normal: Vector) -> [f32; 3] {
        let to_lamp = self.lamp - place;
        // Falls with distance nearly as the square, turned towards the lamp or not; without the root that exactness costs.
        let direct = normal.dot(to_lamp).max(0.0) / (0.8 + to_lamp.dot(to_lamp));
        self.tint.map(|tint| tint * (self.ambient + self.power * direct))
    }
}

impl Room {
    /// The room of this number in the world of this seed.
    pub(super) fn new(seed: u64, number: usize) -> Self {
        let random = &mut Random::new(seed, Purpose::World, 1000 + number as u64);
        let size = Vector::new(random.between(5.0, 6.6), random.between(2.4, 2.9), random.between(5.0, 6.6));
        let warmth = random.between(-1.0, 1.0);
        let light = Light {
            lamp: Vector::new(
                size.x * random.between(0.3, 0.7),
                size.y - 0.25,
                size.z * random.between(0.3, 0.7),
            ),
            ambient: random.between(0.35, 0.6),
            power: random.between(0.9, 1.7),
            tint: [1.0 + 0.14 * warmth, 1.0, 1.0 - 0.18 * warmth],
        };
        let things = furnish(random, size, number);
        let door = Vector::new(size.x / 2.0, 0.0, AISLE);
        let surfaces = Painter { size, light: &light, things: &things }.surfaces(random);
        Self { size, things, surfaces, light, door }
    }

    /// The attendable objects.
    pub(super) fn objects(&self) -> &[Thing] {
        &self.things[..OBJECTS]
    }
}

/// Objects at uneven distances along a ring inside the walls, most of them on a block.
fn furnish(random: &mut Random, size: Vector, room: usize) -> Vec<Thing> {
    let (wide, deep) = (size.x - 2.0 * RING, size.z - 2.0 * RING);
    let around = 2.0 * (wide + deep);
    let start = random.between(0.0, 1.0);
    let (mut objects, mut blocks) = (Vec::new(), Vec::new());
    for index in 0..OBJECTS {
        let share = (index as f32 + start + random.between(-0.18, 0.18)).rem_euclid(OBJECTS as f32);
        let along = share / OBJECTS as f32 * around;
        let (x, z) = if along < wide {
            (along, 0.0)
        } else if along < wide + deep {
            (wide, along - wide)
        } else if along < 2.0 * wide + deep {
            (2.0 * wide + deep - along, deep)
        } else {
            (0.0, around - along)
        };
        let spot = Vector::new(RING + x, 0.0, RING + z);
        let height = if random.chance(0.2) { 0.0 } else { random.between(0.3, 0.75) };
        let instance = (room * OBJECTS + index) as u32;
        objects.push(Thing::object(random, instance, spot + Vector::new(0.0, height, 0.0)));
        if height > 0.0 {
            let half_width = random.between(0.3, 0.42);
            blocks.push(Thing::block(random, spot, half_width, height));
        }
    }
    objects.extend(blocks);
    objects
}

/// A picture on a wall: its rectangle in metres (left, top, width, height) and what it shows.
struct Picture {
    rectangle: [f32; 4],
    pattern: Pattern,
}

struct Painter<'a> {
    size: Vector,
    light: &'a Light,
    things: &'a [Thing],
}

impl Painter<'_> {
    fn surfaces(&self, random: &mut Random) -> [Texture; 6] {
        let Vector { x: wide, y: high, z: deep } = self.size;
        let kinds = ([0, 2, 5, 6, 9][random.below(5)], random.below(Pattern::KINDS));
        let floor = Pattern::new(random, kinds.0, 0.45).calm(22.0);
        let ceiling = Pattern::new(random, 9, 0.1).calm(40.0);
        let paint = colour(random.between(0.0, 6.0), random.between(0.1, 0.45), random.between(0.6, 0.95));
        let paper = Pattern::new(random, kinds.1, 0.3).calm(18.0);
        let papered = random.chance(0.5);

        let floor = painted(wide, deep, |x, y, u, v| {
            let place = Vector::new(u, 0.0, v);
            self.lit(floor.at(x, y), place, Vector::new(0.0, 1.0, 0.0), self.shadow(place))
        });
        let ceiling = painted(wide, deep, |x, y, u, v| {
            let light = ceiling.at(x, y).map(|part| 0.6 + 0.4 * part);
            self.lit(light, Vector::new(u, high, v), Vector::new(0.0, -1.0, 0.0), 1.0)
        });
        let mut wall = |width: f32, normal: Vector, place: &dyn Fn(f32) -> Vector, door: bool| {
            let pictures = hang(random, width, door);
            painted(width, high, |x, y, u, v| {
                let base = if papered { mixed(paint, paper.at(x, y)) } else { paint };
                let base = if high - v < 0.1 { base.map(|part| part * 0.45) } else { base };
                let base = pictures.iter().fold(base, |below, picture| picture.over(below, u, v));
                // Corners are darker: less light finds its way into them.
                let corner = u.min(width - u).min(v).min(high - v).min(0.5);
                let place = place(u) + Vector::new(0.0, high - v, 0.0);
                self.lit(base, place, normal, 0.7 + 0.6 * corner)
            })
        };
        let walls = [
            wall(deep, Vector::new(1.0, 0.0, 0.0), &|u| Vector::new(0.0, 0.0, u), false),
            wall(deep, Vector::new(-1.0, 0.0, 0.0), &|u| Vector::new(wide, 0.0, u), false),
            wall(wide, Vector::new(0.0, 0.0, 1.0), &|u| Vector::new(u, 0.0, 0.0), true),
            wall(wide, Vector::new(0.0, 0.0, -1.0), &|u| Vector::new(u, 0.0, deep), false),
        ];
        let [left, right, front, back] = walls;
        [floor, ceiling, left, right, front, back]
    }

    fn lit(&self, base: [f32; 3], place: Vector, normal: Vector, share: f32) -> [f32; 3] {
        let light = self.light.at(place, normal);
        std::array::from_fn(|part| (base[part] * light[part] * share).clamp(0.0, 1.0))
    }

    /// What the things standing on the floor leave of the light around their feet.
    fn shadow(&self, place: Vector) -> f32 {
        let mut share = 1.0;
        for thing in self.things {
            let (x, z) = (place.x - thing.middle.x, place.z - thing.middle.z);
            // Tall on a block, the thing itself darkens the floor less than the block does.
            let reach = thing.radius * 1.15;
            share *= 0.4 + 0.6 * ((x * x + z * z) / (reach * reach)).min(1.0);
        }
        share
    }
}

impl Picture {
    fn over(&self, below: [f32; 3], u: f32, v: f32) -> [f32; 3] {
        let [left, top, width, height] = self.rectangle;
        let (x, y) = (u - left, v - top);
        if !(0.0..width).contains(&x) || !(0.0..height).contains(&y) {
            return below;
        }
        if x.min(width - x).min(y).min(height - y) < 0.04 {
            return [0.22, 0.16, 0.1];
        }
        self.pattern.at((x * DENSITY) as usize, (y * DENSITY) as usize)
    }
}

/// Pictures side by side along a wall; the first may be the door.
fn hang(random: &mut Random, width: f32, door: bool) -> Vec<Picture> {
    let mut pictures = Vec::new();
    if door {
        let pattern = Pattern::new(random, 0, 0.5).calm(30.0);
        pictures.push(Picture { rectangle: [width / 2.0 - 0.45, 0.35, 0.9, 3.0], pattern });
    }
    let places = 4;
    for place in 0..places {
        let (wide, high) = (random.between(0.4, 0.95), random.between(0.35, 0.8));
        let left = width * (place as f32 + 0.1 + random.between(0.0, 0.3)) / places as f32;
        let (top, kind, vivid) =
            (random.between(0.45, 1.0), random.below(Pattern::KINDS), random.between(0.2, 0.8));
        let pattern = Pattern::new(random, kind, vivid);
        let clear = !door || left > width / 2.0 + 0.5 || left + wide < width / 2.0 - 0.5;
        if clear && random.chance(0.7) {
            pictures.push(Picture { rectangle: [left, top, wide, high], pattern });
        }
    }
    pictures
}

/// A texture of a surface of so many metres; `paint` gets each pixel's column and row, and its middle in metres.
fn painted(width: f32, height: f32, paint: impl Fn(usize, usize, f32, f32) -> [f32; 3]) -> Texture {
    let (columns, rows) = ((width * DENSITY) as usize + 1, (height * DENSITY) as usize + 1);
    Texture::new(columns, rows, |x, y| paint(x, y, (x as f32 + 0.5) / DENSITY, (y as f32 + 0.5) / DENSITY))
}

fn mixed(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    std::array::from_fn(|part| 0.5 * (a[part] + b[part]))
}

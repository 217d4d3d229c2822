//! From a viewpoint to pixels: every ray meets a wall, then the things in front of it are drawn nearest first to be kept.
//!
//! The walls, floor and ceiling cost three divisions and one texture sample a pixel; a thing costs only the rectangle that
//! its sphere covers. Outlines are softened afterwards, a lens darkens the corners, and the sensor adds noise that
//! follows from the frame's number.

use super::maths::Vector;
use super::room::{self, Room};
use super::thing::{self, Part, Thing};
use super::viewpoint::Viewpoint;
use crate::random::mix;

/// Width and height of a frame.
pub(super) const SIZE: usize = 224;

/// Tangent of half the angle of view: 70° in all.
const HALF_VIEW: f32 = 0.7;

/// The owner of a pixel that shows no thing.
const NOBODY: u16 = u16::MAX;

/// Where pixels are computed; kept between frames.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    colours: Vec<[f32; 3]>,
    distances: Vec<f32>,
    owners: Vec<u16>,
}

impl Canvas {
    /// Draws the room as seen.
    pub(super) fn draw(&mut self, room: &Room, from: &Viewpoint) {
        self.colours.resize(SIZE * SIZE, [0.0; 3]);
        self.distances.resize(SIZE * SIZE, 0.0);
        self.owners.clear();
        self.owners.resize(SIZE * SIZE, NOBODY);
        self.draw_surfaces(room, from);
        for (owner, thing) in room.things.iter().enumerate() {
            self.draw_thing(room, from, thing, owner as u16);
        }
    }

    fn draw_surfaces(&mut self, room: &Room, from: &Viewpoint) {
        let Vector { x: wide, y: high, z: deep } = room.size;
        let eye = from.eye;
        let mut pixels = self.colours.iter_mut().zip(&mut self.distances);
        for row in 0..SIZE {
            let row_start = from.forward + from.up * -offset(row);
            for column in 0..SIZE {
                let ray = row_start + from.right * offset(column);
                // The eye is inside: the wall ahead on each axis, and of these the nearest.
                let ahead = |size: f32, eye: f32, ray: f32| (if ray > 0.0 { size - eye } else { -eye }) / ray;
                let (x, y, z) =
                    (ahead(wide, eye.x, ray.x), ahead(high, eye.y, ray.y), ahead(deep, eye.z, ray.z));
                let distance = x.min(y).min(z);
                let place = eye + ray * distance;
                let (surface, across, down) = if distance == y {
                    (usize::from(ray.y > 0.0), place.x, place.z)
                } else if distance == x {
                    (2 + usize::from(ray.x > 0.0), place.z, high - place.y)
                } else {
                    (4 + usize::from(ray.z > 0.0), place.x, high - place.y)
                };
                let footprint = distance * (2.0 * HALF_VIEW / SIZE as f32) * room::DENSITY;
                let colour =
                    room.surfaces[surface].sample(across * room::DENSITY, down * room::DENSITY, footprint);
                if let Some((to, nearest)) = pixels.next() {
                    *to = colour;
                    *nearest = distance;
                }
            }
        }
    }

    fn draw_thing(&mut self, room: &Room, from: &Viewpoint, thing: &Thing, owner: u16) {
        let Some([left, right, top, bottom]) = covered(from, thing.middle, thing.radius) else { return };
        let parts: Vec<Seen> = thing.parts.iter().map(|part| Seen::new(part, from)).collect();
        for row in top..bottom {
            let rows = row * SIZE;
            for column in left..right {
                let (across, down) = (offset(column), -offset(row));
                let Some((seen, hit)) = parts
                    .iter()
                    .filter_map(|seen| Some((seen, seen.hit(across, down)?)))
                    .min_by(|a, b| a.1.distance.total_cmp(&b.1.distance))
                else {
                    continue;
                };
                let pixel = rows + column;
                if hit.distance >= self.distances[pixel] {
                    continue;
                }
                let ray = from.forward + from.right * across + from.up * down;
                let normal = hit.normal.turned(seen.part.turn.0, seen.part.turn.1);
                let light = room.light.at(from.eye + ray * hit.distance, normal);
                let footprint = hit.distance * (2.0 * HALF_VIEW / SIZE as f32) * thing::DENSITY;
                let colour = thing.textures[seen.part.texture].sample(
                    hit.across * thing::DENSITY,
                    hit.down * thing::DENSITY,
                    footprint,
                );
                self.distances[pixel] = hit.distance;
                self.owners[pixel] = owner;
                self.colours[pixel] = std::array::from_fn(|part| colour[part] * light[part]);
            }
        }
    }

    /// Pixels that show this thing.
    pub(super) fn pixels_of(&self, owner: usize) -> impl Iterator<Item = bool> + '_ {
        self.owners.iter().map(move |&other| usize::from(other) == owner)
    }

    /// The frame as the camera's sensor would have it.
    pub(super) fn develop(&self, noise: u64, rgb: &mut Vec<u8>) {
        rgb.resize(SIZE * SIZE * 3, 0);
        let mut state = mix(noise);
        for (pixel, out) in rgb.chunks_exact_mut(3).enumerate() {
            let (column, row) = (pixel % SIZE, pixel / SIZE);
            let colour = self.softened(pixel, column, row);
            let (x, y) = (offset(column), offset(row));
            let lens = 1.0 - 0.22 * (x * x + y * y);
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let noise = state >> 32;
            for (part, out) in out.iter_mut().enumerate() {
                let grain = (noise >> (8 * part) & 0xff) as f32 * (7.0 / 255.0) - 3.5;
                *out = (colour[part] * lens + grain + 0.5).clamp(0.0, 255.0) as u8;
            }
        }
    }

    /// A pixel on an outline is mixed with its neighbours.
    fn softened(&self, pixel: usize, column: usize, row: usize) -> [f32; 3] {
        let here = self.colours[pixel];
        if column == 0 || row == 0 || column + 1 == SIZE || row + 1 == SIZE {
            return here;
        }
        let around = [pixel - 1, pixel + 1, pixel - SIZE, pixel + SIZE];
        let owner = self.owners[pixel];
        if around.iter().all(|&other| self.owners[other] == owner) {
            return here;
        }
        let around = around.map(|other| self.colours[other]);
        std::array::from_fn(|part| {
            here[part] * 0.4 + 0.15 * (around[0][part] + around[1][part] + around[2][part] + around[3][part])
        })
    }
}

/// A part in the coordinates of which its solid is defined, as the camera sees it.
pub(super) struct Seen<'a> {
    pub(super) part: &'a Part,
    eye: Vector,
    forward: Vector,
    right: Vector,
    up: Vector,
}

impl<'a> Seen<'a> {
    pub(super) fn new(part: &'a Part, from: &Viewpoint) -> Self {
        let own = |vector: Vector| vector.turned(part.turn.0, -part.turn.1);
        Self {
            part,
            eye: own(from.eye - part.middle),
            forward: own(from.forward),
            right: own(from.right),
            up: own(from.up),
        }
    }

    /// Where the ray of these offsets meets it.
    pub(super) fn hit(&self, across: f32, down: f32) -> Option<super::shape::Hit> {
        self.part.solid.hit(self.eye, self.forward + self.right * across + self.up * down)
    }
}

/// How far off the axis of view a column or row lies, for a ray of forward length 1.
fn offset(pixel: usize) -> f32 {
    (pixel as f32 + 0.5 - SIZE as f32 / 2.0) * (2.0 * HALF_VIEW / SIZE as f32)
}

/// The rectangle of pixels (columns from, to; rows from, to) that can show a sphere; none if it is behind.
fn covered(from: &Viewpoint, middle: Vector, radius: f32) -> Option<[usize; 4]> {
    let to = middle - from.eye;
    let (ahead, right, up) = (to.dot(from.forward), to.dot(from.right), to.dot(from.up));
    if ahead < -radius {
        return None;
    }
    // Inside or beside the eye, anything may be covered; else the tangents of the sphere's outline, bounded from outside.
    if ahead <= radius * 1.2 {
        return Some([0, SIZE, 0, SIZE]);
    }
    let bounds = |aside: f32| {
        let root = (aside * aside + ahead * ahead - radius * radius).sqrt();
        let under = ahead * ahead - radius * radius;
        ((aside * ahead - radius * root) / under, (aside * ahead + radius * root) / under)
    };
    let pixel = |offset: f32| {
        let pixel = offset * (SIZE as f32 / (2.0 * HALF_VIEW)) + SIZE as f32 / 2.0;
        pixel.clamp(0.0, SIZE as f32)
    };
    let ((left, right), (top, bottom)) = (bounds(right), bounds(-up));
    let rectangle = [left, right, top, bottom].map(pixel);
    let [left, right, top, bottom] = rectangle;
    let rectangle = [left as usize, right.ceil() as usize, top as usize, bottom.ceil() as usize];
    (rectangle[0] < rectangle[1] && rectangle[2] < rectangle[3]).then_some(rectangle)
}

//! The built-in world's school for eyes: things without end, each seen from all sides, in changing light and places.
//!
//! The rooms have 48 things, which is little to learn seeing from. A showcase has as many as there are numbers. A picture shows one of
//! them from some side, near the middle, in front of nothing, of a plain wall, of a pattern or of one of the rooms.

use super::assembly::assembled;
use super::maths::{Vector, sine_cosine};
use super::render::Seen;
use super::room::Light;
use super::texture::{Pattern, Texture, colour};
use super::thing::{self, Thing};
use super::viewpoint::Viewpoint;
use super::{Frame, Rooms};
use crate::random::{Purpose, Random, mix};

/// Pictures of the rooms, as backdrops.
const ROOM_VIEWS: u64 = 240;

/// Frames of the world from one of them to the next: another object, mostly in another room.
const BETWEEN: u64 = 397;

/// Tangent of half the angle of view: 35° in all, as somebody who looks at a thing in front of him.
const HALF_VIEW: f32 = 0.32;

/// Among the numbers of the world's random streams: the things, and their pictures.
const THINGS: u64 = 32 << 40;
const BACKDROPS: u64 = 33 << 40;

/// See the [module](self).
#[derive(Debug)]
pub struct Showcase {
    seed: u64,
    /// Pictures of the rooms, 224×224.
    rooms: Vec<Vec<u8>>,
}

/// A thing, put together and painted.
#[derive(Debug)]
pub struct Exhibit(Thing);

/// From where a thing is seen, and in what light.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Once around it, in radians.
    pub azimuth: f32,
    /// Above the horizon, in radians.
    pub elevation: f32,
    /// Start of everything else: light, distance, tilt, noise.
    pub seed: u64,
    /// What it stands in front of: nothing, a black one, or the backdrop of this number.
    pub backdrop: Option<u64>,
}

impl Showcase {
    /// Draws the backdrops: some seconds of computing.
    pub fn new(seed: u64) -> Self {
        let mut world = Rooms::new(mix(seed));
        let mut frame = Frame::default();
        let rooms = (0..ROOM_VIEWS).map(|view| {
            world.render(view * BETWEEN, &mut frame);
            std::mem::take(&mut frame.rgb)
        });
        Self { seed, rooms: rooms.collect() }
    }

    /// The thing of this number.
    pub fn exhibit(&self, number: u64) -> Exhibit {
        Exhibit(assembled(&mut Random::new(self.seed, Purpose::World, THINGS + number)))
    }

    /// Draws a picture of `side` × `side` pixels.
    pub fn show(&self, Exhibit(thing): &Exhibit, view: &View, side: usize, rgb: &mut Vec<u8>) {
        let random = &mut Random::new(self.seed, Purpose::World, view.seed);
        let shown = Shown::new(thing, view, random);
        let behind = match view.backdrop {
            None => Backdrop::Plain([0.0; 3]),
            Some(number) => {
                Backdrop::new(&self.rooms, &mut Random::new(self.seed, Purpose::World, BACKDROPS + number))
            }
        };
        // The same wall is met from elsewhere.
        let shift = (random.between(-0.25, 0.25), random.between(-0.25, 0.25));
        let pixel = |row: usize, column: usize| {
            let (x, y) = ((column as f32 + 0.5) / side as f32, (row as f32 + 0.5) / side as f32);
            let (across, down) = ((2.0 * x - 1.0) * HALF_VIEW, (1.0 - 2.0 * y) * HALF_VIEW);
            match shown.at(across, down, side) {
                Some(colour) => Pixel { thing: true, colour },
                None => Pixel { thing: false, colour: behind.at(x + shift.0, y + shift.1) },
            }
        };
        let pixels: Vec<Pixel> = (0..side * side).map(|place| pixel(place / side, place % side)).collect();
        let gain = random.between(0.75, 1.2);
        let grain = random.between(0.0, 7.0);
        let mut state = mix(view.seed ^ self.seed);
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 40) as f32 / (1u32 << 24) as f32 - 0.5) * grain
        };
        rgb.clear();
        for place in 0..side * side {
            let colour = softened(&pixels, side, place);
            rgb.extend(colour.map(|part| (part * gain + noise() + 0.5).clamp(0.0, 255.0) as u8));
        }
    }
}

/// What a ray met.
#[derive(Clone, Copy)]
struct Pixel {
    thing: bool,
    colour: [f32; 3],
}

/// The colour of a pixel; on the outline of the thing it is mixed with its neighbours.
fn softened(pixels: &[Pixel], side: usize, place: usize) -> [f32; 3] {
    let (row, column) = (place / side, place % side);
    let around = [
        pixels[row.saturating_sub(1) * side + column],
        pixels[(row + 1).min(side - 1) * side + column],
        pixels[row * side + column.saturating_sub(1)],
        pixels[row * side + (column + 1).min(side - 1)],
    ];
    let Pixel { thing, colour } = pixels[place];
    if around.iter().all(|other| other.thing == thing) {
        return colour;
    }
    std::array::from_fn(|part| {
        0.4 * colour[part] + 0.15 * around.iter().map(|other| other.colour[part]).sum::<f32>()
    })
}

/// A thing as the camera of a view sees it.
struct Shown<'a> {
    thing: &'a Thing,
    parts: Vec<Seen<'a>>,
    from: Viewpoint,
    light: Light,
}

impl<'a> Shown<'a> {
    fn new(thing: &'a Thing, view: &View, random: &mut Random) -> Self {
        let (azimuth, elevation) = (f64::from(view.azimuth), f64::from(view.elevation));
        let ((sin_yaw, cos_yaw), (sin_pitch, cos_pitch)) = (sine_cosine(azimuth), sine_cosine(elevation));
        let away = Vector::new((sin_yaw * cos_pitch) as f32, sin_pitch as f32, (cos_yaw * cos_pitch) as f32);
        // The sphere around it fills between half and all of the picture.
        let distance = thing.radius / (HALF_VIEW * random.between(0.6, 1.05));
        let eye = thing.middle + away * distance;
        let aside = |random: &mut Random| f64::from(random.between(-0.05, 0.05));
        let (yaw, pitch) = (azimuth + std::f64::consts::PI + aside(random), -elevation + aside(random));
        let from = Viewpoint::new(eye, yaw, pitch, 2.0 * aside(random));
        let warmth = random.between(-1.0, 1.0);
        let lamp =
            Vector::new(random.between(-1.5, 1.5), random.between(0.3, 1.6), random.between(-1.5, 1.5));
        let tint = [1.0 + 0.12 * warmth, 1.0, 1.0 - 0.15 * warmth];
        let light = Light::new(thing.middle + lamp, random.between(0.4, 0.8), random.between(0.3, 1.2), tint);
        let parts = thing.parts.iter().map(|part| Seen::new(part, &from)).collect();
        Self { thing, parts, from, light }
    }

    /// The colour that a ray meets, from 0 to 255.
    fn at(&self, across: f32, down: f32, side: usize) -> Option<[f32; 3]> {
        let (seen, hit) = self
            .parts
            .iter()
            .filter_map(|seen| Some((seen, seen.hit(across, down)?)))
            .min_by(|a, b| a.1.distance.total_cmp(&b.1.distance))?;
        let ray = self.from.forward + self.from.right * across + self.from.up * down;
        let normal = hit.normal.turned(seen.part.turn.0, seen.part.turn.1);
        let light = self.light.at(self.from.eye + ray * hit.distance, normal);
        let footprint = hit.distance * (2.0 * HALF_VIEW / side as f32) * thing::DENSITY;
        let texture = &self.thing.textures[seen.part.texture];
        let colour = texture.sample(hit.across * thing::DENSITY, hit.down * thing::DENSITY, footprint);
        Some(std::array::from_fn(|part| colour[part] * light[part]))
    }
}

/// What a thing stands in front of.
enum Backdrop<'a> {
    Plain([f32; 3]),
    Pattern(Texture),
    Room(&'a [u8]),
}

/// Pixels of a pattern across a picture.
const PATTERN: usize = 64;

impl<'a> Backdrop<'a> {
    fn new(rooms: &'a [Vec<u8>], random: &mut Random) -> Self {
        match random.below(6) {
            0 => {
                let plain =
                    colour(random.between(0.0, 6.0), random.between(0.0, 0.6), random.between(0.1, 1.0));
                Self::Plain(plain.map(|part| 255.0 * part))
            }
            1 => {
                let (kind, vivid) = (random.below(Pattern::KINDS), random.between(0.0, 0.8));
                let pattern = Pattern::new(random, kind, vivid);
                Self::Pattern(Texture::new(PATTERN, PATTERN, |x, y| pattern.at(x, y)))
            }
            _ => Self::Room(&rooms[random.below(rooms.len())]),
        }
    }

    /// The colour at a place; 0 to 1 is the picture, and it goes on beyond.
    fn at(&self, x: f32, y: f32) -> [f32; 3] {
        match self {
            Self::Plain(colour) => *colour,
            Self::Pattern(texture) => texture.sample(x * PATTERN as f32, y * PATTERN as f32, 1.0),
            Self::Room(rgb) => {
                let side = super::render::SIZE;
                let place = |at: f32| {
                    let at = (at * 0.66 + 0.17).clamp(0.0, 1.0);
                    ((at * side as f32) as usize).min(side - 1)
                };
                let pixel = (place(y) * side + place(x)) * 3;
                std::array::from_fn(|part| f32::from(rgb[pixel + part]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(seed: u64) -> View {
        View { azimuth: seed as f32, elevation: 0.3, seed, backdrop: seed.is_multiple_of(2).then_some(seed) }
    }

    #[test]
    fn pictures_repeat_and_things_differ() {
        let (one, other) = (Showcase::new(1), Showcase::new(1));
        let draw = |showcase: &Showcase, thing: u64, seed: u64| {
            let mut rgb = Vec::new();
            showcase.show(&showcase.exhibit(thing), &view(seed), 48, &mut rgb);
            rgb
        };
        for thing in 0..20 {
            let picture = draw(&one, thing, 5);
            assert_eq!(picture.len(), 48 * 48 * 3);
            assert_eq!(picture, draw(&other, thing, 5));
            assert_ne!(picture, draw(&one, thing + 1, 5));
            assert_ne!(picture, draw(&one, thing, 6));
        }
    }

    /// A thing is in sight from all sides: it covers between a twentieth and all of the picture.
    #[test]
    fn things_are_seen_from_all_sides() {
        let showcase = Showcase::new(2);
        for number in 0..200 {
            let Exhibit(thing) = showcase.exhibit(number);
            let seed = number % 40;
            let shown = Shown::new(&thing, &view(seed), &mut Random::new(2, Purpose::World, seed));
            let side = 32;
            let offset = |pixel: usize| ((pixel as f32 + 0.5) / side as f32 * 2.0 - 1.0) * HALF_VIEW;
            let covered = (0..side * side)
                .filter(|pixel| shown.at(offset(pixel % side), offset(pixel / side), side).is_some())
                .count();
            assert!(covered > side * side / 40, "thing {number} covers {covered} of {}", side * side);
        }
    }
}

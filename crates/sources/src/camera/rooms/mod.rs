//! The built-in world: textured rooms with distinct objects, seen by somebody who walks about and looks at them.
//!
//! Six rooms hold eight objects each, made of boxes, cones and balls with patterns on them. A walker goes from object to
//! object, looks at one for some seconds while moving, comes back to it, and changes rooms every minute or two: the
//! statistics of a head camera at home, with the truth about what was looked at. The world runs at ten frames a second
//! of its own time and is drawn at 224 × 224 by ray casting, some 8 ms a frame.
//!
//! A frame follows from the seed and its number alone, bit for bit, on every machine: no state is carried from frame to
//! frame, so the world can be sampled at any stride and a run resumed anywhere.

mod assembly;
mod maths;
mod render;
mod room;
mod shape;
mod showcase;
#[cfg(test)]
mod tests;
mod texture;
mod thing;
mod viewpoint;
mod walk;

use self::render::{Canvas, SIZE};
use self::room::Room;
pub use self::showcase::{Exhibit, Showcase, View};
use super::{Counters, Frame, Kind, Next, Source};
use crate::Result;
use crate::random::mix;

/// Rooms of the world.
const ROOMS: usize = 6;

/// Fewer visible pixels than this (half a percent) and the frame does not show the object that the walker turns to.
const LEAST_VISIBLE: usize = SIZE * SIZE / 200;

/// The world of a seed.
#[derive(Debug)]
pub struct Rooms {
    seed: u64,
    rooms: Vec<Room>,
    canvas: Canvas,
}

impl Rooms {
    /// Objects that can be attended to; instances are numbered from 0.
    pub const INSTANCES: u32 = (ROOMS * room::OBJECTS) as u32;

    /// Frames in a second of the world's time.
    pub const RATE: f64 = walk::RATE;

    /// Builds and paints the world: some seconds of computing.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            rooms: (0..ROOMS).map(|number| Room::new(seed, number)).collect(),
            canvas: Canvas::default(),
        }
    }

    /// Draws frame `n`. The truth is the object looked at; while the head turns and it is hardly in view, there is none.
    pub fn render(&mut self, n: u64, frame: &mut Frame) {
        let pose = walk::pose(self.seed, &self.rooms, n);
        let room = &self.rooms[pose.room];
        self.canvas.draw(room, &pose.viewpoint);
        self.canvas.develop(mix(self.seed) ^ n, &mut frame.rgb);
        (frame.width, frame.height, frame.sequence) = (SIZE, SIZE, n);
        frame.recorded_ns = Some(n.saturating_mul(1_000_000_000 / Self::RATE as u64));
        let mask = frame.mask.get_or_insert_default();
        mask.clear();
        mask.extend(self.canvas.pixels_of(pose.object).map(|shown| if shown { 255 } else { 0 }));
        let visible = mask.iter().filter(|&&pixel| pixel != 0).count();
        frame.truth = room.objects()[pose.object].instance.filter(|_| visible >= LEAST_VISIBLE);
    }
}

/// A walk through the world, frame after frame.
#[derive(Debug)]
pub struct Walk {
    world: Rooms,
    next: u64,
    frames: u64,
}

impl Walk {
    /// A walk from the first frame on.
    pub fn new(seed: u64) -> Self {
        Self { world: Rooms::new(seed), next: 0, frames: 0 }
    }
}

impl Source for Walk {
    fn kind(&self) -> Kind {
        Kind::BuiltIn
    }

    fn identity(&self) -> String {
        format!("rooms:{}", self.world.seed)
    }

    fn describe(&self) -> String {
        format!(
            "built-in world of {ROOMS} rooms and {} objects, seed {}, {SIZE}x{SIZE}, {} frames a second",
            Rooms::INSTANCES,
            self.world.seed,
            Rooms::RATE
        )
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Next> {
        self.world.render(self.next, frame);
        frame.monotonic_ns = super::now();
        self.next = self.next.saturating_add(1);
        self.frames += 1;
        Ok(Next::Frame)
    }

    fn seek(&mut self, sequence: u64) -> Result<()> {
        self.next = sequence;
        Ok(())
    }

    fn rate(&self) -> Option<f64> {
        Some(Rooms::RATE)
    }

    fn counters(&self) -> Counters {
        Counters { frames: self.frames, ..Counters::default() }
    }
}

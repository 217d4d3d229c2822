//! Where the walker is and what it looks at, at any frame, without walking there first.
//!
//! Time is cut into visits of a room, stays at a station in front of an object, and fixations of an object. Their
//! boundaries lie on an even grid with a random shift each, so the one in force at a frame is found by looking at two of
//! them. A fixation goes to an object near to where the walker then is: most frames repeat an object that was seen
//! seconds ago from elsewhere, some move on, and a room is left after a minute or two.

use super::maths::{Vector, angle, sine_cosine, smooth, turn};
use super::room::{AISLE, OBJECTS, Room};
use super::viewpoint::Viewpoint;
use crate::random::{Purpose, Random, mix};

/// Frames of the world in a second.
pub(super) const RATE: f64 = 10.0;

/// Mean seconds of a visit, a stay and a fixation.
const VISIT: f64 = 90.0;
const STAY: f64 = 10.0;
const FIXATION: f64 = 4.5;

/// Seconds that the head takes to turn from one object to the next.
const TURN: f64 = 0.8;

/// Height of the camera.
const EYES: f32 = 1.15;

/// The camera at a moment.
#[derive(Debug)]
pub(super) struct Pose {
    pub(super) room: usize,
    pub(super) viewpoint: Viewpoint,
    /// The object looked at, by its place in the room.
    pub(super) object: usize,
}

/// The pose at frame `n` of the world of this seed.
pub(super) fn pose(seed: u64, rooms: &[Room], n: u64) -> Pose {
    let time = n as f64 / RATE;
    let (visit, began, ends) = span(seed, 1, VISIT, time);
    let room = visited(seed, rooms.len(), visit);
    // A grid of its own for each visit: what happens in it does not depend on the others.
    let visit = Visit { seed: mix(seed ^ mix(visit)), room: &rooms[room], length: ends - began };
    visit.pose(room, time - began)
}

/// Number, beginning and end of the span of an uneven grid in which a time lies.
fn span(seed: u64, grid: u64, mean: f64, time: f64) -> (u64, f64, f64) {
    let boundary = |index: u64| {
        let shift = Random::new(seed, Purpose::World, grid << 40 | index).unit() - 0.5;
        if index == 0 { 0.0 } else { (index as f64 + 0.7 * shift) * mean }
    };
    let near = (time / mean) as u64;
    let index = if boundary(near) > time {
        near - 1
    } else if boundary(near + 1) <= time {
        near + 1
    } else {
        near
    };
    (index, boundary(index), boundary(index + 1))
}

/// The room of a visit: all rooms in a random order, then all again in another, never the same twice running.
fn visited(seed: u64, rooms: usize, visit: u64) -> usize {
    let order = |round: u64| {
        let mut order: Vec<usize> = (0..rooms).collect();
        Random::new(seed, Purpose::World, 2 << 40 | round).shuffle(&mut order);
        order
    };
    let (round, place) = (visit / rooms as u64, (visit % rooms as u64) as usize);
    let mut now = order(round);
    if round > 0 && rooms > 2 && order(round - 1).last() == now.first() {
        now.swap(0, 1);
    }
    now[place]
}

struct Visit<'a> {
    seed: u64,
    room: &'a Room,
    length: f64,
}

impl Visit<'_> {
    fn pose(&self, room: usize, time: f64) -> Pose {
        let place = self.place(time);
        let (object, yaw, pitch) = self.gaze(time, place);
        // A head is never still: it sways, nods and tilts a little.
        let yaw = yaw + 0.10 * self.sway(3, 1.7, time);
        let pitch = pitch + 0.08 * self.sway(4, 1.3, time);
        let roll = 0.06 * self.sway(5, 2.1, time);
        let eye = Vector::new(place.x, EYES + 0.03 * self.sway(6, 0.45, time) as f32, place.z);
        Pose { room, viewpoint: Viewpoint::new(eye, yaw, pitch, roll), object }
    }

    /// Where the feet are: from station to station, some time at each.
    fn place(&self, time: f64) -> Vector {
        let (stay, began, ends) = span(self.seed, 3, STAY, time);
        let from = if stay == 0 { self.room.door } else { self.station(stay - 1) };
        let walked = smooth((time - began) / (0.6 * (ends - began)));
        let place = from + (self.station(stay) - from) * walked as f32;
        let drift = Vector::new(self.sway(1, 2.3, time) as f32, 0.0, self.sway(2, 2.9, time) as f32);
        place + drift * 0.12
    }

    /// A spot in front of some object, off the line to the middle of the room.
    fn station(&self, stay: u64) -> Vector {
        let random = &mut Random::new(self.seed, Purpose::World, 4 << 40 | stay);
        let Vector { x: wide, z: deep, .. } = self.room.size;
        let object = &self.room.objects()[random.below(OBJECTS)];
        let inwards = Vector::new(wide / 2.0 - object.middle.x, 0.0, deep / 2.0 - object.middle.z);
        let inwards = inwards * (1.0 / inwards.dot(inwards).sqrt().max(0.1));
        let (sine, cosine) = sine_cosine(f64::from(random.between(-0.9, 0.9)));
        let spot = object.middle + inwards.turned(cosine as f32, sine as f32) * random.between(0.9, 1.7);
        Vector::new(spot.x.clamp(AISLE, wide - AISLE), 0.0, spot.z.clamp(AISLE, deep - AISLE))
    }

    /// The object looked at, and the direction to it: yaw from the z axis, pitch from the horizon.
    fn gaze(&self, time: f64, place: Vector) -> (usize, f64, f64) {
        let (fixation, began, ends) = span(self.seed, 5, FIXATION, time);
        let object = self.fixated(fixation, (began + ends) / 2.0);
        let (yaw, pitch) = self.towards(object, place);
        if fixation == 0 {
            return (object, yaw, pitch);
        }
        let (_, before, _) = span(self.seed, 5, FIXATION, began - 1e-6);
        let last = self.fixated(fixation - 1, (before + began) / 2.0);
        let (old_yaw, old_pitch) = self.towards(last, place);
        // Left or right is decided once, at the beginning: what lies behind may be on the other side a step later.
        let start = self.place(began);
        let first_turn = turn(self.towards(last, start).0, self.towards(object, start).0);
        let whole_turn = first_turn + turn(first_turn, yaw - old_yaw);
        let turned = smooth((time - began) / TURN);
        (object, old_yaw + turned * whole_turn, old_pitch + turned * (pitch - old_pitch))
    }

    /// The object of a fixation: the near ones draw the eye, each now more, now less.
    fn fixated(&self, fixation: u64, middle: f64) -> usize {
        let place = self.place(middle.min(self.length));
        let random = &mut Random::new(self.seed, Purpose::World, 6 << 40 | fixation);
        let pull = |(index, object): (usize, &super::thing::Thing)| {
            let (x, z) = (object.middle.x - place.x, object.middle.z - place.z);
            (random.between(0.3, 1.0) / (x * x + z * z), index)
        };
        let nearest = self.room.objects().iter().enumerate().map(pull);
        nearest.fold((0.0, 0), |best, next| if next.0 > best.0 { next } else { best }).1
    }

    fn towards(&self, object: usize, place: Vector) -> (f64, f64) {
        let target = self.room.objects()[object].middle;
        let (x, y, z) =
            (f64::from(target.x - place.x), f64::from(target.y - EYES), f64::from(target.z - place.z));
        (angle(x, z), angle(y, (x * x + z * z).sqrt()))
    }

    /// Smooth noise in [−1, 1] that changes over some seconds.
    fn sway(&self, channel: u64, seconds: f64, time: f64) -> f64 {
        let steps = time / seconds;
        let step = steps as u64;
        let knot = |index: u64| {
            2.0 * Random::new(self.seed, Purpose::World, (16 + channel) << 40 | index).unit() - 1.0
        };
        let (from, to) = (knot(step), knot(step + 1));
        from + (to - from) * smooth(steps - step as f64)
    }
}

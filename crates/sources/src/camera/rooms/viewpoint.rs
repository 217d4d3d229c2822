//! Where a camera is and which way it looks.

use super::maths::{Vector, sine_cosine};

/// A place, and the directions of a picture taken there; each has length 1.
#[derive(Debug)]
pub(super) struct Viewpoint {
    pub(super) eye: Vector,
    pub(super) forward: Vector,
    pub(super) right: Vector,
    pub(super) up: Vector,
}

impl Viewpoint {
    /// From a place into a direction: yaw from the z axis, pitch from the horizon, and the head tilted by `roll`.
    pub(super) fn new(eye: Vector, yaw: f64, pitch: f64, roll: f64) -> Self {
        let ((sin_yaw, cos_yaw), (sin_pitch, cos_pitch)) = (sine_cosine(yaw), sine_cosine(pitch));
        let (sin_roll, cos_roll) = sine_cosine(roll);
        let vector = |x: f64, y: f64, z: f64| Vector::new(x as f32, y as f32, z as f32);
        let forward = vector(sin_yaw * cos_pitch, sin_pitch, cos_yaw * cos_pitch);
        let level = vector(cos_yaw, 0.0, -sin_yaw);
        let upright = vector(-sin_yaw * sin_pitch, cos_pitch, -cos_yaw * sin_pitch);
        let right = level * cos_roll as f32 + upright * sin_roll as f32;
        let up = upright * cos_roll as f32 - level * sin_roll as f32;
        Self { eye, forward, right, up }
    }
}

//! The little geometry that the world needs, from operations that IEEE 754 defines exactly.
//!
//! A frame of the world is the same on every machine: sine and arc tangent are polynomials here, because those of the
//! system's library differ between systems in the last bit.

use std::f64::consts::{FRAC_PI_2, PI, TAU};
use std::ops::{Add, Mul, Sub};

/// A point or direction in metres: x and z along the floor, y up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Vector {
    pub(super) x: f32,
    pub(super) y: f32,
    pub(super) z: f32,
}

impl Vector {
    pub(super) const fn new(x: f32, y: f32, z: f32) -> Self {
        Self { x, y, z }
    }

    pub(super) fn dot(self, other: Self) -> f32 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    /// Turned about the vertical axis by the angle of this cosine and sine.
    pub(super) fn turned(self, cosine: f32, sine: f32) -> Self {
        Self::new(cosine * self.x - sine * self.z, self.y, sine * self.x + cosine * self.z)
    }
}

impl Add for Vector {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::new(self.x + other.x, self.y + other.y, self.z + other.z)
    }
}

impl Sub for Vector {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::new(self.x - other.x, self.y - other.y, self.z - other.z)
    }
}

impl Mul<f32> for Vector {
    type Output = Self;

    fn mul(self, factor: f32) -> Self {
        Self::new(self.x * factor, self.y * factor, self.z * factor)
    }
}

/// Sine and cosine of an angle of moderate size.
pub(super) fn sine_cosine(angle: f64) -> (f64, f64) {
    // To within a quarter turn of a multiple of half turns, then Taylor: the first term left out is below 1e-11.
    let sine = |angle: f64| {
        let half_turns = (angle / PI).round();
        let x = angle - half_turns * PI;
        let s = x * x;
        let series = 1.0 - s / 210.0 * (1.0 - s / 272.0);
        let series = 1.0 - s / 110.0 * (1.0 - s / 156.0 * series);
        let series = x * (1.0 - s / 6.0 * (1.0 - s / 20.0 * (1.0 - s / 42.0 * (1.0 - s / 72.0 * series))));
        if half_turns % 2.0 == 0.0 { series } else { -series }
    };
    (sine(angle), sine(angle + FRAC_PI_2))
}

/// The angle of a direction in the plane, in (−π, π]; 0 for no direction.
pub(super) fn angle(y: f64, x: f64) -> f64 {
    let (large, small) = if x.abs() > y.abs() { (x.abs(), y.abs()) } else { (y.abs(), x.abs()) };
    if large == 0.0 {
        return 0.0;
    }
    // Once more half the angle, so that the series is short: tan(a/2) = t / (1 + √(1 + t²)).
    let ratio = small / large;
    let half = ratio / (1.0 + (1.0 + ratio * ratio).sqrt());
    let s = half * half;
    let series = (0..16).rev().fold(0.0, |sum, term| 1.0 / f64::from(2 * term + 1) - s * sum);
    let octant = 2.0 * half * series;
    let quadrant = if x.abs() > y.abs() { octant } else { FRAC_PI_2 - octant };
    let upper = if x < 0.0 { PI - quadrant } else { quadrant };
    if y < 0.0 { -upper } else { upper }
}

/// The shortest turn from one angle to another.
pub(super) fn turn(from: f64, to: f64) -> f64 {
    let turn = to - from;
    turn - (turn / TAU).round() * TAU
}

/// From 0 to 1 with no jerk at either end.
pub(super) fn smooth(x: f64) -> f64 {
    let x = x.clamp(0.0, 1.0);
    x * x * (3.0 - 2.0 * x)
}

/// A number in [0, 4) that grows with the angle of (x, z) around the circle: an angle without the cost of one.
pub(super) fn around(x: f32, z: f32) -> f32 {
    let sum = x.abs() + z.abs();
    if sum == 0.0 {
        return 0.0;
    }
    let part = z / sum;
    if x < 0.0 {
        2.0 - part
    } else if part < 0.0 {
        4.0 + part
    } else {
        part
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::FRAC_PI_4;

    use super::*;

    /// The standard library is the oracle; 1e-9 of a radian is far below a pixel.
    #[test]
    fn angles_agree_with_the_library() {
        for step in -3000..=3000 {
            let x = f64::from(step) * 0.013;
            let (sine, cosine) = sine_cosine(x);
            assert!((sine - x.sin()).abs() < 1e-9 && (cosine - x.cos()).abs() < 1e-9, "{x}");
            assert!((angle(x.sin(), x.cos()) - x.sin().atan2(x.cos())).abs() < 1e-9, "{x}");
        }
        assert_eq!(angle(0.0, 0.0), 0.0);
        assert!((angle(1.0, 1.0) - FRAC_PI_4).abs() < 1e-12);
        assert!((turn(3.0, -3.0) - (TAU - 6.0)).abs() < 1e-12);
    }

    #[test]
    fn the_way_around_rises_with_the_angle() {
        let places: Vec<f32> = (0..100)
            .map(|step| f64::from(step) * TAU / 100.0)
            .map(|angle| around(angle.cos() as f32, angle.sin() as f32))
            .collect();
        assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
        assert!(places.iter().all(|place| (0.0..4.0).contains(place)));
    }
}

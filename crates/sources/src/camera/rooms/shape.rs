//! The solids of which things are made, and where a ray meets them.

use super::maths::{Vector, around};

/// A solid in its own coordinates: its middle is the origin, y points up.
#[derive(Clone, Copy, Debug)]
pub(super) enum Solid {
    /// Half of its width, height and depth.
    Box(Vector),
    /// An upright cylinder or cone.
    Cone {
        /// Radius at the bottom.
        bottom: f32,
        /// Radius at the top.
        top: f32,
        /// Half of its height.
        half: f32,
    },
    /// Half axes.
    Ellipsoid(Vector),
}

/// Where a ray meets a solid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    /// In lengths of the ray's direction.
    pub(super) distance: f32,
    /// Of length 1, outwards.
    pub(super) normal: Vector,
    /// Place on the surface, in metres across and down.
    pub(super) across: f32,
    /// See `across`.
    pub(super) down: f32,
}

/// Nothing nearer than this is seen.
const NEAR: f32 = 0.05;

impl Solid {
    /// Radius of the sphere around it.
    pub(super) fn radius(&self) -> f32 {
        match *self {
            Self::Box(half) => half.dot(half).sqrt(),
            Self::Cone { bottom, top, half } => {
                let wide = bottom.max(top);
                (wide * wide + half * half).sqrt()
            }
            Self::Ellipsoid(half) => half.x.max(half.y).max(half.z),
        }
    }

    /// The first place where the ray from `origin` enters the solid.
    pub(super) fn hit(&self, origin: Vector, direction: Vector) -> Option<Hit> {
        match *self {
            Self::Box(half) => hit_box(half, origin, direction),
            Self::Cone { bottom, top, half } => hit_cone(bottom, top, half, origin, direction),
            Self::Ellipsoid(half) => hit_ellipsoid(half, origin, direction),
        }
    }
}

fn hit_box(half: Vector, origin: Vector, direction: Vector) -> Option<Hit> {
    // Where the ray enters and leaves the slab between two faces; a ray along it gives infinities, which compare rightly.
    let slab = |half: f32, origin: f32, direction: f32| {
        let inverse = 1.0 / direction;
        let (a, b) = ((-half - origin) * inverse, (half - origin) * inverse);
        if a < b { (a, b) } else { (b, a) }
    };
    let (x_in, x_out) = slab(half.x, origin.x, direction.x);
    let (y_in, y_out) = slab(half.y, origin.y, direction.y);
    let (z_in, z_out) = slab(half.z, origin.z, direction.z);
    let distance = x_in.max(y_in).max(z_in);
    if distance < NEAR || distance > x_out.min(y_out).min(z_out) {
        return None;
    }
    let place = origin + direction * distance;
    let against = |direction: f32| if direction > 0.0 { -1.0 } else { 1.0 };
    let (normal, across, down) = if distance == x_in {
        (Vector::new(against(direction.x), 0.0, 0.0), place.z + half.z, half.y - place.y)
    } else if distance == y_in {
        (Vector::new(0.0, against(direction.y), 0.0), place.x + half.x, half.z - place.z)
    } else {
        (Vector::new(0.0, 0.0, against(direction.z)), place.x + half.x, half.y - place.y)
    };
    Some(Hit { distance, normal, across, down })
}

fn hit_cone(bottom: f32, top: f32, half: f32, origin: Vector, direction: Vector) -> Option<Hit> {
    let slope = (top - bottom) / (2.0 * half);
    let middle = (top + bottom) / 2.0;
    let mut nearest: Option<Hit> = None;
    let mut keep = |hit: Hit| {
        if hit.distance > NEAR && nearest.is_none_or(|other| hit.distance < other.distance) {
            nearest = Some(hit);
        }
    };

    // The side: x² + z² = (middle + slope·y)², a quadratic in the distance.
    let (radius, growth) = (middle + slope * origin.y, slope * direction.y);
    let a = direction.x * direction.x + direction.z * direction.z - growth * growth;
    let b = origin.x * direction.x + origin.z * direction.z - radius * growth;
    let c = origin.x * origin.x + origin.z * origin.z - radius * radius;
    let root = b * b - a * c;
    if root > 0.0 && a != 0.0 {
        let root = root.sqrt();
        for distance in [(-b - root) / a, (-b + root) / a] {
            let place = origin + direction * distance;
            let radius = middle + slope * place.y;
            if place.y.abs() <= half && radius > 1e-4 {
                let length = 1.0 / (1.0 + slope * slope).sqrt();
                let normal = Vector::new(place.x / radius, -slope, place.z / radius) * length;
                // A quarter of the way around is one unit of `around`, and so long in the middle of the side.
                let across = around(place.x, place.z) * middle * std::f32::consts::FRAC_PI_2;
                keep(Hit { distance, normal, across, down: half - place.y });
            }
        }
    }

    // The ends.
    for (height, radius, up) in [(half, top, 1.0), (-half, bottom, -1.0)] {
        let distance = (height - origin.y) / direction.y;
        let place = origin + direction * distance;
        if place.x * place.x + place.z * place.z < radius * radius {
            let normal = Vector::new(0.0, up, 0.0);
            keep(Hit { distance, normal, across: place.x + radius, down: place.z + radius });
        }
    }
    nearest
}

fn hit_ellipsoid(half: Vector, origin: Vector, direction: Vector) -> Option<Hit> {
    let scale = |v: Vector| Vector::new(v.x / half.x, v.y / half.y, v.z / half.z);
    let (from, along) = (scale(origin), scale(direction));
    let (a, b, c) = (along.dot(along), from.dot(along), from.dot(from) - 1.0);
    let root = b * b - a * c;
    if root <= 0.0 {
        return None;
    }
    let distance = (-b - root.sqrt()) / a;
    if distance.is_nan() || distance < NEAR {
        return None;
    }
    let place = from + along * distance;
    let normal = scale(place);
    let normal = normal * (1.0 / normal.dot(normal).sqrt());
    let across = around(place.x, place.z) * (half.x + half.z) * 0.5 * std::f32::consts::FRAC_PI_2;
    Some(Hit { distance, normal, across, down: (1.0 - place.y) * half.y })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, Random};

    /// Whether a place lies in a solid, by its definition: the oracle of the intersections.
    fn inside(solid: &Solid, p: Vector) -> bool {
        match *solid {
            Solid::Box(half) => p.x.abs() < half.x && p.y.abs() < half.y && p.z.abs() < half.z,
            Solid::Cone { bottom, top, half } => {
                let radius = bottom + (top - bottom) * (p.y + half) / (2.0 * half);
                p.y.abs() < half && p.x * p.x + p.z * p.z < radius * radius
            }
            Solid::Ellipsoid(half) => {
                let scaled = Vector::new(p.x / half.x, p.y / half.y, p.z / half.z);
                scaled.dot(scaled) < 1.0
            }
        }
    }

    #[test]
    fn a_ray_hits_where_marching_along_it_first_enters() {
        let mut random = Random::new(1, Purpose::World, 0);
        let mut hits = 0;
        for _ in 0..3000 {
            let mut length = || random.between(0.2, 0.8);
            let solids = [
                Solid::Box(Vector::new(length(), length(), length())),
                Solid::Cone { bottom: length(), top: length(), half: length() },
                Solid::Cone { bottom: length(), top: 0.0, half: length() },
                Solid::Ellipsoid(Vector::new(length(), length(), length())),
            ];
            let solid = solids[random.below(4)];
            let mut any = || random.between(-1.0, 1.0);
            let origin = Vector::new(any() * 2.0, any() * 2.0, any() + 4.0);
            let target = Vector::new(any() * 0.7, any() * 0.7, any() * 0.7);
            let direction = target - origin;
            let step = 1.0 / 2000.0;
            let marched =
                (0..4000).map(|i| i as f32 * step).find(|&t| inside(&solid, origin + direction * t));
            match (solid.hit(origin, direction), marched) {
                (Some(hit), Some(marched)) => {
                    // One step of the march, and the rounding of the intersection.
                    assert!((hit.distance - marched).abs() < 2.0 * step, "{solid:?} {hit:?} {marched}");
                    assert!((hit.normal.dot(hit.normal) - 1.0).abs() < 1e-3, "{hit:?}");
                    assert!(hit.normal.dot(direction) < 1e-2, "seen from outside: {solid:?} {hit:?}");
                    hits += 1;
                }
                (None, None) => {}
                (Some(hit), None) => {
                    // A ray that only grazes may pass between two steps.
                    let deep = origin + direction * (hit.distance + 2.0 * step);
                    assert!(!inside(&solid, deep), "{solid:?} {hit:?} was not met by marching");
                }
                (None, Some(t)) => {
                    let deep = origin + direction * (t + 4.0 * step);
                    assert!(!inside(&solid, deep), "{solid:?} was met at {t} by marching only");
                }
            }
        }
        assert!(hits > 1000, "{hits} of 3000 rays hit");
    }
}

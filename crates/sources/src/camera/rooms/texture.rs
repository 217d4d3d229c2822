//! Pictures with which the world's surfaces are painted: procedural patterns, stored at several sizes.
//!
//! A texture is sampled between its pixels, from the size whose pixels are about as large as the camera's, so that
//! distant surfaces neither flicker nor turn into noise.

use crate::random::{Random, mix};

/// Red, green, blue and nothing: four bytes are fetched faster than three.
pub(super) type Texel = [u8; 4];

/// A picture at full, half, quarter … size; it repeats in both directions.
#[derive(Debug)]
pub(super) struct Texture {
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    width: usize,
    height: usize,
    texels: Vec<Texel>,
}

impl Texture {
    /// A picture whose colour at each pixel is what `paint` says of its column and row.
    pub(super) fn new(width: usize, height: usize, paint: impl Fn(usize, usize) -> [f32; 3]) -> Self {
        let texel = |place: usize| {
            let [r, g, b] = paint(place % width, place / width).map(|part| (part * 255.0 + 0.5) as u8);
            [r, g, b, 0]
        };
        let mut level = Level { width, height, texels: (0..width * height).map(texel).collect() };
        let mut levels = Vec::new();
        while level.width > 4 && level.height > 4 && levels.len() < 5 {
            let smaller = level.halved();
            levels.push(level);
            level = smaller;
        }
        levels.push(level);
        Self { levels }
    }

    /// The colour at (u, v) in pixels of the full size, where a pixel of the camera spans `footprint` of them.
    pub(super) fn sample(&self, u: f32, v: f32, footprint: f32) -> [f32; 3] {
        let (mut index, mut scale, mut footprint) = (0, 1.0, footprint);
        while footprint > 1.5 && index + 1 < self.levels.len() {
            (index, scale, footprint) = (index + 1, scale * 0.5, footprint * 0.5);
        }
        self.levels[index].sample(u * scale - 0.5, v * scale - 0.5)
    }
}

impl Level {
    fn halved(&self) -> Self {
        let (width, height) = (self.width / 2, self.height / 2);
        let texel = |place: usize| {
            let (x, y) = (place % width * 2, place / width * 2);
            let at = |x: usize, y: usize| self.texels[y * self.width + x];
            let four = [at(x, y), at(x + 1, y), at(x, y + 1), at(x + 1, y + 1)];
            std::array::from_fn(|part| ((four.iter().map(|t| u32::from(t[part])).sum::<u32>() + 2) / 4) as u8)
        };
        Self { width, height, texels: (0..width * height).map(texel).collect() }
    }

    fn sample(&self, u: f32, v: f32) -> [f32; 3] {
        // Truncation after a large offset is a floor without the call; no surface has so many pixels, but a line of sight
        // along one meets it as far away as can be.
        const OFFSET: i32 = 1 << 16;
        const FARTHEST: f32 = (OFFSET - 1) as f32;
        let (u, v) = (u.clamp(-FARTHEST, FARTHEST), v.clamp(-FARTHEST, FARTHEST));
        let (column, row) = ((u + OFFSET as f32) as i32 - OFFSET, (v + OFFSET as f32) as i32 - OFFSET);
        let (x, y) = (u - column as f32, v - row as f32);
        let (left, right) = (wrapped(column, self.width), wrapped(column + 1, self.width));
        let (top, bottom) =
            (wrapped(row, self.height) * self.width, wrapped(row + 1, self.height) * self.width);
        let corners =
            [top + left, top + right, bottom + left, bottom + right].map(|place| self.texels[place]);
        let weights = [(1.0 - x) * (1.0 - y), x * (1.0 - y), (1.0 - x) * y, x * y];
        std::array::from_fn(|part| {
            f32::from(corners[0][part]) * weights[0]
                + f32::from(corners[1][part]) * weights[1]
                + f32::from(corners[2][part]) * weights[2]
                + f32::from(corners[3][part]) * weights[3]
        })
    }
}

/// A place brought into 0 … size − 1. Almost all are there already; a division for each would double the cost.
fn wrapped(place: i32, size: usize) -> usize {
    let size = size as i32;
    if (0..size).contains(&place) { place as usize } else { place.rem_euclid(size) as usize }
}

/// A pattern of a few colours, as drawn on objects, floors and walls.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    kind: usize,
    colours: [[f32; 3]; 3],
    /// Period in pixels.
    period: f32,
    /// How much grain lies over it.
    grain: f32,
    salt: u64,
}

impl Pattern {
    /// Number of kinds of patterns.
    pub(super) const KINDS: usize = 10;

    /// A pattern of this kind whose colours are `vivid` (0 grey … 1 pure).
    pub(super) fn new(random: &mut Random, kind: usize, vivid: f32) -> Self {
        let hue = random.between(0.0, 6.0);
        let first = colour(hue, vivid, random.between(0.35, 0.95));
        let second = colour(hue + random.between(1.2, 4.8), vivid, random.between(0.25, 0.95));
        let third = colour(random.between(0.0, 6.0), vivid * 0.7, random.between(0.1, 1.0));
        Self {
            kind,
            colours: [first, second, third],
            period: random.between(10.0, 26.0),
            grain: random.between(0.05, 0.2),
            salt: random.bits(),
        }
    }

    /// The same pattern in plain, close colours: for floors, walls and furniture.
    pub(super) fn calm(mut self, period: f32) -> Self {
        let [base, ..] = self.colours;
        self.colours[1] = base.map(|part| part * 0.82);
        self.colours[2] = base.map(|part| 1.0 - (1.0 - part) * 0.8);
        self.period = period;
        self
    }

    /// The colour of a pixel.
    pub(super) fn at(&self, x: usize, y: usize) -> [f32; 3] {
        let (u, v) = (x as f32 / self.period, y as f32 / self.period);
        let (column, row) = (u as u64, v as u64);
        let (du, dv) = (u - column as f32 - 0.5, v - row as f32 - 0.5);
        let cell = self.dice(column, row);
        let choice = match self.kind {
            0 => usize::from(dv.abs() < 0.25),
            1 => usize::from(du.abs() < 0.2) + usize::from(column % 3 == 0),
            2 => ((column + row) % 2) as usize,
            3 => {
                if du * du + dv * dv < 0.11 {
                    1 + (cell % 2) as usize
                } else {
                    0
                }
            }
            4 => usize::from((u + v).rem_euclid(2.0) < 1.0),
            // Bricks: every other row is shifted by half, joints between them.
            5 => {
                let shifted = u * 0.5 + 0.5 * (row % 2) as f32;
                let along = shifted - (shifted as u64) as f32;
                if dv > 0.38 || along < 0.06 { 2 } else { (self.dice(shifted as u64, row) % 2) as usize }
            }
            6 => (cell % 3) as usize,
            7 => {
                usize::from(du.abs() + dv.abs() < 0.33) * 2 + usize::from(du.abs() < 0.06 || dv.abs() < 0.06)
            }
            // Waves: a triangle wave stands in for a sine.
            8 => {
                let wave = ((u * 0.7).rem_euclid(2.0) - 1.0).abs() * 0.8;
                usize::from((v + wave).rem_euclid(1.0) < 0.5)
            }
            _ => usize::from(self.clouds(x, y) > 0.5) + usize::from(self.clouds(y + 31, x + 17) > 0.68),
        };
        let grain = 1.0 + self.grain * (self.clouds(x * 3, y * 3) - 0.5);
        self.colours[choice.min(2)].map(|part| (part * grain).clamp(0.0, 1.0))
    }

    /// Smooth noise in [0, 1].
    fn clouds(&self, x: usize, y: usize) -> f32 {
        let octave = |size: f32, weight: f32| {
            let (u, v) = (x as f32 / size, y as f32 / size);
            let (column, row) = (u as u64, v as u64);
            let soft = |x: f32| x * x * (3.0 - 2.0 * x);
            let (du, dv) = (soft(u - column as f32), soft(v - row as f32));
            let at = |x: u64, y: u64| (self.dice(column + x, row + y) & 0xffff) as f32 / 65535.0;
            let top = at(0, 0) + (at(1, 0) - at(0, 0)) * du;
            let bottom = at(0, 1) + (at(1, 1) - at(0, 1)) * du;
            weight * (top + (bottom - top) * dv)
        };
        octave(self.period, 0.6) + octave(self.period * 0.4, 0.4)
    }

    fn dice(&self, column: u64, row: u64) -> u64 {
        mix(self.salt ^ mix(column << 32 | row))
    }
}

/// A colour from hue (in sixths of the circle), purity and brightness.
pub(super) fn colour(hue: f32, purity: f32, brightness: f32) -> [f32; 3] {
    let part = |shift: f32| {
        let place = (hue + shift).rem_euclid(6.0);
        let pure = ((place - 3.0).abs() - 1.0).clamp(0.0, 1.0);
        brightness * (1.0 - purity * (1.0 - pure))
    };
    [part(0.0), part(4.0), part(2.0)]
}

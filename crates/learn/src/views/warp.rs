//! Another hand: the smooth change of shape by which two people's drawings of one character differ, drawn with the same pen.
//!
//! The picture is turned, sheared, enlarged or reduced, stretched along each axis and moved, bent as a whole by a coarse grid of
//! random shifts, and jittered stroke by stroke by a fine one. Pixels are looked up with cubic weights; outside the picture
//! all is 0. Resampling smears a line that is a pixel or two wide and makes it as much broader as the picture is larger, and
//! such a picture is told from a clean one at a glance: the learner would learn that instead. So the ink is sharpened again
//! afterwards, at a level that gives a line back its breadth, a little broader or finer each time.

use super::recipe::Warping;
use crate::kernels::image::{Pixel, clipped};
use crate::random::Random;

/// Points of the coarse grid along each axis, from edge to edge.
const COARSE: usize = 4;
/// Points of the fine grid, whose outermost lie outside the picture: five cells to an axis.
const FINE: usize = 8;

/// By how much the level rises with the logarithm of the enlargement. Measured on Omniglot's drawings at level 0.5: enlarged by
/// e^±0.35, their lines keep their breadth within 6 %.
const LEVEL_RISE: f32 = 0.55;

/// Random shifts of grid points, as shares of width and height.
type Grid<const POINTS: usize> = [[[f32; 2]; POINTS]; POINTS];

/// One drawn change of shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Warp {
    /// From a place relative to the middle to where its pixel is looked up, row by row: x from (x, y), y from (x, y).
    matrix: [f32; 4],
    /// Where the middle is looked up, as shares of width and height.
    shift: [f32; 2],
    bend: Grid<COARSE>,
    jitter: Grid<FINE>,
    /// How steeply ink rises at the edge of a line.
    gain: f32,
    /// The grey that becomes one half.
    level: f32,
    /// The same for a picture of the same size.
    base_level: f32,
    /// The logarithm of how much larger the drawing becomes.
    enlargement: f32,
}

impl Warp {
    pub(super) fn draw(warping: &Warping, random: &mut Random) -> Self {
        let mut either = |reach: f32| random.between(-reach, reach);
        let (sin, cos) = either(warping.rotation).to_radians().sin_cos();
        let shear = either(warping.shear);
        let zoom = either(warping.zoom);
        let stretch = [either(warping.scale), either(warping.scale)].map(|stretch| zoom + stretch);
        // The matrix says where to look: what it makes larger, the picture has smaller.
        let enlargement = -0.5 * (stretch[0] + stretch[1]);
        let [along, across] = stretch.map(f32::exp);
        let shift = [either(warping.shift), either(warping.shift)];
        let matrix = [cos * along, (cos * shear - sin) * across, sin * along, (sin * shear + cos) * across];
        // Below it, paper would turn grey.
        let least_level = 0.5 / warping.gain;
        let (bend, jitter) = (draw_grid(warping.bend, random), draw_grid(warping.jitter, random));
        let base_level = random.between(warping.level.0, warping.level.1);
        let level = (base_level + LEVEL_RISE * enlargement).max(least_level);
        Self { matrix, shift, bend, jitter, gain: warping.gain, level, base_level, enlargement }
    }

    /// The grey that becomes one half in a picture of the same size.
    pub(super) fn base_level(&self) -> f32 {
        self.base_level
    }

    /// The logarithm of how much larger the drawing becomes.
    pub(super) fn enlargement(&self) -> f32 {
        self.enlargement
    }

    /// Where in a picture of this width and height the pixel at a place is looked up.
    pub(super) fn origin(&self, place: [f32; 2], size: [f32; 2]) -> [f32; 2] {
        let share = [0, 1].map(|axis| (place[axis] / (size[axis] - 1.0).max(1.0)).clamp(0.0, 1.0));
        let mut shift = self.shift;
        add_shift(&mut shift, &self.bend, (0, bernstein(share[1])), (0, bernstein(share[0])));
        add_shift(&mut shift, &self.jitter, spline(share[1]), spline(share[0]));
        let middle = size.map(|length| (length - 1.0) / 2.0);
        let [x, y] = [0, 1].map(|axis| place[axis] - middle[axis]);
        let [a, b, c, d] = self.matrix;
        let from = [a * x + b * y, c * x + d * y];
        [0, 1].map(|axis| from[axis] + middle[axis] + shift[axis] * size[axis])
    }

    /// Writes the changed picture to `out`.
    pub(super) fn apply(&self, image: &[Pixel], out: &mut [Pixel], width: usize) {
        let height = image.len() / width;
        let size = [width as f32, height as f32];
        let middle = size.map(|length| (length - 1.0) / 2.0);
        let [a, b, c, d] = self.matrix;
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            let y = row as f32 - middle[1];
            let down = share(row, height);
            let (bend_rows, jitter_rows) = (bernstein(down), spline(down));
            for (column, out) in out.iter_mut().enumerate() {
                let x = column as f32 - middle[0];
                let mut shift = self.shift;
                let along = share(column, width);
                add_shift(&mut shift, &self.bend, (0, bend_rows), (0, bernstein(along)));
                add_shift(&mut shift, &self.jitter, jitter_rows, spline(along));
                let from = [a * x + b * y, c * x + d * y];
                let place = [0, 1].map(|axis| from[axis] + middle[axis] + shift[axis] * size[axis]);
                *out =
                    look_up(image, width, place).map(|value| clipped((value - self.level) * self.gain + 0.5));
            }
        }
    }
}

fn draw_grid<const POINTS: usize>(deviation: f32, random: &mut Random) -> Grid<POINTS> {
    [0; POINTS].map(|_| [0; POINTS].map(|_| [0; 2].map(|_| deviation * random.normal() as f32)))
}

/// Adds what the four by four grid points around a place say, given the first of them and their weights along each axis.
fn add_shift<const POINTS: usize>(
    shift: &mut [f32; 2],
    grid: &Grid<POINTS>,
    (first_row, rows): (usize, [f32; 4]),
    (first_column, columns): (usize, [f32; 4]),
) {
    for (points, row_weight) in grid[first_row..].iter().zip(rows) {
        for (point, column_weight) in points[first_column..].iter().zip(columns) {
            shift[0] += row_weight * column_weight * point[0];
            shift[1] += row_weight * column_weight * point[1];
        }
    }
}

/// A place along an axis as a share of its length.
fn share(place: usize, length: usize) -> f32 {
    place as f32 / (length - 1).max(1) as f32
}

/// The weights of the coarse grid's points at a share of the length: Bernstein's four cubic terms.
fn bernstein(t: f32) -> [f32; COARSE] {
    let s = 1.0 - t;
    [s * s * s, 3.0 * s * s * t, 3.0 * s * t * t, t * t * t]
}

/// The first of the fine grid's four points around a place, and their weights: a uniform cubic B-spline.
fn spline(share: f32) -> (usize, [f32; 4]) {
    let along = share * (FINE - 3) as f32;
    let first = (along as usize).min(FINE - 4);
    let t = along - first as f32;
    let s = 1.0 - t;
    let inner = |x: f32| 3.0 * x * x * x - 6.0 * x * x + 4.0;
    (first, [s * s * s, inner(t), inner(s), t * t * t].map(|weight| weight / 6.0))
}

/// The picture at (x, y), by Catmull and Rom's cubic.
fn look_up(image: &[Pixel], width: usize, [x, y]: [f32; 2]) -> Pixel {
    let height = image.len() / width;
    let (left, top) = (x.floor(), y.floor());
    let (columns, rows) = (catmull_rom(x - left), catmull_rom(y - top));
    let inside = |first: f32, index: usize, length: usize| {
        usize::try_from(first as i64 + index as i64 - 1).ok().filter(|&place| place < length)
    };
    let mut sum = [0.0; 4];
    for (index, row_weight) in rows.iter().enumerate() {
        let Some(row) = inside(top, index, height) else { continue };
        for (index, column_weight) in columns.iter().enumerate() {
            let Some(column) = inside(left, index, width) else { continue };
            let weight = column_weight * row_weight;
            let pixel = &image[row * width + column];
            sum.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += weight * value);
        }
    }
    sum
}

fn catmull_rom(t: f32) -> [f32; 4] {
    let (square, cube) = (t * t, t * t * t);
    [
        -0.5 * t + square - 0.5 * cube,
        1.0 - 2.5 * square + 1.5 * cube,
        0.5 * t + 2.0 * square - 1.5 * cube,
        0.5 * cube - 0.5 * square,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIDE: usize = 28;
    const STILL: Warping = Warping {
        rotation: 0.0,
        shear: 0.0,
        zoom: 0.0,
        scale: 0.0,
        shift: 0.0,
        bend: 0.0,
        jitter: 0.0,
        gain: 1.0,
        level: (0.5, 0.5),
    };

    /// A ring of ink, one and a half pixels broad, about a point.
    fn ring(x: f32, y: f32) -> Vec<Pixel> {
        let ink = |place: usize| {
            let (column, row) = ((place % SIDE) as f32, (place / SIDE) as f32);
            let distance = ((column - x).hypot(row - y) - 7.0).abs();
            [clipped(1.25 - distance), 0.0, 0.0, 0.0]
        };
        (0..SIDE * SIDE).map(ink).collect()
    }

    fn changed(image: &[Pixel], warping: &Warping, number: u64) -> Vec<f32> {
        let warp = Warp::draw(warping, &mut Random::new(1, crate::random::Purpose::Views, number));
        let mut out = vec![[7.0; 4]; image.len()];
        warp.apply(image, &mut out, SIDE);
        out.iter().map(|pixel| pixel[0]).collect()
    }

    #[test]
    fn no_change_is_none() {
        let image = ring(13.5, 12.0);
        for (found, expected) in changed(&image, &STILL, 0).iter().zip(&image) {
            assert!((found - expected[0]).abs() < 1e-6);
        }
    }

    #[test]
    fn weights_of_the_grids_add_up_to_one() {
        for place in 0..SIDE {
            let along = share(place, SIDE);
            assert!((bernstein(along).iter().sum::<f32>() - 1.0).abs() < 1e-6);
            let (first, weights) = spline(along);
            assert!(first + 4 <= FINE && (weights.iter().sum::<f32>() - 1.0).abs() < 1e-6);
        }
    }

    /// What makes a view of a line drawing one: a change of shape alone leaves greys behind, the pen takes them away.
    #[test]
    fn a_line_stays_as_sharp_as_it_was() {
        let greys = |image: &[f32]| {
            let (grey, ink) = image.iter().fold((0.0, 0.0), |(grey, ink), v| (grey + v * (1.0 - v), ink + v));
            grey / ink
        };
        let image = ring(13.5, 13.5);
        let clean = greys(&image.iter().map(|pixel| pixel[0]).collect::<Vec<_>>());
        let smeared = Warping { rotation: 15.0, shear: 0.2, scale: 0.3, jitter: 0.05, ..STILL };
        let sharp = Warping { gain: 1.6, level: (0.4, 0.5), ..smeared };
        let mean =
            |warping: &Warping| (0..50).map(|n| greys(&changed(&image, warping, n))).sum::<f32>() / 50.0;
        let (smeared, sharp) = (mean(&smeared), mean(&sharp));
        assert!(sharp < 1.1 * clean && smeared > 1.15 * clean, "{clean} {smeared} {sharp}");
    }

    /// A larger drawing has longer lines, not broader ones; without the rise of the level they would be up to e^0.35 as
    /// broad. The rise was measured on drawings; a ring's edges differ a little.
    #[test]
    fn the_pen_does_not_grow_with_the_drawing() {
        let sharp = Warping { gain: 1.6, level: (0.5, 0.5), ..STILL };
        let image = ring(13.5, 13.5);
        let ink = |warping: &Warping, number| changed(&image, warping, number).iter().sum::<f32>();
        let zoomed = Warping { zoom: 0.35, ..sharp };
        for number in 0..20 {
            let warp = Warp::draw(&zoomed, &mut Random::new(1, crate::random::Purpose::Views, number));
            let enlargement = 1.0 / warp.matrix[0];
            let breadth = ink(&zoomed, number) / ink(&sharp, number) / enlargement;
            assert!((breadth - 1.0).abs() < 0.15, "enlarged by {enlargement}: {breadth} as broad");
        }
    }

    #[test]
    fn paper_stays_white() {
        let warping = Warping { zoom: 0.6, scale: 0.3, gain: 1.6, level: (0.4, 0.5), ..STILL };
        let blank = vec![[0.0; 4]; SIDE * SIDE];
        assert!((0..50).all(|number| changed(&blank, &warping, number).iter().all(|value| *value == 0.0)));
    }

    /// A lower level makes a broader line.
    #[test]
    fn the_level_sets_the_breadth_of_a_line() {
        let ink = |level: f32| {
            let warping = Warping { gain: 1.6, level: (level, level), ..STILL };
            changed(&ring(13.5, 13.5), &warping, 0).iter().sum::<f32>()
        };
        assert!(ink(0.32) > 1.1 * ink(0.45) && ink(0.45) > 1.1 * ink(0.6));
    }
}

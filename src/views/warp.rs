//! Another hand: the smooth change of shape by which two people's drawings of one character differ.
//!
//! The picture is turned, sheared, stretched along each axis and moved a little, and bent by a coarse grid of random shifts
//! between which a smooth curve runs. Pixels are looked up with bilinear weights; outside the picture all is 0.

use super::recipe::Warping;
use crate::kernels::image::{Pixel, bilinear_row};
use crate::random::Random;

/// Grid points along each axis, from edge to edge.
const GRID: usize = 4;

/// One drawn change of shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Warp {
    /// From a place relative to the middle to where its pixel is looked up, row by row: x from (x, y), y from (x, y).
    matrix: [f32; 4],
    /// Where the middle is looked up, as shares of width and height.
    shift: [f32; 2],
    /// Shifts of the grid points, as shares of width and height.
    bend: [[[f32; 2]; GRID]; GRID],
}

impl Warp {
    pub(super) fn draw(warping: &Warping, random: &mut Random) -> Self {
        let mut either = |reach: f32| random.between(-reach, reach);
        let (sin, cos) = either(warping.rotation).to_radians().sin_cos();
        let shear = either(warping.shear);
        let [along, across] = [either(warping.scale).exp(), either(warping.scale).exp()];
        let shift = [either(warping.shift), either(warping.shift)];
        let matrix = [cos * along, (cos * shear - sin) * across, sin * along, (sin * shear + cos) * across];
        let mut normal = || [0; 2].map(|_| warping.bend * random.normal() as f32);
        Self { matrix, shift, bend: [0; GRID].map(|_| [0; GRID].map(|_| normal())) }
    }

    /// Writes the changed picture to `out`.
    pub(super) fn apply(&self, image: &[Pixel], out: &mut [Pixel], width: usize) {
        let height = image.len() / width;
        let size = [width as f32, height as f32];
        let middle = size.map(|length| (length - 1.0) / 2.0);
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            let y = row as f32 - middle[1];
            let rows = curve(row, height);
            for (column, out) in out.iter_mut().enumerate() {
                let x = column as f32 - middle[0];
                let columns = curve(column, width);
                let mut bent = self.shift;
                for (grid_row, row_weight) in self.bend.iter().zip(rows) {
                    for (grid, column_weight) in grid_row.iter().zip(columns) {
                        bent[0] += row_weight * column_weight * grid[0];
                        bent[1] += row_weight * column_weight * grid[1];
                    }
                }
                let [a, b, c, d] = self.matrix;
                let from = [a * x + b * y, c * x + d * y];
                let place = [0, 1].map(|axis| from[axis] + middle[axis] + bent[axis] * size[axis]);
                bilinear_row(std::slice::from_mut(out), image, width, place[0], place[1], 0.0, 0.0);
            }
        }
    }
}

/// The weights of the grid points for a place along an axis: Bernstein's four cubic terms.
fn curve(place: usize, length: usize) -> [f32; GRID] {
    let t = place as f32 / (length - 1).max(1) as f32;
    let s = 1.0 - t;
    [s * s * s, 3.0 * s * s * t, 3.0 * s * t * t, t * t * t]
}

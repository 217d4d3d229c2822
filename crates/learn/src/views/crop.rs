//! Which part of an image a view shows: TensorFlow's rule of sampling a box that covers enough of an object.
//!
//! An attempt draws the aspect ratio evenly, then a whole height evenly between the ones that the area bounds allow (so
//! the height is uniform, not the area), then the place. It counts if the box covers the required share of the object.
//! After a hundred attempts the whole image is taken. Like TensorFlow's, the draw never reaches the last row or column
//! that a smaller box could start at.

use super::recipe::{Crop, Object};
use crate::random::Random;

const ATTEMPTS: usize = 100;

/// A box of whole pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// First row.
    pub(super) top: usize,
    /// First column.
    pub(super) left: usize,
    /// Rows.
    pub(super) height: usize,
    /// Columns.
    pub(super) width: usize,
}

impl Region {
    /// All of an image.
    pub(super) fn whole(height: usize, width: usize) -> Self {
        Self { top: 0, left: 0, height, width }
    }

    fn area(&self) -> usize {
        self.height * self.width
    }

    /// The share of `object` that lies inside this box; none of an object without area.
    fn covers(&self, object: &Self) -> f32 {
        let shared = |start: usize, length: usize, other_start: usize, other_length: usize| {
            (start + length).min(other_start + other_length).saturating_sub(start.max(other_start))
        };
        let rows = shared(self.top, self.height, object.top, object.height);
        let columns = shared(self.left, self.width, object.left, object.width);
        if object.area() == 0 { f32::NEG_INFINITY } else { (rows * columns) as f32 / object.area() as f32 }
    }
}

impl Crop {
    /// A random box in an image of this size that covers enough of `object`.
    pub(super) fn draw(&self, height: usize, width: usize, object: &Region, random: &mut Random) -> Region {
        for _ in 0..ATTEMPTS {
            let aspect = random.between(self.aspect.0, self.aspect.1);
            if let Some(found) = self.attempt(height, width, aspect, random)
                && found.covers(object) >= self.covered
            {
                return found;
            }
        }
        Region::whole(height, width)
    }

    /// A random box of this aspect ratio, if rounding leaves one within the bounds of the area.
    fn attempt(&self, height: usize, width: usize, aspect: f32, random: &mut Random) -> Option<Region> {
        let (least, most) = (self.area.0 * (height * width) as f32, self.area.1 * (height * width) as f32);
        let rounded = |value: f32| value.round_ties_even() as usize;
        let width_of = |rows: usize| rounded(rows as f32 * aspect);
        let mut highest = rounded((most / aspect).sqrt());
        if width_of(highest) > width {
            // The tallest box that is not wider than the image, unless rounding makes it one pixel too wide.
            highest = ((width as f32 + 0.5) / aspect) as usize;
            highest -= usize::from(width_of(highest) > width);
        }
        let highest = highest.min(height);
        let lowest = rounded((least / aspect).sqrt()).min(highest);
        let mut rows = lowest + random.below(highest - lowest + 1);
        // Rounding may miss the bounds by a row.
        if ((rows * width_of(rows)) as f32) < least {
            rows += 1;
        }
        if (rows * width_of(rows)) as f32 > most {
            rows = rows.saturating_sub(1);
        }
        let columns = width_of(rows);
        let area = (rows * columns) as f32;
        let fits = (1..=height).contains(&rows) && (1..=width).contains(&columns);
        (fits && area >= least && area <= most).then(|| Region {
            top: random.below(height - rows),
            left: random.below(width - columns),
            height: rows,
            width: columns,
        })
    }
}

impl Object {
    /// The box of the object in an image whose pixels have a mask in their fourth number.
    ///
    /// The box ends *at* the last marked row and column, not behind them, as in the published preprocessing: a mask one
    /// pixel wide or high thus has no area, can never be covered, and leaves the whole image.
    pub(super) fn find(self, height: usize, width: usize, pixels: &[[f32; 4]]) -> Region {
        let whole = Region::whole(height, width);
        if self == Self::Image {
            return whole;
        }
        let marked = |pixel: &[f32; 4]| pixel[3] != 0.0;
        let rows = || pixels.chunks_exact(width);
        let (Some(top), Some(bottom)) =
            (rows().position(|row| row.iter().any(marked)), rows().rposition(|row| row.iter().any(marked)))
        else {
            return whole;
        };
        let left = rows().filter_map(|row| row.iter().position(marked)).min().unwrap_or(0);
        let right = rows().filter_map(|row| row.iter().rposition(marked)).max().unwrap_or(left);
        Region { top, left, height: bottom - top, width: right - left }
    }
}

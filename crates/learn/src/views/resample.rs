//! Geometry: a crop stretched to the whole image, and a rotation about the middle.
//!
//! The stretch is TensorFlow's first bicubic resize, which the published runs used: no half-pixel centres (the first
//! pixels of both images coincide), Keys' kernel with a = −0.75, fractions rounded to 1/1024, places outside the crop
//! replaced by its edge.

use super::crop::Region;
use crate::kernels::image::{Pixel, Taps, bilinear_row, blend_rows, resample_row};

/// Scratch of a stretch, kept between images.
#[derive(Debug, Default)]
pub(super) struct Stretch {
    columns: Vec<Taps>,
    rows: Vec<Taps>,
    /// The rows of the crop, stretched along their length.
    wide: Vec<Pixel>,
    /// One row of the result.
    row: Vec<Pixel>,
}

impl Stretch {
    /// Hands out, row by row from the top, the image that `region` of `image` becomes when it is stretched to the image's
    /// own size.
    pub(super) fn rows(
        &mut self,
        image: &[Pixel],
        width: usize,
        region: &Region,
        mut each: impl FnMut(usize, &[Pixel]),
    ) {
        let Self { columns, rows, wide, row } = self;
        fill_taps(columns, region.width, width);
        fill_taps(rows, region.height, image.len() / width);
        wide.resize(image.len(), [0.0; 4]);
        row.resize(width, [0.0; 4]);
        let crop = image.chunks_exact(width).skip(region.top).take(region.height);
        for (wide, narrow) in wide.chunks_exact_mut(width).zip(crop) {
            resample_row(wide, &narrow[region.left..region.left + region.width], columns);
        }
        let wide = |place: usize| wide[place * width..][..width].as_flattened();
        for (index, taps) in rows.iter().enumerate() {
            blend_rows(row.as_flattened_mut(), taps.places.map(wide), taps.weights);
            each(index, row);
        }
    }
}

/// The taps of `long` pixels taken evenly from `short` ones.
fn fill_taps(taps: &mut Vec<Taps>, short: usize, long: usize) {
    const STEPS: f32 = 1024.0;
    const A: f32 = -0.75;
    // Keys' cubic for distances up to 1, and from 1 to 2 (the argument is then the distance less 1).
    let near = |x: f32| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f32| ((A * (x + 1.0) - 5.0 * A) * (x + 1.0) + 8.0 * A) * (x + 1.0) - 4.0 * A;
    let scale = short as f32 / long as f32;
    taps.clear();
    taps.extend((0..long).map(|index| {
        let place = index as f32 * scale;
        let fraction = ((place - place.floor()) * STEPS).round_ties_even() / STEPS;
        let first = place.floor() as usize;
        Taps {
            places: [first.saturating_sub(1), first, first + 1, first + 2].map(|place| place.min(short - 1)),
            weights: [far(fraction), near(fraction), near(1.0 - fraction), far(1.0 - fraction)],
        }
    }));
}

/// Rotates `image` about its middle into `out`, but only the pixels of `region`; the others are left as they are.
pub(super) fn rotate(image: &[Pixel], out: &mut [Pixel], width: usize, radians: f32, region: &Region) {
    let height = image.len() / width;
    let (sin, cos) = radians.sin_cos();
    let (middle_x, middle_y) = ((width - 1) as f32 / 2.0, (height - 1) as f32 / 2.0);
    let rows = out.chunks_exact_mut(width).enumerate().skip(region.top).take(region.height);
    for (row, out) in rows {
        let (right, down) = (region.left as f32 - middle_x, row as f32 - middle_y);
        let (x, y) = (cos * right - sin * down + middle_x, sin * right + cos * down + middle_y);
        bilinear_row(&mut out[region.left..region.left + region.width], image, width, x, y, cos, sin);
    }
}

//! Pixel loops of the views: resampling, rotation, colour.
//!
//! Geometry works on pixels of four numbers, whatever the image has (a short vector each, at any instruction set);
//! colour works on planes, where eight or sixteen pixels are computed at a time.

use super::simd::fma;

/// One pixel: up to four channels, the rest 0.
pub type Pixel = [f32; 4];

/// Where a resampled pixel comes from: four places along an axis and their weights.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Taps {
    /// Indices into the row or column.
    pub places: [usize; 4],
    /// Their weights.
    pub weights: [f32; 4],
}

vectorised! {
    /// Resamples a row: pixel i of `out` is the weighted sum of the four pixels of `row` that `taps[i]` names, which must
    /// exist.
    pub fn resample_row(out: &mut [Pixel], row: &[Pixel], taps: &[Taps]) {
        for (out, taps) in out.iter_mut().zip(taps) {
            let mut sum = [0.0f32; 4];
            for (&place, &weight) in taps.places.iter().zip(&taps.weights) {
                let pixel = &row[place];
                for channel in 0..4 {
                    sum[channel] = fma::<FMA>(weight, pixel[channel], sum[channel]);
                }
            }
            *out = sum;
        }
    }
}

vectorised! {
    /// The weighted sum of four rows of one length.
    pub fn blend_rows(out: &mut [f32], rows: [&[f32]; 4], weights: [f32; 4]) {
        let [a, b, c, d] = rows;
        let rows = a.iter().zip(b).zip(c).zip(d);
        for (out, (((a, b), c), d)) in out.iter_mut().zip(rows) {
            let low = fma::<FMA>(weights[1], *b, weights[0] * *a);
            *out = fma::<FMA>(weights[3], *d, fma::<FMA>(weights[2], *c, low));
        }
    }
}

vectorised! {
    /// A row of a rotated image: pixel i of `out` is the bilinear value of the image, `width` pixels a row, at
    /// (x + i·dx, y + i·dy). Outside the image all is 0.
    pub fn bilinear_row(out: &mut [Pixel], image: &[Pixel], width: usize, x: f32, y: f32, dx: f32, dy: f32) {
        let height = image.len() / width;
        for (index, out) in out.iter_mut().enumerate() {
            let (x, y) = (fma::<FMA>(index as f32, dx, x), fma::<FMA>(index as f32, dy, y));
            let (left, top) = (x.floor(), y.floor());
            let (right_share, bottom_share) = (x - left, y - top);
            let (left, top) = (left as i32, top as i32);
            // Far from the edge, which is nearly always, two short slices hold the four corners.
            let place = (top.max(0) as usize) * width + left.max(0) as usize;
            let upper = image.get(place..place + 2);
            let lower = image.get(place + width..place + width + 2);
            let inside = left >= 0 && top >= 0 && (left as usize) + 1 < width;
            let [a, b, c, d] = match (inside, upper, lower) {
                (true, Some(&[a, b]), Some(&[c, d])) => [a, b, c, d],
                _ => {
                    let corner = |x: i32, y: i32| {
                        let inside = x >= 0 && y >= 0 && (x as usize) < width && (y as usize) < height;
                        if inside { image[y as usize * width + x as usize] } else { [0.0; 4] }
                    };
                    [corner(left, top), corner(left + 1, top), corner(left, top + 1), corner(left + 1, top + 1)]
                }
            };
            for channel in 0..4 {
                let upper = fma::<FMA>(right_share, b[channel] - a[channel], a[channel]);
                let lower = fma::<FMA>(right_share, d[channel] - c[channel], c[channel]);
                out[channel] = fma::<FMA>(bottom_share, lower - upper, upper);
            }
        }
    }
}

/// The value brought into [0, 1]; 0 if it is no number.
#[inline(always)]
#[allow(clippy::manual_clamp)] // `clamp` lets NaN through
pub fn clipped(value: f32) -> f32 {
    value.max(0.0).min(1.0)
}

vectorised! {
    /// x ← (x − centre)·factor + centre, clipped.
    pub fn stretch(plane: &mut [f32], centre: f32, factor: f32) {
        for value in plane {
            *value = clipped(fma::<FMA>(*value - centre, factor, centre));
        }
    }
}

vectorised! {
    /// The mean of a plane.
    pub fn mean(plane: &[f32]) -> f32 {
        let mut sums = [0.0f32; 64];
        let (blocks, rest) = plane.as_chunks::<64>();
        for block in blocks {
            for (sum, value) in sums.iter_mut().zip(block) {
                *sum += value;
            }
        }
        let sum = sums.iter().chain(rest).map(|&value| f64::from(value)).sum::<f64>();
        (sum / plane.len().max(1) as f64) as f32
    }
}

vectorised! {
    /// Multiplies the saturation (of the hue-saturation-value cone) by a factor of at least 0, at most up to full
    /// saturation, and clips.
    pub fn saturate(red: &mut [f32], green: &mut [f32], blue: &mut [f32], factor: f32) {
        for ((red, green), blue) in red.iter_mut().zip(green).zip(blue) {
            let (r, g, b) = (*red, *green, *blue);
            let value = r.max(g).max(b);
            let range = value - r.min(g).min(b);
            // At a fixed hue and value each channel's distance from the value is in proportion to the saturation.
            let share = if range > 0.0 { factor.min(value / range) } else { 1.0 };
            *red = clipped(fma::<FMA>(r - value, share, value));
            *green = clipped(fma::<FMA>(g - value, share, value));
            *blue = clipped(fma::<FMA>(b - value, share, value));
        }
    }
}

vectorised! {
    /// Turns the hue by a part of a full turn, and clips.
    pub fn turn_hue(red: &mut [f32], green: &mut [f32], blue: &mut [f32], turn: f32) {
        // Hues are counted in sixths of a turn from red over green to blue.
        let turn = 6.0 * (turn - turn.floor());
        for ((red, green), blue) in red.iter_mut().zip(green).zip(blue) {
            let (r, g, b) = (*red, *green, *blue);
            let value = r.max(g).max(b);
            let range = value - r.min(g).min(b);
            let scale = if range > 0.0 { 1.0 / range } else { 0.0 };
            let beside_green = fma::<FMA>(b - r, scale, 2.0);
            let beside_blue = fma::<FMA>(r - g, scale, 4.0);
            let not_red = if value == g { beside_green } else { beside_blue };
            let hue = if value == r { (g - b) * scale } else { not_red };
            // From [−1, 11) to the same hue in [0, 6).
            let hue = hue + turn;
            let hue = if hue >= 6.0 { hue - 6.0 } else { hue };
            let hue = if hue < 0.0 { hue + 6.0 } else { hue };
            // A channel falls short of the value by the range, but for its own third of the circle, with a ramp on
            // either side.
            let channel = |opposite: f32| {
                let place = hue + opposite;
                let place = if place >= 6.0 { place - 6.0 } else { place };
                clipped(fma::<FMA>(-range, clipped(place.min(4.0 - place)), value))
            };
            (*red, *green, *blue) = (channel(5.0), channel(3.0), channel(1.0));
        }
    }
}

vectorised! {
    /// Replaces all three channels by their brightness as the eye weighs them.
    pub fn grey(red: &mut [f32], green: &mut [f32], blue: &mut [f32]) {
        for ((red, green), blue) in red.iter_mut().zip(green).zip(blue) {
            let grey = fma::<FMA>(0.2989, *red, fma::<FMA>(0.587, *green, 0.114 * *blue));
            (*red, *green, *blue) = (grey, grey, grey);
        }
    }
}

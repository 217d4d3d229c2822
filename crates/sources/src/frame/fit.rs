//! A frame of any size brought to the encoder's: cropped about its middle to the wanted proportions, then resized.
//!
//! Nothing is stretched, and every pixel of the crop counts (a triangle filter as wide as the reduction asks for, as in
//! Pillow and torchvision), so that a large frame does not turn into a coarse sample of itself. The weights are whole
//! numbers: the result is the same on every machine.

use crate::{Error, Result};

/// Largest width or height taken, which also bounds what a bad header can ask for.
pub const LARGEST_SIDE: usize = 16_384;

/// Weights are fractions of two to this power.
const BITS: u32 = 14;

/// Brings frames to one size; keeps its buffers between them.
#[derive(Debug)]
pub struct Fit {
    height: usize,
    width: usize,
    /// Size of the frames for which the taps hold.
    fitted: (usize, usize),
    columns: Vec<Taps>,
    rows: Vec<Taps>,
    /// The rows of the crop, brought to the new width.
    narrow: Vec<u8>,
}

/// The pixels of which one new pixel is made.
#[derive(Debug)]
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

impl Fit {
    /// To frames of this size.
    pub fn new(height: usize, width: usize) -> Self {
        Self { height, width, fitted: (0, 0), columns: Vec::new(), rows: Vec::new(), narrow: Vec::new() }
    }

    /// Fits red-green-blue pixels of `width` columns and `height` rows into `out`, which holds height · width · 3 bytes.
    ///
    /// # Errors
    ///
    /// A buffer does not have the size that goes with its picture, or a picture has no pixels.
    pub fn rgb(&mut self, rgb: &[u8], width: usize, height: usize, out: &mut [u8]) -> Result<()> {
        self.fit::<3>(rgb, width, height, out)
    }

    /// Fits a mask of one byte a pixel in the same way; between 0 and 255 a pixel is partly covered.
    ///
    /// # Errors
    ///
    /// As [`Fit::rgb`].
    pub fn mask(&mut self, mask: &[u8], width: usize, height: usize, out: &mut [u8]) -> Result<()> {
        self.fit::<1>(mask, width, height, out)
    }

    fn fit<const PARTS: usize>(
        &mut self,
        pixels: &[u8],
        width: usize,
        height: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let sound = |pixels: &[u8], width: usize, height: usize| {
            (1..=LARGEST_SIDE).contains(&width)
                && (1..=LARGEST_SIDE).contains(&height)
                && pixels.len() == width * height * PARTS
        };
        if !sound(pixels, width, height) || !sound(out, self.width, self.height) {
            return Err(Error::input(format!(
                "a frame of {width}x{height} pixels in {} bytes cannot be brought to {}x{} pixels in {} bytes",
                pixels.len(),
                self.width,
                self.height,
                out.len()
            )));
        }
        if (width, height) == (self.width, self.height) {
            out.copy_from_slice(pixels);
            return Ok(());
        }
        if self.fitted != (width, height) {
            self.prepare(width, height);
        }

        let (pixels, _) = pixels.as_chunks::<PARTS>();
        self.narrow.resize(height * self.width * PARTS, 0);
        let (narrow, _) = self.narrow.as_chunks_mut::<PARTS>();
        for (row, narrow) in pixels.chunks_exact(width).zip(narrow.chunks_exact_mut(self.width)) {
            for (pixel, taps) in narrow.iter_mut().zip(&self.columns) {
                *pixel = taps.blend(row.iter().skip(taps.first));
            }
        }
        let (out, _) = out.as_chunks_mut::<PARTS>();
        for (row, taps) in out.chunks_exact_mut(self.width).zip(&self.rows) {
            for (column, pixel) in row.iter_mut().enumerate() {
                *pixel = taps.blend(narrow.iter().skip(taps.first * self.width + column).step_by(self.width));
            }
        }
        Ok(())
    }

    /// Decides on the crop, the largest of the wanted proportions, and on the weights of its pixels.
    fn prepare(&mut self, width: usize, height: usize) {
        let scale = (width as f64 / self.width as f64).min(height as f64 / self.height as f64);
        let taps = |size: usize, wanted: usize| -> Vec<Taps> {
            let start = (size as f64 - wanted as f64 * scale) / 2.0;
            // Nothing beyond the crop has a share in it.
            let crop = start as usize..((size as f64 - start).ceil() as usize).min(size);
            (0..wanted).map(|place| Taps::new(start + (place as f64 + 0.5) * scale, scale, &crop)).collect()
        };
        self.columns = taps(width, self.width);
        self.rows = taps(height, self.height);
        self.fitted = (width, height);
    }
}

impl Taps {
    /// A triangle about `middle` that reaches as far as the reduction asks for, at least to the neighbouring pixels.
    fn new(middle: f64, scale: f64, crop: &std::ops::Range<usize>) -> Self {
        let reach = scale.max(1.0);
        let first = ((middle - reach).max(0.0) as usize).max(crop.start);
        let end = ((middle + reach).ceil() as usize).min(crop.end).max(first + 1);
        let weight = |place: usize| (1.0 - ((place as f64 + 0.5 - middle) / reach).abs()).max(0.0);
        let sum: f64 = (first..end).map(weight).sum();
        let whole = f64::from(1 << BITS);
        let mut weights: Vec<i32> =
            (first..end).map(|place| (weight(place) / sum * whole).round() as i32).collect();
        // What rounding lost or won goes to the heaviest: an even grey stays exactly what it is.
        let missing = (1 << BITS) - weights.iter().sum::<i32>();
        if let Some(heaviest) = weights.iter_mut().max() {
            *heaviest += missing;
        }
        Self { first, weights }
    }

    fn blend<'a, const PARTS: usize>(&self, pixels: impl Iterator<Item = &'a [u8; PARTS]>) -> [u8; PARTS] {
        let mut sums = [1 << (BITS - 1); PARTS];
        for (pixel, weight) in pixels.zip(&self.weights) {
            for (sum, part) in sums.iter_mut().zip(pixel) {
                *sum += i32::from(*part) * weight;
            }
        }
        sums.map(|sum| (sum >> BITS).clamp(0, 255) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_size_is_left_as_it_is() {
        let pixels: Vec<u8> = (0..4 * 3 * 3).collect();
        let mut out = vec![0; pixels.len()];
        Fit::new(3, 4).rgb(&pixels, 4, 3, &mut out).unwrap();
        assert_eq!(out, pixels);
    }

    /// A wide frame of three vertical bands, left and right as wide as the crop leaves out: only the middle one is seen.
    #[test]
    fn what_is_too_wide_loses_its_sides_and_what_is_too_high_its_ends() {
        let band = |place: usize| if (40..120).contains(&place) { 200 } else { 10 };
        let wide: Vec<u8> = (0..160 * 80).flat_map(|pixel| [band(pixel % 160); 3]).collect();
        let mut out = vec![0; 20 * 20 * 3];
        Fit::new(20, 20).rgb(&wide, 160, 80, &mut out).unwrap();
        assert!(out.iter().all(|&value| value == 200), "{out:?}");
        let high: Vec<u8> = (0..80 * 160).map(|pixel| band(pixel / 80)).collect();
        let mut out = vec![0; 20 * 20];
        Fit::new(20, 20).mask(&high, 80, 160, &mut out).unwrap();
        assert!(out.iter().all(|&value| value == 200), "{out:?}");
    }

    /// A fine checkerboard has the mean of its colours at an eighth of its size: nothing is picked, everything counts.
    #[test]
    fn a_fine_pattern_becomes_its_mean() {
        let board: Vec<u8> = (0..160 * 160)
            .flat_map(|pixel| [if (pixel / 160 + pixel) % 2 == 0 { 255 } else { 0 }; 3])
            .collect();
        let mut out = vec![0; 20 * 20 * 3];
        Fit::new(20, 20).rgb(&board, 160, 160, &mut out).unwrap();
        // Away from the edges, where the filter is cut; two levels for rounding.
        let inner = (2..18).flat_map(|row| (2..18).map(move |column| (row * 20 + column) * 3));
        assert!(inner.into_iter().all(|place| (126..=129).contains(&out[place])), "{out:?}");
    }

    #[test]
    fn buffers_of_the_wrong_size_are_refused() {
        let mut fit = Fit::new(8, 8);
        let mut out = vec![0; 8 * 8 * 3];
        for (length, width, height) in [(0, 0, 0), (12, 2, 3), (0, 0, 5), (3, 1 << 40, 1)] {
            let error = fit.rgb(&vec![0; length], width, height, &mut out).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{error}");
        }
        assert!(fit.rgb(&[0; 3], 1, 1, &mut out[1..]).is_err());
        fit.rgb(&[7; 3], 1, 1, &mut out).unwrap();
        assert!(out.iter().all(|&value| value == 7));
    }
}

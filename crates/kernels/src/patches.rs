//! Between images and panels: pixels as they are, and the 3×3 windows of a convolution laid out as pixels.
//!
//! An image has few channels (`[height][width][channels]`), so a 3×3 convolution over it is best a product over its windows:
//! the nine pixels of a window one after another, tap by tap, fill the channels of one pixel of panels.

use std::ops::Range;

use super::gemm::{PANEL, panels};

/// The windows of a 3×3 convolution over images.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Lines of the image.
    pub height: usize,
    /// Pixels of a line of the image.
    pub width: usize,
    /// Channels of the image.
    pub channels: usize,
    /// Distance of windows.
    pub stride: usize,
    /// Zero lines above and zero columns left of the image.
    pub pad: (usize, usize),
    /// Windows in a line.
    pub columns: usize,
}

impl Windows {
    /// Numbers of a window.
    pub fn depth(&self) -> usize {
        9 * self.channels
    }

    /// Calls `each(pixel, numbers of the window, numbers of the image)` for every run of a window that lies within the
    /// image: the part of one of its three lines.
    fn runs(&self, lines: Range<usize>, mut each: impl FnMut(usize, Range<usize>, Range<usize>)) {
        let c = self.channels;
        for (index, y) in lines.enumerate() {
            for x in 0..self.columns {
                let left = x * self.stride;
                // The window's columns that lie within the image.
                let from = self.pad.1.saturating_sub(left).min(3);
                let to = (self.width + self.pad.1).saturating_sub(left).clamp(from, 3);
                for ky in 0..3 {
                    let Some(line) = (y * self.stride + ky).checked_sub(self.pad.0) else { continue };
                    if line < self.height && from < to {
                        let start = (line * self.width + left + from - self.pad.1) * c;
                        let part = (ky * 3 + from) * c..(ky * 3 + to) * c;
                        each(index * self.columns + x, part, start..start + (to - from) * c);
                    }
                }
            }
        }
    }

    /// Lays out the windows of some output lines as panels, `[panel][pixel][16]`.
    pub fn gather(&self, image: &[f32], lines: Range<usize>, to: &mut [f32]) {
        let pixels = lines.len() * self.columns;
        let to = &mut to[..panels(self.depth()) * pixels * PANEL];
        to.fill(0.0);
        self.runs(lines, |pixel, part, source| {
            for (k, value) in part.zip(&image[source]) {
                to[(k / PANEL * pixels + pixel) * PANEL + k % PANEL] = *value;
            }
        });
    }

    /// The reverse: adds the gradients of windows to the pixels of the image that they show.
    pub fn scatter(&self, d_windows: &[f32], lines: Range<usize>, d_image: &mut [f32]) {
        let pixels = lines.len() * self.columns;
        self.runs(lines, |pixel, part, target| {
            for (k, value) in part.zip(&mut d_image[target]) {
                *value += d_windows[(k / PANEL * pixels + pixel) * PANEL + k % PANEL];
            }
        });
    }
}

/// Lays out pixels of `channels` numbers as panels.
pub fn to_panels(pixels: &[f32], channels: usize, to: &mut [f32]) {
    let count = pixels.len() / channels;
    to[..panels(channels) * count * PANEL].fill(0.0);
    for (pixel, values) in pixels.chunks_exact(channels).enumerate() {
        for (c, value) in values.iter().enumerate() {
            to[(c / PANEL * count + pixel) * PANEL + c % PANEL] = *value;
        }
    }
}

/// The reverse: adds panels to pixels.
pub fn add_from_panels(panels: &[f32], channels: usize, pixels: &mut [f32]) {
    let count = pixels.len() / channels;
    for (pixel, values) in pixels.chunks_exact_mut(channels).enumerate() {
        for (c, value) in values.iter_mut().enumerate() {
            *value += panels[(c / PANEL * count + pixel) * PANEL + c % PANEL];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: usize, count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0).collect()
    }

    /// Every number of every window against the definition, and scatter as the transpose of gather.
    #[test]
    fn windows_show_the_image_and_zeros_around_it() {
        for (height, width, channels, stride, pad) in [
            (6, 8, 3, 2, (0, 0)),
            (6, 8, 3, 2, (1, 1)),
            (5, 7, 4, 1, (1, 1)),
            (1, 1, 1, 1, (1, 1)),
            (7, 5, 2, 2, (1, 1)),
        ] {
            let (rows, columns) = (usize::div_ceil(height, stride), usize::div_ceil(width, stride));
            let windows = Windows { height, width, channels, stride, pad, columns };
            let image = numbers(1, height * width * channels);
            for lines in [0..rows, rows / 2..rows] {
                let pixels = lines.len() * columns;
                let size = panels(windows.depth()) * pixels * PANEL;
                let mut gathered = vec![9.0; size];
                windows.gather(&image, lines.clone(), &mut gathered);
                let cotangent = numbers(2, size);
                let mut scattered = vec![0.0; image.len()];
                windows.scatter(&cotangent, lines.clone(), &mut scattered);
                let mut product = 0.0;
                for (pixel, k) in
                    (0..pixels).flat_map(|p| (0..panels(windows.depth()) * PANEL).map(move |k| (p, k)))
                {
                    let (tap, c) = (k / channels, k % channels);
                    let y = ((lines.start + pixel / columns) * stride + tap / 3).wrapping_sub(pad.0);
                    let x = (pixel % columns * stride + tap % 3).wrapping_sub(pad.1);
                    let inside = tap < 9 && y < height && x < width;
                    let exact = if inside { image[(y * width + x) * channels + c] } else { 0.0 };
                    let at = (k / PANEL * pixels + pixel) * PANEL + k % PANEL;
                    assert_eq!(gathered[at], exact, "pixel {pixel} number {k}");
                    if inside {
                        product += f64::from(exact) * f64::from(cotangent[at]);
                    }
                }
                let transposed: f64 =
                    image.iter().zip(&scattered).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                assert!((product - transposed).abs() < 1e-4);
            }
        }
    }

    #[test]
    fn pixels_go_to_panels_and_back() {
        let pixels = numbers(1, 5 * 19);
        let mut laid = vec![9.0; 2 * 5 * PANEL];
        to_panels(&pixels, 19, &mut laid);
        assert_eq!(laid[(5 + 3) * PANEL + 2], pixels[3 * 19 + 18]);
        assert_eq!(laid[(5 + 3) * PANEL + 3], 0.0);
        let mut back = vec![1.0; pixels.len()];
        add_from_panels(&laid, 19, &mut back);
        assert!(back.iter().zip(&pixels).all(|(back, pixel)| *back == 1.0 + pixel));
    }
}

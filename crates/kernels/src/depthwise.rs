//! Depthwise 3×3 convolution of one panel, stride 1 or more, forward and backward.
//!
//! The side on which the filter slides is given with its border of zeros, so no loop ever asks where the image ends. A
//! border is cheap: the caller writes the plane anyway, when it normalises.
//!
//! Filters are `[9][16]`: for each tap, row by row, the weights of the panel's channels.

#![allow(unsafe_code)]

use super::gemm::PANEL;
use super::lanes::Lanes;

/// Weights of a panel's filters.
pub const FILTER: usize = 9 * PANEL;

/// Lines of a bordered plane: line `y` begins at `y * line` and has at least as many pixels as the filter touches.
#[derive(Clone, Copy, Debug)]
pub struct Bordered<'a> {
    /// The plane, from the line and column that the top left tap of the first output pixel reads.
    pub data: &'a [f32],
    /// Distance of lines in numbers.
    pub line: usize,
}

/// What is done with a finished pixel of [`forward`].
#[derive(Clone, Copy, Debug)]
pub enum Ending<'a> {
    /// Nothing.
    Linear,
    /// Bias and activation: shifted by the channel's number and clamped.
    Shift(&'a [f32; PANEL], (f32, f32)),
}

/// Computes `lines` × `width` output pixels, one after another.
pub fn forward(
    filter: &[f32; FILTER],
    input: Bordered<'_>,
    stride: usize,
    lines: usize,
    width: usize,
    output: &mut [f32],
    ending: Ending<'_>,
) {
    if lines == 0 || width == 0 {
        return;
    }
    let reach = ((lines - 1) * stride + 2) * input.line + ((width - 1) * stride + 3) * PANEL;
    assert!(reach <= input.data.len(), "depthwise: the filter reaches beyond the input");
    assert!(lines * width * PANEL <= output.len(), "depthwise: the output is too small");
    // SAFETY: the checks above cover every address.
    unsafe {
        forward_lines(filter, input, stride, lines, width, output.as_mut_ptr(), ending);
    }
}

lanes! {
    unsafe fn forward_lines<I>(
        filter: &[f32; FILTER], input: Bordered<'_>, stride: usize, lines: usize, width: usize, output: *mut f32,
        ending: Ending<'_>,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if I::WIDE_FILTERS {
                forward_half::<I::Wide>(filter, input, stride, lines, width, output, ending, 0);
            } else {
                forward_half::<I::Half>(filter, input, stride, lines, width, output, ending, 0);
                forward_half::<I::Half>(filter, input, stride, lines, width, output, ending, 8);
            }
        }
    }
}

/// The channels from `lane` on: half a panel, whose nine weights stay in registers.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn forward_half<V: Lanes>(
    filter: &[f32; FILTER],
    input: Bordered<'_>,
    stride: usize,
    lines: usize,
    width: usize,
    output: *mut f32,
    ending: Ending<'_>,
    lane: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let weights: [V; 9] = std::array::from_fn(|tap| V::load(filter.as_ptr().add(tap * PANEL + lane)));
        let (shift, low, high) = match ending {
            Ending::Linear => (V::splat(0.0), V::splat(f32::NEG_INFINITY), V::splat(f32::INFINITY)),
            Ending::Shift(shift, range) => {
                (V::load(shift.as_ptr().add(lane)), V::splat(range.0), V::splat(range.1))
            }
        };
        for y in 0..lines {
            let from = input.data.as_ptr().add(y * stride * input.line + lane);
            let to = output.add(y * width * PANEL + lane);
            let mut x = 0;
            if stride == 1 {
                // Four neighbours share what they load.
                while x + 4 <= width {
                    pixels::<V, 4>(
                        &weights,
                        from.add(x * PANEL),
                        input.line,
                        to.add(x * PANEL),
                        shift,
                        low,
                        high,
                    );
                    x += 4;
                }
            }
            while x < width {
                let from = from.add(x * stride * PANEL);
                pixels::<V, 1>(&weights, from, input.line, to.add(x * PANEL), shift, low, high);
                x += 1;
            }
        }
    }
}

/// `N` neighbouring output pixels; more than one only where the stride is 1.
#[inline(always)]
unsafe fn pixels<V: Lanes, const N: usize>(
    weights: &[V; 9],
    from: *const f32,
    line: usize,
    to: *mut f32,
    shift: V,
    low: V,
    high: V,
) {
    // SAFETY: the caller's promise for `N` pixels.
    unsafe {
        let mut sums = [shift; N];
        for ky in 0..3 {
            for column in 0..N + 2 {
                let value = V::load(from.add(ky * line + column * PANEL));
                for (n, sum) in sums.iter_mut().enumerate() {
                    if (n..n + 3).contains(&column) {
                        *sum = value.mul_add(weights[ky * 3 + column - n], *sum);
                    }
                }
            }
        }
        for (n, sum) in sums.into_iter().enumerate() {
            sum.max(low).min(high).store(to.add(n * PANEL));
        }
    }
}

/// Geometry of [`backward`], which works through whole lines of the input.
#[derive(Clone, Copy, Debug)]
pub struct Reverse {
    /// Stride of the convolution.
    pub stride: usize,
    /// Zero lines above and zero columns left of the input in the forward pass.
    pub pad: (usize, usize),
    /// The first input line that is worked on.
    pub first: usize,
    /// How many input lines are worked on.
    pub lines: usize,
    /// Pixels of an input line.
    pub width: usize,
    /// The output line with which the plane of output gradients begins, its border included: −1 for a border above line 0.
    pub top: isize,
}

impl Reverse {
    /// The output line (or column) that input line `at` meets with tap `tap`, if the stride lets it meet one. It may lie in
    /// the border.
    fn meets(&self, at: usize, tap: usize) -> Option<isize> {
        let (reach, stride) = (at as isize - tap as isize, self.stride as isize);
        (reach.rem_euclid(stride) == 0).then(|| reach.div_euclid(stride))
    }

    /// The output lines that the input lines take part in, lines of the border included.
    pub fn output_lines(&self) -> std::ops::Range<isize> {
        let (first, stride) = ((self.first + self.pad.0) as isize, self.stride as isize);
        let start = -(2 - first).div_euclid(stride);
        let last = (first + self.lines as isize - 1).div_euclid(stride);
        start..last + 1
    }

    /// Columns of output gradients that the input columns take part in, border columns included; the first is always −1.
    pub fn output_columns(&self) -> usize {
        (self.width - 1 + self.pad.1) / self.stride + 2
    }
}

/// Backward through the filter and the activation before it.
///
/// `d_output` is the plane of output gradients with a border: column −1 comes first, lines begin with
/// [`Reverse::top`], and whatever lies outside the output is zero. `value` are the activated inputs; where they lie
/// strictly within `range` the gradient passes. Writes the gradient of what the activation read to `d_input`, and adds its
/// sums over pixels to `sums` and the gradient of the filter to `d_filter`.
#[allow(clippy::too_many_arguments)]
pub fn backward(
    filter: &[f32; FILTER],
    geometry: &Reverse,
    value: &[f32],
    d_output: Bordered<'_>,
    range: (f32, f32),
    d_input: &mut [f32],
    d_filter: &mut [f32; FILTER],
    sums: &mut [f32; PANEL],
) {
    let numbers = geometry.lines * geometry.width * PANEL;
    if numbers == 0 {
        return;
    }
    assert!(value.len() >= numbers && d_input.len() >= numbers, "depthwise: too few input pixels");
    let lines = geometry.output_lines();
    assert!(geometry.pad.1 + geometry.stride >= 2, "depthwise: a border of one column is too small");
    assert!(lines.start >= geometry.top, "depthwise: output lines are missing above");
    let reach =
        (lines.end - 1 - geometry.top).max(0) as usize * d_output.line + geometry.output_columns() * PANEL;
    assert!(reach <= d_output.data.len(), "depthwise: output gradients are missing");
    // SAFETY: the checks above cover every address.
    unsafe {
        backward_lines(
            filter,
            geometry,
            value.as_ptr(),
            d_output,
            range,
            d_input.as_mut_ptr(),
            d_filter,
            sums,
        );
    }
}

lanes! {
    unsafe fn backward_lines<I>(
        filter: &[f32; FILTER], geometry: &Reverse, value: *const f32, d_output: Bordered<'_>, range: (f32, f32),
        d_input: *mut f32, d_filter: &mut [f32; FILTER], sums: &mut [f32; PANEL],
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            if I::WIDE_FILTERS {
                backward_half::<I::Wide>(filter, geometry, value, d_output, range, d_input, d_filter, sums, 0);
            } else {
                backward_half::<I::Half>(filter, geometry, value, d_output, range, d_input, d_filter, sums, 0);
                backward_half::<I::Half>(filter, geometry, value, d_output, range, d_input, d_filter, sums, 8);
            }
        }
    }
}

/// The channels from `lane` on, line by line, and within a line by the position of pixels relative to the stride: pixels
/// of one position meet the same taps.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn backward_half<V: Lanes>(
    filter: &[f32; FILTER],
    geometry: &Reverse,
    value: *const f32,
    d_output: Bordered<'_>,
    range: (f32, f32),
    d_input: *mut f32,
    d_filter: &mut [f32; FILTER],
    sums: &mut [f32; PANEL],
    lane: usize,
) {
    let Reverse { stride, pad, first, lines, width, top } = *geometry;
    for line in 0..lines {
        for position in 0..stride.min(width) {
            // The taps of these pixels, and where in the output gradients the first pixel finds each.
            let mut taps = [(0, 0); 9];
            let mut count = 0;
            for (ky, kx) in (0..9).map(|tap| (tap / 3, tap % 3)) {
                let (y, x) = (geometry.meets(first + line + pad.0, ky), geometry.meets(position + pad.1, kx));
                if let (Some(y), Some(x)) = (y, x) {
                    let place = (y - top) as usize * d_output.line + (x + 1) as usize * PANEL;
                    taps[count] = (place, (ky * 3 + kx) * PANEL);
                    count += 1;
                }
            }
            let place = (line * width + position) * PANEL + lane;
            let run = Run {
                pixels: (width - position).div_ceil(stride),
                step: stride * PANEL,
                filter: filter.as_ptr().wrapping_add(lane),
                d_output: d_output.data.as_ptr().wrapping_add(lane),
                range,
            };
            // SAFETY: the caller's promise; taps were worked out from the same geometry.
            unsafe {
                let (value, d_input) = (value.add(place), d_input.add(place));
                let d_filter = d_filter.as_mut_ptr().add(lane);
                let sums = sums.as_mut_ptr().add(lane);
                match count {
                    9 => run.pixels::<V, 9>(&taps, value, d_input, d_filter, sums),
                    6 => run.pixels::<V, 6>(&taps, value, d_input, d_filter, sums),
                    4 => run.pixels::<V, 4>(&taps, value, d_input, d_filter, sums),
                    3 => run.pixels::<V, 3>(&taps, value, d_input, d_filter, sums),
                    2 => run.pixels::<V, 2>(&taps, value, d_input, d_filter, sums),
                    1 => run.pixels::<V, 1>(&taps, value, d_input, d_filter, sums),
                    _ => run.pixels::<V, 0>(&taps, value, d_input, d_filter, sums),
                }
            }
        }
    }
}

/// Pixels of a line at distance `step` that meet the same taps.
struct Run {
    pixels: usize,
    step: usize,
    filter: *const f32,
    d_output: *const f32,
    range: (f32, f32),
}

impl Run {
    #[inline(always)]
    unsafe fn pixels<V: Lanes, const N: usize>(
        &self,
        taps: &[(usize, usize); 9],
        value: *const f32,
        d_input: *mut f32,
        d_filter: *mut f32,
        sums: *mut f32,
    ) {
        // SAFETY: the caller's promise: taps, values and gradients are good for all pixels of the run.
        unsafe {
            let from: [*const f32; N] = std::array::from_fn(|n| self.d_output.add(taps[n].0));
            let weights: [V; N] = std::array::from_fn(|n| V::load(self.filter.add(taps[n].1)));
            let (low, high) = (V::splat(self.range.0), V::splat(self.range.1));
            let mut d_weights = [V::splat(0.0); N];
            let mut total = V::splat(0.0);
            for pixel in 0..self.pixels {
                let value = V::load(value.add(pixel * self.step));
                let mut sum = V::splat(0.0);
                for n in 0..N {
                    let gradient = V::load(from[n].add(pixel * PANEL));
                    sum = gradient.mul_add(weights[n], sum);
                    d_weights[n] = gradient.mul_add(value, d_weights[n]);
                }
                let passed = sum.gated(value, low, high);
                total = total.add(passed);
                passed.store(d_input.add(pixel * self.step));
            }
            for n in 0..N {
                let to = d_filter.add(taps[n].1);
                d_weights[n].add(V::load(to)).store(to);
            }
            total.add(V::load(sums)).store(sums);
        }
    }
}

/// The same convolution as plain loops over an image without a border: the oracle.
#[cfg(test)]
pub(super) mod plain {
    use super::*;

    /// `input` is `height` × `width` × 16.
    pub(crate) fn forward(
        filter: &[f32; FILTER],
        input: &[f32],
        (height, width): (usize, usize),
        stride: usize,
        pad: (usize, usize),
    ) -> Vec<f32> {
        let (out_height, out_width) = (height.div_ceil(stride), width.div_ceil(stride));
        let mut output = vec![0.0; out_height * out_width * PANEL];
        for (index, out) in output.iter_mut().enumerate() {
            let (y, x, c) = (index / PANEL / out_width, index / PANEL % out_width, index % PANEL);
            for tap in 0..9 {
                let (iy, ix) =
                    ((y * stride + tap / 3).wrapping_sub(pad.0), (x * stride + tap % 3).wrapping_sub(pad.1));
                if iy < height && ix < width {
                    *out += filter[tap * PANEL + c] * input[(iy * width + ix) * PANEL + c];
                }
            }
        }
        output
    }

    /// Gradients of the input and of the filter.
    pub(crate) fn backward(
        filter: &[f32; FILTER],
        input: &[f32],
        (height, width): (usize, usize),
        stride: usize,
        pad: (usize, usize),
        d_output: &[f32],
    ) -> (Vec<f32>, [f32; FILTER]) {
        let out_width = width.div_ceil(stride);
        let mut d_input = vec![0.0; input.len()];
        let mut d_filter = [0.0; FILTER];
        for (index, gradient) in d_output.iter().enumerate() {
            let (y, x, c) = (index / PANEL / out_width, index / PANEL % out_width, index % PANEL);
            for tap in 0..9 {
                let (iy, ix) =
                    ((y * stride + tap / 3).wrapping_sub(pad.0), (x * stride + tap % 3).wrapping_sub(pad.1));
                if iy < height && ix < width {
                    let at = (iy * width + ix) * PANEL + c;
                    d_input[at] += filter[tap * PANEL + c] * gradient;
                    d_filter[tap * PANEL + c] += input[at] * gradient;
                }
            }
        }
        (d_input, d_filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: usize, count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0).collect()
    }

    fn close(fast: &[f32], exact: &[f32], what: &str) {
        // At most ~200 products of size 1 in another order.
        for (index, (fast, exact)) in fast.iter().zip(exact).enumerate() {
            assert!((fast - exact).abs() < 2e-5, "{what}: {fast} instead of {exact} at {index}");
        }
    }

    /// The plane with `top` and `left` zero lines and columns before it, `height` × `width` in all.
    fn bordered(
        plane: &[f32],
        size: (usize, usize),
        (top, left): (usize, usize),
        (height, width): (usize, usize),
    ) -> Vec<f32> {
        let mut result = vec![0.0; height * width * PANEL];
        for y in 0..size.0.min(height - top) {
            let count = size.1.min(width - left) * PANEL;
            let to = ((y + top) * width + left) * PANEL;
            result[to..to + count].copy_from_slice(&plane[y * size.1 * PANEL..][..count]);
        }
        result
    }

    const CASES: [(usize, usize, usize, (usize, usize)); 12] = [
        (1, 1, 1, (1, 1)),
        (7, 7, 1, (1, 1)),
        (5, 14, 1, (1, 1)),
        (9, 3, 1, (1, 1)),
        (8, 8, 2, (0, 0)),
        (8, 8, 2, (1, 1)),
        (7, 7, 2, (1, 1)),
        (7, 10, 2, (1, 0)),
        (1, 1, 2, (1, 1)),
        (2, 2, 2, (0, 0)),
        (9, 9, 3, (1, 1)),
        (3, 12, 3, (0, 0)),
    ];

    #[test]
    fn forward_agrees_with_plain_loops() {
        for (height, width, stride, pad) in CASES {
            let input = numbers(1, height * width * PANEL);
            let filter: [f32; FILTER] = numbers(2, FILTER).try_into().unwrap();
            let exact = plain::forward(&filter, &input, (height, width), stride, pad);
            let (lines, columns) = (height.div_ceil(stride), width.div_ceil(stride));
            let size = ((lines - 1) * stride + 3, (columns - 1) * stride + 3);
            let plane = bordered(&input, (height, width), pad, size);
            let source = Bordered { data: &plane, line: size.1 * PANEL };
            let mut output = vec![9.0; exact.len()];
            forward(&filter, source, stride, lines, columns, &mut output, Ending::Linear);
            close(&output, &exact, "linear");
            let shift: [f32; PANEL] = numbers(3, PANEL).try_into().unwrap();
            forward(&filter, source, stride, lines, columns, &mut output, Ending::Shift(&shift, (0.0, 1.0)));
            let clamped: Vec<f32> =
                exact.iter().enumerate().map(|(i, v)| (v + shift[i % PANEL]).clamp(0.0, 1.0)).collect();
            close(&output, &clamped, "clamped");
        }
    }

    /// Whole images and every band of two lines: a band sees what the whole sees.
    #[test]
    fn backward_agrees_with_plain_loops() {
        for (height, width, stride, pad) in CASES {
            let input = numbers(1, height * width * PANEL);
            let filter: [f32; FILTER] = numbers(2, FILTER).try_into().unwrap();
            let (lines, columns) = (height.div_ceil(stride), width.div_ceil(stride));
            let d_output = numbers(4, lines * columns * PANEL);
            let (exact, exact_filter) =
                plain::backward(&filter, &input, (height, width), stride, pad, &d_output);
            let range = (-0.5, 0.75);
            let gated: Vec<f32> = exact
                .iter()
                .zip(&input)
                .map(|(d, value)| if *value > range.0 && *value < range.1 { *d } else { 0.0 })
                .collect();
            for band in [height, 2] {
                let mut d_input = vec![9.0; input.len()];
                let (mut d_filter, mut sums) = ([0.0; FILTER], [0.0; PANEL]);
                let mut first = 0;
                while first < height {
                    let count = band.min(height - first);
                    let mut geometry = Reverse { stride, pad, first, lines: count, width, top: 0 };
                    let needed = geometry.output_lines();
                    geometry.top = needed.start.min(-1);
                    let size =
                        ((needed.end - geometry.top) as usize, geometry.output_columns().max(columns + 2));
                    let plane = bordered(&d_output, (lines, columns), ((-geometry.top) as usize, 1), size);
                    let source = Bordered { data: &plane, line: size.1 * PANEL };
                    let part = first * width * PANEL..(first + count) * width * PANEL;
                    let d_part = &mut d_input[part.clone()];
                    backward(
                        &filter,
                        &geometry,
                        &input[part],
                        source,
                        range,
                        d_part,
                        &mut d_filter,
                        &mut sums,
                    );
                    first += count;
                }
                close(&d_input, &gated, "input");
                close(&d_filter, &exact_filter, "filter");
                let exact_sums: Vec<f32> =
                    (0..PANEL).map(|c| gated.iter().skip(c).step_by(PANEL).sum()).collect();
                close(&sums, &exact_sums, "sums");
            }
        }
    }
}

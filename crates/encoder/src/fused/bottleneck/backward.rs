//! The backward passes of an inverted residual.

use std::ops::Range;

use super::forward::clear_border;
use super::{BAND_BYTES, Bottleneck, Input, parts};
use crate::fused::kept::{Kept, UNBOUNDED};
use crate::fused::norm::lane;
use crate::fused::workers::{Frames, Group, Scratch, merge_exact, merge_gradients};
use crate::fused::{Call, NONE, Reading};
use crate::kernels::Aligned;
use crate::kernels::depthwise::{self, Bordered, FILTER, Reverse};
use crate::kernels::gemm::{
    Columns, Finish, Lines, PANEL, Rows, outer, pack, packed_index, padded, panel_segments, panels, product,
};
use crate::kernels::norm::{GradientSums, activation_backward, affine};
use crate::{NormMode, Parameters};

/// What the input's gradient still lacks after *unfilter*: `(x − centre)·matrix + constant`.
struct Correction {
    matrix: Aligned,
    constant: Vec<f32>,
}

impl Bottleneck {
    /// All backward passes: from the gradient of the output, in its place, to the gradients of the parameters and, if one
    /// is wanted, of the input.
    pub(in crate::fused) fn backward(
        &mut self,
        call: &mut Call<'_>,
        reading: &Reading<'_>,
        gradients: &mut Parameters,
        d_images: Option<&mut [f32]>,
    ) {
        self.sum_pass(call, reading);
        let sums = merge_gradients(call.groups, 0..panels(self.narrow()));
        self.project_mixture = self.norms[2].backward(&sums, &self.project, gradients);

        self.unproject_pass(call, reading);
        let sums = merge_gradients(call.groups, 0..panels(self.wide()));
        self.filter_mixture = self.norms[1].backward(&sums, &self.filter, gradients);
        self.project_gradient(call, gradients);

        let wants_input = !reading.places.d_input.is_empty() || d_images.is_some();
        if wants_input {
            let (matrix, scale, depth) = (&self.weights.matrix, &self.norms[0].scale, self.depth);
            self.unexpand = pack(self.wide(), depth, |k, n| scale[k] * matrix[k * depth + n]);
        }
        match d_images {
            Some(d_images) => {
                d_images.fill(0.0);
                self.unfilter_pass(call, reading, wants_input, Some(&mut *d_images));
                let correction = self.expand_gradient(call, gradients, wants_input);
                if let Some(correction) = correction {
                    self.correct_images(call, &correction, d_images);
                }
            }
            None => {
                self.unfilter_pass(call, reading, wants_input, None);
                let correction = self.expand_gradient(call, gradients, wants_input);
                if let Some(correction) = correction {
                    self.correct_pass(call, reading, &correction);
                }
            }
        }
    }

    /// `Z3` as it was kept.
    fn kept<'a>(&self, call_storage: crate::Storage, pre: &'a [f32]) -> Kept<'a> {
        let out = self.output();
        Kept { numbers: pre, storage: call_storage, pixels: out.pixels(), channels: out.channels, norm: None }
    }

    /// The sums of batch norm 3.
    fn sum_pass(&self, call: &mut Call<'_>, reading: &Reading<'_>) {
        let places = reading.places;
        let out = self.output();
        let [pre, d_output] = call.arena.split([&places.pre, &places.d_output]);
        let pre = self.kept(call.storage, pre);
        let views = Frames::deal(d_output, padded(out.channels) * out.pixels(), call.groups);
        call.workers.run(call.groups, views, |group, mut d_output, scratch| {
            group.clear(panels(out.channels), 0, 0);
            for frame in group.frames.clone() {
                let Some(d_output) = d_output.get(frame) else { unreachable!("every frame has a gradient") };
                for pixels in parts(out.pixels(), 512) {
                    let count = pixels.len() * PANEL;
                    let ([z], ..) = scratch.parts([count * panels(out.channels)]);
                    pre.load(frame, pixels.clone(), None, z);
                    for (panel, z) in z.chunks_exact(count).enumerate() {
                        let from = (panel * out.pixels() + pixels.start) * PANEL;
                        let gate = self.norms[2].gate(panel, UNBOUNDED);
                        let sums = &mut group.gradients[panel];
                        activation_backward(&mut d_output[from..from + count], z, &gate, sums);
                    }
                }
            }
        });
    }

    /// Gradients of the projection's weights and of batch norm 2's output.
    fn unproject_pass(&self, call: &mut Call<'_>, reading: &Reading<'_>) {
        let places = reading.places;
        let (wide, narrow, out) = (self.wide(), self.narrow(), self.output());
        let (input, [values, held, pre, d_output]) = reading.open(
            call.arena,
            call.images,
            call.storage,
            [&places.values, &places.gradients, &places.pre, &places.d_output],
        );
        let pre = self.kept(call.storage, pre);
        let d_output = &*d_output;
        let (length, gradient_length) = self.held_lengths();
        let views = Frames::deal(values, length, call.groups)
            .into_iter()
            .zip(Frames::deal(held, gradient_length, call.groups))
            .collect();
        let d_length = padded(out.channels) * out.pixels();
        call.workers.run(call.groups, views, |group, (mut values, mut held), scratch| {
            group.clear(panels(wide), padded(wide) * narrow, 0);
            for frame in group.frames.clone() {
                let Group { gradients, weights, .. } = group;
                let d_output = &d_output[frame * d_length..(frame + 1) * d_length];
                let held = held.get(frame);
                self.with_values(
                    &input,
                    frame,
                    values.get(frame),
                    !places.values_kept,
                    scratch,
                    |z, scratch| {
                        let sums = Some((&mut gradients[..], &mut weights[..]));
                        match held {
                            Some(dy) => self.unproject_frame(z, &pre, frame, d_output, dy, sums, scratch),
                            None => self.unproject_unheld(z, &pre, frame, d_output, sums, scratch),
                        }
                    },
                );
            }
        });
    }

    /// The gradient of batch norm 2's output, into the thread's own memory.
    #[allow(clippy::too_many_arguments)]
    fn unproject_unheld(
        &self,
        z: &[f32],
        pre: &Kept<'_>,
        frame: usize,
        d_output: &[f32],
        sums: Option<(&mut [GradientSums], &mut [f32])>,
        scratch: &mut Scratch,
    ) {
        let mut own = std::mem::take(&mut scratch.gradients);
        own.reserve(self.held_lengths().1);
        self.unproject_frame(z, pre, frame, d_output, &mut own[..self.held_lengths().1], sums, scratch);
        scratch.gradients = own;
    }

    #[allow(clippy::too_many_arguments)]
    fn unproject_frame(
        &self,
        z: &[f32],
        pre: &Kept<'_>,
        frame: usize,
        d_output: &[f32],
        dy: &mut [f32],
        mut sums: Option<(&mut [GradientSums], &mut [f32])>,
        scratch: &mut Scratch,
    ) {
        let (total, wide, narrow) = (self.output().pixels(), self.wide(), self.narrow());
        let most = BAND_BYTES / (2 * padded(narrow) * size_of::<f32>());
        for pixels in parts(total, most.clamp(64, 1024)) {
            let count = pixels.len() * PANEL;
            let ([z3, dz3, value], ..) =
                scratch.parts([count * panels(narrow), count * panels(narrow), count]);
            let at = |panel: usize| {
                let from = (panel * total + pixels.start) * PANEL;
                from..from + count
            };
            pre.load(frame, pixels.clone(), None, z3);
            for panel in 0..panels(narrow) {
                let part = panel * count..(panel + 1) * count;
                self.project_mixture.apply(panel, &d_output[at(panel)], &z3[part.clone()], &mut dz3[part]);
            }
            let segments = panel_segments(narrow, pixels.len());
            let rows = Rows::of_panels(dz3, &segments, narrow);
            for panel in 0..panels(wide) {
                let (z, dy) = (&z[at(panel)], &mut dy[at(panel)]);
                let columns = Columns::of_panels((wide - panel * PANEL).min(PANEL), pixels.len());
                let own = panel * narrow * PANEL..(panel + 1) * narrow * PANEL;
                product(
                    pixels.len(),
                    &rows,
                    &self.weights.unproject[own.clone()],
                    &columns,
                    dy,
                    Finish::Store,
                );
                let gate = self.norms[1].gate(panel, self.filter_range());
                match &mut sums {
                    Some((gradients, weights)) => {
                        affine(value, z, gate.scale, gate.shift, gate.range);
                        outer(pixels.len(), &rows, &columns, value, &mut weights[own]);
                        activation_backward(dy, z, &gate, &mut gradients[panel]);
                    }
                    None => activation_backward(dy, z, &gate, &mut GradientSums::default()),
                }
            }
        }
    }

    /// Puts the summed weight gradient of the projection into PyTorch's order.
    fn project_gradient(&self, call: &Call<'_>, gradients: &mut Parameters) {
        let (wide, narrow) = (self.wide(), self.narrow());
        let mut sums = vec![0.0; padded(wide) * narrow];
        call.workers.merge_weights(call.groups, 0, &mut sums);
        let weight = gradients.tensor_mut(self.project.weight);
        for (index, value) in weight.iter_mut().enumerate() {
            let (row, column) = (index / wide, index % wide);
            *value = sums[(column / PANEL * narrow + row) * PANEL + column % PANEL];
        }
    }

    /// Gradients of the filter's weights, the sums from which the expansion's follow, and the input's as far as they are
    /// not owed to batch norm 1.
    fn unfilter_pass(
        &self,
        call: &mut Call<'_>,
        reading: &Reading<'_>,
        wants_input: bool,
        d_images: Option<&mut [f32]>,
    ) {
        let places = reading.places;
        let (wide, out) = (self.wide(), self.output());
        let arena = &mut *call.arena;
        let (input, [values, held, pre, d_output], d_input) = reading.open_backward(
            arena,
            call.images,
            call.storage,
            [&places.values, &places.gradients, &places.pre, &places.d_output],
        );
        let pre = self.kept(call.storage, pre);
        let d_output = &*d_output;
        let (length, gradient_length) = self.held_lengths();
        let d_input_length = padded(self.depth) * self.plane().pixels();
        let images = Frames::deal(d_images.unwrap_or_default(), self.expand.in_shape.len(), call.groups);
        let views = Frames::deal(values, length, call.groups)
            .into_iter()
            .zip(Frames::deal(held, gradient_length, call.groups))
            .zip(Frames::deal(d_input, d_input_length, call.groups))
            .zip(images)
            .collect();
        let d_length = padded(out.channels) * out.pixels();
        let weight_sums = padded(wide) * self.depth + panels(wide) * FILTER;
        call.workers.run(
            call.groups,
            views,
            |group, (((mut values, mut held), mut d_input), mut images), scratch| {
                group.clear(0, weight_sums, padded(wide));
                for frame in group.frames.clone() {
                    let d_output = &d_output[frame * d_length..(frame + 1) * d_length];
                    let held = held.get(frame);
                    let target = match (wants_input, d_input.get(frame), images.get(frame)) {
                        (true, Some(d_input), _) => Target::Value(d_input),
                        (true, None, Some(image)) => Target::Image(image),
                        _ => Target::Nothing,
                    };
                    let fresh = held.is_none() && !places.values_kept;
                    self.with_values(
                        &input,
                        frame,
                        values.get(frame),
                        fresh,
                        scratch,
                        |z, scratch| match held {
                            Some(dy) => {
                                self.unfilter_frame(&input, frame, z, dy, d_output, target, group, scratch)
                            }
                            None => {
                                self.unproject_unheld(z, &pre, frame, d_output, None, scratch);
                                let own = std::mem::take(&mut scratch.gradients);
                                let dy = &own[..gradient_length];
                                self.unfilter_frame(&input, frame, z, dy, d_output, target, group, scratch);
                                scratch.gradients = own;
                            }
                        },
                    );
                }
            },
        );
    }

    #[allow(clippy::too_many_arguments)]
    fn unfilter_frame(
        &self,
        input: &Input<'_>,
        frame: usize,
        z: &[f32],
        dy: &[f32],
        d_output: &[f32],
        mut target: Target<'_>,
        group: &mut Group,
        scratch: &mut Scratch,
    ) {
        let (plane, out) = (self.plane(), self.filter.conv_shape);
        let (wide, depth) = (self.wide(), self.depth);
        let line_bytes = plane.width * (padded(depth) + padded(wide) + 3 * PANEL) * size_of::<f32>();
        let Group { weights, exact, .. } = group;
        let (expand_sums, filter_sums) = weights.split_at_mut(padded(wide) * depth);
        for lines in parts(plane.height, (BAND_BYTES / line_bytes).max(2)) {
            let pixels = lines.len() * plane.width;
            let mut geometry = Reverse {
                stride: self.filter.stride,
                pad: self.filter.pad,
                first: lines.start,
                lines: lines.len(),
                width: plane.width,
                top: 0,
            };
            let bordered = geometry.output_lines();
            geometry.top = bordered.start;
            let inside = bordered.start.max(0) as usize..bordered.end.clamp(0, out.height as isize) as usize;
            let above = (inside.start as isize - bordered.start) as usize;
            let line = geometry.output_columns().max(out.width + 1) * PANEL;
            let ([x, value, dz, d_wide, d_x], ..) = scratch.parts([
                pixels * padded(depth),
                pixels * PANEL,
                bordered.len() * line,
                pixels * padded(wide),
                pixels * padded(depth),
            ]);
            self.load(input, frame, lines.clone(), x);
            clear_border(dz, line, above..above + inside.len(), 1..1 + out.width);
            let segments = panel_segments(depth, pixels);
            let rows = Rows::of_panels(x, &segments, depth);
            for (panel, d_wide) in d_wide.chunks_exact_mut(pixels * PANEL).enumerate() {
                let count = (wide - panel * PANEL).min(PANEL);
                let finish = Finish::Affine {
                    scale: lane(&self.norms[0].scale, panel),
                    shift: lane(&self.expand_shift, panel),
                    range: self.expand_range(),
                };
                let own = panel * depth * PANEL..(panel + 1) * depth * PANEL;
                let columns = Columns::of_panels(count, pixels);
                product(pixels, &rows, &self.weights.expand[own.clone()], &columns, value, finish);

                for (index, at) in inside.clone().enumerate() {
                    let from = (panel * out.pixels() + at * out.width) * PANEL;
                    let from = from..from + out.width * PANEL;
                    let to = &mut dz[(above + index) * line + PANEL..][..out.width * PANEL];
                    self.filter_mixture.apply(panel, &dy[from.clone()], &z[from], to);
                }
                let d_filter = &mut filter_sums.as_chunks_mut::<FILTER>().0[panel];
                let mut sums = [0.0; PANEL];
                depthwise::backward(
                    &self.weights.filters[panel],
                    &geometry,
                    value,
                    Bordered { data: dz, line },
                    self.expand_range(),
                    d_wide,
                    d_filter,
                    &mut sums,
                );
                for (exact, sum) in exact[panel * PANEL..].iter_mut().zip(sums) {
                    *exact += f64::from(sum);
                }
                outer(pixels, &rows, &columns, d_wide, &mut expand_sums[own]);
            }
            target.take(self, d_output, lines, d_wide, d_x);
        }
    }

    /// From the sums of *unfilter*: gradients of the expansion's weights and batch norm and of the filter's weights, and
    /// what the input's gradient still lacks.
    fn expand_gradient(
        &self,
        call: &Call<'_>,
        gradients: &mut Parameters,
        wants_input: bool,
    ) -> Option<Correction> {
        let (wide, depth) = (self.wide(), self.depth);
        let mut sums = vec![0.0; padded(wide) * depth + panels(wide) * FILTER];
        call.workers.merge_weights(call.groups, 0, &mut sums);
        let plain = merge_exact(call.groups, 0..padded(wide));
        let (expand, filters) = sums.split_at(padded(wide) * depth);
        let filter = gradients.tensor_mut(self.filter.weight);
        for (index, value) in filter.iter_mut().enumerate() {
            let (channel, tap) = (index / 9, index % 9);
            *value = filters[channel / PANEL * FILTER + tap * PANEL + channel % PANEL];
        }

        let window = call.mode == NormMode::Window;
        let norm = &self.norms[0];
        let matrix = &self.weights.matrix;
        let spread = if window { self.second.times_covariance(matrix) } else { Vec::new() };
        let mut weight = vec![0.0f32; wide * depth];
        // Rows of the expansion's matrix by the factors of the correction's matrix, and the correction's constant.
        let mut weighted = vec![0.0f32; padded(depth) * wide];
        let mut constant = vec![0.0f64; padded(depth)];
        for row in 0..wide {
            let weights = &matrix[row * depth..(row + 1) * depth];
            let total = plain[row];
            let sum = |k: usize| {
                let sum = f64::from(expand[(row / PANEL * depth + k) * PANEL + row % PANEL]);
                // About the mean where the window's statistics are used, about zero (which the centre is) where not.
                if window { sum - total * self.second.offset[k] } else { sum }
            };
            let with_value: f64 =
                weights.iter().enumerate().map(|(k, weight)| f64::from(*weight) * sum(k)).sum();
            let (scale, inverse) = (f64::from(norm.scale[row]), f64::from(norm.inverse[row]));
            let with_value = if window { with_value } else { with_value - total * f64::from(norm.mean[row]) };
            let d_gamma = with_value * inverse;
            gradients.tensor_mut(self.expand.gamma)[row] = d_gamma as f32;
            gradients.tensor_mut(self.expand.beta)[row] = total as f32;
            for k in 0..depth {
                let mut value = sum(k);
                if window {
                    value -=
                        d_gamma * inverse * f64::from(spread[(k / PANEL * wide + row) * PANEL + k % PANEL]);
                }
                weight[row * depth + k] = (scale * value) as f32;
            }
            if window && wants_input {
                let factor = -scale * inverse * d_gamma / self.second.count;
                for (k, value) in weights.iter().enumerate() {
                    weighted[(k / PANEL * wide + row) * PANEL + k % PANEL] =
                        (factor * f64::from(*value)) as f32;
                    constant[k] -= scale * total / self.second.count * f64::from(*value);
                }
            }
        }
        self.store_expand_gradient(&weight, gradients);
        if !(window && wants_input) {
            return None;
        }
        let mut packed = Aligned::zeros(padded(depth) * depth);
        let rows = Rows {
            data: matrix,
            lines: Lines::contiguous(depth),
            segments: &[0],
            length: depth,
            last: depth,
        };
        outer(wide, &rows, &Columns::of_panels(depth, wide), &weighted, &mut packed);
        // The matrix takes pixels less their mean, the pixels at hand are less their centre.
        for (k, offset) in self.second.offset.iter().enumerate() {
            for (n, constant) in constant.iter_mut().take(depth).enumerate() {
                *constant -= offset * f64::from(packed[packed_index(depth, k, n)]);
            }
        }
        Some(Correction { matrix: packed, constant: constant.iter().map(|value| *value as f32).collect() })
    }

    fn store_expand_gradient(&self, matrix: &[f32], gradients: &mut Parameters) {
        let (depth, channels) = (self.depth, self.expand.in_shape.channels);
        let weight = gradients.tensor_mut(self.expand.weight);
        match self.windows {
            None => weight.copy_from_slice(matrix),
            Some(_) => {
                for (index, value) in matrix.iter().enumerate() {
                    let (row, k) = (index / depth, index % depth);
                    weight[row * depth + k % channels * 9 + k / channels] = *value;
                }
            }
        }
    }

    /// Adds the correction to the gradient of a block's output.
    fn correct_pass(&self, call: &mut Call<'_>, reading: &Reading<'_>, correction: &Correction) {
        let (plane, depth) = (self.plane(), self.depth);
        let (input, [d_input, ..]) = reading.open(
            call.arena,
            call.images,
            call.storage,
            [&reading.places.d_input, &NONE, &NONE, &NONE],
        );
        let views = Frames::deal(d_input, padded(depth) * plane.pixels(), call.groups);
        let line_bytes = 2 * plane.width * padded(depth) * size_of::<f32>();
        call.workers.run(call.groups, views, |group, mut d_input, scratch| {
            for frame in group.frames.clone() {
                let Some(d_input) = d_input.get(frame) else { unreachable!("every frame has a gradient") };
                for lines in parts(plane.height, BAND_BYTES / line_bytes) {
                    let pixels = lines.len() * plane.width;
                    let ([x], ..) = scratch.parts([pixels * padded(depth)]);
                    self.load(&input, frame, lines.clone(), x);
                    let segments = panel_segments(depth, pixels);
                    let rows = Rows::of_panels(x, &segments, depth);
                    let columns = Columns::of_panels(depth, plane.pixels());
                    let target = &mut d_input[lines.start * plane.width * PANEL..];
                    let finish = Finish::ShiftAdd { shift: &correction.constant };
                    product(pixels, &rows, &correction.matrix, &columns, target, finish);
                }
            }
        });
    }

    /// The same for images: the correction of windows, scattered.
    fn correct_images(&self, call: &mut Call<'_>, correction: &Correction, d_images: &mut [f32]) {
        let Some(windows) = self.windows else { unreachable!("only windows lead to images") };
        let (plane, depth) = (self.plane(), self.depth);
        let input = Input::Images(call.images);
        let views = Frames::deal(d_images, self.expand.in_shape.len(), call.groups);
        let line_bytes = 2 * plane.width * padded(depth) * size_of::<f32>();
        call.workers.run(call.groups, views, |group, mut images, scratch| {
            for frame in group.frames.clone() {
                let Some(image) = images.get(frame) else { unreachable!("every frame has a gradient") };
                for lines in parts(plane.height, BAND_BYTES / line_bytes) {
                    let pixels = lines.len() * plane.width;
                    let size = pixels * padded(depth);
                    let ([x, d_x], ..) = scratch.parts([size, size]);
                    self.load(&input, frame, lines.clone(), x);
                    let segments = panel_segments(depth, pixels);
                    let rows = Rows::of_panels(x, &segments, depth);
                    let finish = Finish::Shift { shift: &correction.constant, range: UNBOUNDED };
                    product(
                        pixels,
                        &rows,
                        &correction.matrix,
                        &Columns::of_panels(depth, pixels),
                        d_x,
                        finish,
                    );
                    windows.scatter(d_x, lines, image);
                }
            }
        });
    }
}

/// Where the gradient of a frame's input goes.
enum Target<'a> {
    Value(&'a mut [f32]),
    Image(&'a mut [f32]),
    Nothing,
}

impl Target<'_> {
    /// Takes the gradients of the wide values of some lines back through the expansion.
    fn take(
        &mut self,
        block: &Bottleneck,
        d_output: &[f32],
        lines: Range<usize>,
        d_wide: &[f32],
        d_x: &mut [f32],
    ) {
        let (plane, depth, wide) = (block.plane(), block.depth, block.wide());
        let pixels = lines.len() * plane.width;
        let segments = panel_segments(wide, pixels);
        let rows = Rows::of_panels(d_wide, &segments, wide);
        match self {
            Self::Nothing => {}
            Self::Value(d_input) => {
                let columns = Columns::of_panels(depth, plane.pixels());
                let start = lines.start * plane.width * PANEL;
                let mut finish = Finish::Store;
                if block.residual() {
                    finish = Finish::Add;
                    for panel in 0..panels(depth) {
                        let from = panel * plane.pixels() * PANEL + start;
                        let part = from..from + pixels * PANEL;
                        d_input[part.clone()].copy_from_slice(&d_output[part]);
                    }
                }
                product(pixels, &rows, &block.unexpand, &columns, &mut d_input[start..], finish);
            }
            Self::Image(image) => {
                let Some(windows) = block.windows else { unreachable!("only windows lead to images") };
                product(
                    pixels,
                    &rows,
                    &block.unexpand,
                    &Columns::of_panels(depth, pixels),
                    d_x,
                    Finish::Store,
                );
                windows.scatter(d_x, lines, image);
            }
        }
    }
}

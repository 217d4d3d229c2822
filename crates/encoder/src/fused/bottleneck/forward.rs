//! The forward passes of an inverted residual.

use super::{BAND_BYTES, Bottleneck, Input, parts};
use crate::fused::kept;
use crate::fused::norm::{Norm, lane};
use crate::fused::second::Second;
use crate::fused::workers::{Frames, Group, Scratch, merge_moments};
use crate::fused::{Call, NONE, Reading};
use crate::kernels::Aligned;
use crate::kernels::depthwise::{self, Bordered, Ending};
use crate::kernels::gemm::{Columns, Finish, Lines, PANEL, Rows, padded, panel_segments, panels, product};
use crate::kernels::norm::{Moments, affine, combine};
use crate::{NormMode, Statistics};

impl Bottleneck {
    /// All forward passes. `input` reads the arena through `places`.
    pub(in crate::fused) fn forward(
        &mut self,
        call: &mut Call<'_>,
        statistics: &mut Statistics,
        reading: &Reading<'_>,
    ) {
        self.take_weights(call.parameters);
        self.measure(call, statistics, reading);
        self.filter_pass(call, reading);
        self.norms[1] = self.norm(call, statistics, 1);
        self.project_pass(call, reading);
        self.norms[2] = self.norm(call, statistics, 2);
        if self.residual() {
            self.add_pass(call, reading);
        }
    }

    fn norm(&self, call: &Call<'_>, statistics: &mut Statistics, index: usize) -> Norm {
        let unit = [&self.expand, &self.filter, &self.project][index];
        Norm::of_groups(call.plan, unit, call.parameters, statistics, call.mode, call.groups)
    }

    /// The statistics of the expansion, and the centre of its input.
    fn measure(&mut self, call: &mut Call<'_>, statistics: &mut Statistics, reading: &Reading<'_>) {
        self.second = Second::none(self.depth);
        if call.mode == NormMode::Running {
            let norm = Norm::of_running(call.plan, &self.expand, call.parameters, statistics);
            self.expand_shift.clone_from(&norm.shift);
            self.norms[0] = norm;
            return;
        }
        let plane = self.plane();
        let input = reading.input(call.arena, call.images, call.storage);
        let mut first = Aligned::zeros(padded(self.depth) * plane.pixels());
        self.load(&input, 0, 0..plane.height, &mut first);
        self.second = Second::centred(self.depth, &first);
        drop(first);

        let depth = self.depth;
        let (products, exact) = Second::lengths(depth);
        let line_bytes = plane.width * padded(depth) * size_of::<f32>();
        let views = vec![(); call.groups.len()];
        call.workers.run(call.groups, views, |group, (), scratch| {
            group.clear(0, products, exact);
            for frame in group.frames.clone() {
                for lines in parts(plane.height, BAND_BYTES / line_bytes) {
                    let ([x], ..) = scratch.parts([lines.len() * plane.width * padded(depth)]);
                    self.load(&input, frame, lines, x);
                    Second::add(depth, x, group);
                }
                Second::end_frame(depth, group);
            }
        });
        self.second.finish(call.groups, (call.count * plane.pixels()) as f64);
        let epsilon = f64::from(call.plan.batch_norm.epsilon);
        let mut measured = self.second.measure(&self.weights.matrix, epsilon);
        if measured.iter().any(|channel| !channel.trusted) {
            for (channel, moments) in measured.iter_mut().zip(self.measure_directly(call, reading)) {
                channel.offset = moments.0;
                channel.variance = moments.1;
            }
        }
        let mean: Vec<f64> = measured.iter().map(|channel| channel.mean).collect();
        let variance: Vec<f64> = measured.iter().map(|channel| channel.variance).collect();
        let (plan, unit, count) = (call.plan, &self.expand, self.second.count);
        let norm = Norm::of_window(plan, unit, call.parameters, statistics, count, &mean, &variance);
        let beta = call.parameters.tensor(unit.beta);
        self.expand_shift = vec![0.0; padded(beta.len())];
        for (channel, (shift, beta)) in self.expand_shift.iter_mut().zip(beta).enumerate() {
            *shift = (f64::from(*beta) - measured[channel].offset * f64::from(norm.scale[channel])) as f32;
        }
        self.norms[0] = norm;
    }

    /// Mean, counted from the output at the centre, and variance of each channel of the expansion, from its values.
    fn measure_directly(&self, call: &mut Call<'_>, reading: &Reading<'_>) -> Vec<(f64, f64)> {
        let (plane, depth, wide) = (self.plane(), self.depth, self.wide());
        let input = reading.input(call.arena, call.images, call.storage);
        let line_bytes = plane.width * padded(depth) * size_of::<f32>();
        let views = vec![(); call.groups.len()];
        call.workers.run(call.groups, views, |group, (), scratch| {
            group.clear(panels(wide), 0, 0);
            for frame in group.frames.clone() {
                for lines in parts(plane.height, BAND_BYTES / line_bytes) {
                    let pixels = lines.len() * plane.width;
                    let ([x, e], ..) = scratch.parts([pixels * padded(depth), pixels * PANEL]);
                    self.load(&input, frame, lines, x);
                    let segments = panel_segments(depth, pixels);
                    let rows = Rows::of_panels(x, &segments, depth);
                    for (panel, moments) in group.moments.iter_mut().enumerate() {
                        let weights = &self.weights.expand[panel * depth * PANEL..];
                        product(pixels, &rows, weights, &Columns::of_panels(PANEL, pixels), e, Finish::Store);
                        moments.add(e);
                    }
                }
            }
        });
        let moments = merge_moments(call.groups, 0..panels(wide));
        moments
            .iter()
            .flat_map(|moments| {
                std::array::from_fn::<_, PANEL, _>(|c| (moments.mean[c], moments.squares[c] / moments.count))
            })
            .take(wide)
            .collect()
    }

    fn filter_pass(&self, call: &mut Call<'_>, reading: &Reading<'_>) {
        let stride = self.held_lengths().0;
        let (input, [values, ..]) = reading.open(
            call.arena,
            call.images,
            call.storage,
            [&reading.places.values, &NONE, &NONE, &NONE],
        );
        let views = Frames::deal(values, stride, call.groups);
        call.workers.run(call.groups, views, |group, mut values, scratch| {
            group.clear(panels(self.wide()), 0, 0);
            for frame in group.frames.clone() {
                let moments = Some(&mut group.moments[..]);
                match values.get(frame) {
                    Some(z) => self.filter_frame(&input, frame, z, moments, scratch),
                    // Only the moments are wanted; what is not held is computed again by the next pass.
                    None => self.filter_unheld(&input, frame, moments, scratch),
                }
            }
        });
    }

    /// `Z2` of a frame, into the thread's own memory.
    fn filter_unheld(
        &self,
        input: &Input<'_>,
        frame: usize,
        moments: Option<&mut [Moments]>,
        scratch: &mut Scratch,
    ) {
        let mut own = std::mem::take(&mut scratch.values);
        own.reserve(self.held_lengths().0);
        self.filter_frame(input, frame, &mut own[..self.held_lengths().0], moments, scratch);
        scratch.values = own;
    }

    /// Calls `work` with `Z2` of a frame, computing it first where it is neither held nor kept.
    pub(super) fn with_values(
        &self,
        input: &Input<'_>,
        frame: usize,
        held: Option<&mut [f32]>,
        fresh: bool,
        scratch: &mut Scratch,
        work: impl FnOnce(&[f32], &mut Scratch),
    ) {
        match held {
            Some(z) => {
                if fresh {
                    self.filter_frame(input, frame, z, None, scratch);
                }
                work(z, scratch);
            }
            None => {
                self.filter_unheld(input, frame, None, scratch);
                let own = std::mem::take(&mut scratch.values);
                work(&own[..self.held_lengths().0], scratch);
                scratch.values = own;
            }
        }
    }

    /// Expansion, batch norm 1, activation and filter of one frame, band by band, panel by panel.
    pub(super) fn filter_frame(
        &self,
        input: &Input<'_>,
        frame: usize,
        z: &mut [f32],
        mut moments: Option<&mut [Moments]>,
        scratch: &mut Scratch,
    ) {
        let (plane, out) = (self.plane(), self.filter.conv_shape);
        let (stride, pad, depth) = (self.filter.stride, self.filter.pad, self.depth);
        let line = self.bordered_width() * PANEL;
        let line_bytes = (plane.width * padded(depth) + line) * size_of::<f32>();
        for lines in parts(out.height, (BAND_BYTES / line_bytes / stride).max(2)) {
            // The lines that the filter reads, counted with the border above the image, and those of them that exist.
            let bordered = lines.start * stride..(lines.end - 1) * stride + 3;
            let inside = bordered.start.saturating_sub(pad.0)..(bordered.end - pad.0).min(plane.height);
            let pixels = inside.len() * plane.width;
            let ([x, bordered_plane], ..) = scratch.parts([pixels * padded(depth), bordered.len() * line]);
            self.load(input, frame, inside.clone(), x);
            let above = inside.start + pad.0 - bordered.start;
            clear_border(bordered_plane, line, above..above + inside.len(), pad.1..pad.1 + plane.width);
            let segments = panel_segments(depth, pixels);
            let rows = Rows::of_panels(x, &segments, depth);
            for panel in 0..panels(self.wide()) {
                let columns = Columns {
                    lines: Lines { width: plane.width, step: PANEL, line },
                    panel: 0,
                    count: (self.wide() - panel * PANEL).min(PANEL),
                };
                let finish = Finish::Affine {
                    scale: lane(&self.norms[0].scale, panel),
                    shift: lane(&self.expand_shift, panel),
                    range: self.expand_range(),
                };
                let weights = &self.weights.expand[panel * depth * PANEL..];
                let target = &mut bordered_plane[above * line + pad.1 * PANEL..];
                product(pixels, &rows, weights, &columns, target, finish);

                let from = (panel * out.pixels() + lines.start * out.width) * PANEL;
                let z = &mut z[from..from + lines.len() * out.width * PANEL];
                let source = Bordered { data: bordered_plane, line };
                let filter = &self.weights.filters[panel];
                depthwise::forward(filter, source, stride, lines.len(), out.width, z, Ending::Linear);
                if let Some(moments) = &mut moments {
                    moments[panel].add(z);
                }
            }
        }
    }

    fn project_pass(&self, call: &mut Call<'_>, reading: &Reading<'_>) {
        let (storage, out) = (call.storage, self.output());
        let kept_length = kept::frame_length(storage, out.pixels(), out.channels);
        let places = reading.places;
        let (input, [values, pre, ..]) =
            reading.open(call.arena, call.images, call.storage, [&places.values, &places.pre, &NONE, &NONE]);
        let views = Frames::deal(values, self.held_lengths().0, call.groups)
            .into_iter()
            .zip(Frames::deal(pre, kept_length, call.groups))
            .collect();
        call.workers.run(call.groups, views, |group, (mut values, mut pre), scratch| {
            group.clear(panels(out.channels), 0, 0);
            for frame in group.frames.clone() {
                let Some(pre) = pre.get(frame) else { unreachable!("every frame is kept") };
                let Group { moments, .. } = group;
                self.with_values(&input, frame, values.get(frame), false, scratch, |z, scratch| {
                    self.project_frame(z, moments, scratch, |pixels, z3| {
                        kept::round(storage, z3);
                        kept::store(storage, pre, out.pixels(), pixels, z3);
                    });
                });
            }
        });
    }

    /// Batch norm 2, activation and projection of one frame. `store` takes the pixels of `Z3` part by part, as panels.
    fn project_frame(
        &self,
        z: &[f32],
        moments: &mut [Moments],
        scratch: &mut Scratch,
        mut store: impl FnMut(std::ops::Range<usize>, &mut [f32]),
    ) {
        let (total, wide, narrow) = (self.filter.conv_shape.pixels(), self.wide(), self.narrow());
        let most = BAND_BYTES / (padded(wide) * size_of::<f32>());
        for pixels in parts(total, most.max(6)) {
            let count = pixels.len();
            let ([value, z3], ..) = scratch.parts([count * padded(wide), count * padded(narrow)]);
            for (panel, value) in value.chunks_exact_mut(count * PANEL).enumerate() {
                let from = (panel * total + pixels.start) * PANEL;
                let norm = &self.norms[1];
                let z = &z[from..from + count * PANEL];
                affine(value, z, lane(&norm.scale, panel), lane(&norm.shift, panel), self.filter_range());
            }
            let segments = panel_segments(wide, count);
            let rows = Rows::of_panels(value, &segments, wide);
            let columns = Columns::of_panels(narrow, count);
            product(count, &rows, &self.weights.project, &columns, z3, Finish::Store);
            store(pixels, z3);
            for (panel, z3) in z3.chunks_exact(count * PANEL).enumerate() {
                moments[panel].add(z3);
            }
        }
    }

    /// The output of a block with a residual connection.
    fn add_pass(&self, call: &mut Call<'_>, reading: &Reading<'_>) {
        let (storage, out) = (call.storage, self.output());
        let length = kept::frame_length(storage, out.pixels(), out.channels);
        let places = reading.places;
        let (input, [pre, output, ..]) =
            reading.open(call.arena, call.images, call.storage, [&places.pre, &places.out, &NONE, &NONE]);
        let pre =
            kept::Kept { numbers: pre, storage, pixels: out.pixels(), channels: out.channels, norm: None };
        let views = Frames::deal(output, length, call.groups);
        let Input::Kept(input) = input else { unreachable!("images are never added") };
        call.workers.run(call.groups, views, |group, mut output, scratch| {
            for frame in group.frames.clone() {
                let Some(output) = output.get(frame) else { unreachable!("every frame is kept") };
                for pixels in parts(out.pixels(), 512) {
                    let size = pixels.len() * padded(out.channels);
                    let ([x, z, sum], ..) = scratch.parts([size, size, size]);
                    input.load(frame, pixels.clone(), None, x);
                    pre.load(frame, pixels.clone(), None, z);
                    let count = pixels.len() * PANEL;
                    for panel in 0..panels(out.channels) {
                        let part = panel * count..(panel + 1) * count;
                        let (scale, shift) = self.output_norm();
                        let (scale, shift) = (lane(scale, panel), lane(shift, panel));
                        combine(
                            &mut sum[part.clone()],
                            &x[part.clone()],
                            &[1.0; PANEL],
                            &z[part],
                            scale,
                            shift,
                        );
                    }
                    kept::store(storage, output, out.pixels(), pixels, sum);
                }
            }
        });
    }
}

/// Sets everything to zero that does not lie within the given lines and columns.
pub(super) fn clear_border(
    plane: &mut [f32],
    line: usize,
    lines: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
) {
    plane[..lines.start * line].fill(0.0);
    plane[lines.end * line..].fill(0.0);
    for line in plane[lines.start * line..lines.end * line].chunks_exact_mut(line) {
        line[..columns.start * PANEL].fill(0.0);
        line[columns.end * PANEL..].fill(0.0);
    }
}

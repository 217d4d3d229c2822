//! The forward passes of a chain.

use super::{Border, Chain, Input, Kind, Link, Source};
use crate::Statistics;
use crate::fused::bottleneck::parts;
use crate::fused::kept;
use crate::fused::norm::{Norm, lane, range};
use crate::fused::workers::{Frames, Scratch};
use crate::fused::{Call, NONE, Reading};
use crate::kernels::depthwise::{self, Bordered, Ending};
use crate::kernels::gemm::{Columns, Finish, Lines, PANEL, Rows, padded, panel_segments, panels, product};
use crate::kernels::norm::{affine, combine};

/// Bytes of windows that are laid out at a time.
const WINDOW_BYTES: usize = 128 << 10;

impl Chain {
    /// All forward passes: one for each unit, and one for the output.
    pub(in crate::fused) fn forward(
        &mut self,
        call: &mut Call<'_>,
        statistics: &mut Statistics,
        reading: &Reading<'_>,
    ) {
        for index in 0..self.links.len() {
            self.links[index].take_weights(call.parameters);
            self.unit_pass(call, reading, index);
            let link = &mut self.links[index];
            link.norm =
                Norm::of_groups(call.plan, &link.unit, call.parameters, statistics, call.mode, call.groups);
        }
        self.output_pass(call, reading);
    }

    fn unit_pass(&self, call: &mut Call<'_>, reading: &Reading<'_>, index: usize) {
        let link = &self.links[index];
        let wanted = [&reading.places.values, &NONE, &NONE, &NONE];
        let (input, [values, ..]) = reading.open(call.arena, call.images, call.storage, wanted);
        let views = Frames::deal(values, self.held_lengths().0, call.groups);
        call.workers.run(call.groups, views, |group, mut values, scratch| {
            group.clear(link.panels(), 0, 0);
            for frame in group.frames.clone() {
                let held = values.get(frame);
                let from = if held.is_some() { index } else { 0 };
                self.with_values(&input, frame, held, from..index + 1, scratch, |values, _| {
                    let pixels = link.unit.conv_shape.pixels() * PANEL;
                    for (moments, z) in
                        group.moments.iter_mut().zip(values[link.values()].chunks_exact(pixels))
                    {
                        moments.add(z);
                    }
                });
            }
        });
    }

    fn output_pass(&self, call: &mut Call<'_>, reading: &Reading<'_>) {
        let (storage, out) = (call.storage, self.output());
        let length = kept::frame_length(storage, out.pixels(), out.channels);
        let wanted = [&reading.places.values, &reading.places.out, &NONE, &NONE];
        let (input, [values, output, ..]) = reading.open(call.arena, call.images, call.storage, wanted);
        let views = Frames::deal(values, self.held_lengths().0, call.groups)
            .into_iter()
            .zip(Frames::deal(output, length, call.groups))
            .collect();
        let count = self.links.len();
        call.workers.run(call.groups, views, |group, (mut values, mut output), scratch| {
            for frame in group.frames.clone() {
                let Some(output) = output.get(frame) else { unreachable!("every frame is kept") };
                let held = values.get(frame);
                let from = if held.is_some() { count } else { 0 };
                self.with_values(&input, frame, held, from..count, scratch, |values, scratch| {
                    let size = padded(out.channels) * out.pixels();
                    let ([sum, added, pooled], ..) =
                        scratch.parts([self.top().length(), self.top().length(), size]);
                    self.top_sum(&input, frame, values, added, sum);
                    let pool = self.pool();
                    let inside = self.top().unit.conv_shape.pixels() * PANEL;
                    let bounds = range(self.top().unit.activation);
                    for (sum, pooled) in
                        sum.chunks_exact(inside).zip(pooled.chunks_exact_mut(out.pixels() * PANEL))
                    {
                        pool.forward(sum, bounds, pooled);
                    }
                    kept::store(storage, output, out.pixels(), 0..out.pixels(), pooled);
                });
            }
        });
    }

    /// Calls `work` with a frame's memory, after computing the given units: in the memory that is held, or in the thread's
    /// own.
    pub(super) fn with_values(
        &self,
        input: &Input<'_>,
        frame: usize,
        held: Option<&mut [f32]>,
        units: std::ops::Range<usize>,
        scratch: &mut Scratch,
        work: impl FnOnce(&[f32], &mut Scratch),
    ) {
        match held {
            Some(values) => {
                units.for_each(|index| self.unit_frame(index, input, frame, values, scratch));
                work(values, scratch);
            }
            None => {
                let mut own = std::mem::take(&mut scratch.values);
                own.reserve(self.held_lengths().0);
                units.for_each(|index| self.unit_frame(index, input, frame, &mut own, scratch));
                work(&own, scratch);
                scratch.values = own;
            }
        }
    }

    /// The convolution of one unit, for one frame whose earlier units are there.
    fn unit_frame(
        &self,
        index: usize,
        input: &Input<'_>,
        frame: usize,
        values: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let link = &self.links[index];
        let (from, out) = (link.unit.in_shape, link.unit.conv_shape);
        let (values, z) = values.split_at_mut(link.value_at);
        let z = &mut z[..link.length()];
        let columns = Columns::of_panels(out.channels, out.pixels());
        match link.kind {
            Kind::Windows(windows) => {
                let Input::Images(images) = input else { unreachable!("windows are of images") };
                let image = &images[frame * from.len()..(frame + 1) * from.len()];
                let depth = windows.depth();
                let most = WINDOW_BYTES / (out.width * padded(depth) * size_of::<f32>());
                for lines in parts(out.height, most) {
                    let pixels = lines.len() * out.width;
                    let ([x], ..) = scratch.parts([pixels * padded(depth)]);
                    windows.gather(image, lines.clone(), x);
                    let segments = panel_segments(depth, pixels);
                    let rows = Rows::of_panels(x, &segments, depth);
                    let target = &mut z[lines.start * out.width * PANEL..];
                    product(pixels, &rows, &link.forward, &columns, target, Finish::Store);
                }
            }
            Kind::Pointwise => {
                let ([x], ..) = scratch.parts([padded(from.channels) * from.pixels()]);
                self.value(link, input, frame, values, x);
                let segments = panel_segments(from.channels, from.pixels());
                let rows = Rows::of_panels(x, &segments, from.channels);
                product(out.pixels(), &rows, &link.forward, &columns, z, Finish::Store);
            }
            Kind::Full => {
                let border = Border::of(from);
                let ([plane, flat], ..) = scratch
                    .parts([border.panel * panels(from.channels), padded(from.channels) * from.pixels()]);
                self.bordered_value(link, input, frame, values, &border, flat, plane);
                let segments = border.window_segments(from.channels);
                let rows = window_rows(plane, &border, &segments);
                product(out.pixels(), &rows, &link.forward, &columns, z, Finish::Store);
            }
            Kind::Depthwise => {
                let border = link.filter_border();
                let ([plane, flat], ..) = scratch
                    .parts([border.panel * panels(from.channels), padded(from.channels) * from.pixels()]);
                self.bordered_value(link, input, frame, values, &border, flat, plane);
                let planes = plane.chunks_exact(border.panel).zip(z.chunks_exact_mut(out.pixels() * PANEL));
                for (filter, (plane, z)) in link.filters.iter().zip(planes) {
                    let source = Bordered { data: plane, line: border.line };
                    depthwise::forward(
                        filter,
                        source,
                        link.unit.stride,
                        out.height,
                        out.width,
                        z,
                        Ending::Linear,
                    );
                }
            }
        }
    }

    /// What a unit reads, as panels.
    pub(super) fn value(&self, link: &Link, input: &Input<'_>, frame: usize, values: &[f32], to: &mut [f32]) {
        match link.from {
            Source::Input => input.load_frame(frame, link.unit.in_shape, to),
            Source::Link(from) => self.links[from].activated(values, to),
        }
    }

    /// The same with a border.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn bordered_value(
        &self,
        link: &Link,
        input: &Input<'_>,
        frame: usize,
        values: &[f32],
        border: &Border,
        flat: &mut [f32],
        plane: &mut [f32],
    ) {
        border.clear(plane);
        match link.from {
            Source::Input => {
                input.load_frame(frame, link.unit.in_shape, flat);
                for panel in 0..panels(link.unit.in_shape.channels) {
                    border.lines(panel, plane, |to, from| to.copy_from_slice(&flat[from]));
                }
            }
            Source::Link(from) => {
                let from = &self.links[from];
                let z = &values[from.values()];
                let bounds = range(from.unit.activation);
                for panel in 0..from.panels() {
                    let (scale, shift) = (lane(&from.norm.scale, panel), lane(&from.norm.shift, panel));
                    border.lines(panel, plane, |to, at| affine(to, &z[at], scale, shift, bounds));
                }
            }
        }
    }

    /// The last unit's batch norm and addition, before pool and activation.
    pub(super) fn top_sum(
        &self,
        input: &Input<'_>,
        frame: usize,
        values: &[f32],
        added: &mut [f32],
        sum: &mut [f32],
    ) {
        let top = self.top();
        let z = &values[top.values()];
        let pixels = top.unit.conv_shape.pixels() * PANEL;
        let other = match top.add {
            None => None,
            Some(Source::Input) => {
                input.load_frame(frame, top.unit.conv_shape, added);
                Some(&*added)
            }
            Some(Source::Link(link)) => {
                self.links[link].activated(values, added);
                Some(&*added)
            }
        };
        for panel in 0..top.panels() {
            let part = panel * pixels..(panel + 1) * pixels;
            let (to, z) = (&mut sum[part.clone()], &z[part.clone()]);
            let (scale, shift) = (lane(&top.norm.scale, panel), lane(&top.norm.shift, panel));
            match other {
                None => affine(to, z, scale, shift, kept::UNBOUNDED),
                Some(other) => combine(to, z, scale, &other[part], &[1.0; PANEL], shift),
            }
        }
    }
}

/// The windows of a bordered plane as rows.
pub(super) fn window_rows<'a>(plane: &'a [f32], border: &Border, segments: &'a [usize]) -> Rows<'a> {
    Rows {
        data: plane,
        lines: Lines { width: border.width, step: PANEL, line: border.line },
        segments,
        length: 3 * PANEL,
        last: 3 * PANEL,
    }
}

impl Link {
    /// Its value: batch norm and activation.
    fn activated(&self, values: &[f32], to: &mut [f32]) {
        let pixels = self.unit.conv_shape.pixels() * PANEL;
        let bounds = range(self.unit.activation);
        let z = values[self.values()].chunks_exact(pixels);
        for (panel, (to, z)) in to.chunks_exact_mut(pixels).zip(z).enumerate() {
            affine(to, z, lane(&self.norm.scale, panel), lane(&self.norm.shift, panel), bounds);
        }
    }

    /// The border that a depthwise filter needs around what it reads.
    pub(super) fn filter_border(&self) -> Border {
        let (out, stride) = (self.unit.conv_shape, self.unit.stride);
        let size = |count: usize| (count - 1) * stride + 3;
        Border::new(self.unit.in_shape, self.unit.pad, size(out.height), size(out.width))
    }
}

//! The backward passes of a chain.

use super::forward::window_rows;
use super::{Border, Chain, Input, Kind, Link, Source};
use crate::Parameters;
use crate::fused::bottleneck::parts;
use crate::fused::kept::UNBOUNDED;
use crate::fused::norm::range;
use crate::fused::workers::{Frames, Group, Scratch, merge_gradients};
use crate::fused::{Call, NONE, Reading};
use crate::kernels::depthwise::{self, Bordered, FILTER, Reverse};
use crate::kernels::gemm::{
    Columns, Finish, Lines, PANEL, Rows, outer, padded, panel_segments, panels, product,
};
use crate::kernels::norm::{GradientSums, activation_backward, add};
use crate::kernels::patches::add_from_panels;

/// Bytes of windows that are laid out at a time.
const WINDOW_BYTES: usize = 64 << 10;

/// One frame on its way back.
struct Frame<'a> {
    input: &'a Input<'a>,
    index: usize,
    values: &'a [f32],
    d_output: &'a [f32],
}

/// Where the gradient of the block's input goes.
enum Target<'a> {
    Value(&'a mut [f32]),
    Image(&'a mut [f32]),
    Nothing,
}

/// The sums of a pass; left out when a frame is only computed again.
type Sums<'a> = Option<(&'a mut [GradientSums], &'a mut [f32])>;

impl Chain {
    /// All backward passes: from the gradient of the output, in its place, to the gradients of the parameters and, if one
    /// is wanted, of the input.
    pub(in crate::fused) fn backward(
        &mut self,
        call: &mut Call<'_>,
        reading: &Reading<'_>,
        gradients: &mut Parameters,
        mut d_images: Option<&mut [f32]>,
    ) {
        if let Some(d_images) = d_images.as_deref_mut() {
            d_images.fill(0.0);
        }
        let top = self.links.len() - 1;
        self.pass(call, reading, None, d_images.as_deref_mut());
        let panels = self.top().panels();
        let sums = merge_gradients(call.groups, 0..panels);
        self.links[top].finish_norm(&sums, gradients);
        if let Some(added) = self.only_added() {
            let sums = merge_gradients(call.groups, panels..2 * panels);
            self.links[added].finish_norm(&sums, gradients);
        }
        for index in (0..=top).rev() {
            self.pass(call, reading, Some(index), d_images.as_deref_mut());
            let link = &self.links[index];
            let mut sums = vec![0.0; link.sums_length()];
            call.workers.merge_weights(call.groups, 0, &mut sums);
            link.store_gradient(&sums, gradients);
            if let (Source::Link(from), true) = (link.from, link.last_reader) {
                let sums = merge_gradients(call.groups, 0..self.links[from].panels());
                self.links[from].finish_norm(&sums, gradients);
            }
        }
    }

    /// One pass over all frames: the sums of the last batch norm, or the way back through one unit.
    fn pass(
        &self,
        call: &mut Call<'_>,
        reading: &Reading<'_>,
        unit: Option<usize>,
        d_images: Option<&mut [f32]>,
    ) {
        let places = reading.places;
        let out = self.output();
        let (input, [values, held, d_output, _], d_input) = reading.open_backward(
            call.arena,
            call.images,
            call.storage,
            [&places.values, &places.gradients, &places.d_output, &NONE],
        );
        let d_output = &*d_output;
        let d_length = padded(out.channels) * out.pixels();
        let (length, gradient_length) = self.held_lengths();
        let input_shape = self.links[0].unit.in_shape;
        let images = Frames::deal(d_images.unwrap_or_default(), input_shape.len(), call.groups);
        let views = Frames::deal(values, length, call.groups)
            .into_iter()
            .zip(Frames::deal(held, gradient_length, call.groups))
            .zip(Frames::deal(d_input, padded(input_shape.channels) * input_shape.pixels(), call.groups))
            .zip(images)
            .collect();
        let (gradient_sums, weight_sums) = match unit {
            None => (2 * self.top().panels(), 0),
            Some(index) => {
                let from = match self.links[index].from {
                    Source::Input => 0,
                    Source::Link(from) => self.links[from].panels(),
                };
                (from, self.links[index].sums_length())
            }
        };
        call.workers.run(
            call.groups,
            views,
            |group, (((mut values, mut held), mut d_input), mut images), scratch| {
                group.clear(gradient_sums, weight_sums, 0);
                for index in group.frames.clone() {
                    let d_output = &d_output[index * d_length..(index + 1) * d_length];
                    let held_values = values.get(index);
                    let held = held.get(index).filter(|_| held_values.is_some());
                    let target = match (d_input.get(index), images.get(index)) {
                        (Some(d_input), _) if !d_input.is_empty() => Target::Value(d_input),
                        (_, Some(image)) if !image.is_empty() => Target::Image(image),
                        _ => Target::Nothing,
                    };
                    // The first pass makes what is held and was not kept; what is not held is made every time.
                    let fresh = held_values.is_none() || (unit.is_none() && !places.values_kept);
                    let units = if fresh { 0 } else { self.links.len() }..self.links.len();
                    self.with_values(&input, index, held_values, units, scratch, |values, scratch| {
                        let frame = Frame { input: &input, index, values, d_output };
                        let Group { gradients, weights, .. } = group;
                        let sums = Some((&mut gradients[..], &mut weights[..]));
                        match held {
                            Some(held) => self.step(unit, &frame, held, target, sums, scratch),
                            None => {
                                let mut own = std::mem::take(&mut scratch.gradients);
                                own.reserve(gradient_length);
                                if let Some(unit) = unit {
                                    self.step(None, &frame, &mut own, Target::Nothing, None, scratch);
                                    for before in (unit + 1..self.links.len()).rev() {
                                        self.step(
                                            Some(before),
                                            &frame,
                                            &mut own,
                                            Target::Nothing,
                                            None,
                                            scratch,
                                        );
                                    }
                                }
                                self.step(unit, &frame, &mut own, target, sums, scratch);
                                scratch.gradients = own;
                            }
                        }
                    });
                }
            },
        );
    }

    /// One pass for one frame.
    fn step(
        &self,
        unit: Option<usize>,
        frame: &Frame<'_>,
        held: &mut [f32],
        target: Target<'_>,
        sums: Sums<'_>,
        scratch: &mut Scratch,
    ) {
        match unit {
            None => self.sum_frame(frame, held, sums, scratch),
            Some(index) => self.unit_backward(index, frame, held, target, sums, scratch),
        }
    }

    /// The sums of the last unit's batch norm, and of the one whose value it adds.
    fn sum_frame(&self, frame: &Frame<'_>, held: &mut [f32], sums: Sums<'_>, scratch: &mut Scratch) {
        let top = self.top();
        let length = top.length();
        let pixels = top.unit.conv_shape.pixels() * PANEL;
        let ([dy, sum, added], ..) = scratch.parts([length, length, length]);
        self.top_gradient(frame, dy, sum, added);
        if let Some(Source::Link(link)) = top.add {
            held[self.links[link].gradients()].copy_from_slice(dy);
        }
        let mut unwanted = vec![GradientSums::default(); 2 * top.panels()];
        let gradients = match sums {
            Some((gradients, _)) => gradients,
            None => &mut unwanted,
        };
        let mut add_up = |link: &Link, dy: &mut [f32], bounds: (f32, f32), at: usize| {
            let z = frame.values[link.values()].chunks_exact(pixels);
            for (panel, (dy, z)) in dy.chunks_exact_mut(pixels).zip(z).enumerate() {
                activation_backward(dy, z, &link.norm.gate(panel, bounds), &mut gradients[at + panel]);
            }
        };
        add_up(top, dy, UNBOUNDED, 0);
        if let Some(added) = self.only_added() {
            let added = &self.links[added];
            add_up(added, &mut held[added.gradients()], range(added.unit.activation), top.panels());
        }
    }

    /// The gradient of the last unit's batch norm output.
    fn top_gradient(&self, frame: &Frame<'_>, dy: &mut [f32], sum: &mut [f32], added: &mut [f32]) {
        let top = self.top();
        let pixels = top.unit.conv_shape.pixels() * PANEL;
        let bounds = range(top.unit.activation);
        self.top_sum(frame.input, frame.index, frame.values, added, sum);
        let out_pixels = self.output().pixels() * PANEL;
        let pool = self.pool();
        let planes = sum.chunks_exact(pixels).zip(frame.d_output.chunks_exact(out_pixels));
        for (dy, (sum, d_output)) in dy.chunks_exact_mut(pixels).zip(planes) {
            pool.backward(sum, bounds, d_output, dy);
        }
    }

    /// From the gradient of a unit's value to those of its weights and of what it read.
    fn unit_backward(
        &self,
        index: usize,
        frame: &Frame<'_>,
        held: &mut [f32],
        mut target: Target<'_>,
        mut sums: Sums<'_>,
        scratch: &mut Scratch,
    ) {
        let link = &self.links[index];
        let is_top = index + 1 == self.links.len();
        let (from, out) = (link.unit.in_shape, link.unit.conv_shape);
        let pixels = out.pixels() * PANEL;
        let border = Border::of(out);
        let planes = match link.kind {
            Kind::Full => border.panel * link.panels(),
            Kind::Windows(_) | Kind::Pointwise | Kind::Depthwise => link.length(),
        };
        let flat = padded(from.channels) * from.pixels();
        let reading = match link.kind {
            Kind::Full => Border::of(from).panel * panels(from.channels),
            Kind::Pointwise | Kind::Depthwise => flat,
            Kind::Windows(windows) => {
                let line = out.width * padded(windows.depth());
                line * (WINDOW_BYTES / (line * size_of::<f32>())).clamp(1, out.height)
            }
        };
        let side = link.length().max(flat).max(reading);
        let ([dz, dy, x, spare], ..) =
            scratch.parts([planes, link.length(), reading.max(flat).max(link.length()), side]);
        let z = &frame.values[link.values()];
        let dy: &[f32] = if is_top {
            let (sum, added) = (&mut spare[..link.length()], &mut x[..]);
            self.top_gradient(frame, dy, sum, added);
            if let (Some(Source::Input), Target::Value(d_input)) = (link.add, &mut target) {
                d_input.copy_from_slice(dy);
            }
            dy
        } else {
            &held[link.gradients()]
        };
        match link.kind {
            Kind::Full => {
                border.clear(dz);
                for panel in 0..link.panels() {
                    border.lines(panel, dz, |to, at| link.mixture.apply(panel, &dy[at.clone()], &z[at], to));
                }
            }
            Kind::Windows(_) | Kind::Pointwise | Kind::Depthwise => {
                for panel in 0..link.panels() {
                    let at = panel * pixels..(panel + 1) * pixels;
                    link.mixture.apply(panel, &dy[at.clone()], &z[at.clone()], &mut dz[at]);
                }
            }
        }
        let dz = &*dz;
        if let (Some((_, weights)), true) = (&mut sums, !matches!(link.kind, Kind::Depthwise)) {
            self.weight_sums(link, frame, dz, &border, x, spare, weights);
        }

        // What it read gets its gradient: a unit of the block, the block's input, or nobody.
        let finish = if link.first_reader { Finish::Store } else { Finish::Add };
        match (link.from, &mut target) {
            (Source::Link(below), _) => {
                let below = &self.links[below];
                let d_value = &mut held[below.gradients()];
                self.input_gradient(link, frame, dz, &border, (x, spare), &mut sums, Some((d_value, finish)));
                if link.last_reader {
                    let pixels = below.unit.conv_shape.pixels() * PANEL;
                    let bounds = range(below.unit.activation);
                    let z = frame.values[below.values()].chunks_exact(pixels);
                    for (panel, (d, z)) in d_value.chunks_exact_mut(pixels).zip(z).enumerate() {
                        let mut unwanted = GradientSums::default();
                        let sums = match &mut sums {
                            Some((gradients, _)) => &mut gradients[panel],
                            None => &mut unwanted,
                        };
                        activation_backward(d, z, &below.norm.gate(panel, bounds), sums);
                    }
                }
            }
            (Source::Input, Target::Value(d_input)) => {
                self.input_gradient(link, frame, dz, &border, (x, spare), &mut sums, Some((d_input, finish)));
            }
            (Source::Input, Target::Image(image)) => match link.kind {
                Kind::Windows(windows) => {
                    let segments = panel_segments(out.channels, out.pixels());
                    let depth = windows.depth();
                    let most = x.len() / (out.width * padded(depth));
                    for lines in parts(out.height, most) {
                        let data = &dz[lines.start * out.width * PANEL..];
                        let rows = Rows::of_panels(data, &segments, out.channels);
                        let count = lines.len() * out.width;
                        product(
                            count,
                            &rows,
                            &link.back,
                            &Columns::of_panels(depth, count),
                            x,
                            Finish::Store,
                        );
                        windows.scatter(x, lines, image);
                    }
                }
                Kind::Pointwise | Kind::Full | Kind::Depthwise => {
                    let d_x = &mut x[..flat];
                    let whole = Some((&mut *d_x, Finish::Store));
                    let mut other = vec![0.0; side];
                    self.input_gradient(link, frame, dz, &border, (&mut other, spare), &mut sums, whole);
                    add_from_panels(d_x, from.channels, image);
                }
            },
            (Source::Input, Target::Nothing) => {
                if let Kind::Depthwise = link.kind {
                    self.input_gradient(link, frame, dz, &border, (x, spare), &mut sums, None);
                }
            }
        }
    }

    /// Sums up a unit's weight gradient.
    #[allow(clippy::too_many_arguments)]
    fn weight_sums(
        &self,
        link: &Link,
        frame: &Frame<'_>,
        dz: &[f32],
        border: &Border,
        x: &mut [f32],
        spare: &mut [f32],
        weights: &mut [f32],
    ) {
        let (from, out) = (link.unit.in_shape, link.unit.conv_shape);
        match link.kind {
            Kind::Windows(windows) => {
                let Input::Images(images) = frame.input else { unreachable!("windows are of images") };
                let image = &images[frame.index * from.len()..(frame.index + 1) * from.len()];
                let depth = windows.depth();
                let most = x.len() / (out.width * padded(depth));
                for lines in parts(out.height, most) {
                    let count = lines.len() * out.width;
                    let x = &mut x[..count * padded(depth)];
                    windows.gather(image, lines.clone(), x);
                    let segments = panel_segments(depth, count);
                    let rows = Rows::of_panels(x, &segments, depth);
                    let columns = Columns::of_panels(out.channels, out.pixels());
                    outer(count, &rows, &columns, &dz[lines.start * out.width * PANEL..], weights);
                }
            }
            Kind::Pointwise => {
                let x = &mut x[..padded(from.channels) * from.pixels()];
                self.value(link, frame.input, frame.index, frame.values, x);
                let segments = panel_segments(from.channels, from.pixels());
                let rows = Rows::of_panels(x, &segments, from.channels);
                outer(out.pixels(), &rows, &Columns::of_panels(out.channels, out.pixels()), dz, weights);
            }
            Kind::Full => {
                let around = Border::of(from);
                let x = &mut x[..around.panel * panels(from.channels)];
                let flat = &mut spare[..padded(from.channels) * from.pixels()];
                self.bordered_value(link, frame.input, frame.index, frame.values, &around, flat, x);
                let segments = around.window_segments(from.channels);
                let rows = window_rows(x, &around, &segments);
                let columns = Columns {
                    lines: Lines { width: border.width, step: PANEL, line: border.line },
                    panel: border.panel,
                    count: out.channels,
                };
                outer(out.pixels(), &rows, &columns, &dz[border.origin()..], weights);
            }
            Kind::Depthwise => unreachable!("a depthwise filter's gradient is made with its input's"),
        }
    }

    /// The gradient of what a unit read, and for a depthwise unit that of its weights with it.
    #[allow(clippy::too_many_arguments)]
    fn input_gradient(
        &self,
        link: &Link,
        frame: &Frame<'_>,
        dz: &[f32],
        border: &Border,
        (x, spare): (&mut [f32], &mut [f32]),
        sums: &mut Sums<'_>,
        target: Option<(&mut [f32], Finish<'_>)>,
    ) {
        let (from, out) = (link.unit.in_shape, link.unit.conv_shape);
        let columns = Columns::of_panels(from.channels, from.pixels());
        match (link.kind, target) {
            (Kind::Pointwise, Some((target, finish))) => {
                let segments = panel_segments(out.channels, out.pixels());
                let rows = Rows::of_panels(dz, &segments, out.channels);
                product(out.pixels(), &rows, &link.back, &columns, target, finish);
            }
            (Kind::Full, Some((target, finish))) => {
                let segments = border.window_segments(out.channels);
                let rows = window_rows(dz, border, &segments);
                product(out.pixels(), &rows, &link.back, &columns, target, finish);
            }
            (Kind::Depthwise, target) => {
                let mut geometry = Reverse {
                    stride: link.unit.stride,
                    pad: link.unit.pad,
                    first: 0,
                    lines: from.height,
                    width: from.width,
                    top: 0,
                };
                let lines = geometry.output_lines();
                geometry.top = lines.start.min(-1);
                let above = (-geometry.top) as usize;
                let height = (lines.end - geometry.top) as usize;
                let around = Border::new(
                    out,
                    (above, 1),
                    height.max(above + out.height),
                    geometry.output_columns().max(out.width + 1),
                );
                let pixels = from.pixels() * PANEL;
                let x = &mut x[..padded(from.channels) * from.pixels()];
                self.value(link, frame.input, frame.index, frame.values, x);
                let mut bordered = vec![0.0; around.panel];
                let (mut target, keep) = match target {
                    Some((target, finish)) => (Some(target), matches!(finish, Finish::Add)),
                    None => (None, false),
                };
                for (panel, filter) in link.filters.iter().enumerate() {
                    let at = panel * pixels..(panel + 1) * pixels;
                    let own = &dz[panel * out.pixels() * PANEL..];
                    around.lines(0, &mut bordered, |to, from| to.copy_from_slice(&own[from]));
                    let (mut d_filter, mut plain) = ([0.0; FILTER], [0.0; PANEL]);
                    let d_x = &mut spare[..pixels];
                    let source = Bordered { data: &bordered, line: around.line };
                    let value = &x[at.clone()];
                    depthwise::backward(
                        filter,
                        &geometry,
                        value,
                        source,
                        UNBOUNDED,
                        d_x,
                        &mut d_filter,
                        &mut plain,
                    );
                    if let Some(target) = &mut target {
                        if keep {
                            add(&mut target[at], d_x);
                        } else {
                            target[at].copy_from_slice(d_x);
                        }
                    }
                    if let Some((_, weights)) = sums {
                        add(&mut weights[panel * FILTER..(panel + 1) * FILTER], &d_filter);
                    }
                }
            }
            (Kind::Pointwise | Kind::Full, None) => {}
            (Kind::Windows(_), _) => unreachable!("windows are of images"),
        }
    }
}

impl Link {
    /// Takes in the sums of a batch norm's gradient.
    fn finish_norm(&mut self, sums: &[GradientSums], gradients: &mut Parameters) {
        self.mixture = self.norm.backward(sums, &self.unit, gradients);
    }
}

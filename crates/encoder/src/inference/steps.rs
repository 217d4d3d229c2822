//! The steps of a frame through a plan: which buffers they read and write, and how their work is cut up.

use std::sync::Mutex;

use rayon::prelude::*;

use super::{Folded, FoldedUnit};
use crate::kernels::Aligned;
use crate::kernels::depthwise::{self, Bordered, Ending, FILTER};
use crate::kernels::gemm::{Columns, Finish, Lines, PANEL, Rows, padded, panel_segments, panels, product};
use crate::kernels::pool::MaxPool;
use crate::plan::{ConvKind, Plan, Shape, Unit};

/// A band of one panel, border included, should stay in a core's second-level cache beside what is multiplied into it.
const BAND_BYTES: usize = 160 << 10;

/// One step: a unit, or an expansion and the depthwise convolution after it.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) kind: StepKind,
    /// The expansion that is computed on the way, if any.
    expand: Option<usize>,
    unit: usize,
    /// Buffers: of the input (None: the image), of what is added, of the value.
    pub(super) source: Option<usize>,
    pub(super) residual: Option<usize>,
    pub(super) target: usize,
    in_shape: Shape,
    conv_shape: Shape,
    out_shape: Shape,
    stride: usize,
    pool: Option<MaxPool>,
    /// Where the pieces of a row of the product lie.
    segments: Vec<usize>,
    /// Output lines of one task; they divide the height.
    lines: usize,
    /// Numbers that the step needs in the shared buffers.
    pub(super) band: usize,
    pub(super) unpooled: usize,
    pub(super) bordered: usize,
}

#[derive(Debug)]
pub(super) enum StepKind {
    Pointwise,
    /// On the image, which has to be laid out in panels first.
    PointwiseOnImage,
    Full(Border),
    Depthwise(Border),
}

/// The geometry of a 3×3 window's input with its border of zeros.
#[derive(Clone, Copy, Debug)]
pub(super) struct Border {
    pad: (usize, usize),
    input: Shape,
    /// Pixels of a line and lines, border included.
    columns: usize,
    lines: usize,
    /// Numbers of a pixel as it lies in memory: an image's channels, or a panel.
    stored: usize,
    /// Planes of such pixels.
    planes: usize,
}

impl Border {
    fn new(unit: &Unit) -> Self {
        let reach = |output: usize| (output - 1) * unit.stride + 3;
        let image = unit.input == 0;
        Self {
            pad: unit.pad,
            input: unit.in_shape,
            columns: reach(unit.conv_shape.width).max(unit.pad.1 + unit.in_shape.width),
            lines: reach(unit.conv_shape.height).max(unit.pad.0 + unit.in_shape.height),
            stored: if image { unit.in_shape.channels } else { PANEL },
            planes: if image { 1 } else { panels(unit.in_shape.channels) },
        }
    }

    /// Numbers of a line.
    fn line(&self) -> usize {
        self.columns * self.stored
    }

    fn plane(&self) -> usize {
        self.lines * self.line()
    }

    /// Copies a whole input between its borders.
    pub(super) fn fill(&self, input: &[f32], bordered: &mut [f32]) {
        let inside = self.input.width * self.stored;
        let planes = bordered.chunks_exact_mut(self.plane()).take(self.planes);
        for (plane, input) in planes.zip(input.chunks_exact(self.input.height * inside)) {
            for (line, target) in plane.chunks_exact_mut(self.line()).enumerate() {
                self.clear_sides(target);
                match line.checked_sub(self.pad.0).filter(|line| *line < self.input.height) {
                    Some(line) => target[self.pad.1 * self.stored..][..inside]
                        .copy_from_slice(&input[line * inside..][..inside]),
                    None => target.fill(0.0),
                }
            }
        }
    }

    /// Zeros left and right of the pixels of one line.
    fn clear_sides(&self, line: &mut [f32]) {
        let left = self.pad.1 * self.stored;
        line[..left].fill(0.0);
        line[left + self.input.width * self.stored..].fill(0.0);
    }
}

/// The steps of a plan, and the sizes of the buffers that its values share.
pub(super) fn steps(plan: &Plan, threads: usize) -> (Vec<Step>, Vec<usize>) {
    let mut last_read = vec![0; plan.units.len() + 1];
    let mut readers = vec![0; plan.units.len() + 1];
    for (number, unit) in plan.units.iter().enumerate() {
        for value in [Some(unit.input), unit.add].into_iter().flatten() {
            last_read[value] = number;
            readers[value] += 1;
        }
    }
    last_read[plan.units.len()] = plan.units.len();

    let mut steps: Vec<Step> = Vec::new();
    let mut sizes: Vec<usize> = Vec::new();
    // Which value lies in which buffer.
    let mut places: Vec<Option<usize>> = Vec::new();
    let place_of =
        |places: &[Option<usize>], value: usize| places.iter().position(|held| *held == Some(value));
    let mut number = 0;
    while let Some(first) = plan.units.get(number) {
        let fused = plan.units.get(number + 1).filter(|next| {
            first.conv == ConvKind::Pointwise
                && first.add.is_none()
                && first.pool.is_none()
                && next.conv == ConvKind::Depthwise
                && next.input == number + 1
                && readers[number + 1] == 1
        });
        let expand = fused.map(|_| number);
        let (at, unit) = fused.map_or((number, first), |next| (number + 1, next));
        let (source, residual) =
            (place_of(&places, first.input), unit.add.and_then(|value| place_of(&places, value)));
        // A buffer whose value nobody reads from this step on; not one that this step reads, since it is written meanwhile.
        let free = |held: &Option<usize>| held.is_none_or(|value| last_read[value] < number);
        let target = places.iter().position(free).unwrap_or(places.len());
        let size = padded(unit.out_shape.channels) * unit.out_shape.pixels();
        if target == places.len() {
            places.push(None);
            sizes.push(0);
        }
        places[target] = Some(at + 1);
        sizes[target] = sizes[target].max(size);
        steps.push(step(unit, at, expand, first, [source, residual], target, threads));
        number = at + 1;
    }
    (steps, sizes)
}

fn step(
    unit: &Unit,
    at: usize,
    expand: Option<usize>,
    first: &Unit,
    [source, residual]: [Option<usize>; 2],
    target: usize,
    threads: usize,
) -> Step {
    let border = (unit.conv != ConvKind::Pointwise).then(|| Border::new(unit));
    let kind = match (unit.conv, border) {
        (ConvKind::Full, Some(border)) => StepKind::Full(border),
        (ConvKind::Depthwise, Some(border)) => StepKind::Depthwise(border),
        _ if source.is_none() => StepKind::PointwiseOnImage,
        _ => StepKind::Pointwise,
    };
    let segments = match &kind {
        StepKind::Full(border) => (0..3 * border.planes)
            .map(|piece| piece / 3 * border.plane() + piece % 3 * border.line())
            .collect(),
        _ => panel_segments(first.in_shape.channels, first.in_shape.pixels()),
    };
    let size = padded(unit.conv_shape.channels) * unit.conv_shape.pixels();
    Step {
        expand,
        unit: at,
        source,
        residual,
        target,
        in_shape: first.in_shape,
        conv_shape: unit.conv_shape,
        out_shape: unit.out_shape,
        stride: unit.stride,
        pool: unit.pool.map(|pool| MaxPool {
            size: pool.size,
            input: (unit.conv_shape.height, unit.conv_shape.width),
            output: (unit.out_shape.height, unit.out_shape.width),
        }),
        segments,
        lines: task_lines(unit.conv_shape, threads),
        band: match &kind {
            StepKind::Depthwise(border) => {
                (band_lines(border, unit.stride) * unit.stride + 3) * border.line()
            }
            _ => 0,
        },
        unpooled: if unit.pool.is_some() { size } else { 0 },
        bordered: match &kind {
            StepKind::Full(border) => border.planes * border.plane(),
            StepKind::PointwiseOnImage => padded(unit.in_shape.channels) * unit.in_shape.pixels(),
            StepKind::Pointwise | StepKind::Depthwise(_) => 0,
        },
        kind,
    }
}

/// Lines of a task: a divisor of the height, such that every thread gets several tasks, but none of less than a few lines.
fn task_lines(shape: Shape, threads: usize) -> usize {
    let enough = |parts: usize| panels(shape.channels) * parts >= 4 * threads || shape.height / parts < 8;
    let parts =
        (1..=shape.height).filter(|parts| shape.height.is_multiple_of(*parts)).find(|parts| enough(*parts));
    shape.height / parts.unwrap_or(1)
}

/// Output lines of a band.
fn band_lines(border: &Border, stride: usize) -> usize {
    (BAND_BYTES / (border.line() * size_of::<f32>())).saturating_sub(3).max(stride) / stride
}

fn lane(numbers: &[f32], panel: usize) -> &[f32; PANEL] {
    &numbers.as_chunks::<PANEL>().0[panel]
}

impl Step {
    /// A convolution that is a matrix product, with what follows it.
    pub(super) fn multiply(
        &self,
        folded: &Folded,
        input: &[f32],
        residual: Option<&[f32]>,
        unpooled: &mut Aligned,
        target: &mut Aligned,
    ) {
        let unit = &folded.units[self.unit];
        let size = padded(self.conv_shape.channels) * self.conv_shape.pixels();
        let Some(pool) = &self.pool else {
            return self.multiply_into(unit, input, residual, &mut target[..size], unit.range);
        };
        let everything = (f32::NEG_INFINITY, f32::INFINITY);
        self.multiply_into(unit, input, residual, &mut unpooled[..size], everything);
        let size = padded(self.out_shape.channels) * self.out_shape.pixels();
        target[..size]
            .par_chunks_mut(self.out_shape.pixels() * PANEL)
            .zip(unpooled.par_chunks(self.conv_shape.pixels() * PANEL))
            .for_each(|(target, input)| pool.forward(input, unit.range, target));
    }

    fn multiply_into(
        &self,
        unit: &FoldedUnit,
        input: &[f32],
        residual: Option<&[f32]>,
        target: &mut [f32],
        range: (f32, f32),
    ) {
        let pixels = self.lines * self.conv_shape.width;
        let parts = self.conv_shape.height / self.lines;
        target.par_chunks_mut(pixels * PANEL).enumerate().for_each(|(task, target)| {
            let (panel, part) = (task / parts, task % parts);
            let rows = self.rows(input, part * self.lines);
            let weights = &unit.weights[panel * rows.depth() * PANEL..];
            let shift = lane(&unit.shift, panel);
            let columns = Columns::of_panels(PANEL, pixels);
            match residual {
                None => product(pixels, &rows, weights, &columns, target, Finish::Shift { shift, range }),
                Some(residual) => {
                    target.copy_from_slice(&residual[task * pixels * PANEL..][..target.len()]);
                    product(pixels, &rows, weights, &columns, target, Finish::ShiftAdd { shift });
                    if range.0.is_finite() {
                        target.iter_mut().for_each(|value| *value = value.max(range.0).min(range.1));
                    }
                }
            }
        });
    }

    /// The left operand from an output line on.
    fn rows<'a>(&'a self, input: &'a [f32], line: usize) -> Rows<'a> {
        match &self.kind {
            StepKind::Full(border) => {
                let length = 3 * border.stored;
                let lines = Lines {
                    width: self.conv_shape.width,
                    step: self.stride * border.stored,
                    line: self.stride * border.line(),
                };
                let data = &input[line * lines.line..];
                Rows { data, lines, segments: &self.segments, length, last: length }
            }
            _ => {
                let data = &input[line * self.in_shape.width * PANEL..];
                Rows::of_panels(data, &self.segments, self.in_shape.channels)
            }
        }
    }

    /// A depthwise convolution, and the expansion before it where there is one.
    pub(super) fn filter(
        &self,
        folded: &Folded,
        border: &Border,
        input: &[f32],
        bands: &[Mutex<Aligned>],
        target: &mut Aligned,
    ) {
        let unit = &folded.units[self.unit];
        let width = self.conv_shape.width;
        let parts = self.conv_shape.height / self.lines;
        let band_lines = band_lines(border, self.stride);
        let size = padded(self.conv_shape.channels) * self.conv_shape.pixels();
        target[..size].par_chunks_mut(self.lines * width * PANEL).enumerate().for_each(|(task, target)| {
            let (panel, start) = (task / parts, task % parts * self.lines);
            let thread = rayon::current_thread_index().unwrap_or(0) % bands.len();
            // Another holder can only be a task of the same thread, and a task does not yield.
            let mut band = bands[thread].lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let filter = &unit.weights.as_chunks::<FILTER>().0[panel];
            for (index, target) in target.chunks_mut(band_lines * width * PANEL).enumerate() {
                let lines = target.len() / (width * PANEL);
                let first = start + index * band_lines;
                self.fill_band(folded, border, input, panel, first, lines, &mut band);
                depthwise::forward(
                    filter,
                    Bordered { data: &band, line: border.line() },
                    self.stride,
                    lines,
                    width,
                    target,
                    Ending::Shift(lane(&unit.shift, panel), unit.range),
                );
            }
        });
    }

    /// The lines of one panel that output lines `first..first + lines` read, with their border.
    #[allow(clippy::too_many_arguments)]
    fn fill_band(
        &self,
        folded: &Folded,
        border: &Border,
        input: &[f32],
        panel: usize,
        first: usize,
        lines: usize,
        band: &mut [f32],
    ) {
        let Shape { height, width, .. } = border.input;
        let needed = (lines - 1) * self.stride + 3;
        // Input lines `from..to` exist; the border makes up the others.
        let top = first * self.stride;
        let from = top.saturating_sub(border.pad.0).min(height);
        let to = (top + needed).saturating_sub(border.pad.0).min(height);
        let offset = from + border.pad.0 - top;
        for (line, numbers) in band.chunks_exact_mut(border.line()).take(needed).enumerate() {
            if (offset..offset + (to - from)).contains(&line) {
                border.clear_sides(numbers);
            } else {
                numbers.fill(0.0);
            }
        }
        let inside = &mut band[offset * border.line() + border.pad.1 * PANEL..];
        match self.expand {
            Some(expand) => {
                let unit = &folded.units[expand];
                let rows =
                    Rows::of_panels(&input[from * width * PANEL..], &self.segments, self.in_shape.channels);
                let columns = Columns {
                    lines: Lines { width, step: PANEL, line: border.line() },
                    panel: 0,
                    count: PANEL,
                };
                let weights = &unit.weights[panel * rows.depth() * PANEL..];
                let finish = Finish::Shift { shift: lane(&unit.shift, panel), range: unit.range };
                product((to - from) * width, &rows, weights, &columns, inside, finish);
            }
            None => {
                let plane = &input[panel * height * width * PANEL..];
                for line in from..to {
                    inside[(line - from) * border.line()..][..width * PANEL]
                        .copy_from_slice(&plane[line * width * PANEL..][..width * PANEL]);
                }
            }
        }
    }
}

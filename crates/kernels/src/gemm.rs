//! Matrix products on panels: the convolutions' arithmetic.
//!
//! Activations lie in *panels* of [`PANEL`] channels, `[channels / 16][pixels][16]`: a row of a panel is a cache line and a
//! vector register's worth, so nothing is ever copied into another order before it is multiplied, and elementwise work on
//! a panel has its sixteen constants in registers. The last panel is filled up with zeros.
//!
//! Two products suffice. [`product`] multiplies rows of pixels with weights, `C = A·B`: forward, and backward to the
//! input with the weights transposed. [`outer`] sums over pixels, `C += Aᵀ·B`: the gradient of the weights, and second
//! moments. Both take their rows through [`Lines`], so that a row may be a pixel of a padded image and a 3×3 convolution
//! is a product whose rows overlap in memory.
//!
//! The sum of one number of the result always runs in the order of its terms, whatever the tile it falls into: results do
//! not depend on how the rows were cut up by the caller.

#![allow(unsafe_code)]

mod tile;

use super::aligned::Aligned;

/// Channels of a panel.
pub const PANEL: usize = 16;

/// Pixels over which [`outer`] sums in registers before it adds to memory: a panel of them is a quarter of a small L1.
const OUTER_BLOCK: usize = 128;

/// How many panels hold `channels`.
pub const fn panels(channels: usize) -> usize {
    channels.div_ceil(PANEL)
}

/// `channels` filled up to whole panels.
pub const fn padded(channels: usize) -> usize {
    panels(channels) * PANEL
}

/// Where rows begin: row `m` at `(m / width) * line + (m % width) * step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lines {
    /// Rows that follow each other at distance `step`.
    pub width: usize,
    /// Distance of neighbouring rows of a line.
    pub step: usize,
    /// Distance of lines.
    pub line: usize,
}

impl Lines {
    /// Rows one after another at distance `step`.
    pub const fn contiguous(step: usize) -> Self {
        Self { width: usize::MAX, step, line: 0 }
    }

    /// Pixels of a panel one after another.
    pub const PIXELS: Self = Self::contiguous(PANEL);

    /// The start of row `row`.
    const fn start(&self, row: usize) -> usize {
        row / self.width * self.line + row % self.width * self.step
    }

    /// The largest start among the first `rows` rows, of which there is at least one.
    fn furthest(&self, rows: usize) -> usize {
        let last = rows - 1;
        if last < self.width {
            last * self.step
        } else {
            last / self.width * self.line + (self.width - 1) * self.step
        }
    }
}

/// An operand whose rows are `segments.len()` pieces of memory of equal length, only the last of which may be shorter.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The memory.
    pub data: &'a [f32],
    /// Where rows begin.
    pub lines: Lines,
    /// Where the pieces of a row begin, counted from the row's own beginning.
    pub segments: &'a [usize],
    /// Length of a piece.
    pub length: usize,
    /// Length of the last piece.
    pub last: usize,
}

impl Rows<'_> {
    /// How many numbers a row has.
    pub fn depth(&self) -> usize {
        match self.segments.len() {
            0 => 0,
            count => (count - 1) * self.length + self.last,
        }
    }

    /// Panics unless `rows` rows lie within the data: a slip of the caller's geometry, which data cannot cause.
    fn check(&self, rows: usize) {
        assert!(self.last <= self.length && self.lines.width > 0, "gemm: malformed rows");
        let furthest = self.segments.iter().max().map_or(0, |segment| segment + self.length);
        // The longest piece is assumed at the furthest place, so at most `length - last` numbers too many are asked for.
        let slack = self.length - self.last;
        let end = self.lines.furthest(rows) + furthest;
        assert!(end <= self.data.len() + slack, "gemm: rows reach beyond their memory");
    }
}

/// Pieces of rows that lie in panels of `pixels` pixels and have `depth` channels, for [`Rows::segments`].
pub fn panel_segments(depth: usize, pixels: usize) -> Vec<usize> {
    (0..panels(depth)).map(|panel| panel * pixels * PANEL).collect()
}

impl<'a> Rows<'a> {
    /// Pixels of panels, one after another; the segments are those of [`panel_segments`].
    pub fn of_panels(data: &'a [f32], segments: &'a [usize], depth: usize) -> Self {
        let last = depth - panels(depth).saturating_sub(1) * PANEL;
        Self { data, lines: Lines::PIXELS, segments, length: PANEL, last }
    }
}

impl Columns {
    /// Panels of `pixels` pixels, one after another.
    pub const fn of_panels(count: usize, pixels: usize) -> Self {
        Self { lines: Lines::PIXELS, panel: pixels * PANEL, count }
    }
}

/// What becomes of a product's sums. Ranges and shifts are per column, filled up to whole panels.
#[derive(Clone, Copy, Debug)]
pub enum Finish<'a> {
    /// They replace the target.
    Store,
    /// They are added to the target.
    Add,
    /// They are scaled, shifted, clamped and then stored: batch norm and activation.
    Affine {
        /// Factor of each column.
        scale: &'a [f32],
        /// Added to each column.
        shift: &'a [f32],
        /// Smallest and largest value let through.
        range: (f32, f32),
    },
    /// They are shifted, clamped and stored: bias and activation.
    Shift {
        /// Added to each column.
        shift: &'a [f32],
        /// Smallest and largest value let through.
        range: (f32, f32),
    },
    /// They are shifted and added to the target: bias and residual connection.
    ShiftAdd {
        /// Added to each column.
        shift: &'a [f32],
    },
}

impl Finish<'_> {
    fn check(&self, lanes: usize) {
        let enough = match self {
            Finish::Store | Finish::Add => true,
            Finish::Affine { scale, shift, .. } => scale.len() >= lanes && shift.len() >= lanes,
            Finish::Shift { shift, .. } | Finish::ShiftAdd { shift } => shift.len() >= lanes,
        };
        assert!(enough, "gemm: too few scales or shifts for {lanes} columns");
    }
}

/// Panels of columns that are written, or read as the right operand of [`outer`].
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// Where the rows of a panel begin.
    pub lines: Lines,
    /// Distance of panels.
    pub panel: usize,
    /// Numbers of columns; the last panel may have fewer than sixteen.
    pub count: usize,
}

impl Columns {
    fn check(&self, rows: usize, length: usize) {
        assert!(self.lines.width > 0, "gemm: malformed columns");
        let end = self.lines.furthest(rows) + (panels(self.count) - 1) * self.panel + PANEL;
        assert!(end <= length, "gemm: columns reach beyond their memory");
    }
}

/// `target = finish(left · right)`, where `right` is packed as `[panel][depth][16]`.
pub fn product(
    rows: usize,
    left: &Rows<'_>,
    right: &[f32],
    columns: &Columns,
    target: &mut [f32],
    finish: Finish<'_>,
) {
    if rows == 0 || columns.count == 0 {
        return;
    }
    left.check(rows);
    columns.check(rows, target.len());
    finish.check(padded(columns.count));
    assert!(right.len() >= padded(columns.count) * left.depth(), "gemm: too few weights");
    // SAFETY: the checks above cover every address that rows, columns, weights and finish can reach.
    unsafe { tile::product(rows, left, right.as_ptr(), columns, target.as_mut_ptr(), &finish) };
}

/// `sums += scalarsᵀ · vectors` over `pixels` rows, where `sums` lies as packed weights do, `[panel][depth][16]`.
///
/// The two operands must have lines of the same width, or contiguous rows.
pub fn outer(pixels: usize, scalars: &Rows<'_>, columns: &Columns, vectors: &[f32], sums: &mut [f32]) {
    if pixels == 0 || columns.count == 0 || scalars.depth() == 0 {
        return;
    }
    scalars.check(pixels);
    columns.check(pixels, vectors.len());
    assert!(sums.len() >= padded(columns.count) * scalars.depth(), "gemm: too few sums");
    let finite = [scalars.lines, columns.lines].map(|lines| lines.width.min(pixels));
    let width = finite[0].min(finite[1]);
    assert!(
        finite.iter().all(|w| *w == width || *w == pixels) && pixels.is_multiple_of(width),
        "gemm: lines differ"
    );
    // Long lines are cut, short ones are taken together, so that a block of both operands stays in L1.
    let (run, lines) = if width > OUTER_BLOCK { (OUTER_BLOCK, 1) } else { (width, OUTER_BLOCK / width) };
    let mut line = 0;
    while line < pixels / width {
        let taken = lines.min(pixels / width - line);
        let mut from = 0;
        while from < width {
            let start = line * width + from;
            let block = tile::Block {
                lines: taken,
                width: run.min(width - from),
                scalar: (scalars.lines.start(start), distance(scalars.lines, width), scalars.lines.step),
                vector: (columns.lines.start(start), distance(columns.lines, width), columns.lines.step),
            };
            // SAFETY: the checks above cover all pixels, of which this block is a part.
            unsafe {
                tile::outer(&block, scalars, columns, vectors.as_ptr(), sums.as_mut_ptr());
            }
            from += run;
        }
        line += taken;
    }
}

/// Distance of the beginnings of lines of `width` rows.
fn distance(lines: Lines, width: usize) -> usize {
    if lines.width == width { lines.line } else { width * lines.step }
}

/// Packs a matrix for [`product`]: `at(k, n)` is the weight from input `k` to output `n`.
pub fn pack(depth: usize, columns: usize, at: impl Fn(usize, usize) -> f32) -> Aligned {
    let mut packed = Aligned::zeros(padded(columns) * depth);
    pack_into(&mut packed, depth, columns, at);
    packed
}

/// [`pack`] into memory at hand. The lanes after the last column become zero.
pub fn pack_into(packed: &mut [f32], depth: usize, columns: usize, at: impl Fn(usize, usize) -> f32) {
    let (lines, _) = packed.as_chunks_mut::<PANEL>();
    for (index, line) in lines.iter_mut().take(panels(columns) * depth).enumerate() {
        let (panel, k) = (index / depth, index % depth);
        for (lane, value) in line.iter_mut().enumerate() {
            let n = panel * PANEL + lane;
            *value = if n < columns { at(k, n) } else { 0.0 };
        }
    }
}

/// The number at row `k` and column `n` of a packed matrix.
pub fn packed_index(depth: usize, k: usize, n: usize) -> usize {
    (n / PANEL * depth + k) * PANEL + n % PANEL
}

/// The same products as plain loops: the oracle.
#[cfg(test)]
pub(super) mod plain {
    use super::*;

    fn row(rows: &Rows<'_>, m: usize) -> Vec<f32> {
        let start = rows.lines.start(m);
        let piece = |(index, segment): (usize, &usize)| {
            let length = if index + 1 == rows.segments.len() { rows.last } else { rows.length };
            rows.data[start + segment..start + segment + length].to_vec()
        };
        rows.segments.iter().enumerate().flat_map(piece).collect()
    }

    pub(crate) fn product(
        rows: usize,
        left: &Rows<'_>,
        right: &[f32],
        columns: &Columns,
        target: &mut [f32],
        finish: Finish<'_>,
    ) {
        for m in 0..rows {
            let a = row(left, m);
            for n in 0..columns.count {
                let sum: f64 = a
                    .iter()
                    .enumerate()
                    .map(|(k, a)| f64::from(*a) * f64::from(right[packed_index(left.depth(), k, n)]))
                    .sum();
                let to = columns.lines.start(m) + n / PANEL * columns.panel + n % PANEL;
                target[to] = match finish {
                    Finish::Store => sum as f32,
                    Finish::Add => target[to] + sum as f32,
                    Finish::Affine { scale, shift, range } => {
                        (sum as f32 * scale[n] + shift[n]).clamp(range.0, range.1)
                    }
                    Finish::Shift { shift, range } => (sum as f32 + shift[n]).clamp(range.0, range.1),
                    Finish::ShiftAdd { shift } => target[to] + sum as f32 + shift[n],
                };
            }
        }
    }

    pub(crate) fn outer(
        pixels: usize,
        scalars: &Rows<'_>,
        columns: &Columns,
        vectors: &[f32],
        sums: &mut [f32],
    ) {
        let depth = scalars.depth();
        let mut exact = vec![0.0f64; sums.len()];
        for m in 0..pixels {
            for (k, a) in row(scalars, m).into_iter().enumerate() {
                for n in 0..columns.count {
                    let from = columns.lines.start(m) + n / PANEL * columns.panel + n % PANEL;
                    exact[packed_index(depth, k, n)] += f64::from(a) * f64::from(vectors[from]);
                }
            }
        }
        for (sum, exact) in sums.iter_mut().zip(exact) {
            *sum += exact as f32;
        }
    }
}

#[cfg(test)]
mod tests;

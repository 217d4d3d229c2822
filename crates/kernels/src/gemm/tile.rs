//! The register tiles of the two products: as many sums as the registers hold, nothing else.
//!
//! A tile of `R` rows × 16 columns keeps `R` wide vectors of sums. Each step of the inner loop loads one wide vector of the
//! right operand and multiplies it with `R` numbers of the left one. With AVX2 that is 6 × 2 registers of sums and two of
//! operands out of sixteen; two multiply-adds a cycle need eight sums in flight, so tiles of three rows and fewer, which
//! only occur at edges, run slower. The half-wide form serves a last panel of at most eight columns.

#![allow(clippy::needless_range_loop, reason = "indices below a constant are what becomes registers")]

use super::{Columns, Finish, Lines, PANEL, Rows, panels};
use crate::lanes::{InstructionSet, Lanes};

/// Calls `$function::<…, R>` with the constant `R` equal to the number of rows `$rows`.
macro_rules! with_rows {
    ($rows:expr, $max:expr, $R:ident => $call:expr) => {
        match $rows {
            1 => {
                const $R: usize = 1;
                $call
            }
            2 => {
                const $R: usize = 2;
                $call
            }
            3 => {
                const $R: usize = 3;
                $call
            }
            4 => {
                const $R: usize = 4;
                $call
            }
            5 => {
                const $R: usize = 5;
                $call
            }
            6 => {
                const $R: usize = 6;
                $call
            }
            // The comparison is with a constant: on a machine of six rows these arms do not exist.
            8 if $max > 6 => {
                const $R: usize = 8;
                $call
            }
            12 if $max > 6 => {
                const $R: usize = 12;
                $call
            }
            _ => {}
        }
    };
}

/// Rows of the next tile when `left` are left: full tiles first, and at the end two of about equal height rather than a
/// full and a very low one. `max` is 6 or 12, and between them there is 8 only.
#[inline(always)]
fn next_rows(left: usize, max: usize) -> usize {
    match left {
        _ if max > 6 && left >= 12 => 12,
        8 | 9 | 11 if max > 6 => 8,
        0..=6 => left,
        7..12 => left.div_ceil(2),
        _ => 6,
    }
}

/// What is done with finished sums, with the constants of a panel in registers.
trait Ending<V: Lanes>: Copy {
    /// # Safety
    /// `to` must be good for `V::WIDTH` numbers.
    unsafe fn finish(self, sums: V, to: *mut f32);
    /// Whether columns beyond the last one are to be set to zero.
    const CLEARS: bool;
}

#[derive(Clone, Copy)]
struct Store;
#[derive(Clone, Copy)]
struct Add;
#[derive(Clone, Copy)]
struct Affine<V>(V, V, V, V);
#[derive(Clone, Copy)]
struct Shift<V>(V, V, V);
#[derive(Clone, Copy)]
struct ShiftAdd<V>(V);

// SAFETY (all endings): `to` is good by the caller's promise.
impl<V: Lanes> Ending<V> for Store {
    const CLEARS: bool = true;
    #[inline(always)]
    unsafe fn finish(self, sums: V, to: *mut f32) {
        unsafe { sums.store(to) }
    }
}

impl<V: Lanes> Ending<V> for Add {
    const CLEARS: bool = false;
    #[inline(always)]
    unsafe fn finish(self, sums: V, to: *mut f32) {
        unsafe { sums.add(V::load(to)).store(to) }
    }
}

impl<V: Lanes> Ending<V> for Affine<V> {
    const CLEARS: bool = true;
    #[inline(always)]
    unsafe fn finish(self, sums: V, to: *mut f32) {
        unsafe { sums.mul_add(self.0, self.1).max(self.2).min(self.3).store(to) }
    }
}

impl<V: Lanes> Ending<V> for Shift<V> {
    const CLEARS: bool = true;
    #[inline(always)]
    unsafe fn finish(self, sums: V, to: *mut f32) {
        unsafe { sums.add(self.0).max(self.1).min(self.2).store(to) }
    }
}

impl<V: Lanes> Ending<V> for ShiftAdd<V> {
    const CLEARS: bool = false;
    #[inline(always)]
    unsafe fn finish(self, sums: V, to: *mut f32) {
        unsafe { sums.add(self.0).add(V::load(to)).store(to) }
    }
}

lanes! {
    /// `target = finish(left · right)`.
    ///
    /// # Safety
    /// Every address that `left`, `columns` and `finish` describe must be good, and `right` for as many weights.
    pub(super) unsafe fn product<I>(
        rows: usize, left: &Rows<'_>, right: *const f32, columns: &Columns, target: *mut f32, finish: &Finish<'_>,
    ) {
        let depth = left.depth();
        for panel in 0..panels(columns.count) {
            let count = columns.count - panel * PANEL;
            // SAFETY: the caller's promise, for this panel.
            unsafe {
                let right = right.add(panel * depth * PANEL);
                let target = target.add(panel * columns.panel);
                if count > 8 {
                    panel_with_finish::<I, I::Wide>(rows, left, right, columns.lines, target, finish, panel);
                } else {
                    panel_with_finish::<I, I::Half>(rows, left, right, columns.lines, target, finish, panel);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn panel_with_finish<I: InstructionSet, V: Lanes>(
    rows: usize,
    left: &Rows<'_>,
    right: *const f32,
    lines: Lines,
    target: *mut f32,
    finish: &Finish<'_>,
    panel: usize,
) {
    // SAFETY: scales and shifts are as long as all panels together; the rest is the caller's promise.
    unsafe {
        let lane = |values: &[f32]| V::load(values.as_ptr().add(panel * PANEL));
        match *finish {
            Finish::Store => panel_rows::<I, V, _>(rows, left, right, lines, target, Store),
            Finish::Add => panel_rows::<I, V, _>(rows, left, right, lines, target, Add),
            Finish::Affine { scale, shift, range } => {
                let ending = Affine(lane(scale), lane(shift), V::splat(range.0), V::splat(range.1));
                panel_rows::<I, V, _>(rows, left, right, lines, target, ending);
            }
            Finish::Shift { shift, range } => {
                let ending = Shift(lane(shift), V::splat(range.0), V::splat(range.1));
                panel_rows::<I, V, _>(rows, left, right, lines, target, ending);
            }
            Finish::ShiftAdd { shift } => {
                panel_rows::<I, V, _>(rows, left, right, lines, target, ShiftAdd(lane(shift)));
            }
        }
    }
}

/// All rows of one panel.
#[inline(always)]
unsafe fn panel_rows<I: InstructionSet, V: Lanes, E: Ending<V>>(
    rows: usize,
    left: &Rows<'_>,
    right: *const f32,
    lines: Lines,
    target: *mut f32,
    ending: E,
) {
    let (mut from, mut to) = (Cursor::new(left.lines), Cursor::new(lines));
    let mut done = 0;
    while done < rows {
        let height = next_rows(rows - done, I::TILE_ROWS);
        with_rows!(height, I::TILE_ROWS, R => {
            let a: [usize; R] = from.next();
            let c: [usize; R] = to.next();
            // SAFETY: the cursors walk over the rows of the operands, for which the caller vouches.
            unsafe { product_tile::<V, E, R>(left, a, right, target, c, ending) }
        });
        done += height;
    }
}

/// Walks over the rows of a [`Lines`] without dividing.
struct Cursor {
    lines: Lines,
    /// Start of the line, and the row within it.
    start: usize,
    row: usize,
}

impl Cursor {
    #[inline(always)]
    fn new(lines: Lines) -> Self {
        Self { lines, start: 0, row: 0 }
    }

    /// The starts of the next `R` rows.
    #[inline(always)]
    fn next<const R: usize>(&mut self) -> [usize; R] {
        if self.lines.width - self.row > R {
            let first = self.start + self.row * self.lines.step;
            self.row += R;
            return std::array::from_fn(|r| first + r * self.lines.step);
        }
        std::array::from_fn(|_| {
            let start = self.start + self.row * self.lines.step;
            self.row += 1;
            if self.row == self.lines.width {
                self.row = 0;
                self.start += self.lines.line;
            }
            start
        })
    }
}

#[inline(always)]
unsafe fn product_tile<V: Lanes, E: Ending<V>, const R: usize>(
    left: &Rows<'_>,
    a: [usize; R],
    right: *const f32,
    target: *mut f32,
    c: [usize; R],
    ending: E,
) {
    // SAFETY: the caller vouches for the rows `a` and `c`; segments and weights are within what was checked.
    unsafe {
        let mut sums = [V::splat(0.0); R];
        let mut b = right;
        let mut length = left.length;
        for (index, segment) in left.segments.iter().enumerate() {
            if index + 1 == left.segments.len() {
                length = left.last;
            }
            let a: [*const f32; R] = a.map(|start| left.data.as_ptr().add(start + segment));
            for k in 0..length {
                let weights = V::load(b);
                b = b.add(PANEL);
                for r in 0..R {
                    sums[r] = V::splat(*a[r].add(k)).mul_add(weights, sums[r]);
                }
            }
        }
        for r in 0..R {
            let to = target.add(c[r]);
            ending.finish(sums[r], to);
            if E::CLEARS && V::WIDTH < PANEL {
                V::splat(0.0).store(to.add(V::WIDTH));
            }
        }
    }
}

/// The pixels of one step of [`outer`]: start, distance of lines and distance of pixels in either operand.
pub(super) struct Block {
    pub(super) lines: usize,
    pub(super) width: usize,
    pub(super) scalar: (usize, usize, usize),
    pub(super) vector: (usize, usize, usize),
}

lanes! {
    /// `sums += scalarsᵀ · vectors` over the pixels of a block.
    ///
    /// # Safety
    /// Every address that the operands describe for these pixels must be good, and `sums` for `depth` rows a panel.
    pub(super) unsafe fn outer<I>(
        block: &Block, scalars: &Rows<'_>, columns: &Columns, vectors: *const f32, sums: *mut f32,
    ) {
        let depth = scalars.depth();
        for (index, segment) in scalars.segments.iter().enumerate() {
            let last = index + 1 == scalars.segments.len();
            let length = if last { scalars.last } else { scalars.length };
            for panel in 0..panels(columns.count) {
                let wide = columns.count - panel * PANEL > 8;
                let mut done = 0;
                while done < length {
                    let height = next_rows(length - done, I::TILE_ROWS);
                    // SAFETY: the caller's promise, for these rows of sums of this panel.
                    unsafe {
                        let scalar = scalars.data.as_ptr().add(block.scalar.0 + segment + done);
                        let vector = vectors.add(block.vector.0 + panel * columns.panel);
                        let sums = sums.add((panel * depth + index * scalars.length + done) * PANEL);
                        with_rows!(height, I::TILE_ROWS, R => if wide {
                            outer_tile::<I::Wide, R>(block, scalar, vector, sums);
                        } else {
                            outer_tile::<I::Half, R>(block, scalar, vector, sums);
                        });
                    }
                    done += height;
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn outer_tile<V: Lanes, const R: usize>(
    block: &Block,
    scalar: *const f32,
    vector: *const f32,
    to: *mut f32,
) {
    // SAFETY: the caller vouches for `lines` × `width` pixels of both operands and for `R` rows of sums.
    unsafe {
        let mut sums = [V::splat(0.0); R];
        for line in 0..block.lines {
            let mut a = scalar.add(line * block.scalar.1);
            let mut b = vector.add(line * block.vector.1);
            for _ in 0..block.width {
                let v = V::load(b);
                for r in 0..R {
                    sums[r] = V::splat(*a.add(r)).mul_add(v, sums[r]);
                }
                // Wrapping: the step after the last pixel may leave the buffer, and is not followed.
                a = a.wrapping_add(block.scalar.2);
                b = b.wrapping_add(block.vector.2);
            }
        }
        for r in 0..R {
            let to = to.add(r * PANEL);
            sums[r].add(V::load(to)).store(to);
        }
    }
}

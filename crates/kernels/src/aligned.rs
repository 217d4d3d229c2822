//! Buffers of `f32` that begin on a cache line, so that no panel of sixteen numbers straddles two.

#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Deref, DerefMut};

/// Numbers of one cache line.
const LINE: usize = 16;

/// One cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "read through the slice")] [f32; LINE]);

/// A buffer of `f32` of fixed length, aligned to 64 bytes. It dereferences to a slice.
#[derive(Clone, Default)]
pub struct Aligned {
    lines: Vec<Line>,
    length: usize,
}

impl Aligned {
    /// `length` zeros.
    pub fn zeros(length: usize) -> Self {
        Self { lines: vec![Line([0.0; LINE]); length.div_ceil(LINE)], length }
    }

    /// Makes room for at least `length` numbers; the content is lost, and zero, if the buffer has to grow.
    pub fn reserve(&mut self, length: usize) {
        if self.length < length {
            // The old buffer goes first: both together could exceed what the machine has.
            *self = Self::default();
            *self = Self::zeros(length);
        }
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        // SAFETY: `Line` is sixteen f32 and nothing else, the vector holds `length.div_ceil(16)` initialised ones.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.length) }
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `deref`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.length) }
    }
}

impl fmt::Debug for Aligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Aligned({})", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_on_a_cache_line_and_have_their_length() {
        for length in [0, 1, 15, 16, 17, 1000] {
            let mut buffer = Aligned::zeros(length);
            assert_eq!(buffer.len(), length);
            assert_eq!(buffer.as_ptr() as usize % 64, 0);
            buffer.fill(1.0);
            buffer.reserve(length / 2);
            assert!(buffer.iter().all(|value| *value == 1.0), "nothing is lost where nothing has to grow");
            buffer.reserve(length + 1);
            assert_eq!(buffer.len(), length + 1);
        }
    }
}

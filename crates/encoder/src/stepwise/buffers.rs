//! The device memory of the stepwise executor, and the note of what in it is up to date.

use super::layout::{Chunk, Layout};
use crate::Result;
use crate::ops::{At, AtMut, Ops};
use crate::{Storage, TrainingOptions};

/// Room for one kind of value inside a block: for the chunk at hand, and for all resident frames if it is held.
pub(super) struct Cached<V> {
    scratch: V,
    scratch_ready: bool,
    held: V,
    /// By the number of the chunk.
    held_ready: Vec<bool>,
}

/// Where the value of a chunk lies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Spot {
    /// In scratch, forgotten after the chunk.
    Scratch,
    /// Held until the block is done.
    Held {
        /// The number of the chunk.
        chunk: usize,
        /// Index of its first number.
        offset: usize,
    },
}

impl Spot {
    /// The spot of a value of `len` numbers a frame, which its block holds or not.
    pub(super) fn of(chunk: Chunk, held: bool, len: usize) -> Self {
        if held && chunk.resident {
            Self::Held { chunk: chunk.index, offset: chunk.first * len }
        } else {
            Self::Scratch
        }
    }
}

impl<V> Cached<V> {
    fn new<O: Ops<Values = V>>(ops: &mut O, scratch: usize, held: usize, chunks: usize) -> Result<Self> {
        Ok(Self {
            scratch: ops.values(scratch)?,
            scratch_ready: false,
            held: ops.values(held)?,
            held_ready: vec![false; chunks],
        })
    }

    pub(super) fn is_ready(&self, spot: Spot) -> bool {
        match spot {
            Spot::Scratch => self.scratch_ready,
            Spot::Held { chunk, .. } => self.held_ready[chunk],
        }
    }

    pub(super) fn at(&self, spot: Spot) -> At<'_, V> {
        match spot {
            Spot::Scratch => At { buffer: &self.scratch, offset: 0 },
            Spot::Held { offset, .. } => At { buffer: &self.held, offset },
        }
    }

    /// The place to be filled now; it counts as ready from here on.
    pub(super) fn fill(&mut self, spot: Spot) -> AtMut<'_, V> {
        match spot {
            Spot::Scratch => {
                self.scratch_ready = true;
                AtMut { buffer: &mut self.scratch, offset: 0 }
            }
            Spot::Held { chunk, offset } => {
                self.held_ready[chunk] = true;
                AtMut { buffer: &mut self.held, offset }
            }
        }
    }

    /// The scratch as a whole, for operations that start at its beginning; it counts as ready from here on.
    pub(super) fn fill_scratch(&mut self) -> &mut V {
        self.scratch_ready = true;
        &mut self.scratch
    }

    pub(super) fn scratch(&self) -> &V {
        &self.scratch
    }
}

/// Values inside the block at hand; vectors by the place of a unit in its block.
pub(super) struct Inside<V> {
    /// The block's input.
    pub(super) input: Cached<V>,
    /// Outputs of convolutions.
    pub(super) z: Vec<Cached<V>>,
    /// Values of units.
    pub(super) value: Vec<Cached<V>>,
    /// Gradients with respect to values that a convolution of the block reads.
    pub(super) gradient: Vec<Cached<V>>,
    /// Gradients before pool and activation, where a unit has a tail to be undone by itself.
    pub(super) tail_gradient: Vec<Cached<V>>,
    /// Gradients with respect to outputs of convolutions.
    pub(super) dz: Vec<Cached<V>>,
    /// Rows of 3×3 windows.
    pub(super) columns: V,
}

impl<V> Inside<V> {
    fn all(&mut self) -> impl Iterator<Item = &mut Cached<V>> {
        [&mut self.z, &mut self.value, &mut self.gradient, &mut self.tail_gradient, &mut self.dz]
            .into_iter()
            .flatten()
            .chain([&mut self.input])
    }

    /// Forgets what belongs to the last chunk.
    pub(super) fn begin_chunk(&mut self) {
        self.all().for_each(|cached| cached.scratch_ready = false);
    }

    /// Forgets what belongs to the last block, or to the last pass over this one.
    pub(super) fn begin_block(&mut self) {
        self.all().for_each(|cached| cached.held_ready.fill(false));
    }
}

/// Everything that is as large as the window or a chunk of it.
pub(super) struct Buffers<O: Ops> {
    pub(super) inside: Inside<O::Values>,
    /// Features of a chunk, or the gradient with respect to them.
    pub(super) features: O::Values,
    /// Gradient with respect to the images of a chunk.
    pub(super) image_gradient: O::Values,
    /// The images of the call: passes over the first block read them again and again, and they cross to the device once.
    pub(super) images: O::Packed,
    /// Block outputs of all frames, by the slots of the layout.
    pub(super) kept: Vec<O::Packed>,
    /// The gradient with respect to the output of block `b` lies in `b % 2`, and so that of its input in the other one.
    pub(super) gradients: [O::Values; 2],
}

impl<O: Ops> Buffers<O> {
    pub(super) fn new(ops: &mut O, layout: &Layout, options: TrainingOptions) -> Result<Self> {
        let most_chunks = layout.chunk.iter().map(|&chunk| layout.count.div_ceil(chunk)).max().unwrap_or(0);
        let sizes = &layout.scratch;
        let units = || sizes.per_unit.iter().zip(&layout.held);
        let inside = Inside {
            input: Cached::new(ops, sizes.input, 0, 0)?,
            z: units()
                .map(|(unit, held)| Cached::new(ops, unit.z, held.0, most_chunks))
                .collect::<Result<_>>()?,
            gradient: units()
                .map(|(unit, held)| Cached::new(ops, unit.gradient, held.1, most_chunks))
                .collect::<Result<_>>()?,
            value: units().map(|(unit, _)| Cached::new(ops, unit.value, 0, 0)).collect::<Result<_>>()?,
            tail_gradient: units()
                .map(|(unit, _)| Cached::new(ops, unit.tail_gradient, 0, 0))
                .collect::<Result<_>>()?,
            dz: units().map(|(unit, _)| Cached::new(ops, unit.dz, 0, 0)).collect::<Result<_>>()?,
            columns: ops.values(sizes.columns)?,
        };
        let kept = layout.kept.iter().map(|&len| ops.packed(len, options.storage)).collect::<Result<_>>()?;
        let [even, odd] = layout.gradients;
        Ok(Self {
            inside,
            features: ops.values(sizes.features)?,
            image_gradient: ops.values(sizes.image_gradient)?,
            images: ops.packed(layout.images, Storage::F32)?,
            kept,
            gradients: [ops.values(even)?, ops.values(odd)?],
        })
    }
}

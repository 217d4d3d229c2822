//! Values that outlive their block: written once, read band by band, in full or half precision.

use std::ops::Range;

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};

use super::norm::lane;
use crate::Storage;
use crate::kernels::gemm::{PANEL, panels};
use crate::kernels::norm::{Lane, affine_in_place};

/// No bounds: an activation that lets everything through.
pub(super) const UNBOUNDED: (f32, f32) = (f32::NEG_INFINITY, f32::INFINITY);

const ONES: Lane = [1.0; PANEL];

/// Numbers of the arena that one frame of `pixels` × `channels` takes.
pub(super) fn frame_length(storage: Storage, pixels: usize, channels: usize) -> usize {
    let numbers = panels(channels) * pixels * PANEL;
    match storage {
        Storage::F32 => numbers,
        Storage::F16 | Storage::Bf16 => numbers / 2,
    }
}

/// A kept value of all frames, for reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept<'a> {
    /// Frame after frame, panel after panel.
    pub(super) numbers: &'a [f32],
    pub(super) storage: Storage,
    pub(super) pixels: usize,
    pub(super) channels: usize,
    /// Scale and shift that are still to be applied, where the value was kept before its batch norm.
    pub(super) norm: Option<(&'a [f32], &'a [f32])>,
}

impl Kept<'_> {
    /// Reads some pixels of a frame, less `centre` where one is given, as panels of just these pixels.
    pub(super) fn load(&self, frame: usize, pixels: Range<usize>, centre: Option<&[f32]>, to: &mut [f32]) {
        let length = frame_length(self.storage, self.pixels, self.channels);
        let frame = &self.numbers[frame * length..(frame + 1) * length];
        let count = pixels.len() * PANEL;
        for panel in 0..panels(self.channels) {
            let to = &mut to[panel * count..(panel + 1) * count];
            let start = (panel * self.pixels + pixels.start) * PANEL;
            read(self.storage, frame, start, to);
            let less = centre.map(|centre| lane(centre, panel).map(|value| -value));
            match (self.norm, less) {
                (None, None) => {}
                (None, Some(less)) => affine_in_place(to, &ONES, &less, UNBOUNDED),
                (Some((scale, shift)), None) => {
                    affine_in_place(to, lane(scale, panel), lane(shift, panel), UNBOUNDED);
                }
                (Some((scale, shift)), Some(less)) => {
                    let shift = lane(shift, panel);
                    let shift: Lane = std::array::from_fn(|c| shift[c] + less[c]);
                    affine_in_place(to, lane(scale, panel), &shift, UNBOUNDED);
                }
            }
        }
    }
}

/// Reads numbers from `start` on.
fn read(storage: Storage, frame: &[f32], start: usize, to: &mut [f32]) {
    let range = start..start + to.len();
    match storage {
        Storage::F32 => to.copy_from_slice(&frame[range]),
        Storage::F16 => halves(frame)[range].reinterpret_cast::<f16>().convert_to_f32_slice(to),
        Storage::Bf16 => halves(frame)[range].reinterpret_cast::<bf16>().convert_to_f32_slice(to),
    }
}

/// Writes panels of some pixels to a frame that has `total` pixels.
pub(super) fn store(storage: Storage, frame: &mut [f32], total: usize, pixels: Range<usize>, from: &[f32]) {
    let count = pixels.len() * PANEL;
    for (panel, from) in from.chunks_exact(count).enumerate() {
        let start = (panel * total + pixels.start) * PANEL;
        let range = start..start + count;
        match storage {
            Storage::F32 => frame[range].copy_from_slice(from),
            Storage::F16 => {
                halves_mut(frame)[range].reinterpret_cast_mut::<f16>().convert_from_f32_slice(from);
            }
            Storage::Bf16 => {
                halves_mut(frame)[range].reinterpret_cast_mut::<bf16>().convert_from_f32_slice(from);
            }
        }
    }
}

/// A frame as twice as many numbers of half the size.
fn halves(frame: &[f32]) -> &[u16] {
    bytemuck::cast_slice(frame)
}

fn halves_mut(frame: &mut [f32]) -> &mut [u16] {
    bytemuck::cast_slice_mut(frame)
}

/// What reading back would give.
pub(super) fn round(storage: Storage, numbers: &mut [f32]) {
    match storage {
        Storage::F32 => {}
        Storage::F16 => numbers.iter_mut().for_each(|number| *number = f16::from_f32(*number).to_f32()),
        Storage::Bf16 => numbers.iter_mut().for_each(|number| *number = bf16::from_f32(*number).to_f32()),
    }
}

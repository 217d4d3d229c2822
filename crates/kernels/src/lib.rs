//! The numerical inner loops for the CPU. Here, in `oupn-cuda` and at the seam with V4L2 alone, `unsafe` is allowed.
//!
//! A kernel works on plain slices and knows nothing of layers, frames or memories. Each hot one is written once
//! and compiled several times, for the vector units that the machine may have: by the compiler's vectoriser ([`simd`])
//! or with registers laid out by hand ([`lanes`]).

#[macro_use]
mod simd;
#[macro_use]
mod lanes;
pub mod adam;
pub mod aligned;
pub mod depthwise;
pub mod gemm;
pub mod image;
pub mod norm;
pub mod patches;
pub mod pool;
pub mod vector;

pub use aligned::Aligned;
pub use vector::Real;

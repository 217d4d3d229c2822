//! The numerical inner loops of the crate, and the only place where `unsafe` is allowed.
//!
//! A kernel works on plain slices and knows nothing of layers, frames or memories. Each hot one is written once
//! and compiled several times, for the vector units that the machine may have ([`simd`]).

#[macro_use]
pub(crate) mod simd;
pub mod vector;

pub use vector::Real;

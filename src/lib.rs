//! Online unsupervised learning of visual representations and categories on a head-worn device.
//!
//! The crate follows the data: frames are encoded into embeddings, a fixed-capacity prototype memory
//! ([`memory`]) categorises each one at once, and a learner improves the encoder from rolling windows of
//! them. `ARCHITECTURE.md` names every part in one line.

pub mod cli;
pub mod config;
pub mod device;
pub mod encoder;
pub mod error;
pub mod eval;
pub mod kernels;
pub mod learner;
pub mod memory;
pub mod random;
pub mod storage;
pub mod tensors;
pub mod trace;
pub mod views;

pub use error::{Error, Result};

//! Online unsupervised learning of visual representations and categories on a head-worn device.
//!
//! The crate follows the data: frames are encoded into embeddings, a fixed-capacity prototype memory
//! ([`memory`]) categorises each one at once, and a learner improves the encoder from rolling windows of
//! them. `ARCHITECTURE.md` names every part in one line.
//!
//! ```
//! use oupn_edge::config::Preset;
//! use oupn_edge::memory::LiveMemory;
//!
//! let settings = Preset::Saycam.settings();
//! let mut memory = LiveMemory::new(settings.slots, 3)?;
//! let first = memory.observe(&[0.9, 0.1, 0.0], &settings.control(), &settings.rules())?;
//! assert!(first.created); // an empty memory knows nothing
//! # Ok::<(), oupn_edge::Error>(())
//! ```

mod base64;
pub mod camera;
pub mod cli;
pub mod config;
pub mod dashboard;
pub mod device;
pub mod doctor;
pub mod encoder;
pub mod error;
pub mod eval;
pub mod export;
pub mod frame;
pub mod kernels;
pub mod learner;
pub mod memory;
pub mod random;
pub mod recording;
pub mod report;
pub mod run;
pub mod storage;
pub mod streams;
pub mod tensors;
pub mod trace;
pub mod training;
pub mod views;
mod words;

pub use error::{Error, Result};

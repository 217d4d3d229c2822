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

pub mod dashboard;
pub mod device;
pub mod doctor;
pub mod model_fetch;
pub mod run;

pub use oupn_base::{Error, Result, random};
pub use oupn_encoder::{self as encoder, tensors};
pub use oupn_kernels as kernels;
#[cfg(feature = "lab")]
pub use oupn_lab::{eval, paper, streams, taught, training, walk};
pub use oupn_learn::{calibration, config, learner, live, memory, model, objective, views, windows};
pub use oupn_readout::{export, recording, report};
pub use oupn_sources::{camera, frame};
pub use oupn_store::{storage, trace};

use oupn_base::{base64, words};

//! The prototype memory: which category a frame belongs to, and the gradient of that.
//!
//! - [`rules`]: every number and switch of the algorithm, and the three learned scalars.
//! - [`prototypes`]: the bare state, K vectors and their decayed counts.
//! - [`step`]: the E-step and the M-step of one frame, as functions of similarities and counts alone.
//! - [`live`]: the memory of the live path, with category ids that are never reused.
//! - [`window`]: a whole learning window, its three losses and their exact gradient.
//!
//! This module knows embeddings only; where they come from is the encoder's business.

pub mod live;
pub mod prototypes;
pub mod rules;
mod step;
pub mod window;

pub use live::{Joined, LiveMemory, Observation, Writes};
pub use prototypes::Prototypes;
pub use rules::{Control, EntropyOf, PseudoLabel, Rules, Variant};
pub use window::{Losses, Noise, Window, WindowInput};

//! The prototype memory: which category a frame belongs to, and the gradient of that.
//!
//! This module knows embeddings only; where they come from is the encoder's business.

pub mod rules;

pub use rules::{Control, PseudoLabel, Rules, Variant};

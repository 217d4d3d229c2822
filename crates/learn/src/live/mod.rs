//! Live categories that last: what a live memory needs beside its prototypes.
//!
//! - [`kept`]: the few pictures, in RAM alone, that are embedded again when the encoder has changed.
//! - [`score`]: whether a new encoder is better than the one in use.
//! - [`threshold`]: how similar a frame must be to a category, measured on the stream.

pub mod kept;
pub mod score;
pub mod threshold;

pub use kept::{KeptFrame, KeptFrames};

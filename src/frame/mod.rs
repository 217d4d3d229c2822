//! What happens to a frame's pixels between the camera and the encoder: formats to RGB, then cropped and resized.
//!
//! Everything here takes bytes as a driver or a file left them: short, torn and absurd buffers are answered with an error,
//! never with a panic.

mod fit;
mod format;

pub use self::fit::{Fit, LARGEST_SIDE};
pub use self::format::PixelFormat;

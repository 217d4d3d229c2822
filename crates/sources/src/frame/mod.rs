//! What happens to a frame's pixels between the camera and the encoder: formats to RGB, then cropped and resized.
//!
//! Everything here takes bytes as a driver or a file left them: short, torn and absurd buffers are answered with an error,
//! never with a panic, and no header can ask for more memory than the largest picture needs.

mod contained;
mod decode;
mod fit;
mod format;
mod huffman;
mod shrink;
#[cfg(test)]
mod tests;
mod yuv;

pub use self::decode::Layout;
pub use self::fit::{Fit, LARGEST_SIDE};
pub use self::format::PixelFormat;
pub use self::shrink::shrink;

pub(crate) use self::decode::picture;
pub(crate) use self::yuv::{Planes, Range};

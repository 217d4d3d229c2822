//! Views: two pictures of the same thing, from which the encoder learns what does not matter.
//!
//! This module turns images into images. Which frames form a window, and what is learned from their views, is the
//! learner's business.

mod recipe;

pub use recipe::{Augmentation, Colour, Crop, Object, Pairing, Recipe};

//! A run: from a camera to a growing set of categories, for days.

pub mod calibration;
pub mod pace;
pub mod ring;
pub mod sampler;
pub mod score;
pub mod signals;
pub mod socket;
pub mod status;

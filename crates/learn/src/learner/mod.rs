//! The learner: what turns windows of frames into a better encoder.

pub mod adam;
mod anchor;
pub mod saved;
pub mod schedule;
mod trainer;
pub mod update;

pub use adam::{Adam, Rates};
pub use schedule::Schedule;
pub use trainer::{Published, Trainer, WindowOfFrames};

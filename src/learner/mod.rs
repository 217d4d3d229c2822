//! The learner: what turns windows of frames into a better encoder.

pub mod adam;
pub mod schedule;

pub use adam::{Adam, Rates};
pub use schedule::Schedule;
pub mod update;

//! The learner: what turns windows of frames into a better encoder.

pub mod schedule;

//! Learning from frames: the prototype memory, two views of a frame, one update from a window of them, and the settings
//! of all of it.

pub mod calibration;
pub mod config;
pub mod learner;
pub mod live;
pub mod memory;
pub mod model;
pub mod objective;
pub mod views;
pub mod windows;

use oupn_base::{Choice, Error, Result, choices, random};
use oupn_encoder::{self as encoder, tensors};
use oupn_kernels as kernels;

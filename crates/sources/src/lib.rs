//! Where frames come from, and what happens to their pixels on the way to the encoder.

pub mod camera;
pub mod frame;

use oupn_base::{Error, Result, random};

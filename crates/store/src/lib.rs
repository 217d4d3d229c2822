//! What a recording leaves behind, written so that a power cut loses nothing: files that are replaced whole,
//! checkpoints, and the trace. Nothing here knows of learning.

pub mod clock;
pub mod storage;
pub mod trace;

use oupn_base::{Error, Result};

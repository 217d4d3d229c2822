//! Recordings as their readers see them: one time line, segments, exports, the report, and agreement with a truth.

mod ami;
pub mod export;
pub mod recording;
pub mod report;

pub use ami::ami;

use oupn_base::{Error, Result, base64, choices, words};
use oupn_store::{clock, storage, trace};

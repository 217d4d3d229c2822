//! What every part of the program shares: its error type, random numbers by counter, names of choices, and numbers as
//! people read them.

mod base64;
mod choice;
mod error;
pub mod random;
pub mod words;

pub use base64::base64;
pub use choice::Choice;
pub use error::{Error, Result};

//! Settings: everything that decides what is learned, from a named preset and a TOML file with the differences.
//!
//! ```toml
//! preset = "saycam"
//! slots = 100
//! beta_learning_rate = 0.01
//! ```
//!
//! The keys are flat. [`settings`] lists them, each with its meaning and valid range; [`presets`] holds the paper's
//! values. A key that does not exist is refused with the nearest one that does, a value out of range with the range.
//! Settings only describe: the parts that they configure are built elsewhere, from [`Settings::rules`] and its kin.

mod device;
mod file;
mod limits;
pub mod presets;
pub mod settings;

pub use presets::Preset;
pub use settings::{EncoderKind, ScheduleKind, Settings};

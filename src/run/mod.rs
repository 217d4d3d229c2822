//! A run: from a camera to a growing set of categories, for days.
//!
//! # Threads
//! - *capture* ([`crate::camera::Capture`], cameras only) drains the camera and keeps the newest frame;
//! - *live* ([`session`]) samples a frame every period, tells its category at once ([`live`]), and never waits for
//!   learning;
//! - *learner* ([`learning`]) turns windows of samples ([`crate::windows`]) into better weights and writes checkpoints
//!   ([`checkpoint`]);
//! - *trace* ([`crate::trace`]) brings records to the disk; *socket* ([`socket`]) hears other programs.
//!
//! All queues between them are bounded, and the live path is the only one that changes the run's state. A thread that ends
//! unexpectedly ends the run with an error, and the service manager's watchdog is fed only while pictures come or are known
//! not to ([`liveness`]).
//!
//! # From flags to frames
//! [`RunPlan::resolve`] decides what a run does. [`Session::open`] opens it step by step: the folder, the weights or the
//! checkpoint to go on from, the source and the place in it, the threads. [`Session::run`] is the loop; what happens in it
//! is told through [`journal::Journal::tell`] and nowhere else.
//!
//! # The data folder
//! ```text
//! lock           held while a recording runs
//! paused         while it is paused, also over restarts
//! run.toml       what the run was started with: `oupn-edge --data DIR` goes on from it
//! trace/         the trace
//! checkpoints/   the last checkpoints, and a thinning row of older ones for `forget`
//! thumbnails/    pictures of categories, only with `--keep-thumbnails`
//! control.sock   while a recording runs
//! ```
//!
//! # Resuming
//! A run goes on from the newest whole checkpoint. Of a source that can be read again it also goes back to the place in
//! it: frames after the checkpoint are seen, learned from and recorded once more, with the same numbers, and the result
//! is that of a run that never stopped, bit for bit (on the CPU). A camera goes on with now: frames and categories get
//! numbers that the trace has not seen yet.

mod anchor;
pub mod checkpoint;
mod cold_start;
mod commands;
mod compute;
pub mod device_trainer;
mod engine;
pub mod feed;
mod folder;
pub mod journal;
pub mod learning;
pub mod live;
pub mod liveness;
pub mod machine;
mod observed;
pub mod pace;
mod paused;
pub mod plan;
mod progress;
pub mod remembered;
pub mod requests;
mod resume;
pub mod sampler;
mod saving;
pub mod score;
pub mod session;
pub mod signals;
pub mod socket;
mod start;
pub mod status;
pub mod thumbnails;
mod trust;
mod updates;
mod watch;

#[cfg(test)]
mod tests;

pub use plan::RunPlan;
pub use session::{Ended, Session};

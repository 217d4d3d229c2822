//! The real binary, run as a user runs it: each file is a command, or a thing that a user does.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)] // a test that fails should say so in the shortest way

#[path = "../support/mod.rs"]
mod support;

mod bench;
mod cameras;
mod config;
mod device_sysfs;
mod doctor;
#[cfg(feature = "lab")]
mod embeddings;
mod examples;
mod export;
mod faults;
mod inspect_encoder;
mod inspect_window;
mod merges;
mod model;
mod model_fetch;
mod model_fetch_faults;
#[cfg(feature = "lab")]
mod objective;
mod old_recording;
#[cfg(feature = "lab")]
mod paper;
mod pictures;
mod privacy;
mod publication;
mod readback;
mod record;
mod report;
mod run;
mod self_check;
mod sources;
#[cfg(feature = "lab")]
mod train;
mod video;
#[cfg(feature = "lab")]
mod walk;

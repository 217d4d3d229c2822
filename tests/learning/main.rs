//! What is learned, and that it is right: windows, encoders, streams and measures against independent oracles.
//!
//! The ignored tests need public data and weights: `make test-data`.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)] // a test that fails should say so in the shortest way

#[path = "../support/mod.rs"]
mod support;

mod encoder_against_candle;
mod frozen_encoders;
mod learner;
mod live_memory;
mod long_memory;
mod metrics;
mod real_weights;
mod rooms_learning;
mod shipped_weights;
mod streams;
mod tum_revisits;
mod window;

//! What a recording keeps and holds on a real machine: killed, on a full disk, over a long time.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)] // a test that fails should say so in the shortest way

#[path = "../support/mod.rs"]
mod support;

mod run_kill;
mod soak;
mod trace_full_disk;
mod trace_kill;

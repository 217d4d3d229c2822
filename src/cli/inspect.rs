//! `oupn-edge inspect …`: one piece of the learner on tensors from a file.

use clap::Subcommand;

use super::{inspect_encoder, inspect_window};
use oupn_edge::Result;

#[derive(Debug, Subcommand)]
pub(super) enum Inspect {
    /// An encoder: features, running statistics and every gradient, from given parameters and images
    Encoder(inspect_encoder::EncoderArgs),
    /// One learning window: losses, memory after it, and every gradient, from given embeddings
    Window(inspect_window::WindowArgs),
}

pub(super) fn run(command: Inspect) -> Result<()> {
    match command {
        Inspect::Encoder(args) => inspect_encoder::run(&args),
        Inspect::Window(args) => inspect_window::run(&args),
    }
}

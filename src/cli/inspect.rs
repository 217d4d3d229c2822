//! `oupn-edge inspect …`: one piece of the learner on tensors from a file.

use clap::Subcommand;

use crate::Result;

#[derive(Debug, Subcommand)]
pub(super) enum Inspect {}

pub(super) fn run(command: Inspect) -> Result<()> {
    match command {}
}

//! `oupn-edge model …`: published weights fetched, weights taken in from other programs, and weight files explained.

use clap::{Args, Subcommand};

use oupn_edge::Result;

mod fetch;
mod import;
mod info;
mod list;

#[derive(Debug, Subcommand)]
pub(super) enum Model {
    /// Show which published models can be fetched, and which are here
    List(list::List),
    /// Download a published MobileNet-V2, check it, and keep it for `--model NAME`
    Fetch(fetch::Fetch),
    /// Read torchvision's .pth or a safetensors file, check every tensor, write one file with its model card inside
    Import(import::Import),
    /// Say what a weight file holds: the network, its numbers, its model card
    Info(info::Info),
}

#[derive(Debug, Args)]
struct CardChoice {
    /// Model card: a file, or a name from models/ [default: the one in FILE, beside it, or known by its name]
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
}

pub(super) fn run(command: Model) -> Result<()> {
    match command {
        Model::List(list) => list::run(&list),
        Model::Fetch(fetch) => fetch::run(&fetch),
        Model::Import(import) => import::run(import),
        Model::Info(info) => info::run(info),
    }
}

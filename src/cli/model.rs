//! `oupn-edge model …`: weights taken in from other programs, and weight files explained.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use oupn_edge::encoder::{TensorSpec, Weights};
use oupn_edge::learner::saved::{learned_control, put_control};
use oupn_edge::{Error, Result, tensors};

#[derive(Debug, Subcommand)]
pub(super) enum Model {
    /// Read torchvision's .pth or a safetensors file, check every tensor, write one file with its model card inside
    Import(Import),
    /// Say what a weight file holds: the network, its numbers, its model card
    Info(Info),
}

#[derive(Debug, Args)]
pub(super) struct Import {
    /// The weights: a PyTorch file (.pth, .pt) or a safetensors file, with torchvision's parameter names
    file: PathBuf,
    /// Where to write them [default: beside FILE, ending in .safetensors]
    #[arg(short, long = "output", alias = "out", value_name = "FILE.safetensors")]
    out: Option<PathBuf>,
    #[command(flatten)]
    card: CardChoice,
}

#[derive(Debug, Args)]
pub(super) struct Info {
    /// The weights: a PyTorch file (.pth, .pt) or a safetensors file
    file: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    card: CardChoice,
}

#[derive(Debug, Args)]
struct CardChoice {
    /// Model card: a file, or a name from models/ [default: the one in FILE, beside it, or known by its name]
    #[arg(long, value_name = "CARD")]
    card: Option<String>,
}

pub(super) fn run(command: Model) -> Result<()> {
    match command {
        Model::Import(Import { file, out, card }) => {
            let out = out.unwrap_or_else(|| file.with_extension("safetensors"));
            if out == file {
                return Err(Error::input(format!(
                    "{} would be written over itself; name another file with -o",
                    file.display()
                )));
            }
            let weights = Weights::read_with_card(&file, card.card.as_deref())?;
            let (mut named, mut metadata) = (BTreeMap::new(), HashMap::new());
            weights.put(&mut named, &mut metadata)?;
            if let Some(control) = learned_control(&file)? {
                put_control(&control, &mut named, &mut metadata);
            }
            tensors::write(&out, &named, metadata)?;
            super::print(&summary(&weights)?)?;
            super::print_written(&out)
        }
        Model::Info(Info { file, json, card }) => {
            let weights = Weights::read_with_card(&file, card.card.as_deref())?;
            let text = if json { to_json(&file, &weights)? } else { summary(&weights)? };
            super::print(&text)
        }
    }
}

/// Number of tensors and of numbers in them.
fn count(specs: &[TensorSpec]) -> (usize, usize) {
    (specs.len(), specs.iter().map(TensorSpec::len).sum())
}

fn summary(weights: &Weights) -> Result<String> {
    let plan = weights.card.plan(weights.card.input.size, weights.card.input.size, 0.1)?;
    let (tensors, parameters) = count(weights.parameters.specs());
    let (statistic_tensors, statistics) = count(weights.statistics.specs());
    let products: usize = plan.units.iter().map(|unit| unit.multiply_adds()).sum();
    Ok(format!(
        "{}tensors     {tensors} with {parameters} parameters, {statistic_tensors} with {statistics} statistics\n\
         work        {} features, {:.0} million multiply-adds a frame\n",
        weights.card.describe(),
        plan.features,
        products as f64 / 1e6,
    ))
}

fn to_json(file: &Path, weights: &Weights) -> Result<String> {
    let card = &weights.card;
    let plan = card.plan(card.input.size, card.input.size, 0.1)?;
    let (tensors, parameters) = count(weights.parameters.specs());
    let (statistic_tensors, statistics) = count(weights.statistics.specs());
    let names = weights.parameters.specs().iter().chain(weights.statistics.specs());
    let shapes: serde_json::Map<_, _> = names.map(|spec| (spec.name.clone(), json!(spec.shape))).collect();
    let summary = json!({
        "file": file,
        "card": card,
        "parameters": parameters,
        "parameter_tensors": tensors,
        "statistics": statistics,
        "statistic_tensors": statistic_tensors,
        "features": plan.features,
        "multiply_adds": plan.units.iter().map(|unit| unit.multiply_adds()).sum::<usize>(),
        "shapes": shapes,
    });
    Ok(format!("{summary}\n"))
}

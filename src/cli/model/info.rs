//! `oupn-edge model info`: what a weight file holds.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::CardChoice;
use crate::cli::named_model::model_file;
use oupn_edge::Result;
use oupn_edge::encoder::{TensorSpec, Weights};

#[derive(Debug, Args)]
pub(in crate::cli) struct Info {
    /// The weights: a PyTorch file (.pth, .pt), a safetensors file, or the name of a fetched model
    #[arg(value_name = "FILE|NAME", value_parser = model_file())]
    file: PathBuf,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    card: CardChoice,
}

pub(super) fn run(Info { file, json, card }: Info) -> Result<()> {
    let weights = Weights::read_with_card(&file, card.card.as_deref())?;
    let text = if json { to_json(&file, &weights)? } else { summary(&weights)? };
    crate::cli::print(&text)
}

/// Number of tensors and of numbers in them.
fn count(specs: &[TensorSpec]) -> (usize, usize) {
    (specs.len(), specs.iter().map(TensorSpec::len).sum())
}

pub(super) fn summary(weights: &Weights) -> Result<String> {
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

//! `oupn-edge model import`: weights taken in from other programs.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use clap::Args;

use super::CardChoice;
use super::info::summary;
use oupn_edge::encoder::Weights;
use oupn_edge::learner::saved::{learned_control, put_control};
use oupn_edge::{Error, Result, tensors};

#[derive(Debug, Args)]
pub(in crate::cli) struct Import {
    /// The weights: a PyTorch file (.pth, .pt) or a safetensors file, with torchvision's or timm's parameter names
    file: PathBuf,
    /// Where to write them [default: beside FILE, ending in .safetensors]
    #[arg(short, long = "output", alias = "out", value_name = "FILE.safetensors")]
    out: Option<PathBuf>,
    /// Leave out 1/τ, β and γ that were learned with the weights: a recording then begins with those of its settings
    #[arg(long)]
    without_control: bool,
    #[command(flatten)]
    card: CardChoice,
}

pub(super) fn run(Import { file, out, without_control, card }: Import) -> Result<()> {
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
    if let Some(control) = learned_control(&file)?.filter(|_| !without_control) {
        put_control(&control, &mut named, &mut metadata);
    }
    tensors::write(&out, &named, metadata)?;
    crate::cli::print(&summary(&weights)?)?;
    crate::cli::print_written(&out)
}

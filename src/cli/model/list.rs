//! `oupn-edge model list`: what can be fetched, what is in the model folder, and what `models/` of the source has.
//!
//! `--json` prints one line: `fetchable`, an array of objects with `name`, `bytes` (about), `url` and `card`; `folder`, and `kept`, an
//! array of objects with `name`, `file` and either `card` or `fault`; `shipped`, an array of objects with `name`, `file` and `card`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use oupn_edge::Result;
use oupn_edge::encoder::ModelCard;
use oupn_edge::model_fetch::catalogue::{ENTRIES, Entry, SHIPPED, TOO_DEEP};
use oupn_edge::model_fetch::folder::{self, Kept};

#[derive(Debug, Args)]
pub(in crate::cli) struct List {
    /// The model folder [default: that of `model fetch`]
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// What is shown.
struct Models {
    fetchable: Vec<(&'static Entry, ModelCard)>,
    kept: Vec<Kept>,
    shipped: Vec<ModelCard>,
}

pub(super) fn run(args: &List) -> Result<()> {
    let folder = args.to.clone().map_or_else(folder::folder, Ok)?;
    let known = ModelCard::known()?.into_iter();
    let models = Models {
        fetchable: ENTRIES.iter().map(|entry| Ok((entry, entry.card()?))).collect::<Result<_>>()?,
        kept: folder::list(&folder)?,
        shipped: known.filter(|card| SHIPPED.contains(&card.name.as_str())).collect(),
    };
    let text = if args.json { to_json(&models, &folder)? } else { to_text(&models, &folder)? };
    crate::cli::print(&text)
}

fn weights_in_source(card: &ModelCard) -> String {
    format!("models/{}.safetensors", card.name)
}

/// The columns that every model has.
fn columns(name: &str, card: &ModelCard) -> String {
    let side = format!("{0}×{0}", card.input.size);
    format!("  {name:<28} {:<24} {side:<8} {:<13}", card.encoder.to_string(), card.licence)
}

fn to_text(models: &Models, folder: &Path) -> Result<String> {
    let mut text = String::from("can be fetched with `oupn-edge model fetch NAME`\n");
    // Writing to a string cannot fail.
    for (entry, card) in &models.fetchable {
        let size = format!("{:.0} MB", entry.bytes as f64 / 1e6);
        let _ = writeln!(text, "{} {size:>6}  {}", columns(entry.name, card), entry.url(None, None)?);
    }
    let _ = writeln!(text, "  not {}: they have more blocks than this program computes", TOO_DEEP.join(", "));
    let _ = writeln!(text, "\nin {}, for `--model NAME`", folder.display());
    for Kept { name, path, card } in &models.kept {
        let _ = match card {
            Ok(card) => writeln!(text, "{} {}", columns(name, card), card.about),
            Err(error) => writeln!(text, "  {name:<28} cannot be used: {error}; remove {}", path.display()),
        };
    }
    if models.kept.is_empty() {
        text.push_str("  none\n");
    }
    text.push_str("\nin models/ of the program's source, for `--model FILE`\n");
    for card in &models.shipped {
        let _ = writeln!(text, "{} {}", columns(&card.name, card), weights_in_source(card));
    }
    Ok(text)
}

fn to_json(models: &Models, folder: &Path) -> Result<String> {
    let fetchable = models.fetchable.iter().map(|(entry, card)| {
        Ok(json!({ "name": entry.name, "bytes": entry.bytes, "url": entry.url(None, None)?, "card": card }))
    });
    let kept = models.kept.iter().map(|Kept { name, path, card }| match card {
        Ok(card) => json!({ "name": name, "file": path, "card": card }),
        Err(error) => json!({ "name": name, "file": path, "fault": error.to_string() }),
    });
    let shipped = models
        .shipped
        .iter()
        .map(|card| json!({ "name": card.name, "file": weights_in_source(card), "card": card }));
    let line = json!({
        "fetchable": fetchable.collect::<Result<Vec<_>>>()?,
        "folder": folder,
        "kept": kept.collect::<Vec<_>>(),
        "shipped": shipped.collect::<Vec<_>>(),
    });
    Ok(format!("{line}\n"))
}

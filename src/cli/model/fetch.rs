//! `oupn-edge model fetch`: a published model, downloaded once. The only command that opens a connection to another machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::info::summary;
use crate::cli::duration::parse_duration;
use crate::cli::progress::Bar;
use oupn_base::words::bytes;
use oupn_edge::Result;
use oupn_edge::encoder::Weights;
use oupn_edge::model_fetch::{Fetched, Request, catalogue, fetch, folder};

#[derive(Debug, Args)]
pub(in crate::cli) struct Fetch {
    /// Which model; `oupn-edge model list` shows the names
    name: String,
    /// Where to keep it [default: the folder that `--model NAME` looks into: $XDG_DATA_HOME/oupn-edge/models, or models in a
    /// service's state folder]
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Another server with the same paths, such as a mirror, instead of the publisher's; for timm's models HF_ENDPOINT, too
    #[arg(long, value_name = "URL")]
    from: Option<String>,
    /// A branch, tag or commit of the hub's repository [default: main]
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,
    /// What the file's SHA-256 must be [default: what the publisher says]
    #[arg(long, value_name = "DIGITS")]
    sha256: Option<String>,
    /// How long a server may send nothing before it is given up
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "30s")]
    timeout: Duration,
}

pub(super) fn run(args: &Fetch) -> Result<()> {
    let entry = catalogue::find(&args.name)?;
    let folder = args.to.clone().map_or_else(folder::folder, Ok)?;
    let bar = Bar::new(entry.bytes, "fetching");
    let request = Request {
        entry,
        folder: &folder,
        from: args.from.as_deref(),
        revision: args.revision.as_deref(),
        sha256: args.sha256.as_deref(),
        timeout: args.timeout,
    };
    let fetched = fetch(&request, &mut |done, total| bar.is_at(done, total))?;
    drop(bar);
    let path = match fetched {
        Fetched::Already(path) => {
            return crate::cli::print(&format!(
                "{} is there already: {}; nothing was downloaded\n{}",
                entry.name,
                path.display(),
                usage(args, entry.name, &path)
            ));
        }
        Fetched::New { path, url, bytes: length } => {
            crate::cli::print(&format!("fetched     {} from {url}\n", bytes(length)))?;
            path
        }
    };
    crate::cli::print(&summary(&Weights::read(&path)?)?)?;
    crate::cli::print_written(&path)?;
    crate::cli::print(&usage(args, entry.name, &path))
}

/// How the model is named from now on.
fn usage(args: &Fetch, name: &str, path: &Path) -> String {
    let name = if args.to.is_none() { name.to_owned() } else { path.display().to_string() };
    format!("use it      oupn-edge record --camera /dev/video0 --model {name}\n")
}

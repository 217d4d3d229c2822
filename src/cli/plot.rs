//! `oupn-edge plot`: a run's learning curve, or a map of an episode's embeddings, as SVG.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::choice::choice;
use super::eval::{ModelArgs, Subject};
use super::watched::Watched;
use oupn_edge::eval::embed::embed_episodes;
use oupn_edge::eval::picture::{self, CurvePoint};
use oupn_edge::streams::{Split, StreamKind};
use oupn_edge::{Error, Result};

#[derive(Debug, Subcommand)]
pub(super) enum Plot {
    /// AMI and AP over windows, from the log of a training run
    Curve(Curve),
    /// The embeddings of one episode in a plane where neighbours stay neighbours, coloured by their true class
    Map(Map),
}

#[derive(Debug, Args)]
pub(super) struct Curve {
    /// The run's folder (`train --output`), or its log.jsonl
    #[arg(value_name = "RUN")]
    log: PathBuf,
    /// The file to draw into
    #[arg(short, long = "output", alias = "out", value_name = "FILE.svg")]
    out: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct Map {
    #[command(flatten)]
    model: ModelArgs,
    /// Where the episode is from
    #[arg(long, value_parser = choice::<StreamKind>())]
    stream: StreamKind,
    /// Folder of the stream's data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Part of the data
    #[arg(long, value_parser = choice::<Split>(), default_value = "test")]
    split: Split,
    /// Number of the episode
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(..10_000))]
    episode: u16,
    /// The file to draw into
    #[arg(short, long = "output", alias = "out", value_name = "FILE.svg")]
    out: PathBuf,
}

pub(super) fn run(command: &Plot) -> Result<()> {
    let (svg, out) = match command {
        Plot::Curve(args) => (curve(args)?, &args.out),
        Plot::Map(args) => (map(args)?, &args.out),
    };
    std::fs::write(out, svg).map_err(|error| Error::io(out, error))?;
    super::print_written(out)
}

fn curve(args: &Curve) -> Result<String> {
    let log = if args.log.is_dir() { args.log.join("log.jsonl") } else { args.log.clone() };
    let text = std::fs::read_to_string(&log).map_err(|error| {
        Error::io(&log, error).expecting("the folder of a run of `oupn-edge train`, or its log.jsonl")
    })?;
    let mut points = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let fault = |what: &str| Error::input(format!("{}:{}: {what}", log.display(), number + 1));
        let line: Value = serde_json::from_str(line).map_err(|_| fault("not a line of JSON"))?;
        if line.get("type").and_then(Value::as_str) != Some("evaluation") {
            continue;
        }
        let number = |name: &str| {
            line.get(name).and_then(Value::as_f64).ok_or_else(|| fault(&format!("`{name}` is missing")))
        };
        points.push(CurvePoint { window: number("window")?, ami: number("ami")?, ap: number("ap")? });
    }
    if points.is_empty() {
        return Err(Error::input(format!(
            "{}: no evaluation is in it; expected the log of a run with --evaluate",
            log.display()
        )));
    }
    Ok(picture::curve(&points))
}

fn map(args: &Map) -> Result<String> {
    let subject = Subject::open(&args.model, args.stream)?;
    let wanted = usize::from(args.episode);
    let labelled = args.stream.labelled(
        args.data.as_deref(),
        args.split,
        &subject.settings,
        subject.shape,
        wanted + 1,
    )?;
    let episode = labelled.episodes.get(wanted..).unwrap_or_default();
    let embedded = embed_episodes(&Watched::new(&*subject.encoder), &labelled.set, episode)?;
    let embedded = embedded.first().ok_or_else(|| Error::input("there is no such episode"))?;
    let title = format!("{}, {} episode {wanted}", subject.name, args.stream);
    Ok(picture::map(&embedded.embeddings, subject.encoder.dimension(), &embedded.labels, &title))
}

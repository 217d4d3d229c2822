//! `oupn-edge pause`, `resume`, `forget`, `status`: words to a recording that runs.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::duration::parse_duration;
use super::print;
use crate::Result;
use crate::run::socket;

/// The recording that is meant.
#[derive(Debug, Args)]
pub(super) struct Of {
    /// Its data folder
    #[arg(long, value_name = "DIR", default_value = super::run::DEFAULT_DATA)]
    data: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct ForgetArgs {
    /// How far back, such as 10m
    #[arg(long, value_parser = parse_duration)]
    last: Duration,
    #[command(flatten)]
    of: Of,
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    of: Of,
}

pub(super) fn pause(of: &Of) -> Result<()> {
    say(of, "pause", None)
}

pub(super) fn resume(of: &Of) -> Result<()> {
    say(of, "resume", None)
}

pub(super) fn forget(args: &ForgetArgs) -> Result<()> {
    say(&args.of, "forget", Some(args.last))
}

fn say(of: &Of, wish: &str, last: Option<Duration>) -> Result<()> {
    let answer = socket::ask(&of.data, wish, last)?;
    print(&format!("{}\n", answer["message"].as_str().unwrap_or("done")))
}

pub(super) fn status(args: &StatusArgs) -> Result<()> {
    let mut answer = socket::ask(&args.of.data, "status", None)?;
    let Some(fields) = answer.as_object_mut() else { return print("{}\n") };
    fields.remove("ok");
    if args.json {
        return print(&format!("{answer}\n"));
    }
    let lines = fields.iter().map(|(name, value)| match value.as_str() {
        Some(text) => format!("{:<16} {text}\n", name.replace('_', " ")),
        None => format!("{:<16} {value}\n", name.replace('_', " ")),
    });
    print(&lines.collect::<String>())
}

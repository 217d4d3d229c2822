//! `oupn-edge pause`, `resume`, `forget`, `status`: requests to a running recording.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::duration::parse_duration;
use super::plain::plain;
use super::print;
use oupn_base::words;
use oupn_edge::Result;
use oupn_edge::run::socket;

/// The recording that is meant.
#[derive(Debug, Args)]
pub(super) struct Of {
    /// Its data folder
    #[arg(long, value_name = "DIR", default_value = super::run::DEFAULT_DATA)]
    data: PathBuf,
}

#[derive(Debug, Args)]
pub(super) struct ForgetArgs {
    /// How far back, such as 10m; a number alone is seconds
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
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
    say(of, "pause")
}

pub(super) fn resume(of: &Of) -> Result<()> {
    say(of, "resume")
}

pub(super) fn forget(args: &ForgetArgs) -> Result<()> {
    let answer = socket::ask(&args.of.data, "forget", Some(args.last))?;
    // Of `--last 10`, say that these were seconds.
    let last = words::duration(args.last.as_secs_f64());
    print(&format!("the last {last}: {}\n", plain(answer["message"].as_str().unwrap_or("done"))))
}

fn say(of: &Of, request: &str) -> Result<()> {
    let answer = socket::ask(&of.data, request, None)?;
    print(&format!("{}\n", plain(answer["message"].as_str().unwrap_or("done"))))
}

pub(super) fn status(args: &StatusArgs) -> Result<()> {
    let mut answer = socket::ask(&args.of.data, "status", None)?;
    if let Some(fields) = answer.as_object_mut() {
        fields.remove("ok");
    }
    print(&if args.json { format!("{answer}\n") } else { super::status::for_people(&answer) })
}

//! `oupn-edge paper TABLE`: a table or figure of the paper, computed row by row, beside the published figures.
//!
//! The output folder gets `TABLE.md`, `TABLE.csv`, `TABLE.svg` where the table has an axis, and `cells/`, a folder for each row with each
//! seed ([its files](oupn_edge::paper::Cell)). What is done stays done: the command goes on where it stopped, and the `cells` of
//! several machines can be copied together.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;

use super::choice::choice;
use super::progress::Bar;
use oupn_edge::encoder::device::DeviceChoice;
use oupn_edge::paper::{Cell, Effort, Means, Outcome, Progress, Table, report};
use oupn_edge::streams::Split;
use oupn_edge::{Error, Result};

#[derive(Debug, Args)]
pub(super) struct PaperArgs {
    /// Which
    #[arg(value_parser = choice::<Table>())]
    table: Table,
    /// Folder of the data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder for results; what is there already is not computed again
    #[arg(short, long = "output", alias = "out", value_name = "DIR", default_value = "paper")]
    out: PathBuf,
    /// Windows that each row learns from; the paper's runs of OUPN have 80,000
    #[arg(long, value_name = "WINDOWS", default_value_t = 3000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    budget: u64,
    /// Seeds of each row
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=100))]
    seeds: u64,
    /// Episodes to score
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    episodes: u16,
    /// Part of the data that they are from
    #[arg(long, value_parser = choice::<Split>(), default_value = "test")]
    split: Split,
    /// Compute only every N-th cell, beginning with the K-th, as 1/4 to 4/4 on four machines
    #[arg(long, value_name = "K/N", value_parser = parse_share, default_value = "1/1")]
    share: (usize, usize),
    /// List the cells, and compute none
    #[arg(long)]
    list: bool,
    /// Threads; 0 takes as many as the machine has
    #[arg(long, default_value_t = 0, value_parser = super::threads::parse_threads)]
    threads: usize,
    /// Where the encoder trains
    #[arg(long, value_parser = choice::<DeviceChoice>(), default_value = "auto")]
    device: DeviceChoice,
}

fn parse_share(text: &str) -> std::result::Result<(usize, usize), String> {
    let parts = text.split_once('/').and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)));
    parts.filter(|(k, n)| (1..=*n).contains(k)).ok_or_else(|| "expected a part of a whole, as 2/4".into())
}

pub(super) fn run(args: &PaperArgs) -> Result<()> {
    super::use_threads(args.threads)?;
    let effort = Effort {
        windows: args.budget,
        seeds: args.seeds,
        episodes: usize::from(args.episodes),
        split: args.split,
    };
    let (first, of) = args.share;
    let cells: Vec<Cell> =
        args.table.cells(effort).into_iter().map(|(_, cell)| cell).skip(first - 1).step_by(of).collect();
    if args.list {
        return list(args, &cells);
    }
    std::fs::create_dir_all(&args.out).map_err(|error| Error::io(&args.out, error))?;
    let stopped = compute(args, &cells)?;
    let files = report(args.table, effort, &args.out)?;
    super::print(&format!("\n{}\n", files.markdown))?;
    for path in &files.paths {
        super::print_written(path)?;
    }
    let (done, all) = files.done;
    if stopped || done < all {
        super::print(&format!("{done} of {all} cells are done; the same command goes on\n"))?;
    }
    Ok(())
}

fn list(args: &PaperArgs, cells: &[Cell]) -> Result<()> {
    for cell in cells {
        let state = if cell.outcome(&args.out)?.is_some() { "done" } else { "to do" };
        super::print(&format!("{}  {state:<5}  {}, seed {}\n", cell.id(), cell.row, cell.seed))?;
    }
    Ok(())
}

/// Computes what is not done yet; true if it was told to stop.
fn compute(args: &PaperArgs, cells: &[Cell]) -> Result<bool> {
    let mut missing = Vec::new();
    for cell in cells {
        if cell.outcome(&args.out)?.is_none() {
            missing.push(cell);
        }
    }
    let Some(any) = missing.first() else { return Ok(false) };
    let labelled = any.labelled(args.data.as_deref())?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Error::io("signals", error))?;
    }
    let means =
        Means { data: args.data.as_deref(), out: &args.out, device: args.device, threads: args.threads };
    let mut total: u64 = missing.iter().map(|cell| cell.windows()).sum();
    let bar = Bar::new(total, "learning");
    let (start, mut done) = (Instant::now(), 0u64);
    for (number, cell) in missing.iter().enumerate() {
        let outcome = cell.compute(&means, &labelled, &mut |progress| {
            match progress {
                Progress::Found(windows) => total = total.saturating_sub(windows),
                Progress::Learned => done += 1,
            }
            bar.is_at(done, Some(total));
            !stop.load(Ordering::Relaxed)
        })?;
        if stop.load(Ordering::Relaxed) {
            return Ok(true);
        }
        if !std::io::stderr().is_terminal() {
            let left = start.elapsed().as_secs_f64() * total.saturating_sub(done) as f64 / done.max(1) as f64;
            super::print(&line(cell, outcome, number + 1, missing.len(), left))?;
        }
    }
    Ok(false)
}

/// One cell that is done, where there is no bar.
fn line(cell: &Cell, outcome: Option<Outcome>, number: usize, of: usize, left: f64) -> String {
    let what = match outcome {
        Some(Outcome { ami, ap, .. }) => format!("AMI {:.2} %, AP {:.2} %", 100.0 * ami, 100.0 * ap),
        None => "left to another process".to_owned(),
    };
    format!("{number}/{of}  {}, seed {}: {what}; {left:.0} s left\n", cell.row, cell.seed)
}

//! `oupn-edge walk`: hours of a head camera among known things, to score live categories with.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::print;
use oupn_edge::Result;
use oupn_edge::walk::{Walk, WalkPlan};

#[derive(Debug, Args)]
pub(super) struct WalkArgs {
    /// Folder of COIL-100's pictures (objN__ANGLE.jpg)
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Folder to write: pictures, their times and what they show; `record --camera` reads it
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// Folder of pictures to put behind the things, one for each room [default: the things' own black]
    #[arg(long, value_name = "DIR")]
    backgrounds: Option<PathBuf>,
    /// Start of every random choice
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Samples; 900 are an hour
    #[arg(long, default_value_t = 900, value_parser = clap::value_parser!(u32).range(1..1_000_000))]
    samples: u32,
    /// Things, in rooms of eight
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u8).range(2..=100))]
    things: u8,
    /// Time between samples
    #[arg(long, default_value = "4s", value_parser = super::duration::parse_duration)]
    period: Duration,
}

pub(super) fn run(args: &WalkArgs) -> Result<()> {
    let plan = WalkPlan { seed: args.seed, samples: args.samples as usize, things: usize::from(args.things) };
    let (objects, backgrounds) = (args.data.clone(), args.backgrounds.clone());
    let written =
        Walk { objects, backgrounds, plan, period: args.period.as_secs_f64() }.write(&args.output)?;
    let folder = args.output.display();
    print(&format!(
        "written     {folder}: {} samples, {} looks at {} things\n\
         record it   oupn-edge record --camera {folder} --realtime off --data run\n",
        written.samples, written.looks, written.things
    ))
}

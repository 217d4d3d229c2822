//! The command line: one file per subcommand; arguments as typed in, work handed to the library, results printed.
//!
//! Only this folder talks to the terminal. Exit codes: 0 done, 1 the system failed (a file, a device),
//! 2 bad usage or bad input, 3 done but something had to be left out. Errors are printed here, once, on standard error.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use oupn_edge::{Error, Result};

mod bench;
mod bytes;
mod cameras;
mod choice;
mod config;
mod control;
mod doctor;
mod duration;
#[cfg(feature = "lab")]
mod eval;
mod export;
mod generate;
mod inspect;
mod inspect_encoder;
mod inspect_window;
mod logging;
mod model;
mod named_model;
#[cfg(feature = "lab")]
mod paper;
mod plain;
#[cfg(feature = "lab")]
mod plot;
mod progress;
mod report;
mod run;
mod self_check;
mod status;
mod threads;
#[cfg(feature = "lab")]
mod train;
#[cfg(feature = "lab")]
mod walk;
#[cfg(feature = "lab")]
mod watched;

/// Learns visual categories from a head camera, on the device, without labels.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true, arg_required_else_help = true)]
#[command(args_conflicts_with_subcommands = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(flatten)]
    run: run::RunArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

const AFTER_HELP: &str = "\
`oupn-edge --camera …` is short for `oupn-edge record --camera …`; `oupn-edge record --help` lists its flags.

Start with:  oupn-edge record --camera rooms --realtime off --minutes 10 --config examples/rooms.toml
Then:        oupn-edge report oupn-edge-data

Exit codes: 0 done, 1 the system failed, 2 bad usage or input, 3 done but something had to be left out.";

/// In the order in which they are needed: a recording, what is made of it, the machine, research, tools.
#[derive(Debug, Subcommand)]
enum Command {
    /// Record: categories from a camera, a folder of images, a program's output or the built-in world
    #[command(alias = "run")]
    Record(Box<run::RunArgs>),
    /// Show how a running recording is doing
    Status(control::StatusArgs),
    /// Make a running recording look at nothing
    Pause(control::Of),
    /// Let a paused recording go on
    Resume(control::Of),
    /// Make a running recording forget its last minutes: records, checkpoints and what was learned from them
    Forget(control::ForgetArgs),
    /// Write one HTML file that shows how a recording went
    Report(report::ReportArgs),
    /// Turn recordings into tables (CSV, JSON lines, Parquet) or annotations (ELAN, BORIS)
    Export(export::ExportArgs),
    /// List the cameras of this machine: names to give to --camera, formats, sizes and rates
    Cameras(cameras::CamerasArgs),
    /// Check whether this machine is fit for a recording, and say what to do
    Doctor(doctor::DoctorArgs),
    /// Time a frame and a learning window on this machine, and see how much memory they take
    Bench(bench::BenchArgs),
    #[cfg(feature = "lab")]
    /// Train on a labelled stream, without its labels
    Train(train::TrainArgs),
    #[cfg(feature = "lab")]
    /// Score an encoder on labelled episodes: AMI, AP, k-NN, linear
    Eval(eval::EvalArgs),
    #[cfg(feature = "lab")]
    /// Compute a table or figure of the paper, beside the published figures
    Paper(paper::PaperArgs),
    #[cfg(feature = "lab")]
    /// Draw a run's learning curve, or a map of an episode's embeddings, as SVG
    #[command(subcommand)]
    Plot(plot::Plot),
    #[cfg(feature = "lab")]
    /// Make a walk: hours of a head camera among known things, as pictures with their truth
    Walk(walk::WalkArgs),
    /// Fetch published weights, import those of other programs, or say what a weight file holds
    #[command(subcommand)]
    Model(model::Model),
    /// Show settings with their meaning, or check a file of them
    #[command(subcommand)]
    Config(config::Config),
    /// Run one piece of the learner on tensors from a file, to check its mathematics against your own
    #[command(subcommand)]
    Inspect(inspect::Inspect),
    /// Check this program itself
    #[command(subcommand, name = "self")]
    Itself(self_check::SelfCommand),
    /// Write manual pages and shell completions
    #[command(hide = true)]
    Generate(generate::GenerateArgs),
}

/// The command line's definition. The recording's flags are listed under its verb only.
fn definition() -> clap::Command {
    Cli::command().mut_args(|arg| match arg.get_id().as_str() {
        "help" | "version" => arg,
        _ => arg.hide(true),
    })
}

/// Parses the command line, runs the command and returns the process exit code.
pub(crate) fn main() -> ExitCode {
    logging::init();
    let cli = Cli::from_arg_matches(&definition().get_matches()).unwrap_or_else(|error| error.exit());
    let outcome = run(cli);
    match outcome {
        Ok(code) => code,
        Err(error) => {
            // Nothing can be done if standard error itself is closed.
            let _ = writeln!(std::io::stderr(), "oupn-edge: {}", plain::plain_lines(&error.to_string()));
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(cli: Cli) -> Result<ExitCode> {
    let Some(command) = cli.command else { return run::run(&cli.run) };
    match command {
        Command::Record(args) => return run::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Cameras(args) => cameras::run(&args),
        Command::Config(command) => config::run(command),
        Command::Doctor(args) => doctor::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Forget(args) => control::forget(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Inspect(command) => inspect::run(command),
        Command::Model(command) => model::run(command),
        Command::Pause(of) => control::pause(&of),
        Command::Report(args) => report::run(&args),
        Command::Resume(of) => control::resume(&of),
        Command::Itself(command) => self_check::run(&command),
        Command::Status(args) => control::status(&args),
        #[cfg(feature = "lab")]
        Command::Eval(args) => eval::run(&args),
        #[cfg(feature = "lab")]
        Command::Paper(args) => paper::run(&args),
        #[cfg(feature = "lab")]
        Command::Plot(command) => plot::run(&command),
        #[cfg(feature = "lab")]
        Command::Train(args) => train::run(&args),
        #[cfg(feature = "lab")]
        Command::Walk(args) => walk::run(&args),
    }
    .map(|()| ExitCode::SUCCESS)
}

/// Lets the parallel parts of a command use this many threads; 0 is as many as the machine has.
fn use_threads(threads: usize) -> Result<()> {
    if threads == 0 {
        return Ok(());
    }
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build_global()
        .map_err(|error| Error::Device(format!("{threads} threads cannot be had: {error}")))
}

/// Says where a file is that was asked for.
fn print_written(path: &Path) -> Result<()> {
    print(&format!("written     {}\n", path.display()))
}

/// Writes a result to standard output. A reader that has seen enough (`| head`) closes the pipe: that is no failure. On a
/// terminal nothing in it acts on the terminal.
fn print(text: &str) -> Result<()> {
    let terminal = std::io::stdout().is_terminal();
    let text = if terminal { plain::plain_lines(text) } else { text.into() };
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Error::io("standard output", error))
        }
        _ => Ok(()),
    }
}

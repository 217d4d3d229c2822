//! `oupn-edge doctor`: is this machine fit for a recording?
//!
//! One line a matter: `ok`, or what to do. Exit code 1 if something would keep a recording from working. `--json` prints
//! an array of objects with `name`, `verdict` (`ok`, `advice`, `problem`), `found` and `advice`.
//!
//! `--gpu` looks at the GPU alone and prints one JSON object. Exit code 1 if there is none, or it computes wrongly, 2 if this
//! program was built without CUDA.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use oupn_base::words::counted;
use oupn_edge::config::Settings;
use oupn_edge::doctor::{Check, Machine, Verdict, bundle, examine, gpu};
use oupn_edge::encoder::examination::WindowSize;
use oupn_edge::model_fetch::folder;
use oupn_edge::{Error, Result};

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// Also pack versions, checks, settings, the service's log and the recording's events for a bug report; no pictures
    #[arg(long, value_name = "FILE.zip")]
    bundle: Option<PathBuf>,
    /// The data folder of a recording, made or to be made
    #[arg(long, value_name = "DIR", default_value = ".")]
    data: PathBuf,
    /// The weights that a recording is to start from: a file, or the name of a fetched model
    #[arg(long, value_name = "FILE|NAME", value_parser = super::named_model::model_file())]
    model: Option<PathBuf>,
    /// The settings file that the bundle is to hold
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Examine the GPU alone, and print one line of JSON to send back: whether it computes rightly, the time of each
    /// operation, memory, clocks, heat
    #[arg(long, conflicts_with_all = ["json", "bundle", "data", "model", "config"])]
    gpu: bool,
    /// Height and width of the images that the GPU is timed with
    #[arg(long, value_name = "PIXELS", default_value_t = 224, requires = "gpu", value_parser = clap::value_parser!(u16).range(32..=1024))]
    size: u16,
}

/// Images of the window that the GPU is timed with: few enough for any board, and enough to fill it.
const IMAGES: usize = 8;

fn examine_gpu(side: usize) -> Result<()> {
    let size = WindowSize { width: 1.0, side, images: IMAGES };
    let report = gpu::report(Path::new("/"), size)?;
    super::print(&format!("{}\n", report.json))?;
    match report.wrong.is_empty() {
        true => Ok(()),
        false => Err(Error::Device(format!(
            "the GPU computes other numbers than the CPU: {}",
            report.wrong.join("; ")
        ))),
    }
}

pub(super) fn run(args: &DoctorArgs) -> Result<()> {
    if args.gpu {
        return examine_gpu(usize::from(args.size));
    }
    let settings = Settings::load(None, args.config.as_deref())?;
    let checks = examine(&Machine {
        root: Path::new("/").to_path_buf(),
        data: args.data.clone(),
        model: args.model.clone(),
        models: folder::folder().ok(),
    });
    if let Some(path) = &args.bundle {
        bundle::write(path, &checks, &settings, &args.data)?;
        log::info!("the bundle for a bug report is {}", path.display());
    }
    let text = if args.json {
        let line = serde_json::to_string(&checks).map_err(|error| Error::Device(error.to_string()))?;
        format!("{line}\n")
    } else {
        lines(&checks)
    };
    super::print(&text)?;
    match checks.iter().filter(|check| check.verdict == Verdict::Problem).count() {
        0 => Ok(()),
        problems => {
            let problems = counted(problems as u64, "problem", "problems");
            Err(Error::Device(format!("{problems} would keep a recording from working")))
        }
    }
}

fn lines(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let mark = match check.verdict {
            Verdict::Ok => "ok     ",
            Verdict::Advice => "advice ",
            Verdict::Problem => "PROBLEM",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{mark}  {:<12} {}", check.name, check.found);
        if !check.advice.is_empty() {
            let _ = writeln!(text, "         {:<12} → {}", "", check.advice);
        }
    }
    text
}

//! `oupn-edge export`: recordings as tables and annotations.
//!
//! The file appears whole or not at all. Exit code 3 says that it was written and that the trace lacks something; what,
//! stands on standard error. Running recordings can be exported: what has been written so far is in the table.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::choice::choice;
use super::progress::WatchedFiles;
use oupn_edge::export::{Format, What, export};
use oupn_edge::recording::segments::Wanted;
use oupn_edge::recording::{Categories, Missing, Recording};
use oupn_edge::storage::{OsFilesystem, write_atomically_with};
use oupn_edge::{Error, Result};

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Data folders of recordings (their --data), or trace folders; several become one table
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// Format of the file [default: by the file's ending, .csv, .jsonl or .parquet]
    #[arg(long, value_parser = choice::<Format>())]
    format: Option<Format>,
    /// What to export [default: frames; segments for elan and boris]
    #[arg(long, value_parser = choice::<What>())]
    what: Option<What>,
    /// The file to write; `-` is standard output
    #[arg(short, long, alias = "out", value_name = "FILE")]
    output: PathBuf,
    /// Which number of a category segments go by; frames have both
    ///
    /// Two categories can turn out to be one; from then on the younger number is not given any more. `final` is the default
    /// because whoever looks at segments or annotates them wants one number for one thing, from its first frame on.
    /// `live` is what the device knew at the time. Without such merges both are the same.
    #[arg(long, value_name = "VIEW", default_value_t = Categories::Final, value_parser = choice::<Categories>())]
    categories: Categories,
    /// Segments of one category with less than this between them become one
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = seconds)]
    min_gap: f64,
    /// Segments shorter than this are left out
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, value_parser = seconds)]
    min_length: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.0..1e9).contains(&seconds) => Ok(seconds),
        _ => Err("expected seconds, such as 2.5".to_owned()),
    }
}

pub(super) fn run(args: &ExportArgs) -> Result<()> {
    let format = format(args)?;
    let annotations = matches!(format, Format::Elan | Format::Boris);
    let what = args.what.unwrap_or(if annotations { What::Segments } else { What::Frames });
    if annotations && !matches!(what, What::Segments | What::Events) {
        return Err(Error::input("--format elan and boris take --what segments or events"));
    }
    // Once to survey them, once to export them.
    let fs = Arc::new(WatchedFiles::new(&args.runs, 2, "exporting"));
    let open = |path: &PathBuf| Recording::open(fs.clone(), path);
    let recordings = args.runs.iter().map(open).collect::<Result<Vec<_>>>()?;
    let wanted = Wanted { min_gap: args.min_gap, min_length: args.min_length, categories: args.categories };
    let missing = if args.output == Path::new("-") {
        let mut out = io::BufWriter::new(io::stdout());
        match export(&recordings, format, what, wanted, &mut out) {
            // Whoever reads has seen enough.
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            outcome => outcome?,
        }
    } else {
        to_file(args, format, what, wanted, &recordings)?
    };
    // The bar is cleared first.
    drop((recordings, fs));
    if args.output != Path::new("-") {
        super::print_written(&args.output)?;
    }
    tell(&args.runs, &missing)
}

/// The format that was asked for, or the one that the file's ending names.
fn format(args: &ExportArgs) -> Result<Format> {
    if let Some(format) = args.format {
        return Ok(format);
    }
    let ending = args.output.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    match ending.as_deref() {
        Some("csv") => Ok(Format::Csv),
        Some("jsonl" | "ndjson") => Ok(Format::Jsonl),
        Some("parquet") => Ok(Format::Parquet),
        _ => Err(Error::input(format!(
            "--output {}: its ending does not tell the format; say --format csv, jsonl, parquet, elan or boris",
            args.output.display()
        ))),
    }
}

fn to_file(
    args: &ExportArgs,
    format: Format,
    what: What,
    wanted: Wanted,
    recordings: &[Recording],
) -> Result<Vec<Missing>> {
    let mut outcome = Ok(Vec::new());
    let written = write_atomically_with(&OsFilesystem, &args.output, |file| {
        let mut out = io::BufWriter::new(file);
        outcome = export(recordings, format, what, wanted, &mut out);
        match &outcome {
            Ok(_) => out.flush(),
            Err(_) => Err(io::Error::other("the export failed")),
        }
    });
    match outcome {
        Err(Error::Io { path, source }) if path == Path::new("export") => {
            Err(Error::io(&args.output, source))
        }
        Err(error) => Err(error),
        Ok(missing) => written.map(|()| missing).map_err(|error| Error::io(&args.output, error)),
    }
}

/// Says what recordings lack, and that the exit code is another one if it should not be so.
pub(super) fn tell(runs: &[PathBuf], missing: &[Missing]) -> Result<()> {
    let mut faults = Vec::new();
    for (run, missing) in runs.iter().zip(missing) {
        for note in &missing.notes {
            log::info!("{}: {note}", run.display());
        }
        faults.extend(missing.faults.iter().map(|fault| format!("{}: {fault}", run.display())));
    }
    if faults.is_empty() { Ok(()) } else { Err(Error::Incomplete(faults.join("\noupn-edge: "))) }
}

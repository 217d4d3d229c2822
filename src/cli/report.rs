//! `oupn-edge report`: one HTML file about one recording.
//!
//! Exit code 3 says that the file was written and that the trace lacks something; the report says what, too.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;

use super::choice::choice;
use super::progress::WatchedFiles;
use oupn_edge::recording::{Categories, Missing, Recording};
use oupn_edge::report::report;
use oupn_edge::storage::{OsFilesystem, write_atomically};
use oupn_edge::{Error, Result};

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Data folder of a recording (its --data), or its trace folder; the recording may be running
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Which number of a category counts where two turned out to be one
    #[arg(long, value_name = "VIEW", default_value_t = Categories::Final, value_parser = choice::<Categories>())]
    categories: Categories,
    /// The file to write; `-` is standard output
    #[arg(short, long, alias = "out", value_name = "FILE", default_value = "report.html")]
    output: PathBuf,
}

pub(super) fn run(args: &ReportArgs) -> Result<()> {
    // Once to survey it, once to sum it up.
    let files = WatchedFiles::new(&[&args.run], 2, "reading the recording");
    let recording = Recording::open(Arc::new(files), &args.run)?;
    let mut page = Vec::new();
    let missing: Missing = report(&recording, args.categories, &mut page)?;
    // The bar is cleared first.
    drop(recording);
    if args.output == Path::new("-") {
        super::print(&String::from_utf8_lossy(&page))?;
    } else {
        let io = |error: io::Error| Error::io(&args.output, error);
        write_atomically(&OsFilesystem, &args.output, &page).map_err(io)?;
        super::print_written(&args.output)?;
    }
    super::export::tell(std::slice::from_ref(&args.run), &[missing])
}

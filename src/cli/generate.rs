//! `oupn-edge generate`: manual pages and shell completions, for those who make packages. Hidden from the help.
//!
//! Both come from the command line's own definition, so they cannot disagree with it.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use oupn_edge::{Error, Result};

#[derive(Debug, Args)]
pub(super) struct GenerateArgs {
    /// What to write
    #[arg(value_enum)]
    what: What,
    /// Folder to write into; it is made if it is missing
    #[arg(short, long = "output", alias = "out", value_name = "DIR")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum What {
    /// One manual page for each command (section 1)
    Man,
    /// For bash, zsh and fish, under the names that Debian uses
    Completions,
}

pub(super) fn run(args: &GenerateArgs) -> Result<()> {
    std::fs::create_dir_all(&args.out).map_err(|error| Error::io(&args.out, error))?;
    match args.what {
        What::Man => {
            let command = super::definition();
            clap_mangen::generate_to(command, &args.out).map_err(|error| Error::io(&args.out, error))
        }
        What::Completions => completions(&args.out),
    }
}

fn completions(out: &Path) -> Result<()> {
    for (shell, file) in
        [(Shell::Bash, "oupn-edge"), (Shell::Zsh, "_oupn-edge"), (Shell::Fish, "oupn-edge.fish")]
    {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut super::definition(), "oupn-edge", &mut text);
        let path = out.join(file);
        std::fs::write(&path, text).map_err(|error| Error::io(&path, error))?;
    }
    Ok(())
}

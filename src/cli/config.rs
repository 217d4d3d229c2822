//! `oupn-edge config …`: settings shown with their meaning, and files of them checked before a run.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};

use oupn_edge::Result;
use oupn_edge::config::{Preset, Settings};

#[derive(Debug, Subcommand)]
pub(super) enum Config {
    /// Print settings as a file that can be edited and given back: every key with its meaning and valid range
    Show(Show),
    /// Check a settings file and say what it changes
    Check {
        /// The settings file (TOML)
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(super) struct Show {
    /// Start from these settings [default: that of the file, else saycam]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Preset::ALL.map(Preset::name))
        .try_map(|name| Preset::named(&name).ok_or("no such preset")))]
    preset: Option<Preset>,
    /// Apply the changes of this settings file (TOML)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(super) fn run(command: Config) -> Result<()> {
    let text = match command {
        Config::Show(Show { preset, config }) => Settings::load(preset, config.as_deref())?.to_toml(),
        Config::Check { file } => {
            let settings = Settings::load(None, Some(&file))?;
            let mut text = format!("{}: valid, preset {}", file.display(), settings.preset);
            let differences = settings.differences();
            text.push_str(if differences.is_empty() { ", nothing changed\n" } else { ", changed:\n" });
            for (key, value, usual) in differences {
                // Writing to a string cannot fail.
                let _ = writeln!(text, "  {key} = {value} (preset: {usual})");
            }
            text
        }
    };
    super::print(&text)
}

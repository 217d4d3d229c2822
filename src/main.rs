//! `oupn-edge`: the command line over the library.

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::main()
}

//! `oupn-edge`: maps the outcome of a command to an exit code; the work is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    oupn_edge::cli::main()
}

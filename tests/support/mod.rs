//! What the test programs share.

#![allow(dead_code, reason = "each test program uses its own part of it")]

use std::io::Write as _;
use std::path::PathBuf;

pub(crate) mod day;
pub(crate) mod inspect;
pub(crate) mod kill;
pub(crate) mod mounted;
pub(crate) mod plain_window;
pub(crate) mod program;
pub(crate) mod recording;
pub(crate) mod small_omniglot;
pub(crate) mod web_server;

/// Says that this machine lacks what a test needs. It goes past the capture of the test's output: a test that looked
/// at nothing must not look like one that passed.
pub(crate) fn skipped(reason: &str) {
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {reason}");
}

/// The folder of public data that an ignored test needs: docs/DATA.md says where it comes from.
pub(crate) fn data(name: &str) -> PathBuf {
    given("OUPN_DATA").join(name)
}

/// A file of public weights that an ignored test needs: models/README.md says where it comes from.
pub(crate) fn weights(name: &str) -> PathBuf {
    given("OUPN_WEIGHTS").join(name)
}

fn given(variable: &str) -> PathBuf {
    let value = std::env::var_os(variable).filter(|value| !value.is_empty());
    value.unwrap_or_else(|| panic!("{variable} is not set: `make test-data` says what it needs")).into()
}

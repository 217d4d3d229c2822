//! The real binary, run as a user runs it.

use std::process::{Command, Output};

pub(crate) fn oupn_edge(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oupn-edge")).args(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

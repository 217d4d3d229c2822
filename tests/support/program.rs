//! The real binary, run as a user runs it.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use oupn_edge::run::socket;
use serde_json::Value;

pub(crate) fn oupn_edge(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oupn-edge")).args(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Asks a running recording for its status until the answer is as wanted. A minute is enough on a busy machine.
pub(crate) fn until(data: &Path, wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..1200 {
        if let Ok(answer) = socket::ask(data, "status", None)
            && wanted(&answer)
        {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("the recording did not get there: {:?}", socket::ask(data, "status", None));
}

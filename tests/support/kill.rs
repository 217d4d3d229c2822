//! Killing a process at random moments and looking at what it leaves.
//!
//! The process tells on standard output, line by line, what it holds to be true ("durable 17"); whatever it has said
//! before it was killed must still hold afterwards.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Runs `command` `rounds` times, kills it (SIGKILL) after a time of up to `longest`, and calls `check` with the number
/// of the round and the lines that it had written. The moments are chosen by `seed`.
///
/// A process that ends by itself fails the test: it was meant to run until killed.
pub(crate) fn kill_at_random_moments(
    rounds: u32,
    longest: Duration,
    seed: u64,
    mut command: impl FnMut() -> Command,
    mut check: impl FnMut(u32, &[String]),
) {
    let mut state = seed;
    for round in 0..rounds {
        let mut child = command().stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        // Lines are taken out all the time, so that the process never waits for us.
        let reader = std::thread::spawn(move || output.lines().map_while(Result::ok).collect::<Vec<_>>());
        // A Weyl sequence spreads the moments evenly: early ones, in the middle of starting, too.
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        std::thread::sleep(longest.mul_f64((state >> 11) as f64 / (1u64 << 53) as f64));
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "round {round}: the process ended by itself: {ended:?}");
        child.kill().unwrap();
        child.wait().unwrap();
        check(round, &reader.join().unwrap());
    }
}

/// The last number after `word ` at the beginning of a line. A line that was cut short by the kill is not counted on:
/// its number could only be too small.
pub(crate) fn last_number(lines: &[String], word: &str) -> Option<u64> {
    let number = |line: &String| line.strip_prefix(word)?.strip_prefix(' ')?.parse().ok();
    lines.iter().rev().find_map(number)
}

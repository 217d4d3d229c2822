//! Is this machine fit for a recording? One check a matter, each with what was found and what to do about it.
//!
//! A check never changes anything but for one small file that it writes to the data folder and removes. Readings come from
//! the files under a root folder, so that tests can pretend another machine. What the checks say is printed by
//! `oupn-edge doctor`; [`bundle`] packs it for a bug report.

use std::path::PathBuf;

use serde::Serialize;

pub mod bundle;
mod camera;
pub mod gpu;
mod machine;
mod speed;
mod weights;

/// How a matter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// A recording works, but something could be better.
    Advice,
    /// A recording would not work.
    Problem,
}

/// One matter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at, in a word or two.
    pub name: &'static str,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do; empty if it is as it should be.
    pub advice: String,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, found: found.into(), advice: String::new() }
    }

    fn advice(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Advice, found: found.into(), advice: advice.into() }
    }

    fn problem(name: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Problem, found: found.into(), advice: advice.into() }
    }
}

/// What is examined.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The folder whose `sys`, `proc`, `run` and `etc` are read: `/` but for tests.
    pub root: PathBuf,
    /// Where a recording would be written.
    pub data: PathBuf,
    /// The weights that a recording would start from, if it was said.
    pub model: Option<PathBuf>,
    /// The folder of fetched models, if this user has one.
    pub models: Option<PathBuf>,
}

/// All checks, in the order of the day: what sees, what computes, where it goes.
pub fn examine(machine: &Machine) -> Vec<Check> {
    let mut checks = camera::checks(&crate::camera::v4l2::list());
    checks.push(speed::compute());
    checks.extend(speed::timings());
    checks.push(weights::check(machine.model.as_deref(), machine.models.as_deref()));
    checks.extend(machine::checks(machine));
    checks
}

#[cfg(test)]
mod tests;

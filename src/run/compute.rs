//! What trains, as a run tells it: at its start, and again when a GPU has given way to the processor.

use crate::encoder::fallback::Computing;
use crate::trace;

/// What trains, and what of it was told.
#[derive(Debug)]
pub(super) struct Compute {
    computing: Computing,
    told: String,
}

/// One line: what it is and, if it is not what was asked for, why.
fn words(computing: &Computing) -> String {
    let name = computing.name();
    computing.reason().map_or_else(|| name.clone(), |reason| format!("{name} ({reason})"))
}

impl Compute {
    /// Told from now on as it is.
    pub(super) fn new(computing: Computing) -> Self {
        Self { told: words(&computing), computing }
    }

    /// What was told last.
    pub(super) fn told(&self) -> &str {
        &self.told
    }

    /// What is to be told, if it has changed.
    pub(super) fn change(&mut self) -> Option<trace::Compute> {
        let now = words(&self.computing);
        if now == self.told {
            return None;
        }
        let before = std::mem::replace(&mut self.told, now);
        Some(trace::Compute { before, compute: self.computing.name(), reason: self.computing.reason() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_once() {
        let computing = Computing::new("Orin");
        let mut compute = Compute::new(computing.clone());
        assert_eq!(compute.told(), "Orin");
        assert_eq!(compute.change(), None);
        computing.change("the CPU", "out of memory");
        let change = compute.change().unwrap();
        assert_eq!((change.before.as_str(), change.compute.as_str()), ("Orin", "the CPU"));
        assert_eq!(change.reason.as_deref(), Some("out of memory"));
        assert_eq!(compute.change(), None);
        assert_eq!(compute.told(), "the CPU (out of memory)");
    }
}

//! What the system asks of a recording: SIGTERM and SIGINT end it in an orderly way, SIGUSR1 pauses it or lets it go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::flag;

use crate::{Error, Result};

/// The signals that have come since the last look.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    end: Arc<AtomicBool>,
    toggle: Arc<AtomicBool>,
}

impl Signals {
    /// Listens from now on. A second SIGTERM or SIGINT ends the process at once: nothing that is durable is lost.
    pub fn listen() -> Result<Self> {
        let signals = Self::default();
        let register = || {
            for signal in [SIGTERM, SIGINT] {
                flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&signals.end))?;
                flag::register(signal, Arc::clone(&signals.end))?;
            }
            flag::register(SIGUSR1, Arc::clone(&signals.toggle))
        };
        register().map_err(|error| Error::Device(format!("signals cannot be listened to: {error}")))?;
        Ok(signals)
    }

    /// Whether the recording is to end.
    pub fn end(&self) -> bool {
        self.end.load(Ordering::Acquire)
    }

    /// Whether it is to pause or to go on.
    pub fn take_toggle(&self) -> bool {
        self.toggle.swap(false, Ordering::AcqRel)
    }
}

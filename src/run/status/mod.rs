//! What a running recording tells those who watch: the terminal, the socket, the page.
//!
//! The live path writes one [`Snapshot`] under a lock that it holds for microseconds; watchers copy what they need out of
//! it. Everything in it has a fixed size, whatever the run does: pictures are shared, not copied, and live in memory
//! only.

mod histogram;
mod snapshot;

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

pub use self::histogram::{BOUNDS_MS, Histogram};
pub use self::snapshot::{
    Cursor, Feed, JOINED, Known, Moment, Picture, RIBBON, Seen, Snapshot, THUMBNAIL, UPDATES,
};

/// The shared status of a run.
#[derive(Debug, Default)]
pub struct Status {
    snapshot: Mutex<Snapshot>,
    changed: Condvar,
}

impl Status {
    /// A status that begins with this.
    pub fn new(snapshot: Snapshot) -> Self {
        Self { snapshot: Mutex::new(snapshot), changed: Condvar::new() }
    }

    /// Changes the snapshot and tells the watchers.
    pub fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut snapshot);
        snapshot.version += 1;
        drop(snapshot);
        self.changed.notify_all();
    }

    /// Looks at the snapshot. The live path waits meanwhile: copy, then think.
    pub fn look<T>(&self, look: impl FnOnce(&Snapshot) -> T) -> T {
        look(&self.snapshot.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the snapshot is newer than `version`, or `timeout` is over; returns its version.
    pub fn wait_beyond(&self, version: u64, timeout: Duration) -> u64 {
        let snapshot = self.snapshot.lock().unwrap_or_else(PoisonError::into_inner);
        let (snapshot, _) = self
            .changed
            .wait_timeout_while(snapshot, timeout, |snapshot| snapshot.version <= version)
            .unwrap_or_else(PoisonError::into_inner);
        snapshot.version
    }
}

//! The pause on the disk: a recording that was paused is still paused after a restart, whatever the restart's cause.
//!
//! The empty file `paused` in the data folder is there while the recording is paused. It is empty so that a full disk has
//! room for it.

use std::io;
use std::path::Path;

use crate::storage::{Filesystem, write_atomically};

/// The file's name in the data folder.
const NAME: &str = "paused";

/// Notes that the recording is paused; durable on return.
pub(super) fn set(fs: &dyn Filesystem, data: &Path) -> io::Result<()> {
    write_atomically(fs, &data.join(NAME), b"")
}

/// Notes that it is not paused any more; durable on return.
pub(super) fn clear(fs: &dyn Filesystem, data: &Path) -> io::Result<()> {
    match fs.remove(&data.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs.sync_dir(data),
    }
}

/// Whether the recording was paused when it ended. Where that cannot be told, it counts as paused.
pub(super) fn is_set(fs: &dyn Filesystem, data: &Path) -> bool {
    match fs.len(&data.join(NAME)) {
        Ok(_) => true,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Fault, Simulated};

    /// Fail at step N, cut the power, look; N + 1, until it passes.
    #[test]
    fn what_was_acknowledged_holds_after_a_power_cut_at_any_step() {
        let data = Path::new("/data");
        for (paused_before, change) in
            [(false, set as fn(&dyn Filesystem, &Path) -> io::Result<()>), (true, clear)]
        {
            for fault in [Fault::Error, Fault::LostSync, Fault::PowerCut] {
                for step in 1.. {
                    let fs = Simulated::with_dir(data);
                    if paused_before {
                        set(&fs, data).unwrap();
                    }
                    let before = fs.operations();
                    fs.fail_at(step, fault);
                    let outcome = change(&fs, data);
                    for seed in 0..20 {
                        let after = is_set(&fs.after_power_cut(seed), data);
                        assert!(outcome.is_err() || after != paused_before, "{fault:?} at {step}");
                    }
                    if fs.operations() - before < step {
                        assert!(outcome.is_ok());
                        break;
                    }
                }
            }
        }
    }

    #[test]
    fn a_full_disk_can_be_paused() {
        let fs = Simulated::with_dir("/data");
        fs.set_capacity(Some(0));
        set(&fs, Path::new("/data")).unwrap();
        assert!(is_set(&fs, Path::new("/data")));
    }
}

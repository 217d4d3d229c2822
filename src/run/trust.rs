//! Whether a command in `run.toml` is the user's own word.
//!
//! A data folder can come from anybody: on a stick, in an archive, by mail. Its `run.toml` may name a `pipe:` command, which
//! would run with the rights of whoever opens the folder. So a command is taken from there only if the file belongs to the
//! caller and carries a mark that this machine made of this very command. The mark is a digest with the machine's id,
//! which is secret enough: it cannot be made elsewhere, and it does not fit another command.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest, Sha256};

/// Where a machine's lasting id is; a container without one has at least the boot's.
const IDS: [&str; 3] = ["/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/random/boot_id"];

/// The mark of a command on this machine; none if the machine has no id at all.
pub(super) fn mark(command: &str) -> Option<String> {
    mark_with(&machine_id()?, command)
}

/// Whether the file belongs to the caller and its mark was made of this command on this machine.
pub(super) fn is_own(file: &Path, command: &str, found: Option<&str>) -> bool {
    let owner = std::fs::metadata(file).map(|about| about.uid());
    let own = owner.is_ok_and(|owner| owner == rustix::process::geteuid().as_raw());
    own && found.is_some_and(|found| mark(command).is_some_and(|mark| mark == found))
}

fn machine_id() -> Option<String> {
    IDS.iter().find_map(|path| {
        let id = std::fs::read_to_string(path).ok()?.trim().to_owned();
        // "uninitialized" stands there in images that were never booted.
        (id.len() >= 32).then_some(id)
    })
}

fn mark_with(id: &str, command: &str) -> Option<String> {
    let digest = Sha256::new().chain_update(command).chain_update([0]).chain_update(id).finalize();
    Some(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_fits_one_command_on_one_machine() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.toml");
        std::fs::write(&file, "").unwrap();
        let command = "pipe:cat film.y4m";
        let own = mark(command).unwrap();
        assert!(is_own(&file, command, Some(&own)));
        assert!(!is_own(&file, "pipe:rm -r ~", Some(&own)), "another command");
        assert!(!is_own(&file, command, None), "no mark");
        assert!(!is_own(&folder.path().join("absent"), command, Some(&own)));
        let elsewhere = mark_with("0123456789abcdef0123456789abcdef", command).unwrap();
        assert!(!is_own(&file, command, Some(&elsewhere)), "another machine");
        // Somebody else's file; only root can make one.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&file, Some(12_345), None).unwrap();
            assert!(!is_own(&file, command, Some(&own)), "another owner");
        }
    }
}

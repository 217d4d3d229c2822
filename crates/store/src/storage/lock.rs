//! One writer a data folder: two would interleave their sequence numbers and delete each other's checkpoints.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use super::{make_private, private_file};
use crate::{Error, Result};

/// The name of the lock file. It stays when the process goes: what counts is the lock, which the kernel drops with
/// the process, however that ended.
const NAME: &str = "lock";

/// Holds a data folder for this process until dropped.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
    path: PathBuf,
}

impl FolderLock {
    /// Takes the folder `dir`, which must exist, or says that somebody else has it.
    pub fn acquire(dir: &Path) -> Result<Self> {
        let path = dir.join(NAME);
        // Whoever can open the file, if only for reading, can hold the lock and keep a recording from starting.
        let file = private_file().create(true).write(true).truncate(false).open(&path);
        let file = file.map_err(|e| Error::io(&path, e))?;
        make_private(&path).map_err(|e| Error::io(&path, e))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file, path }),
            Err(TryLockError::WouldBlock) => Err(Error::input(format!(
                "{} is in use by another oupn-edge: stop that one, or give --data another folder",
                dir.display()
            ))),
            Err(TryLockError::Error(e)) => Err(Error::io(&path, e)),
        }
    }

    /// The lock file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_has_one_holder_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = FolderLock::acquire(folder.path()).unwrap();
        let second = FolderLock::acquire(folder.path()).unwrap_err();
        assert_eq!(second.exit_code(), 2);
        assert!(second.to_string().contains("another oupn-edge"), "{second}");
        drop(first);
        let path = folder.path().join(NAME);
        let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        FolderLock::acquire(folder.path()).unwrap();
        assert_eq!(mode(), 0o600, "one of an earlier version");
    }
}

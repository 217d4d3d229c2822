//! Whether a file or folder is still the one that the run began with.
//!
//! An open file can be written to long after its name is gone: a recording whose data folder was removed or replaced would go on
//! without a word, into nothing. The file's number (inode) tells.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// A path and the file that it led to.
#[derive(Debug)]
pub(super) struct Anchor {
    path: PathBuf,
    identity: (u64, u64),
}

impl Anchor {
    /// The file that `path` leads to now.
    pub(super) fn of(path: PathBuf) -> Result<Self> {
        let identity = identity(&path).map_err(|error| Error::io(&path, error))?;
        Ok(Self { path, identity })
    }

    /// The path, if it leads to another file by now, or to none. A disk that gives no answer is no reason to say so.
    pub(super) fn lost(&self) -> Option<&Path> {
        let lost = match identity(&self.path) {
            Ok(identity) => identity != self.identity,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        lost.then_some(&self.path)
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|file| (file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_was_removed_or_replaced_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace");
        assert!(Anchor::of(path.clone()).is_err());
        std::fs::create_dir(&path).unwrap();
        let anchor = Anchor::of(path.clone()).unwrap();
        std::fs::write(path.join("segment"), b"x").unwrap();
        assert_eq!(anchor.lost(), None);
        std::fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        assert_eq!(anchor.lost(), Some(path.as_path()));
        std::fs::create_dir(&path).unwrap();
        assert_eq!(anchor.lost(), Some(path.as_path()), "another folder of the same name");
    }
}

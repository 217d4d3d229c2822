//! Files and folders for their owner alone: a trace tells what a family saw, and a picture shows it.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// How new files are opened.
pub fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Creates a folder and its parents; one that exists is fine, and stays as it is.
pub fn create_private_folder(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Takes a file or folder from everybody but its owner, as earlier versions did not. One that is not there is fine.
pub fn make_private(path: &Path) -> io::Result<()> {
    let mode = match fs::metadata(path) {
        Ok(found) => found.permissions().mode(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if mode & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode & 0o7700))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_or_taken_is_the_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (dir, file) = (folder.path().join("a/b"), folder.path().join("a/b/file"));
        create_private_folder(&dir).unwrap();
        create_private_folder(&dir).unwrap();
        private_file().write(true).create_new(true).open(&file).unwrap();
        assert_eq!((mode(&dir), mode(&file)), (0o700, 0o600));
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        make_private(&dir).unwrap();
        make_private(&file).unwrap();
        assert_eq!((mode(&dir), mode(&file)), (0o700, 0o600));
        make_private(&folder.path().join("none")).unwrap();
    }
}

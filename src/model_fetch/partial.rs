//! A file on its way: what has come of it so far, and the server's mark of the version that it belongs to.
//!
//! Both are hidden files in the model folder. They stay when a download is cut off, so that the next one can go on, and they go when
//! the file is whole or of no use.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use super::catalogue::Entry;
use super::digest;
use crate::{Error, Result};

/// See the [module](self). Held by one process at a time.
#[derive(Debug)]
pub(super) struct Partial {
    file: File,
    path: PathBuf,
    mark: PathBuf,
}

/// The longest mark that is kept; a longer one is no mark.
const LONGEST_MARK: u64 = 1024;

impl Partial {
    /// Opens what is there of a model's file, or begins it.
    pub(super) fn take(folder: &Path, entry: &Entry) -> Result<Self> {
        let path = folder.join(format!(".{}.part.{}", entry.name, entry.extension()));
        let mark = folder.join(format!(".{}.part.etag", entry.name));
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.map_err(|error| Error::io(&path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file, path, mark }),
            Err(TryLockError::WouldBlock) => Err(Error::input(format!(
                "{} is being fetched into {} already; wait for that to end",
                entry.name,
                folder.display()
            ))),
            Err(TryLockError::Error(error)) => Err(Error::io(&path, error)),
        }
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// How much is there, with the mark of the version; nothing if there is nothing to go on with.
    pub(super) fn begun(&self) -> Option<(u64, String)> {
        let length = self.file.metadata().ok()?.len();
        let mut mark = String::new();
        File::open(&self.mark).ok()?.take(LONGEST_MARK).read_to_string(&mut mark).ok()?;
        (length > 0 && is_strong(&mark)).then_some((length, mark))
    }

    /// Keeps the first `length` bytes, and the mark of the version that they and all that follows are of.
    pub(super) fn go_on(&mut self, length: u64, mark: Option<&str>) -> Result<()> {
        let fault = |path: &Path| {
            let path = path.to_path_buf();
            move |error| Error::io(path, error)
        };
        // Before the bytes: without a mark nothing is gone on with, and bytes never have another version's.
        match mark.filter(|mark| is_strong(mark)) {
            Some(mark) => fs::write(&self.mark, mark).map_err(fault(&self.mark))?,
            None => remove(&self.mark),
        }
        self.file.set_len(length).map_err(fault(&self.path))?;
        self.file.seek(SeekFrom::End(0)).map_err(fault(&self.path))?;
        Ok(())
    }

    /// Adds bytes to its end.
    pub(super) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io(&self.path, error))
    }

    /// The SHA-256 of what is there.
    pub(super) fn sha256(&self) -> Result<String> {
        let file = File::open(&self.path).and_then(digest::sha256);
        file.map_err(|error| Error::io(&self.path, error))
    }

    /// Removes it if the next fetch could not go on with it.
    pub(super) fn discard_if_useless(&self) {
        if self.begun().is_none() {
            self.discard();
        }
    }

    /// Removes it.
    pub(super) fn discard(&self) {
        remove(&self.path);
        remove(&self.mark);
    }
}

/// A leftover costs room only, and the next fetch uses or replaces it.
fn remove(path: &Path) {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            log::warn!("{} cannot be removed: {error}", path.display());
        }
        _ => {}
    }
}

/// Whether a mark says "the same bytes" and not only "as good as the same".
fn is_strong(mark: &str) -> bool {
    mark.len() > 2 && mark.len() < LONGEST_MARK as usize && mark.starts_with('"') && mark.ends_with('"')
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::ENTRIES;
    use super::*;

    #[test]
    fn only_bytes_with_a_strong_mark_are_gone_on_with() {
        let folder = tempfile::tempdir().unwrap();
        let mut partial = Partial::take(folder.path(), &ENTRIES[0]).unwrap();
        assert_eq!(partial.begun(), None);
        partial.go_on(0, Some("\"v1\"")).unwrap();
        assert_eq!(partial.begun(), None, "nothing is there yet");
        partial.add(b"abcdef").unwrap();
        assert_eq!(partial.begun(), Some((6, "\"v1\"".to_owned())));
        let second = Partial::take(folder.path(), &ENTRIES[0]).unwrap_err();
        assert!(second.to_string().contains("is being fetched"), "{second}");
        drop(partial);

        let mut partial = Partial::take(folder.path(), &ENTRIES[0]).unwrap();
        partial.go_on(3, Some("\"v1\"")).unwrap();
        partial.add(b"x").unwrap();
        assert_eq!(partial.sha256().unwrap(), digest::sha256(&b"abcx"[..]).unwrap());
        partial.go_on(4, Some("W/\"v1\"")).unwrap();
        assert_eq!(partial.begun(), None, "a weak mark promises too little");
        partial.discard();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

//! Replacing a whole file, or nothing: temporary file, sync, rename, sync of the folder.

use std::io;
use std::path::{Path, PathBuf};

use super::{File, Filesystem};

/// Temporary files start with a dot and end with this, so that a crash's leftovers are known as such.
const TEMPORARY: &str = ".tmp";

/// Writes `bytes` as the file `path`: a crash at any moment leaves the old content or the new, and the new one is
/// durable when this returns without an error.
///
/// After an error the old file is still there, except when the very last step failed (the sync of the folder):
/// then either may be found after a power cut.
pub fn write_atomically(fs: &dyn Filesystem, path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_atomically_with(fs, path, |file| file.write_all(bytes))
}

/// As [`write_atomically`], for content that is produced piece by piece.
pub fn write_atomically_with(
    fs: &dyn Filesystem,
    path: &Path,
    write: impl FnOnce(&mut dyn File) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = temporary_name(path)?;
    let written = (|| {
        let mut file = fs.create(&temporary)?;
        write(file.as_mut())?;
        file.sync()?;
        drop(file);
        fs.rename(&temporary, path)
    })();
    if let Err(error) = written {
        // A leftover costs room only, and the next start removes it: the first error is the one to report.
        let _ = fs.remove(&temporary);
        return Err(error);
    }
    fs.sync_dir(folder_of(path))
}

/// Removes the temporary files that a crash left in a folder. Called by whoever opens the folder for writing.
pub fn remove_leftovers(fs: &dyn Filesystem, dir: &Path) -> io::Result<()> {
    for name in fs.list(dir)? {
        if name.starts_with('.') && name.ends_with(TEMPORARY) {
            fs.remove(&dir.join(name))?;
        }
    }
    Ok(())
}

/// The folder whose entry a file is.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name =
        name.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a path without a file name"))?;
    Ok(path.with_file_name(format!(".{name}{TEMPORARY}")))
}

#[cfg(test)]
mod tests {
    use super::super::{Fault, Simulated, read_bounded};
    use super::*;

    /// Run, fail at step N, look; N + 1, until it passes.
    #[test]
    fn a_failure_at_any_step_leaves_the_old_file_or_the_new() {
        let path = Path::new("/data/file");
        for fault in [Fault::Error, Fault::ShortWrite, Fault::LostSync, Fault::PowerCut] {
            for step in 1.. {
                let fs = Simulated::with_dir("/data");
                write_atomically(&fs, path, b"old").unwrap();
                fs.fail_at(step, fault);
                let outcome = write_atomically(&fs, path, b"new content");
                for seed in 0..20 {
                    let after = fs.after_power_cut(seed);
                    remove_leftovers(&after, Path::new("/data")).unwrap();
                    assert_eq!(after.list(Path::new("/data")).unwrap(), ["file"], "{fault:?} at {step}");
                    let found = read_bounded(&after, path, 100).unwrap();
                    match &outcome {
                        Ok(()) => assert_eq!(found, b"new content", "{fault:?} at {step}"),
                        Err(_) => assert!(
                            found == b"old" || found == b"new content",
                            "{fault:?} at {step}: {found:?}"
                        ),
                    }
                }
                if outcome.is_ok() {
                    assert!(step > 5, "create, write, sync, rename and sync of the folder are five steps");
                    break;
                }
            }
        }
    }

    #[test]
    fn a_full_disk_leaves_the_old_file_and_no_temporary_one() {
        let fs = Simulated::with_dir("/data");
        let path = Path::new("/data/file");
        write_atomically(&fs, path, b"old").unwrap();
        fs.set_capacity(Some(10));
        let error = write_atomically(&fs, path, &[7; 100]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs.list(Path::new("/data")).unwrap(), ["file"]);
        assert_eq!(read_bounded(&fs, path, 100).unwrap(), b"old");
    }
}

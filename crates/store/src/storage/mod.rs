//! Durable files: what this program may believe about a disk after a crash, a full disk or a pulled plug.
//!
//! Everything that must survive is written through the small [`Filesystem`] trait, so that a test can stop the
//! world at every single operation ([`Simulated`]) and look at what a restart would find. On top of it:
//! [`write_atomically`] replaces a whole file or nothing, [`CheckpointStore`] keeps the learner's checkpoints,
//! [`Reserve`] holds disk space back for the trace, and [`FolderLock`] keeps a second process out of the folder.
//! What is *in* the files is none of this module's business: the trace has its own ([`crate::trace`]), and a
//! checkpoint is opaque bytes here.
//!
//! # What is believed
//! - Bytes are on the disk when `sync` of their file has returned without an error, not before.
//! - A name (a file created, renamed, removed) is on the disk when `sync_dir` of its folder has returned.
//! - `rename` over an existing file leaves the old or the new one, never neither.
//! - After a failed `sync`, the bytes since the last good one are lost, **even if a second `sync` succeeds**: Linux
//!   reports a failed write-back once and then calls the pages clean. They have to be written again.

use std::fmt;
use std::io;
use std::path::Path;

mod atomic;
mod checkpoint;
mod lock;
mod os;
mod private;
mod reserve;
mod retention;
mod simulated;

pub use atomic::write_atomically_with;
pub use atomic::{remove_leftovers, write_atomically};
pub use checkpoint::{Checkpoint, CheckpointStore, Faulty, Mark, Unusable};
pub use lock::FolderLock;
pub use os::OsFilesystem;
pub use private::{create_private_folder, make_private, private_file};
pub use reserve::Reserve;
pub use retention::{Keep, MOST_CHECKPOINTS};
pub use simulated::{Fault, Simulated};

/// The operations that durable files need, and nothing else.
///
/// Paths are used as given. All calls take `&self`: an implementation is shared by threads.
pub trait Filesystem: Send + Sync + fmt::Debug {
    /// Creates a folder and its parents; one that exists is fine.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Creates an empty file for writing; one that exists is emptied.
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>>;
    /// Opens a file so that every write goes to its end; creates it if it is missing.
    fn append(&self, path: &Path) -> io::Result<Box<dyn File>>;
    /// Opens a file for reading from its beginning.
    fn read(&self, path: &Path) -> io::Result<Box<dyn io::Read + Send>>;
    /// The length of a file.
    fn len(&self, path: &Path) -> io::Result<u64>;
    /// Cuts a file to `len` bytes and syncs it: the cut is durable on return.
    fn truncate(&self, path: &Path, len: u64) -> io::Result<()>;
    /// Gives a file another name, replacing the file that had it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The names of the plain files in a folder, in order.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// What is left, in bytes, for this user on the disk that holds `dir`.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
}

/// A file open for writing.
pub trait File: io::Write + Send {
    /// Makes the content and the length durable. After an error, see the module's word on failed syncs.
    fn sync(&mut self) -> io::Result<()>;
    /// Takes `len` bytes of the disk for this file, which must be new and empty, so that they are its own.
    fn allocate(&mut self, len: u64) -> io::Result<()>;
}

/// Reads a whole file of at most `limit` bytes; a longer one is an error, so that no file's size decides how much
/// memory is taken.
pub fn read_bounded(fs: &dyn Filesystem, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    use io::Read as _;
    let len = fs.len(path)?;
    let too_long = || io::Error::new(io::ErrorKind::InvalidData, format!("longer than {limit} bytes"));
    if len > limit {
        return Err(too_long());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(len).map_err(|_| too_long())?);
    // One byte over the limit tells a file that grew while it was read from one that just fits.
    fs.read(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit { Err(too_long()) } else { Ok(bytes) }
}

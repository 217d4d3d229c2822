//! The data folder, opened for a run: held, private, with its trace and its checkpoints, and without what was to be forgotten.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::thumbnails;
use crate::device::clock::Clock;
use crate::storage::{CheckpointStore, Filesystem, FolderLock, create_private_folder, make_private};
use crate::trace::{Recovery, TraceSettings, TraceWriter};
use crate::{Error, Result};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Folder {
    /// Where it is.
    pub data: PathBuf,
    /// Keeps others out until dropped.
    pub lock: FolderLock,
    /// The trace.
    pub writer: TraceWriter,
    /// What had to be done to it.
    pub recovery: Recovery,
    /// The checkpoints.
    pub store: CheckpointStore,
}

impl Folder {
    /// Opens the folder, makes it if it is missing, and finishes a `forget` that was interrupted.
    pub(super) fn open(
        fs: Arc<dyn Filesystem>,
        data: &Path,
        reserve_bytes: u64,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        create_private_folder(data).map_err(|error| {
            Error::io(data, error).expecting("a place where the folder of --data can be made")
        })?;
        let lock = FolderLock::acquire(data)?;
        for folder in ["trace", "checkpoints", "thumbnails"].map(|name| data.join(name)) {
            // It may be somebody else's, or on a disk that knows no owners: no reason not to record.
            if let Err(error) = make_private(&folder) {
                log::warn!("{}: others may be able to read it: {error}", folder.display());
            }
        }
        let mut settings = TraceSettings::default();
        settings.disk.reserve_bytes = reserve_bytes;
        let (writer, recovery) = TraceWriter::open(Arc::clone(&fs), &data.join("trace"), settings, clock)?;
        if recovery.cut_bytes > 0 {
            log::warn!(
                "the end of the trace was damaged: {} bytes ({} lines) were cut off",
                recovery.cut_bytes,
                recovery.cut_lines
            );
        }
        let store = CheckpointStore::open(fs, &data.join("checkpoints"))?;
        let folder = Self { data: data.to_path_buf(), lock, writer, recovery, store };
        folder.finish_forget()?;
        Ok(folder)
    }

    fn finish_forget(&self) -> Result<()> {
        let Some(pending) = &self.recovery.pending_forget else { return Ok(()) };
        self.store.remove_from(pending.from_seq)?;
        // Nobody waits for an answer, and the recording is worth more than to end here.
        if let Err(error) = thumbnails::forget(&self.data, pending) {
            log::error!("not everything was forgotten: {error}");
        }
        let removed = self.writer.remove_forgotten()?;
        log::info!("a forget that had been interrupted was finished: {removed} records");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::time::Duration;

    use super::*;
    use crate::device::clock::SystemClock;
    use crate::storage::{Keep, Mark, OsFilesystem};
    use crate::trace::{Pause, Record};

    fn open(data: &Path) -> Result<Folder> {
        Folder::open(Arc::new(OsFilesystem), data, 0, Arc::new(SystemClock::new()))
    }

    #[test]
    fn a_folder_is_private_and_has_one_owner() {
        let parent = tempfile::tempdir().unwrap();
        let data = parent.path().join("new");
        let folder = open(&data).unwrap();
        assert_eq!(std::fs::metadata(&data).unwrap().mode() & 0o077, 0);
        assert_eq!(open(&data).unwrap_err().exit_code(), 2, "somebody records into it");
        drop(folder);
        open(&data).unwrap();
        let file = parent.path().join("file");
        std::fs::write(&file, b"").unwrap();
        assert!(open(&file).is_err());
    }

    #[test]
    fn a_forget_that_was_interrupted_is_finished() {
        let parent = tempfile::tempdir().unwrap();
        let data = parent.path().join("data");
        let folder = open(&data).unwrap();
        folder.writer.record(Record::Pause(Pause { by: "test".to_owned() }));
        let seq = folder.writer.flush(Duration::from_secs(60)).unwrap();
        let mark = Mark { trace_seq: seq, running: Duration::ZERO };
        folder.store.save(mark, b"knows too much", Keep::LastTwo).unwrap();
        assert!(folder.writer.begin_forget(Duration::from_secs(3600)).unwrap().is_some());
        folder.writer.close(Duration::from_secs(60)).unwrap();
        drop(folder.lock);

        let folder = open(&data).unwrap();
        assert!(folder.recovery.pending_forget.is_some());
        assert!(folder.store.list().unwrap().is_empty());
    }
}

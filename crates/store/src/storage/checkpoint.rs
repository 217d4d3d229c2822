//! The learner's checkpoints as files: written whole or not at all, checked when read, a few kept.
//!
//! # Format
//! One folder, one file a checkpoint, which is a plain safetensors file that any tool opens. What the store must know
//! of it without reading it stands in its name, so that it appears in one step with the file:
//! ```text
//! checkpoint-00000042-seq123456-run3600s-1a2b3c4d.safetensors
//!            number   trace     running  CRC-32 of the content
//! ```
//! `number` rises by one; `seq` is the number of the last trace record from before the checkpoint, by which `forget`
//! finds those that know too much; `run` is for how long the program had run in all, by which old ones are thinned
//! out ([`Keep`]).
//!
//! # Damage
//! Content that does not match its name's checksum is put aside as `….damaged` (the latest one is kept for whoever
//! wants to know why) and the next older checkpoint is used, with a warning. A file that cannot be read at all is
//! passed over and left alone: the fault may be the disk's and pass.
//!
//! # Content that this program cannot use
//! The content may be whole and still make no sense to whoever decodes it ([`CheckpointStore::newest_usable`]). Then the next
//! older checkpoint is used as well. If one is found, what could not be decoded is put aside like a damaged file. A file
//! of a newer format ([`Unusable::Newer`]) stays where it is, for the program that wrote it, and takes no place among those
//! that are kept. If no checkpoint at all can be used, nothing is touched: most likely the settings are at fault.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::{Filesystem, Keep, read_bounded, remove_leftovers, retention, write_atomically};
use crate::{Error, Result};

/// No checkpoint of this program comes near this; a longer file is something else and is not read into memory.
const LARGEST: u64 = 2 << 30;

const DAMAGED: &str = ".damaged";

/// When a checkpoint was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The trace's last record when the checkpoint was made: the checkpoint knows nothing younger.
    pub trace_seq: u64,
    /// For how long the program had run on this data folder, restarts included. Whole seconds are stored.
    pub running: Duration,
}

/// A checkpoint file in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Its number; the newest has the highest.
    pub number: u64,
    /// When it was made.
    pub mark: Mark,
    /// The file.
    pub path: PathBuf,
    crc: u32,
}

/// Why a checkpoint whose checksum is right cannot be used.
#[derive(Debug)]
pub enum Unusable {
    /// It is of a newer format than this program knows.
    Newer(Error),
    /// It makes no sense, or does not suit the settings.
    Nonsense(Error),
}

impl Unusable {
    /// What is wrong, in a sentence.
    pub fn error(self) -> Error {
        match self {
            Self::Newer(error) | Self::Nonsense(error) => error,
        }
    }
}

/// What to do with checkpoints that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faulty {
    /// Put them aside, as the [module](self) says.
    PutAside,
    /// Leave them as they are: for those who only look.
    Leave,
}

/// The folder of checkpoints.
#[derive(Debug, Clone)]
pub struct CheckpointStore {
    fs: Arc<dyn Filesystem>,
    dir: PathBuf,
    /// Files of a newer format, as far as they were come across.
    newer: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl CheckpointStore {
    /// Opens the folder, makes it if it is missing, and clears away what an interrupted save left.
    pub fn open(fs: Arc<dyn Filesystem>, dir: &Path) -> Result<Self> {
        fs.create_dir_all(dir).and_then(|()| remove_leftovers(&*fs, dir)).map_err(|e| Error::io(dir, e))?;
        Ok(Self { fs, dir: dir.to_path_buf(), newer: Arc::default() })
    }

    /// Whether there is a checkpoint in a folder, by the names alone. Nothing is changed.
    pub fn is_used(fs: &dyn Filesystem, dir: &Path) -> bool {
        fs.list(dir).is_ok_and(|names| names.iter().any(|name| Checkpoint::parse(dir, name).is_some()))
    }

    /// Saves a checkpoint, durable on return, then removes those that are no longer to be kept.
    pub fn save(&self, mark: Mark, bytes: &[u8], keep: Keep) -> Result<Checkpoint> {
        let number = self.list()?.first().map_or(1, |newest| newest.number.saturating_add(1));
        let crc = crc32fast::hash(bytes);
        let name = format!(
            "checkpoint-{number:08}-seq{}-run{}s-{crc:08x}.safetensors",
            mark.trace_seq,
            mark.running.as_secs()
        );
        let path = self.dir.join(name);
        write_atomically(&*self.fs, &path, bytes).map_err(|e| Error::io(&path, e))?;
        // The new one is safe: what fails from here on costs disk space, not data.
        if let Err(error) = self.thin_out(keep) {
            log::warn!("old checkpoints could not be removed: {error}");
        }
        let mark = Mark { running: Duration::from_secs(mark.running.as_secs()), ..mark };
        Ok(Checkpoint { number, mark, path, crc })
    }

    /// The checkpoints, newest first, by name; nothing is read.
    pub fn list(&self) -> Result<Vec<Checkpoint>> {
        let names = self.fs.list(&self.dir).map_err(|e| Error::io(&self.dir, e))?;
        let mut found: Vec<_> = names.iter().filter_map(|name| Checkpoint::parse(&self.dir, name)).collect();
        found.sort_unstable_by(|a, b| b.number.cmp(&a.number).then_with(|| b.path.cmp(&a.path)));
        Ok(found)
    }

    /// The newest checkpoint whose content is whole. Damaged ones are put aside with a warning.
    pub fn load_newest(&self) -> Result<Option<(Checkpoint, Vec<u8>)>> {
        self.newest_usable(Faulty::PutAside, |_, bytes| Ok(bytes))
    }

    /// The newest checkpoint that is whole and that `decode` can make something of. What happens to the others is
    /// described in the [module](self).
    ///
    /// # Errors
    /// If there are whole checkpoints, but none that can be decoded: what is wrong with the newest.
    pub fn newest_usable<T>(
        &self,
        faulty: Faulty,
        mut decode: impl FnMut(&Checkpoint, Vec<u8>) -> Result<T, Unusable>,
    ) -> Result<Option<(Checkpoint, T)>> {
        let (mut nonsense, mut first_fault) = (Vec::new(), None);
        for checkpoint in self.list()? {
            let bytes = match self.load(&checkpoint) {
                Ok(bytes) => bytes,
                Err(error) => {
                    log::warn!("{error}: going back to the checkpoint before it");
                    if matches!(error, Error::Input(_)) && faulty == Faulty::PutAside {
                        self.put_aside(&checkpoint);
                    }
                    continue;
                }
            };
            let fault = match decode(&checkpoint, bytes) {
                Ok(decoded) => {
                    if faulty == Faulty::PutAside {
                        nonsense.iter().for_each(|checkpoint| self.put_aside(checkpoint));
                    }
                    return Ok(Some((checkpoint, decoded)));
                }
                Err(fault) => fault,
            };
            match &fault {
                Unusable::Newer(error) => {
                    log::warn!("{error}: it is left alone, going back to the checkpoint before it");
                    self.newer().insert(checkpoint.path);
                }
                Unusable::Nonsense(error) => {
                    log::warn!("{error}: going back to the checkpoint before it");
                    nonsense.push(checkpoint);
                }
            }
            first_fault.get_or_insert(fault.error());
        }
        first_fault.map_or(Ok(None), Err)
    }

    fn newer(&self) -> std::sync::MutexGuard<'_, BTreeSet<PathBuf>> {
        self.newer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The content of one checkpoint. Damage is an [`Error::Input`], a failing disk an [`Error::Io`].
    pub fn load(&self, checkpoint: &Checkpoint) -> Result<Vec<u8>> {
        let path = &checkpoint.path;
        let bytes = read_bounded(&*self.fs, path, LARGEST).map_err(|e| Error::io(path, e))?;
        if crc32fast::hash(&bytes) == checkpoint.crc {
            Ok(bytes)
        } else {
            Err(Error::input(format!("{}: the checkpoint is damaged (wrong checksum)", path.display())))
        }
    }

    /// Removes, for `forget`, every checkpoint that was made when the trace had reached record `first_seq` or more,
    /// and whatever damaged one was put aside. Durable on return. Says how many went.
    pub fn remove_from(&self, first_seq: u64) -> Result<usize> {
        let mut removed = 0;
        for checkpoint in self.list()?.iter().filter(|checkpoint| checkpoint.mark.trace_seq >= first_seq) {
            self.fs.remove(&checkpoint.path).map_err(|e| Error::io(&checkpoint.path, e))?;
            removed += 1;
        }
        self.remove_damaged_but(None).and_then(|()| self.sync())?;
        Ok(removed)
    }

    /// Removes the checkpoints that are no longer to be kept.
    pub fn thin_out(&self, keep: Keep) -> Result<()> {
        let mut checkpoints = self.list()?;
        checkpoints.retain(|checkpoint| !self.newer().contains(&checkpoint.path));
        let running: Vec<Duration> = checkpoints.iter().map(|checkpoint| checkpoint.mark.running).collect();
        for (checkpoint, stays) in checkpoints.iter().zip(retention::kept(&running, keep)) {
            if !stays {
                self.fs.remove(&checkpoint.path).map_err(|e| Error::io(&checkpoint.path, e))?;
            }
        }
        // Not synced: a file that comes back after a power cut is removed by the next save.
        Ok(())
    }

    /// Puts a checkpoint aside as a damaged one: it is not used any more. A failure is logged.
    pub fn put_aside(&self, checkpoint: &Checkpoint) {
        let Some(name) = checkpoint.path.file_name().and_then(|name| name.to_str()) else { return };
        let aside = format!("{name}{DAMAGED}");
        let moved = self.fs.rename(&checkpoint.path, &self.dir.join(&aside));
        let moved = moved.map_err(|e| Error::io(&checkpoint.path, e));
        if let Err(error) =
            moved.and_then(|()| self.remove_damaged_but(Some(&aside))).and_then(|()| self.sync())
        {
            log::warn!("the damaged checkpoint could not be put aside: {error}");
        }
    }

    fn remove_damaged_but(&self, spared: Option<&str>) -> Result<()> {
        for name in self.fs.list(&self.dir).map_err(|e| Error::io(&self.dir, e))? {
            if name.ends_with(DAMAGED) && Some(name.as_str()) != spared {
                let path = self.dir.join(name);
                self.fs.remove(&path).map_err(|e| Error::io(&path, e))?;
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.fs.sync_dir(&self.dir).map_err(|e| Error::io(&self.dir, e))
    }
}

impl Checkpoint {
    /// Reads a file name; none of ours is `None`.
    fn parse(dir: &Path, name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("checkpoint-")?.strip_suffix(".safetensors")?.split('-');
        let number = parts.next()?.parse().ok()?;
        let trace_seq = parts.next()?.strip_prefix("seq")?.parse().ok()?;
        let seconds = parts.next()?.strip_prefix("run")?.strip_suffix('s')?.parse().ok()?;
        let crc = u32::from_str_radix(parts.next().filter(|crc| crc.len() == 8)?, 16).ok()?;
        let mark = Mark { trace_seq, running: Duration::from_secs(seconds) };
        parts.next().is_none().then(|| Self { number, mark, path: dir.join(name), crc })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fault, Simulated};
    use super::*;
    use proptest::prelude::*;

    const DIR: &str = "/run/checkpoints";

    fn store(fs: &Simulated) -> CheckpointStore {
        CheckpointStore::open(Arc::new(fs.clone()), Path::new(DIR)).unwrap()
    }

    fn mark(n: u64) -> Mark {
        Mark { trace_seq: 100 * n, running: Duration::from_secs(60 * n) }
    }

    fn content(n: u64) -> Vec<u8> {
        format!("checkpoint number {n}").into_bytes()
    }

    #[test]
    fn the_newest_comes_back_and_two_are_kept() {
        let fs = Simulated::default();
        let store = store(&fs);
        assert_eq!(store.load_newest().unwrap(), None);
        for n in 1..=4 {
            let saved = store.save(mark(n), &content(n), Keep::LastTwo).unwrap();
            assert_eq!(store.load_newest().unwrap(), Some((saved, content(n))));
        }
        let numbers: Vec<u64> = store.list().unwrap().iter().map(|checkpoint| checkpoint.number).collect();
        assert_eq!(numbers, [4, 3]);
    }

    #[test]
    fn a_damaged_newest_falls_back_to_the_older_and_does_not_push_it_out() {
        let fs = Simulated::default();
        let store = store(&fs);
        for n in 1..=2 {
            store.save(mark(n), &content(n), Keep::LastTwo).unwrap();
        }
        let newest = store.list().unwrap().remove(0);
        fs.flip_bit(&newest.path, 7);
        let (used, bytes) = store.load_newest().unwrap().unwrap();
        assert_eq!((used.number, bytes), (1, content(1)));
        assert!(fs.list(Path::new(DIR)).unwrap().iter().any(|name| name.ends_with(DAMAGED)));
        store.save(mark(3), &content(3), Keep::LastTwo).unwrap();
        assert_eq!(store.list().unwrap().len(), 2, "the whole older one is still there");
        assert_eq!(store.load(&store.list().unwrap()[1]).unwrap(), content(1));
    }

    /// Reads what [`content`] writes, but for some numbers.
    fn decode_but(newer: &[u64], nonsense: &[u64]) -> impl Fn(&Checkpoint, Vec<u8>) -> Result<u64, Unusable> {
        move |checkpoint, bytes| {
            assert_eq!(bytes, content(checkpoint.number));
            let fault = || Error::input(format!("number {} cannot be read", checkpoint.number));
            match checkpoint.number {
                number if newer.contains(&number) => Err(Unusable::Newer(fault())),
                number if nonsense.contains(&number) => Err(Unusable::Nonsense(fault())),
                number => Ok(number),
            }
        }
    }

    #[test]
    fn what_cannot_be_decoded_falls_back_to_the_older_and_is_put_aside() {
        let fs = Simulated::default();
        let store = store(&fs);
        for n in 1..=3 {
            store.save(mark(n), &content(n), Keep::LastTwoAndOlder).unwrap();
        }
        let only_looking = store.newest_usable(Faulty::Leave, decode_but(&[], &[3])).unwrap().unwrap();
        assert_eq!((only_looking.1, store.list().unwrap()[0].number), (2, 3));
        let used = store.newest_usable(Faulty::PutAside, decode_but(&[], &[3])).unwrap().unwrap();
        assert_eq!((used.1, store.list().unwrap()[0].number), (2, 2));
        assert!(fs.list(Path::new(DIR)).unwrap().iter().any(|name| name.ends_with(DAMAGED)));
    }

    #[test]
    fn if_nothing_can_be_decoded_the_newest_fault_is_told_and_nothing_is_touched() {
        let fs = Simulated::default();
        let store = store(&fs);
        for n in 1..=2 {
            store.save(mark(n), &content(n), Keep::LastTwo).unwrap();
        }
        let error = store.newest_usable(Faulty::PutAside, decode_but(&[2], &[1])).unwrap_err();
        assert!(error.to_string().contains("number 2"), "{error}");
        assert_eq!(store.list().unwrap().len(), 2);
    }

    #[test]
    fn a_newer_format_stays_and_pushes_nothing_out() {
        let fs = Simulated::default();
        let store = store(&fs);
        for n in 1..=4 {
            store.save(mark(n), &content(n), Keep::LastTwo).unwrap();
        }
        let used = store.newest_usable(Faulty::PutAside, decode_but(&[4], &[])).unwrap().unwrap();
        assert_eq!(used.1, 3);
        let numbers = || store.list().unwrap().iter().map(|checkpoint| checkpoint.number).collect::<Vec<_>>();
        store.save(mark(5), &content(5), Keep::LastTwo).unwrap();
        assert_eq!(numbers(), [5, 4, 3], "the two newest of ours, and the newer format");
        store.save(mark(6), &content(6), Keep::LastTwo).unwrap();
        assert_eq!(numbers(), [6, 5, 4]);
        // What must be forgotten goes, whoever wrote it.
        store.remove_from(400).unwrap();
        assert_eq!(numbers(), Vec::<u64>::new());
    }

    #[test]
    fn every_cut_short_file_is_refused() {
        let fs = Simulated::default();
        let store = store(&fs);
        let saved = store.save(mark(1), &content(1), Keep::LastTwo).unwrap();
        for len in (0..content(1).len() as u64).rev() {
            fs.truncate(&saved.path, len).unwrap();
            assert_eq!(store.load(&saved).unwrap_err().exit_code(), 2, "cut to {len} bytes");
        }
    }

    #[test]
    fn forgetting_removes_the_checkpoints_that_know_too_much() {
        let fs = Simulated::default();
        let store = store(&fs);
        for n in 1..=60 {
            store.save(mark(n), &content(n), Keep::LastTwoAndOlder).unwrap();
        }
        let before = store.list().unwrap();
        let (knowing, innocent): (Vec<_>, Vec<_>) = before.iter().partition(|c| c.mark.trace_seq >= 5000);
        assert!(!knowing.is_empty() && !innocent.is_empty());
        assert_eq!(store.remove_from(5000).unwrap(), knowing.len());
        for seed in 0..20 {
            let left = CheckpointStore { fs: Arc::new(fs.after_power_cut(seed)), ..store.clone() };
            assert_eq!(left.list().unwrap().iter().collect::<Vec<_>>(), innocent);
        }
    }

    /// Run, fail at step N, restart, check; N + 1, until it passes.
    #[test]
    fn a_failure_at_any_step_of_a_save_leaves_a_whole_checkpoint() {
        for fault in [Fault::Error, Fault::ShortWrite, Fault::LostSync, Fault::PowerCut] {
            for step in 1.. {
                let fs = Simulated::default();
                let saving = store(&fs);
                for n in 1..=3 {
                    saving.save(mark(n), &content(n), Keep::LastTwo).unwrap();
                }
                let before = fs.operations();
                fs.fail_at(step, fault);
                let outcome = saving.save(mark(4), &content(4), Keep::LastTwo);
                let survivors = (0..20)
                    .map(|seed| fs.after_power_cut(seed))
                    .chain((fault != Fault::PowerCut).then_some(fs.clone()));
                for after in survivors {
                    let (newest, bytes) = store(&after).load_newest().unwrap().unwrap();
                    assert_eq!(bytes, content(newest.number), "{fault:?} at {step}");
                    let acceptable = if outcome.is_ok() { 4..=4 } else { 3..=4 };
                    assert!(acceptable.contains(&newest.number), "{fault:?} at {step}: {}", newest.number);
                }
                if fs.operations() - before < step {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_full_disk_refuses_the_new_one_and_keeps_the_old() {
        let fs = Simulated::default();
        let store = store(&fs);
        store.save(mark(1), &content(1), Keep::LastTwo).unwrap();
        fs.set_capacity(Some(30));
        assert_eq!(store.save(mark(2), &content(2), Keep::LastTwo).unwrap_err().exit_code(), 1);
        assert_eq!(store.load_newest().unwrap().unwrap().1, content(1));
    }

    proptest! {
        #[test]
        fn no_name_and_no_content_makes_the_store_fail(
            names in prop::collection::vec("(checkpoint-)?[0-9a-fsequn.-]{0,24}(\\.safetensors)?(\\.damaged)?", 0..8),
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let fs = Simulated::default();
            let store = store(&fs);
            for name in names.iter().filter(|name| !name.is_empty() && *name != "." && *name != "..") {
                write_atomically(&fs, &Path::new(DIR).join(name), &bytes).unwrap();
            }
            let hit = format!("checkpoint-7-seq1-run1s-{:08x}.safetensors", crc32fast::hash(&bytes));
            write_atomically(&fs, &Path::new(DIR).join(hit), &bytes).unwrap();
            let loaded = store.load_newest().unwrap();
            prop_assert_eq!(loaded.map(|(_, found)| found), Some(bytes));
        }
    }
}

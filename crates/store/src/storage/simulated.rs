//! A disk in memory that fails on demand: the proving ground of every durable format in this crate.
//!
//! It is harsher than real file systems where POSIX allows it: what was not synced may be lost, may survive in part
//! or may come back as zeros, for each file and each name on its own; a failed sync loses its bytes for good although
//! the next one succeeds. Folders are durable at once. Reads never fail here.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{File, Filesystem};

/// What goes wrong at the chosen operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails and changes nothing; the next one works again.
    Error,
    /// A write gets half of its bytes out, then fails. Any other operation fails as with [`Fault::Error`].
    ShortWrite,
    /// A sync fails and the bytes are lost, though later syncs of the file succeed. Otherwise as [`Fault::Error`].
    LostSync,
    /// It fails, and so does everything after it: the moment of a power cut. See [`Simulated::after_power_cut`].
    PowerCut,
}

/// The disk. Clones are the same disk.
#[derive(Debug, Clone, Default)]
pub struct Simulated {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    disk: Mutex<Disk>,
    resumed: Condvar,
}

#[derive(Debug, Clone, Default)]
struct Disk {
    files: BTreeMap<u64, Content>,
    names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    folders: BTreeSet<PathBuf>,
    capacity: Option<u64>,
    operations: u64,
    planned: Option<(u64, Fault)>,
    without_power: bool,
    stalled: bool,
}

#[derive(Debug, Clone, Default)]
struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Bytes that a failed sync gave up: they read well until the power goes, and are zeros on the disk.
    given_up: Vec<Range<usize>>,
}

impl Simulated {
    /// An empty disk with one folder.
    pub fn with_dir(dir: impl AsRef<Path>) -> Self {
        let fs = Self::default();
        fs.disk().folders.insert(dir.as_ref().to_path_buf());
        fs
    }

    /// Plans `fault` for the `n`-th changing operation from now (1 = the next one). Changing operations are create,
    /// append (when it creates), write, sync, allocate, truncate, rename, remove and the sync of a folder.
    pub fn fail_at(&self, n: u64, fault: Fault) {
        let mut disk = self.disk();
        disk.planned = Some((disk.operations + n, fault));
    }

    /// Takes back a planned fault that has not struck yet.
    pub fn heal(&self) {
        self.disk().planned = None;
    }

    /// How many changing operations there have been.
    pub fn operations(&self) -> u64 {
        self.disk().operations
    }

    /// Limits the disk to so many bytes of file content.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.disk().capacity = bytes;
    }

    /// Makes every changing operation wait until the disk is let go again.
    pub fn set_stalled(&self, stalled: bool) {
        self.disk().stalled = stalled;
        self.shared.resumed.notify_all();
    }

    /// Flips the lowest bit of one byte of a file, on the disk and in memory: a worn cell.
    pub fn flip_bit(&self, path: &Path, at: usize) {
        let mut disk = self.disk();
        let Some(content) = disk.names.get(path).copied().and_then(|id| disk.files.get_mut(&id)) else {
            return;
        };
        for bytes in [&mut content.live, &mut content.durable] {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1;
            }
        }
    }

    /// The disk as a restart might find it after a power cut now. Each seed is one possible outcome; this disk
    /// itself stays as it is, so that many outcomes of one moment can be looked at.
    pub fn after_power_cut(&self, seed: u64) -> Self {
        let before = self.disk().clone();
        let mut chance = Chance(seed);
        let mut after = Disk { folders: before.folders, capacity: before.capacity, ..Disk::default() };
        for path in before.names.keys().chain(before.durable_names.keys()) {
            let (live, durable) = (before.names.get(path), before.durable_names.get(path));
            let survivor = if live == durable || chance.below(2) == 0 { durable } else { live };
            if let Some(&id) = survivor {
                after.names.insert(path.clone(), id);
            }
        }
        after.durable_names = after.names.clone();
        for (&id, content) in &before.files {
            let survived = content.survive(&mut chance);
            after
                .files
                .insert(id, Content { live: survived.clone(), durable: survived, given_up: Vec::new() });
        }
        Self { shared: Arc::new(Shared { disk: Mutex::new(after), resumed: Condvar::new() }) }
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.shared.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a changing operation, waits while the disk is stalled, and tells which fault strikes it, if any.
    fn change(&self) -> io::Result<(MutexGuard<'_, Disk>, Option<Fault>)> {
        let mut disk = self.disk();
        while disk.stalled {
            disk = self.shared.resumed.wait(disk).unwrap_or_else(PoisonError::into_inner);
        }
        disk.operations += 1;
        let fault = disk.planned.filter(|(at, _)| *at == disk.operations).map(|(_, fault)| fault);
        disk.without_power |= fault == Some(Fault::PowerCut);
        if disk.without_power { Err(failure()) } else { Ok((disk, fault)) }
    }

    /// For operations that any fault makes fail without an effect.
    fn change_or_fail(&self) -> io::Result<MutexGuard<'_, Disk>> {
        match self.change()? {
            (disk, None) => Ok(disk),
            (_, Some(_)) => Err(failure()),
        }
    }

    fn open(&self, path: &Path, empty: bool) -> io::Result<Box<dyn File>> {
        let existing = self.disk().names.get(path).copied();
        let id = match existing {
            Some(id) if !empty => id,
            _ => self.change_or_fail()?.create(path)?,
        };
        Ok(Box::new(Handle { fs: self.clone(), id }))
    }
}

impl Filesystem for Simulated {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk().folders.extend(dir.ancestors().map(Path::to_path_buf));
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.open(path, true)
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.open(path, false)
    }

    fn read(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let disk = self.disk();
        Ok(Box::new(io::Cursor::new(disk.content(path)?.live.clone())))
    }

    fn len(&self, path: &Path) -> io::Result<u64> {
        Ok(self.disk().content(path)?.live.len() as u64)
    }

    fn truncate(&self, path: &Path, len: u64) -> io::Result<()> {
        let mut disk = self.change_or_fail()?;
        let id = disk.id(path)?;
        let content = disk.file(id)?;
        let len = usize::try_from(len).map_err(|_| failure())?;
        content.live.resize(len, 0);
        content.given_up.iter_mut().for_each(|range| range.end = range.end.min(len));
        content.sync();
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut disk = self.change_or_fail()?;
        let id = disk.id(from)?;
        disk.names.remove(from);
        disk.names.insert(to.to_path_buf(), id);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut disk = self.change_or_fail()?;
        disk.id(path)?;
        disk.names.remove(path);
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let disk = self.disk();
        if !disk.folders.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = disk.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let disk = &mut *self.change_or_fail()?;
        disk.durable_names.retain(|path, _| path.parent() != Some(dir));
        let inside = disk.names.iter().filter(|(path, _)| path.parent() == Some(dir));
        disk.durable_names.extend(inside.map(|(path, id)| (path.clone(), *id)));
        Ok(())
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(self.disk().room())
    }
}

impl Disk {
    fn id(&self, path: &Path) -> io::Result<u64> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn content(&self, path: &Path) -> io::Result<&Content> {
        self.files.get(&self.id(path)?).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file(&mut self, id: u64) -> io::Result<&mut Content> {
        self.files.get_mut(&id).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&mut self, path: &Path) -> io::Result<u64> {
        let known = path.parent().is_some_and(|folder| self.folders.contains(folder));
        if !known {
            return Err(io::ErrorKind::NotFound.into());
        }
        // Emptying an existing file is modelled as a new one under its name: the old content may come back.
        let id = self.files.last_key_value().map_or(0, |(id, _)| id + 1);
        self.files.insert(id, Content::default());
        self.names.insert(path.to_path_buf(), id);
        Ok(id)
    }

    fn room(&self) -> u64 {
        let Some(capacity) = self.capacity else { return u64::MAX };
        let linked: BTreeSet<&u64> = self.names.values().collect();
        let used: usize = linked.iter().filter_map(|id| self.files.get(id)).map(|file| file.live.len()).sum();
        capacity.saturating_sub(used as u64)
    }
}

impl Content {
    fn sync(&mut self) {
        self.durable.clone_from(&self.live);
        for range in &self.given_up {
            // The range may be empty or reversed after a cut; then nothing of it is left.
            if let Some(bytes) = self.durable.get_mut(range.clone()) {
                bytes.fill(0);
            }
        }
    }

    /// One possible content after a power cut: synced, or more, or zeros where more was to be.
    fn survive(&self, chance: &mut Chance) -> Vec<u8> {
        let kept = self.live.iter().zip(&self.durable).take_while(|(a, b)| a == b).count();
        if kept == self.live.len() && kept == self.durable.len() {
            return self.durable.clone();
        }
        let cut = kept + chance.below(self.live.len() - kept + 1);
        match chance.below(4) {
            0 => self.durable.clone(),
            1 if self.given_up.is_empty() => self.live.clone(),
            2 => {
                let mut zeros = self.live.clone();
                zeros.iter_mut().skip(cut).for_each(|byte| *byte = 0);
                zeros
            }
            _ => self.live.iter().take(cut).copied().collect(),
        }
    }
}

struct Handle {
    fs: Simulated,
    id: u64,
}

impl Write for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (mut disk, fault) = self.fs.change()?;
        let room = usize::try_from(disk.room()).unwrap_or(usize::MAX);
        let content = disk.file(self.id)?;
        let written = match fault {
            None if room == 0 && !bytes.is_empty() => return Err(io::ErrorKind::StorageFull.into()),
            None => bytes.len().min(room),
            Some(Fault::ShortWrite) => bytes.len() / 2,
            Some(_) => return Err(failure()),
        };
        content.live.extend(bytes.iter().take(written));
        if fault.is_some() { Err(failure()) } else { Ok(written) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl File for Handle {
    fn sync(&mut self) -> io::Result<()> {
        let (mut disk, fault) = self.fs.change()?;
        let content = disk.file(self.id)?;
        match fault {
            None => {
                content.sync();
                Ok(())
            }
            Some(fault) => {
                if fault == Fault::LostSync {
                    let kept = content.live.iter().zip(&content.durable).take_while(|(a, b)| a == b).count();
                    content.given_up.push(kept..content.live.len());
                }
                Err(failure())
            }
        }
    }

    fn allocate(&mut self, len: u64) -> io::Result<()> {
        let mut disk = self.fs.change_or_fail()?;
        if disk.room() < len {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let len = usize::try_from(len).map_err(|_| failure())?;
        disk.file(self.id)?.live.resize(len, 0);
        Ok(())
    }
}

fn failure() -> io::Error {
    io::Error::other("the simulated disk failed")
}

/// SplitMix64: enough of a random generator to choose outcomes by a seed.
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % (bound.max(1) as u64)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::read_bounded;
    use super::*;

    fn outcomes(fs: &Simulated, path: &str) -> BTreeSet<Option<Vec<u8>>> {
        (0..200).map(|seed| read_bounded(&fs.after_power_cut(seed), Path::new(path), 100).ok()).collect()
    }

    #[test]
    fn only_synced_bytes_under_synced_names_are_sure_to_survive() {
        let fs = Simulated::with_dir("/d");
        let mut file = fs.create(Path::new("/d/f")).unwrap();
        file.write_all(b"ab").unwrap();
        file.sync().unwrap();
        assert!(outcomes(&fs, "/d/f").contains(&None), "the name was not synced");
        fs.sync_dir(Path::new("/d")).unwrap();
        assert_eq!(outcomes(&fs, "/d/f"), BTreeSet::from([Some(b"ab".to_vec())]));
        file.write_all(b"cd").unwrap();
        let all: Vec<Option<Vec<u8>>> = [b"ab".as_slice(), b"ab\0\0", b"abc", b"abc\0", b"abcd"]
            .iter()
            .map(|b| Some(b.to_vec()))
            .collect();
        assert_eq!(outcomes(&fs, "/d/f"), all.into_iter().collect());
    }

    #[test]
    fn a_failed_sync_gives_its_bytes_up_until_they_are_cut_and_written_again() {
        let fs = Simulated::with_dir("/d");
        let path = Path::new("/d/f");
        let mut file = fs.create(path).unwrap();
        fs.sync_dir(Path::new("/d")).unwrap();
        file.write_all(b"ab").unwrap();
        fs.fail_at(1, Fault::LostSync);
        assert!(file.sync().is_err());
        file.sync().unwrap();
        assert!(outcomes(&fs, "/d/f").contains(&Some(vec![0, 0])), "the second sync saved nothing");
        fs.truncate(path, 0).unwrap();
        file.write_all(b"ab").unwrap();
        file.sync().unwrap();
        assert_eq!(outcomes(&fs, "/d/f"), BTreeSet::from([Some(b"ab".to_vec())]));
    }

    #[test]
    fn faults_strike_the_chosen_operation_only() {
        let fs = Simulated::with_dir("/d");
        let mut file = fs.create(Path::new("/d/f")).unwrap();
        fs.fail_at(2, Fault::ShortWrite);
        file.write_all(b"ab").unwrap();
        assert!(file.write_all(b"cdef").is_err());
        assert_eq!(read_bounded(&fs, Path::new("/d/f"), 100).unwrap(), b"abcd");
        file.write_all(b"gh").unwrap();
        fs.fail_at(1, Fault::PowerCut);
        assert!(file.sync().is_err() && file.write(b"x").is_err() && fs.sync_dir(Path::new("/d")).is_err());
    }
}

//! The writing end of the trace without its thread: numbers records, writes, syncs, rotates, mends.
//!
//! Nothing here knows the time or waits. An error leaves the log fit to try again: the lines that are not durable are
//! still in memory, and the next call first restores the segment, or begins another.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::forget;
use super::line::{TooLong, encode};
use super::record::{DropReason, Dropped, Entry, Record, Recovered};
use super::recovery::{self, Recovery};
use super::segment::{self, Segment};
use crate::clock::Stamp;
use crate::storage::{File, Filesystem, remove_leftovers, write_atomically_with};
use crate::{Error, Result};

pub(super) struct Log {
    pub(super) fs: Arc<dyn Filesystem>,
    pub(super) dir: PathBuf,
    segment_bytes: u64,
    open: Option<Open>,
    next_segment: u64,
    next_seq: u64,
    durable_seq: u64,
    /// The lines since the last sync, and how much of them the kernel has.
    pending: Vec<u8>,
    written: usize,
}

/// The segment that is written to.
struct Open {
    segment: Segment,
    /// `None` after a failed write: what is beyond `synced` has to be cut off first.
    file: Option<Box<dyn File>>,
    /// Its length up to which it is durable.
    synced: u64,
    name_synced: bool,
}

impl Log {
    /// Opens the trace in `dir`, mends its end and makes what is there durable.
    pub(super) fn open(
        fs: Arc<dyn Filesystem>,
        dir: &Path,
        segment_bytes: u64,
        now: Stamp,
    ) -> Result<(Self, Recovery)> {
        fs.create_dir_all(dir).and_then(|()| remove_leftovers(&*fs, dir)).map_err(|e| Error::io(dir, e))?;
        let segments = segment::list(&*fs, dir)?;
        let pending_forget = forget::read_pending(&*fs, dir)?;
        let mut log = Self {
            fs,
            dir: dir.to_path_buf(),
            segment_bytes,
            open: None,
            next_segment: segments.last().map_or(1, |last| last.number.saturating_add(1)),
            next_seq: 1,
            durable_seq: 0,
            pending: Vec::new(),
            written: 0,
        };
        let mut recovery = Recovery { pending_forget, ..Recovery::default() };
        if let Some((last, earlier)) = segments.split_last() {
            log.mend(last, earlier, &mut recovery).map_err(|e| Error::io(&last.path, e))?;
        }
        log.stay_clear_of_newer(&mut recovery)?;
        // What is found is what counts from now on: a file that was removed must not come back.
        log.fs.sync_dir(dir).map_err(|e| Error::io(dir, e))?;
        if recovery.cut_lines > 0 {
            let (cut_bytes, cut_lines) = (recovery.cut_bytes, recovery.cut_lines);
            log.skip(cut_lines, now, |missing_from| {
                Record::Recovered(Recovered { missing_from, cut_bytes, cut_lines })
            });
        }
        Ok((log, recovery))
    }

    fn mend(&mut self, last: &Segment, earlier: &[Segment], recovery: &mut Recovery) -> io::Result<()> {
        let extent = recovery::extent(&*self.fs, last)?;
        let whole = extent.whole_bytes;
        let cut = if whole < extent.bytes { self.fs.truncate(&last.path, whole) } else { Ok(()) };
        if let Err(error) = cut.and_then(|()| self.continue_segment(last.clone(), whole)) {
            // What the kernel could not write it now calls clean: only a copy can be made sure of.
            log::warn!("{}: {error}: going on with a copy of the segment", last.path.display());
            let mut content = self.fs.read(&last.path)?.take(whole);
            write_atomically_with(&*self.fs, &last.path, |copy| io::copy(&mut content, copy).map(drop))?;
            self.continue_segment(last.clone(), whole)?;
        }
        recovery.last_seq = recovery::highest_seq(&*self.fs, earlier, &extent)?;
        recovery.cut_bytes = extent.bytes - whole;
        recovery.cut_lines = extent.cut_lines;
        self.next_seq = recovery.last_seq.saturating_add(1);
        self.durable_seq = recovery.last_seq;
        Ok(())
    }

    /// Lets numbers begin after those of segments of a newer version, which are left as they are.
    fn stay_clear_of_newer(&mut self, recovery: &mut Recovery) -> Result<()> {
        let newer = segment::newer(&*self.fs, &self.dir)?;
        let Some(last) = newer.last() else { return Ok(()) };
        log::warn!(
            "{}: {} segment(s) of a newer version of this program (such as {}) are left alone: only that program can read \
             or forget them; the recording goes on beside them",
            self.dir.display(),
            newer.len(),
            last.path.display()
        );
        recovery.newer_segments = newer.len() as u64;
        for segment in &newer {
            // Whatever cannot be understood of it is its own program's business.
            let highest = recovery::extent(&*self.fs, segment).ok().and_then(|extent| extent.seqs);
            if let Some((_, highest)) = highest {
                self.next_seq = self.next_seq.max(highest.saturating_add(1));
            }
        }
        Ok(())
    }

    /// Looks whether the segment that is written to is still there under its name. If somebody has removed it, another one is
    /// begun with what is not durable yet, and the path of the lost one is returned.
    pub(super) fn lost_segment(&mut self) -> Option<PathBuf> {
        let open = self.open.as_ref()?;
        let there = match self.fs.len(&open.segment.path) {
            Ok(len) => len >= open.synced,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if there {
            return None;
        }
        self.written = 0;
        self.open.take().map(|open| open.segment.path)
    }

    /// Goes on at the end of a segment of `len` bytes, durable on return if its name is.
    pub(super) fn continue_segment(&mut self, segment: Segment, len: u64) -> io::Result<()> {
        let mut file = self.fs.append(&segment.path)?;
        // After a mere crash of the process its last records may be in the kernel only.
        file.sync()?;
        self.next_segment = self.next_segment.max(segment.number.saturating_add(1));
        self.open = Some(Open { segment, file: Some(file), synced: len, name_synced: true });
        Ok(())
    }

    /// Lets go of the segment that is written to, which must hold nothing that is not durable: the next record begins
    /// a new one.
    pub(super) fn end_segment(&mut self) -> Option<(Segment, u64)> {
        self.open.take().map(|open| (open.segment, open.synced))
    }

    /// Gives a record its number and puts it with those to be written. One that is too long for a line is replaced by
    /// a record that says so. Returns the number.
    pub(super) fn append(&mut self, at: Stamp, record: Record) -> u64 {
        let seq = self.next_seq;
        let entry = Entry { seq, at, record };
        if let Err(TooLong) = encode(&entry, &mut self.pending) {
            let record = Record::Dropped(Dropped { missing_from: seq, reason: DropReason::TooLong });
            // This one is short by construction.
            let _ = encode(&Entry { record, ..entry }, &mut self.pending);
        }
        self.next_seq = seq.saturating_add(1);
        seq
    }

    /// Passes over `count` numbers and appends the record that explains it, made from the first of them.
    pub(super) fn skip(&mut self, count: u64, at: Stamp, explain: impl FnOnce(u64) -> Record) -> u64 {
        let missing_from = self.next_seq;
        self.next_seq = missing_from.saturating_add(count);
        self.append(at, explain(missing_from))
    }

    /// The number that the next record gets.
    #[cfg(test)]
    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Everything up to this number is on the disk.
    pub(super) fn durable_seq(&self) -> u64 {
        self.durable_seq
    }

    /// Bytes that are not durable yet.
    pub(super) fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    /// Hands what is appended to the kernel.
    pub(super) fn write(&mut self) -> io::Result<()> {
        if self.written == self.pending.len() {
            return Ok(());
        }
        self.prepare()?;
        let unwritten = self.pending.get(self.written..).unwrap_or_default();
        if let Some(open) = &mut self.open
            && let Some(file) = &mut open.file
        {
            if let Err(error) = file.write_all(unwritten) {
                open.file = None;
                return Err(error);
            }
            self.written = self.pending.len();
        }
        Ok(())
    }

    /// Makes everything appended durable.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        self.write()?;
        let Some(open) = &mut self.open else { return Ok(()) };
        let synced = match &mut open.file {
            Some(file) if open.name_synced => file.sync(),
            Some(file) => file.sync().and_then(|()| self.fs.sync_dir(&self.dir)),
            None => return Ok(()),
        };
        if let Err(error) = synced {
            self.abandon_segment();
            return Err(error);
        }
        open.synced += self.pending.len() as u64;
        open.name_synced = true;
        if open.synced >= self.segment_bytes {
            self.open = None;
        }
        self.pending.clear();
        self.written = 0;
        self.durable_seq = self.next_seq.saturating_sub(1);
        Ok(())
    }

    /// Makes sure that there is a segment to write to, whose end is where `written` says.
    fn prepare(&mut self) -> io::Result<()> {
        match &mut self.open {
            Some(Open { file: Some(_), .. }) => Ok(()),
            Some(open) => {
                self.written = 0;
                let path = &open.segment.path;
                let restored = self.fs.truncate(path, open.synced).and_then(|()| self.fs.append(path));
                match restored {
                    Ok(file) => {
                        open.file = Some(file);
                        Ok(())
                    }
                    Err(error) => {
                        self.abandon_segment();
                        Err(error)
                    }
                }
            }
            None => {
                self.written = 0;
                let segment = Segment::new(&self.dir, self.next_segment);
                let file = self.fs.create(&segment.path)?;
                self.next_segment = self.next_segment.saturating_add(1);
                self.open = Some(Open { segment, file: Some(file), synced: 0, name_synced: false });
                Ok(())
            }
        }
    }

    /// Gives the segment up: what is not durable in it goes to a new one. It is cut back if that can be done; if not,
    /// readers find some records twice and know them by their numbers.
    fn abandon_segment(&mut self) {
        self.written = 0;
        if let Some(open) = self.open.take() {
            drop(open.file);
            let path = &open.segment.path;
            let _ = if open.synced == 0 { self.fs.remove(path) } else { self.fs.truncate(path, open.synced) };
        }
    }
}

//! Forgetting: removing the records of the last minutes so that a crash at any step ends in "done" after a restart.
//!
//! 1. Everything is synced, and the first number that is younger than asked is found.
//! 2. The intent (which numbers) is written to `forget-pending.json`. From here on it will happen.
//! 3. Each segment with such records is replaced by one without them. Doing this twice changes nothing.
//! 4. The `forget` record is appended and synced, unless it is there already.
//! 5. The intent is removed, once the caller has a checkpoint that knows nothing of what is forgotten. Until then the intent
//!    also says where the recording was ([`Place`]), so that a crash does not make it see the same things again.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::age;
use super::line::{Line, Lines, decode, encode};
use super::log::Log;
use super::record::{Entry, Forget, Forgotten, Record};
use super::segment::{self, Segment};
use crate::clock::Stamp;
use crate::storage::{Filesystem, read_bounded, write_atomically, write_atomically_with};
use crate::{Error, Result};

const PENDING: &str = "forget-pending.json";

/// A `forget` that has been decided on and is not yet done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PendingForget {
    /// The first number to go: checkpoints made when the trace had reached it know too much.
    pub from_seq: u64,
    /// The last.
    pub until_seq: u64,
    /// How far back was asked for, in seconds.
    pub last_s: f32,
    /// When it was asked for.
    pub at: Stamp,
    /// Where the recording was then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// Where a recording was when it was asked to forget: numbers that were given away stay given away, and of a recorded source
/// the part that was forgotten is not read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The next frame.
    pub frame: u64,
    /// The next category.
    pub category: u64,
    /// The source's number of the next picture.
    pub sequence: u64,
}

/// The intent that an interrupted `forget` left, if there is one.
pub(super) fn read_pending(fs: &dyn Filesystem, dir: &Path) -> Result<Option<PendingForget>> {
    let path = dir.join(PENDING);
    match read_bounded(fs, &path, 4096) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, error)),
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| {
            Error::input(format!(
                "{}: not what an interrupted forget leaves ({error}): remove the file and repeat the forget",
                path.display()
            ))
        }),
    }
}

impl Log {
    /// Decides what to forget and notes it durably. `None` if nothing is that young. All records must be appended;
    /// they are synced first. What an earlier one had decided on and could not finish is included.
    pub(super) fn begin_forget(
        &mut self,
        now: Stamp,
        last: Duration,
        place: Option<Place>,
    ) -> Result<Option<PendingForget>> {
        self.sync().map_err(|e| Error::io(&self.dir, e))?;
        let segments = segment::list(&*self.fs, &self.dir)?;
        let from_seq =
            age::first_younger(&*self.fs, &segments, &now, last).map_err(|e| Error::io(&self.dir, e))?;
        let unfinished = read_pending(&*self.fs, &self.dir)?;
        let Some(from_seq) = from_seq else { return Ok(unfinished) };
        let mut last_s = last.as_secs_f32();
        if let Some(earlier) = &unfinished {
            last_s = last_s.max(earlier.last_s + seconds_between(&earlier.at, &now));
        }
        let earlier_place = unfinished.and_then(|earlier| earlier.place);
        let from_seq = unfinished.map_or(from_seq, |earlier| from_seq.min(earlier.from_seq));
        let pending = PendingForget {
            from_seq,
            until_seq: self.durable_seq(),
            last_s,
            at: now,
            place: place.or(earlier_place),
        };
        let text = serde_json::to_vec(&pending).map_err(|e| Error::input(e.to_string()))?;
        let path = self.pending_path();
        write_atomically(&*self.fs, &path, &text).map_err(|e| Error::io(&path, e))?;
        Ok(Some(pending))
    }

    /// Carries out what was decided, durable on return, and leaves the intent. Returns how many records are gone; 0 if nothing
    /// was pending.
    pub(super) fn remove_forgotten(&mut self, now: Stamp) -> Result<u64> {
        let Some(pending) = read_pending(&*self.fs, &self.dir)? else { return Ok(0) };
        self.sync().map_err(|e| Error::io(&self.dir, e))?;
        let written_to = self.end_segment();

        let mut removed = 0;
        let mut announced = false;
        for segment in segment::list(&*self.fs, &self.dir)?.iter().rev() {
            let found = self.rewrite_segment(segment, &pending).map_err(|e| Error::io(&segment.path, e))?;
            removed += found.removed;
            announced |= found.announced;
            if found.first_seq.is_some_and(|first| first < pending.from_seq) {
                break;
            }
        }

        if let Some((segment, _)) = written_to {
            let len = self.fs.len(&segment.path).map_err(|e| Error::io(&segment.path, e))?;
            let path = segment.path.clone();
            self.continue_segment(segment, len).map_err(|e| Error::io(path, e))?;
        }
        if !announced {
            let PendingForget { from_seq, until_seq, last_s, .. } = pending;
            self.append(now, Record::Forget(Forget { last_s, from_seq, until_seq, removed }));
            self.sync().map_err(|e| Error::io(&self.dir, e))?;
        }
        Ok(removed)
    }

    /// Removes the intent: the forgetting is over. Durable on return.
    pub(super) fn end_forget(&mut self) -> Result<()> {
        let path = self.pending_path();
        match self.fs.remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| self.fs.sync_dir(&self.dir)).map_err(|e| Error::io(path, e)),
        }
    }

    /// Carries out what was decided and removes the intent.
    #[cfg(test)]
    pub(super) fn finish_forget(&mut self, now: Stamp) -> Result<u64> {
        let removed = self.remove_forgotten(now)?;
        self.end_forget()?;
        Ok(removed)
    }

    fn pending_path(&self) -> PathBuf {
        self.dir.join(PENDING)
    }

    /// Replaces a segment by one without the records to be forgotten, if it has any.
    fn rewrite_segment(&self, segment: &Segment, pending: &PendingForget) -> io::Result<Found> {
        let mut found = Found::default();
        let mut to_remove = false;
        let mut lines = Lines::new(self.fs.read(&segment.path)?);
        while let Some(line) = lines.next()? {
            let Some(entry) = whole(&line) else { continue };
            found.first_seq.get_or_insert(entry.seq);
            to_remove |= pending.concerns(&entry);
            match &entry.record {
                Record::Forgotten(record) if record.request == pending.until_seq => {
                    found.removed += record.removed
                }
                Record::Forget(record) => found.announced |= record.until_seq == pending.until_seq,
                _ => {}
            }
        }
        if !to_remove {
            return Ok(found);
        }
        let mut lines = Lines::new(self.fs.read(&segment.path)?);
        write_atomically_with(&*self.fs, &segment.path, |file| {
            let mut output = BufWriter::with_capacity(64 * 1024, file);
            let mut run: Option<Run> = None;
            while let Some(line) = lines.next()? {
                // Damaged lines cannot be dated and are not carried over.
                let Some(entry) = whole(&line) else { continue };
                if pending.concerns(&entry) {
                    found.removed += 1;
                    Run::extend(&mut run, &entry);
                } else if let Line::Ended(bytes) = line {
                    Run::finish(&mut run, pending, &mut output)?;
                    output.write_all(bytes)?;
                    output.write_all(b"\n")?;
                }
            }
            Run::finish(&mut run, pending, &mut output)?;
            output.flush()
        })?;
        Ok(found)
    }
}

/// How much earlier a moment of the same boot was; of another boot that is unknown, and its pictures go anyway.
fn seconds_between(earlier: &Stamp, now: &Stamp) -> f32 {
    Duration::from_nanos(now.mono_ns.saturating_sub(earlier.mono_ns)).as_secs_f32()
}

impl PendingForget {
    fn concerns(&self, entry: &Entry) -> bool {
        (self.from_seq..=self.until_seq).contains(&entry.seq) && !entry.record.outlives_forgetting()
    }
}

/// What a segment held.
#[derive(Debug, Default)]
struct Found {
    first_seq: Option<u64>,
    removed: u64,
    announced: bool,
}

/// Removed records that follow each other.
#[derive(Debug)]
struct Run {
    first: u64,
    last: u64,
    last_at: Stamp,
    records: u64,
}

impl Run {
    fn extend(run: &mut Option<Self>, entry: &Entry) {
        let run =
            run.get_or_insert(Self { first: entry.seq, last: entry.seq, last_at: entry.at, records: 0 });
        run.last = entry.seq;
        run.last_at = entry.at;
        run.records += 1;
    }

    /// Writes the record that stands for the run.
    fn finish(run: &mut Option<Self>, pending: &PendingForget, output: &mut impl Write) -> io::Result<()> {
        let Some(Self { first, last, last_at, records }) = run.take() else { return Ok(()) };
        let forgotten = Forgotten { missing_from: first, removed: records, request: pending.until_seq };
        let entry = Entry { seq: last, at: last_at, record: Record::Forgotten(forgotten) };
        let mut line = Vec::new();
        encode(&entry, &mut line).map_err(|_| io::Error::other("a record that is short by construction"))?;
        output.write_all(&line)
    }
}

fn whole(line: &Line<'_>) -> Option<Entry> {
    if let Line::Ended(bytes) = line { decode(bytes) } else { None }
}

//! The trace: the append-only log of everything that a run saw fit to say, one JSON line a record.
//!
//! It is the product of a recording: which category, when, how sure, what was created, joined and forgotten, and what
//! happened to camera, disk and learner meanwhile. `docs/TRACE.md` lists every record and field for those who read
//! it.
//!
//! # Constraints
//! - A pulled plug, a kill or a full disk at any moment costs at most what was not yet reported durable, and never
//!   a record that was. Records stand alone: no file needs its end to be readable.
//! - What is missing is known exactly: records are numbered by `seq` from 1 without holes over all restarts, and where
//!   numbers are missing, the very next record says why.
//! - The live path never waits for the disk. Memory is bounded whatever the disk does, and whatever a file holds.
//! - Half-damaged is half-readable: each line carries its own checksum.
//!
//! # On disk (version 1)
//! A folder of segments `trace-v1-00000001.jsonl`, `trace-v1-00000002.jsonl`, …, read in the order of their
//! numbers. A segment is a sequence of lines, each one JSON object that ends with its checksum, then a newline:
//! ```text
//! {"seq":17,"boot":"0d2e…","mono_ns":5120034512,"wall":"2026-05-04T09:30:00Z","synced":true,"kind":…,"crc":"1a2b3c4d"}
//! ```
//! `crc` is the CRC-32 (as in zlib) of the bytes before `,"crc"`, in eight hexadecimal digits. A line is at most 64
//! KiB long. Readers ignore fields and skip kinds that they do not know, so both can be added within a version; a
//! change of meaning makes a new version, which writes segments under its own prefix (`trace-v2-…`). Beside the segments:
//! `forget-pending.json` while a `forget` is under way, `reserve` (see *Disk room*), and temporary files `.….tmp`.
//!
//! **Newer versions.** Segments of a newer version are left alone, with a warning, and the recording goes on beside them in
//! segments of its own version: after an update that failed, the program before it must be able to record. Its numbers begin
//! after those of the newer segments, whose lines therefore begin with `seq` and end with `crc` in every version. Readers
//! count them as missing, and `forget` says that it did not touch them.
//!
//! # Writing, and what is durable
//! Records enter a queue of fixed length ([`Recorder::record`] never blocks on the disk) and a thread hands them to
//! the kernel at once, so that a killed process loses nothing it has handed over. It syncs when
//! [`TraceSettings::sync_interval`] has passed since the first record that is not durable yet (1 s), or
//! [`TraceSettings::sync_records`] of them have gathered (256), and at once for records that end or begin something
//! (start, stop, pause, resume, forget). [`Recorder::durable_seq`] is the number up to which everything is on the
//! disk: file synced, and its name in the folder.
//!
//! The lines since the last sync are kept in memory until it succeeds. When a write fails, the segment is cut back
//! to what is durable and they are written again; when a *sync* fails, they are written again in a new segment,
//! since the kernel calls pages clean that it could not write. It is tried again with growing pauses, up to 5 s;
//! the first record after it works again says what the trouble was (`write_trouble`). Meanwhile [`Recorder::trouble`] says
//! what is wrong and since when. A segment that somebody has removed is noticed at the next look at the disk, and another
//! one begun. Should the thread itself end, [`Recorder::has_died`] tells.
//!
//! **A disk that stalls or fails** fills the buffer, then the queue. When the queue is full, further records are
//! dropped, each with a number of its own, and the next one that gets in is preceded by `dropped`, which names the
//! numbers that are gone. Frames are refused a little earlier than events.
//!
//! # Rotation
//! A segment ends with the first sync after it has reached [`TraceSettings::segment_bytes`] (8 MiB, some 15,000
//! frames). Segments are never deleted by the program.
//!
//! # Disk room
//! Judged by free bytes ([`DiskSettings`]), every few seconds. *Low*: callers are to keep only what must be kept
//! (no thumbnails, two checkpoints). *Critical*: nothing but the trace is to be written, and the reserve, a file
//! that has held 64 MiB so far, is given back so that the trace stays writable longest; also at once when a write
//! says that the disk is full. It is taken again when there is room. Each change of level is a `disk` record.
//!
//! # Opening: recovery
//! The last segment is read through. What follows its last whole record (a torn line, zeros, damaged lines) is cut
//! off, and if anything was, the first new record is `recovered`, with the number of bytes and lines; their numbers
//! are not used again. What an interrupted sync had not brought to the disk leaves no mark; its numbers are used
//! again. Damage before the last whole record stays where it is, for readers to report. Then everything found is
//! synced; should that fail, the segment is replaced by a copy of it. An interrupted `forget` is reported by
//! [`Recovery::pending_forget`], for the caller to finish.
//!
//! # Reading
//! [`Reader`] goes through a folder, also that of a running recording, with a fixed amount of memory; it skips and
//! counts damaged lines, recognises repeated ones (left by a failed sync) and reports each hole in the numbers with
//! its cause.
//!
//! # Forgetting
//! [`Recorder::begin_forget`] decides which records are younger than asked, notes that on the disk, and
//! [`Recorder::finish_forget`] rewrites the segments that hold them, each replaced as a whole. Runs of removed
//! records become one `forgotten` record; a `forget` record sums up. Interrupted anywhere, it is finished after the
//! next start. Records of bookkeeping (start, stop, …) stay. Files are replaced, not overwritten: on flash the old
//! blocks live on until the disk reuses them, so a data partition that must keep secrets has to be encrypted.

mod age;
mod disk;
mod forget;
mod line;
mod log;
mod numbers;
mod queue;
mod reader;
mod record;
mod recovery;
mod segment;
mod settings;
mod worker;
mod writer;

#[cfg(test)]
mod tests;

pub use disk::DiskLevel;
pub use forget::{PendingForget, Place};
pub use line::LONGEST_LINE;
pub use numbers::numbers_after;
pub use reader::{Cause, Gap, Reader, Summary};
pub use record::{
    Calibration, Camera, CameraState, Checkpoint, Collapse, Compute, Disk, DropReason, Dropped, Entry,
    Forget, Forgotten, Frame, Health, Losses, Merge, Pause, Publication, PublicationOutcome, Record,
    Recovered, Resume, RunnerUp, SkipReason, Start, Stop, StopReason, Stride, Temperature, Update,
    UpdateSkipped, WriteTrouble,
};
pub use recovery::Recovery;
pub use settings::{DiskSettings, TraceSettings};
pub use writer::{DiskTrouble, Recorder, TraceWriter};

/// The version of the format that this program writes.
pub const VERSION: u32 = 1;

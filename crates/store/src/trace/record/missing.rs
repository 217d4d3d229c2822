//! Records about records: what was forgotten, dropped, or cut off after a crash.

use serde::{Deserialize, Serialize};

use super::number;

/// `forget`: a request to forget was carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forget {
    /// How far back was asked for.
    #[serde(with = "number")]
    pub last_s: f32,
    /// The first number concerned.
    pub from_seq: u64,
    /// The last number concerned; also the name of the request in `forgotten`.
    pub until_seq: u64,
    /// How many records were removed.
    pub removed: u64,
}

/// `forgotten`: stands where records were. Its own number is the last of theirs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forgotten {
    /// The numbers from this one up to its own are gone.
    pub missing_from: u64,
    /// How many records were removed here.
    pub removed: u64,
    /// `until_seq` of the request.
    pub request: u64,
}

/// `dropped`: stands after records that could not be kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    /// The numbers from this one up to its own are gone.
    pub missing_from: u64,
    /// Why.
    pub reason: DropReason,
}

/// Why records were dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The disk was too slow, or failed, and the queue was full.
    QueueFull,
    /// The record was longer than a line may be. It had this record's number.
    TooLong,
    /// A reason of a later version.
    #[serde(other)]
    Unknown,
}

/// `recovered`: stands after what a crash damaged at the end of the trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovered {
    /// The numbers from this one up to its own are gone.
    pub missing_from: u64,
    /// Bytes that were cut off.
    pub cut_bytes: u64,
    /// Lines, whole or torn, that were cut off.
    pub cut_lines: u64,
}

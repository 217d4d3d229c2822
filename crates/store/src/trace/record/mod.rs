//! What the trace can say: one type a kind of record. `docs/TRACE.md` is its description for readers; keep both alike.
//!
//! A kind's name and its fields' names are part of the format. Fields may be added if they have a default; nothing is
//! renamed or removed without a new version. Numbers that are not finite are written as `null` and read as NaN.

use serde::{Deserialize, Serialize};

use crate::clock::Stamp;

mod learning;
mod machine;
mod missing;
mod recording;

pub use learning::{
    Calibration, Collapse, Frame, Losses, Merge, Publication, PublicationOutcome, RunnerUp, SkipReason,
    Stride, Update, UpdateSkipped,
};
pub use machine::{Compute, Disk, Health, Temperature, WriteTrouble};
pub use missing::{DropReason, Dropped, Forget, Forgotten, Recovered};
pub use recording::{Camera, CameraState, Checkpoint, Pause, Resume, Start, Stop, StopReason};

/// A line of the trace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The record's number: from 1, without holes, over all restarts.
    pub seq: u64,
    /// When it was made.
    #[serde(flatten)]
    pub at: Stamp,
    /// What it says.
    #[serde(flatten)]
    pub record: Record,
}

/// What a record says, by its `kind`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// A sampled frame got its category.
    Frame(Frame),
    /// Two categories turned out to be one.
    Merge(Merge),
    /// The encoder learned from a window.
    Update(Update),
    /// An update was thrown away, and the learner left as it was.
    UpdateSkipped(UpdateSkipped),
    /// The newest weights were compared with those in use.
    Publication(Publication),
    /// The embeddings have shrunk together, or no longer.
    Collapse(Collapse),
    /// β was set from the first frames.
    Calibration(Calibration),
    /// The number of frames between updates changed.
    Stride(Stride),
    /// A recording begins, or goes on after a restart.
    Start(Box<Start>),
    /// It ends in an orderly way.
    Stop(Stop),
    /// It pauses: nothing is looked at.
    Pause(Pause),
    /// It goes on after a pause.
    Resume(Resume),
    /// Something about the source of frames.
    Camera(Camera),
    /// The regular look at the machine.
    Health(Health),
    /// The machine got too hot, or cooled down.
    Temperature(Temperature),
    /// Something else trains from now on.
    Compute(Compute),
    /// The disk's level changed.
    Disk(Disk),
    /// A checkpoint was written, or could not be.
    Checkpoint(Checkpoint),
    /// Records from here back were forgotten on request.
    Forget(Forget),
    /// Stands where forgotten records were.
    Forgotten(Forgotten),
    /// Stands after records that the disk was too slow for.
    Dropped(Dropped),
    /// Stands after what a crash damaged.
    Recovered(Recovered),
    /// Writing had failed for a while and works again.
    WriteTrouble(WriteTrouble),
    /// A kind that this version of the program does not know. Never written.
    #[serde(other)]
    Unknown,
}

impl Record {
    /// For records that explain a hole in the numbers: the first that is missing before their own.
    pub fn missing_from(&self) -> Option<u64> {
        match self {
            Self::Forgotten(record) => Some(record.missing_from),
            Self::Dropped(record) => Some(record.missing_from),
            Self::Recovered(record) => Some(record.missing_from),
            _ => None,
        }
    }

    /// Whether it stays when the time around it is forgotten: bookkeeping that tells nothing of what was seen.
    pub fn outlives_forgetting(&self) -> bool {
        match self {
            Self::Start(_) | Self::Stop(_) | Self::Pause(_) | Self::Resume(_) | Self::Forget(_) => true,
            Self::Forgotten(_) | Self::Dropped(_) | Self::Recovered(_) | Self::WriteTrouble(_) => true,
            Self::Disk(_) | Self::Calibration(_) | Self::Compute(_) => true,
            Self::Frame(_)
            | Self::Merge(_)
            | Self::Update(_)
            | Self::UpdateSkipped(_)
            | Self::Publication(_)
            | Self::Collapse(_)
            | Self::Stride(_) => false,
            Self::Camera(_)
            | Self::Health(_)
            | Self::Temperature(_)
            | Self::Checkpoint(_)
            | Self::Unknown => false,
        }
    }

    /// Whether it begins or ends something, and so is synced at once.
    pub(super) fn is_urgent(&self) -> bool {
        matches!(self, Self::Start(_) | Self::Stop(_) | Self::Pause(_) | Self::Resume(_) | Self::Forget(_))
    }

    /// Whether it is one of many alike, and so gives way first when the queue is full.
    pub(super) fn is_frame(&self) -> bool {
        matches!(self, Self::Frame(_))
    }
}

/// A number as JSON can hold it: `null` is "not a number".
mod number {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f32, to: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() { to.serialize_f32(*value) } else { to.serialize_none() }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f32, D::Error> {
        Ok(Option::deserialize(from)?.unwrap_or(f32::NAN))
    }
}

//! What the trace can say: one type a kind of record. `docs/TRACE.md` is its description for readers; keep both alike.
//!
//! A kind's name and its fields' names are part of the format. Fields may be added if they have a default; nothing is
//! renamed or removed without a new version. Numbers that are not finite are written as `null` and read as NaN.

use serde::{Deserialize, Serialize};

use crate::device::clock::Stamp;

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
    /// The encoder learned from a window.
    Update(Update),
    /// An update was thrown away, and the learner left as it was.
    UpdateSkipped(UpdateSkipped),
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

/// `frame`: the category of a sampled frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// The sampled frame's number, from 0 over all restarts.
    pub frame: u64,
    /// Its category: a number that is never given to another.
    pub category: u64,
    /// Whether this frame founded the category.
    pub created: bool,
    /// The category that was given up to make room for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evicted: Option<u64>,
    /// û: the probability that the frame belongs to no known category.
    #[serde(with = "number")]
    pub u_hat: f32,
    /// The cosine to the nearest prototype before the frame was written to it.
    #[serde(with = "number")]
    pub similarity: f32,
    /// ŷ: the category's share among the known ones; absent when it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f32>,
    /// The next most similar categories, best first.
    #[serde(default)]
    pub runners_up: Vec<RunnerUp>,
    /// When the camera took the picture, on the clock of `mono_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_ns: Option<u64>,
    /// The camera's own number of the picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub camera_sequence: Option<u64>,
    /// From the picture to its category, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<f32>,
    /// What the picture shows in truth, where the source knows it. Never seen by the learner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truth: Option<u64>,
}

/// A category that a frame might have had.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RunnerUp {
    /// The category.
    pub category: u64,
    /// Its ŷ.
    #[serde(with = "number")]
    pub share: f32,
    /// Its cosine.
    #[serde(with = "number")]
    pub similarity: f32,
}

/// `update`: one step of learning.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Update {
    /// The update's number, from 1 over all restarts.
    pub update: u64,
    /// The last frame of its window.
    pub frame: u64,
    /// The frames in its window.
    pub window: u32,
    /// The frames from one update to the next.
    pub stride: u32,
    /// The losses.
    pub losses: Losses,
    /// The mean of û over the window.
    #[serde(with = "number")]
    pub mean_u_hat: f32,
    /// The categories that live in the live memory.
    pub categories: u32,
    /// The standard deviation of the normalised embeddings: near 0 all frames look alike to the encoder.
    #[serde(with = "number")]
    pub collapse: f32,
    /// The length of the gradient.
    #[serde(with = "number")]
    pub gradient_norm: f32,
    /// 1/τ after the update.
    #[serde(with = "number")]
    pub inv_tau: f32,
    /// β after the update.
    #[serde(with = "number")]
    pub beta: f32,
    /// γ after the update.
    #[serde(with = "number")]
    pub gamma: f32,
    /// The encoder's learning rate.
    #[serde(with = "number")]
    pub learning_rate: f32,
    /// How long it took.
    #[serde(with = "number")]
    pub seconds: f32,
}

/// The terms of the loss of one window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// The weighted sum.
    #[serde(with = "number")]
    pub total: f32,
    /// L_self: one view's pseudo-label against the other's prediction.
    #[serde(with = "number", rename = "self")]
    pub self_supervised: f32,
    /// L_ent: the entropy of ŷ.
    #[serde(with = "number")]
    pub entropy: f32,
    /// L_new: the prior on how often a category is created.
    #[serde(with = "number", rename = "new")]
    pub creation: f32,
}

/// `update_skipped`: why a step of learning was thrown away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateSkipped {
    /// The last frame of its window.
    pub frame: u64,
    /// Why.
    pub reason: SkipReason,
    /// The loss.
    #[serde(with = "number")]
    pub loss: f32,
    /// The length of the gradient.
    #[serde(with = "number")]
    pub gradient_norm: f32,
}

/// Why an update was thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SkipReason {
    /// The loss was not a finite number.
    LossNotFinite,
    /// The gradient was not finite.
    GradientNotFinite,
    /// The gradient was much too long.
    GradientTooLong,
    /// A reason of a later version.
    #[serde(other)]
    Unknown,
}

/// `collapse`: the embeddings have shrunk together, or no longer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Collapse {
    /// Whether they have.
    pub collapsed: bool,
    /// The standard deviation of the normalised embeddings.
    #[serde(with = "number")]
    pub level: f32,
    /// Below which it counts as collapsed.
    #[serde(with = "number")]
    pub limit: f32,
}

/// `calibration`: β was set from the first frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// β before.
    #[serde(with = "number")]
    pub from: f32,
    /// β now.
    #[serde(with = "number")]
    pub to: f32,
    /// The frames that it was set from.
    pub frames: u32,
}

/// `stride`: the number of frames between updates changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stride {
    /// Before.
    pub from: u32,
    /// Now.
    pub to: u32,
    /// Why, in words.
    pub reason: String,
}

/// `start`: what is recorded, with what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The version of the trace's format.
    pub trace_version: u32,
    /// The program's name and version.
    pub program: String,
    /// The device's name.
    pub device: String,
    /// The board, the operating system's release, the power mode: whatever is known.
    #[serde(default)]
    pub board: String,
    /// Where the frames come from.
    pub source: String,
    /// What computes: CPU or GPU.
    pub compute: String,
    /// The settings in full.
    pub settings: serde_json::Value,
    /// The first frame's number.
    pub frame: u64,
    /// The checkpoint that it goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed_from: Option<String>,
}

/// `stop`: an orderly end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stop {
    /// Why.
    pub reason: StopReason,
    /// More about it, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Frames since the start.
    pub frames: u64,
    /// Updates since the start.
    pub updates: u64,
    /// Seconds since the start.
    #[serde(with = "number")]
    pub seconds: f32,
}

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A signal asked for it.
    Signal,
    /// The wanted number of frames was reached.
    Frames,
    /// The wanted time was over.
    Time,
    /// The source had no more.
    EndOfSource,
    /// Something failed.
    Error,
    /// A reason of a later version.
    #[serde(other)]
    Unknown,
}

/// `pause`: nothing is looked at from here on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pause {
    /// Who asked: signal, socket, page.
    pub by: String,
}

/// `resume`: it goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Resume {
    /// Who asked.
    pub by: String,
    /// How long the pause was.
    #[serde(with = "number")]
    pub paused_s: f32,
}

/// `camera`: something about the source of frames.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Camera {
    /// What.
    pub state: CameraState,
    /// More about it, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// For how long there were no frames.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away_s: Option<f32>,
}

/// The states of a source of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CameraState {
    /// Opened, with this format.
    Opened,
    /// Gone: unplugged, or silent for too long.
    Lost,
    /// There again.
    Back,
    /// It delivers the same picture again and again.
    Frozen,
    /// The picture moves again.
    Moving,
    /// A state of a later version.
    #[serde(other)]
    Unknown,
}

/// `health`: the regular look at the machine. What it does not have is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Pictures that the camera delivered since the start.
    pub camera_frames: u64,
    /// Pictures that it lost, by its own numbers.
    pub camera_missed: u64,
    /// Pictures that could not be decoded.
    pub camera_corrupt: u64,
    /// Free bytes on the data folder's disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Bytes that the process holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// Bytes that the machine has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// The hottest zone's temperature in °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub celsius: Option<f32>,
    /// What the module draws, in W.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watts: Option<f32>,
    /// The GPU's load, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_load: Option<f32>,
    /// The GPU's clock in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_megahertz: Option<f32>,
}

/// `temperature`: the machine got too hot, or cooled down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Temperature {
    /// Whether it is too hot.
    pub hot: bool,
    /// The hottest zone.
    pub zone: String,
    /// Its temperature in °C.
    #[serde(with = "number")]
    pub celsius: f32,
    /// The limit that it passed.
    #[serde(with = "number")]
    pub limit: f32,
}

/// `disk`: the disk's level changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// The level.
    pub level: super::DiskLevel,
    /// Free bytes on the disk.
    pub free_bytes: u64,
    /// Whether the reserve is still held.
    pub reserve_held: bool,
}

/// `checkpoint`: a checkpoint was written, or could not be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The last frame in it.
    pub frame: u64,
    /// The file's name; absent when it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its length.
    pub bytes: u64,
    /// How long it took.
    #[serde(with = "number")]
    pub seconds: f32,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

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

/// `write_trouble`: writing had failed for a while and works again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteTrouble {
    /// The first error.
    pub error: String,
    /// How often it failed.
    pub attempts: u64,
    /// For how long.
    #[serde(with = "number")]
    pub seconds: f32,
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
            Self::Disk(_) | Self::Calibration(_) => true,
            Self::Frame(_)
            | Self::Update(_)
            | Self::UpdateSkipped(_)
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

impl Frame {
    /// The record of an observation by the live memory; capture times and truth are the caller's to add.
    pub fn observed(frame: u64, observation: &crate::memory::Observation) -> Self {
        let own = |category: u64| !observation.created && category == observation.category;
        let candidates = || observation.top.iter();
        let runners_up = candidates().filter(|c| !own(c.category));
        let runners_up =
            runners_up.map(|c| RunnerUp { category: c.category, share: c.share, similarity: c.similarity });
        Self {
            frame,
            category: observation.category,
            created: observation.created,
            evicted: observation.evicted,
            u_hat: observation.new_probability,
            similarity: observation.similarity,
            share: candidates().find(|c| own(c.category)).map(|c| c.share),
            runners_up: runners_up.collect(),
            captured_ns: None,
            camera_sequence: None,
            latency_ms: None,
            truth: None,
        }
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

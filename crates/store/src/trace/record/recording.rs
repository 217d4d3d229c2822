//! The recording itself: its beginning, its end, its source of frames, its checkpoints.

use serde::{Deserialize, Serialize};

use super::number;

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
    /// Whether the source is a recording or the built-in world, with a time of its own, and not a camera.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<bool>,
    /// Of a recorded source: whether it is read on from where the session before was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<bool>,
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

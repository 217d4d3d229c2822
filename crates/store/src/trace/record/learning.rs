//! What was seen and learned: frames, merges of categories, updates, and what went wrong with them.

use serde::{Deserialize, Serialize};

use super::number;

/// `frame`: the category of a sampled frame.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// The sampled frame's number, from 0 over all restarts.
    pub frame: u64,
    /// Its category at that moment: a number that is never given to another. A [`Merge`] may join it into an older one later.
    pub category: u64,
    /// Whether this frame created the category.
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
    /// When a camera took the picture, on the clock of `mono_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub captured_ns: Option<u64>,
    /// The picture's time in a recorded or built-in source, on that source's own clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ns: Option<u64>,
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

/// `merge`: two categories turned out to be one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Merge {
    /// The younger one, which has the greater number. No frame gets it from now on.
    pub from: u64,
    /// The older one, which goes on for both.
    pub into: u64,
    /// The last frame that was sampled before it.
    pub frame: u64,
    /// The cosine of the two prototypes.
    #[serde(with = "number")]
    pub similarity: f32,
}

impl Merge {
    /// Whether the younger one is joined into the older one, as every merge is written. Readers pass over others, and so
    /// never follow a circle: from merge to merge the numbers fall.
    pub fn is_sound(&self) -> bool {
        self.from > self.into
    }
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
    /// How far the normalised embeddings spread: 1 everywhere alike, near 0 all frames look alike to the encoder.
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
    /// It could not be computed; the log says why.
    Failed,
    /// A reason of a later version.
    #[serde(other)]
    Unknown,
}

/// `publication`: the newest weights were compared with those in use, by a score that needs no labels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Publication {
    /// The last update that went into the newest weights.
    pub update: u64,
    /// The last frame that was sampled before it.
    pub frame: u64,
    /// What came of it.
    pub outcome: PublicationOutcome,
    /// The score of the weights in use: how often a frame is more similar to one of the same thing than to others. 1 is always,
    /// 0.5 chance; not a number if there was too little to compare by.
    #[serde(with = "number")]
    pub before: f32,
    /// The score of the newest ones, by the same frames.
    #[serde(with = "number")]
    pub after: f32,
    /// The standard error of the difference.
    #[serde(with = "number")]
    pub error: f32,
    /// Frames that were asked about.
    pub questions: u32,
}

/// What became of new weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PublicationOutcome {
    /// The live categories go on with them.
    Published,
    /// They are not better, or nobody can tell: the live categories stay with those in use, and learning goes on.
    Waits,
    /// They are worse: learning goes back to those in use.
    WentBack,
    /// An outcome of a later version.
    #[serde(other)]
    Unknown,
}

/// `collapse`: the embeddings have shrunk together, or no longer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Collapse {
    /// Whether they have.
    pub collapsed: bool,
    /// How far the normalised embeddings spread, from 0 to 1.
    #[serde(with = "number")]
    pub level: f32,
    /// Below which it counts as collapsed.
    #[serde(with = "number")]
    pub limit: f32,
}

/// `calibration`: how similar a frame must be to a category was measured.
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
    /// The least cosine between a frame and its category from now on. Programs before 0.2 did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub similarity: Option<f32>,
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

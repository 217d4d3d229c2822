//! The rules of the memory: every number and switch of the E-step, the M-step and the losses.
//!
//! The paper's symbols stand here once, beside the long names that the code uses.

use serde::{Deserialize, Serialize};

/// Which reading of the algorithm is computed where the paper and its released code differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// The released code: the write divides by c + a, and û sees detached similarities.
    #[default]
    Reference,
    /// The paper's text: the write divides by c + 1, û carries gradient into the similarities, and straight-through
    /// sampling draws the assignment as well as the creation.
    Paper,
}

/// What the student is asked to predict for a frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PseudoLabel {
    /// The nearest prototype alone.
    OneHot,
    /// The softmax of the similarities, sharpened by the temperature ratio τ̃/τ.
    Soft {
        /// τ̃/τ, greater than 0; smaller is sharper.
        ratio: f64,
    },
}

/// Whose entropy the entropy loss asks to be small.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntropyOf {
    /// Every frame's: the paper's loss.
    #[default]
    All,
    /// That of frames which found no category. What is new resembles several prototypes a little; asked to resemble one
    /// of them alone, it is drawn into a category that is not its own.
    Known,
}

/// The three learned scalars of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// 1/τ: multiplies the cosine similarities.
    pub inv_tau: f64,
    /// β: offset of the new-category decision; a larger one creates fewer categories.
    pub beta: f64,
    /// γ: scale of the new-category decision.
    pub gamma: f64,
}

impl Default for Control {
    fn default() -> Self {
        Self { inv_tau: 10.0, beta: -12.0, gamma: 1.0 }
    }
}

/// The fixed numbers and switches of a memory and its window losses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Where paper and released code differ, which one is followed.
    pub variant: Variant,
    /// ρ: every count is multiplied by it after each frame.
    pub decay: f64,
    /// α: û above it creates a category.
    pub threshold: f64,
    /// μ: mean of the Beta prior on the average of û.
    pub prior_mean: f64,
    /// λ_ent: weight of the entropy loss.
    pub entropy_weight: f64,
    /// The frames that it counts.
    pub entropy_of: EntropyOf,
    /// λ_new: weight of the new-category loss.
    pub creation_weight: f64,
    /// The form of the pseudo-labels.
    pub pseudo_label: PseudoLabel,
    /// Whether the creation (in the `paper` variant also the assignment) is sampled in a learning window.
    pub straight_through: bool,
    /// Whether both views are written, each into its own copy, and the loss averages both directions.
    pub symmetric: bool,
}

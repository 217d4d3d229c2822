//! How wide the heads are: the paper's numbers, or small ones in tests.

use crate::config::{Preset, Settings};

/// The widths of the heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Widths {
    /// Of hidden layers, and of SimSiam's projection.
    pub(super) hidden: usize,
    /// Of SimCLR's and SwAV's projection, and of the hidden layer of SimSiam's predictor.
    pub(super) output: usize,
    /// SwAV's prototypes.
    pub(super) prototypes: usize,
    /// Embeddings that SwAV's queue holds.
    pub(super) queue: usize,
    /// Whether the projection of SimCLR and SwAV ends with a batch norm.
    pub(super) normed_end: bool,
}

impl Widths {
    /// Those of the paper.
    pub(super) fn of(settings: &Settings) -> Self {
        Self {
            hidden: 512,
            output: 128,
            prototypes: 1000,
            queue: 2000,
            // As the paper's released code has it for head-camera video, and for nothing else.
            normed_end: settings.preset == Preset::Saycam,
        }
    }
}

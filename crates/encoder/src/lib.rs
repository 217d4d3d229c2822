//! Encoders: from an image to its feature vector, and the gradient back from it to every weight.
//!
//! An [`Architecture`] becomes a [`Plan`], which only says what is to be computed. Executors compute it, behind
//! [`TrainingEncoder`], and must agree on the result: a training call normalises with statistics over *all* its
//! images, exactly, however few of them fit into memory at a time.
//!
//! Values are f32, frame after frame, row after row, channels last. Parameters and statistics stay in PyTorch's names
//! and layout outside an executor.

pub mod architecture;
pub mod candle;
pub mod card;
pub mod device;
pub mod examination;
pub mod fallback;
pub mod fused;
pub mod gpu_ops;
pub mod host_ops;
pub mod inference;
pub mod init;
pub mod ops;
pub mod parameters;
pub mod plan;
pub mod probe;
mod pth;
pub mod scaled;
pub mod stepwise;
pub mod tensors;
mod timm;
pub mod warm_up;
pub mod weights;

pub use architecture::Architecture;
pub use card::ModelCard;
pub use fused::Fused;
pub use parameters::{Parameters, Statistics, TensorSpec};
pub use plan::{BatchNorm, Padding, Plan};
pub use weights::Weights;

pub use oupn_base::{Error, Result};
use oupn_base::{choices, random};
use oupn_cuda as cuda;
use oupn_kernels as kernels;

/// Which statistics batch norm uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NormMode {
    /// Those of all images of the call; the running statistics then move towards them. The running variance takes the
    /// unbiased variance, as PyTorch does (the paper's code: the biased one, a thousandth less at most), and the
    /// normalisation the biased one.
    Window,
    /// The running ones, which stay as they are: evaluation, or training with frozen statistics. Batch norm is then a
    /// fixed scale and shift; gradients still reach its γ and β and everything before it.
    Running,
}

choices! {
    /// How block outputs are kept between the forward and the backward pass.
    #[derive(Default, serde::Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Storage {
        #[default]
        F32 = "f32": "As computed",
        F16 = "f16": "IEEE half precision: half the memory, a relative rounding of 2⁻¹¹",
        Bf16 = "bf16": "The upper half of an f32: half the memory, f32's range, a relative rounding of 2⁻⁸",
    }
}

/// What a training executor is asked to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingOptions {
    /// Bytes that the executor may hold at once, beside parameters, gradients, images and features. It decides how many
    /// frames are worked on at a time, never the result.
    pub memory_budget: usize,
    /// How block outputs are kept.
    pub storage: Storage,
    /// Blocks, counted from the image, that are not trained. No backward pass runs below the lowest trained one, and the
    /// gradients of the frozen ones are zero. Their batch norms follow the [`NormMode`] of the call like all others.
    pub frozen_blocks: usize,
}

impl Default for TrainingOptions {
    fn default() -> Self {
        Self { memory_budget: 1 << 30, storage: Storage::F32, frozen_blocks: 0 }
    }
}

/// An executor of a plan that can train.
pub trait TrainingEncoder {
    /// Encodes `count` images (each height × width × channels, scaled as the weights want them) into `features`
    /// (`count` × [`Plan::features`]), and remembers what [`backward`](Self::backward) needs.
    fn forward(
        &mut self,
        parameters: &Parameters,
        statistics: &mut Statistics,
        images: &[f32],
        count: usize,
        norm: NormMode,
        features: &mut [f32],
    ) -> Result<()>;

    /// From the gradient of a loss with respect to the features of the last [`forward`](Self::forward) call to that with
    /// respect to the parameters, which overwrites `gradients`, and if asked for to the images. `parameters` and `images`
    /// must be the ones of that call: they are passed again so that no executor has to hold copies of them. `d_images`
    /// cannot be had when blocks are frozen.
    fn backward(
        &mut self,
        parameters: &Parameters,
        images: &[f32],
        d_features: &[f32],
        gradients: &mut Parameters,
        d_images: Option<&mut [f32]>,
    ) -> Result<()>;
}

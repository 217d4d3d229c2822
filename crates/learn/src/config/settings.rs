//! The settings themselves: one line of code a key, with its meaning, its type and its valid range.

use std::ops::Bound::{Excluded, Included};

use serde::{Deserialize, Serialize};

use super::limits::Limits::{self, OneOf, OneOfOrReal, Real, Rising, Switch, Whole, Wholes};
use super::presets::Preset;
use crate::encoder::plan::{BatchNorm, Padding, Plan, Pooling};
use crate::encoder::{Architecture, NormMode};
use crate::learner::{Rates, Schedule};
use crate::live::score::Publish;
use crate::memory::{Control, EntropyOf, PseudoLabel, Rules, Variant, Writes};
use crate::objective::Method;
use crate::views::{Augmentation, Pairing, Reduction};
use crate::windows::LongRules;
use crate::{Error, Result};

/// The most that a window's images may take: what a Jetson with 8 GB has to spare.
const LARGEST_WINDOW: u64 = 4_000_000_000;

/// Which network encodes a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EncoderKind {
    /// MobileNet-V2, 1280 features.
    #[serde(rename = "mobilenet-v2")]
    MobileNetV2,
    /// ResNet-12, 256 features.
    #[serde(rename = "resnet-12")]
    ResNet12,
    /// Conv-4; with the paper's widths 64 features.
    #[serde(rename = "conv-4")]
    Conv4,
}

/// How the learning rates fall over the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleKind {
    /// To a tenth at each of `rate_drops`: the paper's.
    Staircase,
    /// From `cosine_from` on, along half a cosine wave, to 0 at `steps`.
    Cosine,
}

/// A key as a settings file may hold it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// Its meaning, as documented at its field.
    pub(super) meaning: &'static str,
    pub(super) limits: Limits,
}

/// Makes the struct and the list of its keys from one listing, so that neither can lack what the other has.
macro_rules! settings {
    ($(
        $(#[doc = $meaning:literal])+
        $(#[serde($($serde:tt)+)])?
        $key:ident: $type:ty, $limits:expr;
    )+) => {
        /// Everything that decides what is learned.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        pub struct Settings {
            /// The preset that these settings started from.
            pub preset: Preset,
            $( $(#[doc = $meaning])+ $(#[serde($($serde)+)])? pub $key: $type, )+
        }

        /// Every key beside `preset`, in the order of the listing.
        pub(super) const KEYS: &[Key] = &[
            $( Key { name: stringify!($key), meaning: concat!($($meaning, "\n",)+), limits: $limits }, )+
        ];
    };
}

settings! {
    /// T: frames in a learning window.
    window: usize, Whole(1, 4096);
    /// Frames between two updates, at most `window`; equal to it for consecutive windows.
    stride: usize, Whole(1, 4096);

    /// What is asked of a window's embeddings: the paper's method, or one of those that it is compared with.
    #[serde(default)]
    objective: Method, OneOf(&["oupn", "simclr", "swav", "swav-queue", "simsiam"]);
    /// K: prototypes that the memory can hold.
    slots: usize, Whole(1, 1024);
    /// What is computed where the paper's text and its released code differ.
    variant: Variant, OneOf(&["reference", "paper"]);
    /// ρ: every prototype's count is multiplied by it after each frame.
    decay: f64, Real(Excluded(0.0), Included(1.0));
    /// α: a frame whose û lies above it creates a category.
    threshold: f64, Real(Excluded(0.0), Excluded(1.0));
    /// μ: mean of the Beta prior on the average of û.
    prior_mean: f64, Real(Excluded(0.0), Excluded(1.0));
    /// λ_ent: weight of the entropy loss.
    entropy_weight: f64, Real(Included(0.0), Included(1000.0));
    /// The frames whose entropy counts: all, as in the paper, or those that found no category.
    entropy_of: EntropyOf, OneOf(&["all", "known"]);
    /// λ_new: weight of the new-category loss.
    creation_weight: f64, Real(Included(0.0), Included(1000.0));
    /// What the student predicts: the nearest prototype alone, or a softmax sharpened by this ratio τ̃/τ.
    #[serde(with = "super::file::pseudo_label")]
    pseudo_label: PseudoLabel, OneOfOrReal(&["one_hot"], Excluded(0.0), Included(100.0));
    /// Whether a learning window samples the creation of categories instead of deciding by `threshold`.
    straight_through: bool, Switch;
    /// Whether each view teaches the other one; otherwise only the first teaches the second.
    symmetric: bool, Switch;
    /// 1/τ at the start: multiplies the cosine similarities. Learned.
    inv_tau: f64, Real(Excluded(0.0), Included(1000.0));
    /// β at the start: offset of û; a larger one creates fewer categories. Learned.
    beta: f64, Real(Included(-1000.0), Included(1000.0));
    /// γ at the start: scale of û. Learned.
    gamma: f64, Real(Excluded(0.0), Included(1000.0));

    /// Categories that the live memory can hold; `slots` is that of learning.
    live_slots: usize, Whole(1, 1024);
    /// How the live memory takes up a frame: into its own category alone, or, as in the paper, into all by their shares.
    live_writes: Writes, OneOf(&["hard", "soft"]);
    /// Pictures of each category that are kept, in RAM alone, to be embedded again when the encoder has learned.
    live_frames: usize, Whole(0, 64);
    /// The most memory that these pictures may take, in mebibytes.
    live_megabytes: usize, Whole(0, 4096);
    /// Which weights the live categories are given: those that tell the kept pictures apart better than the ones in use, or all.
    publish: Publish, OneOf(&["better", "always"]);

    /// Which two images of a frame are compared.
    views: Pairing, OneOf(&["clean_and_augmented", "two_augmented", "next_frame"]);
    /// Second views of each frame that the first one teaches; the loss is their average. More than one needs `symmetric = false`.
    second_views: usize, Whole(1, 8);
    /// How an augmented view is made.
    augmentation: Augmentation, OneOf(&["rooms", "saycam", "omniglot", "imagenet", "handwriting", "scripts", "redrawn", "mild"]);

    /// How Omniglot's drawings become 28×28 pixels: as the paper's released code does it, or antialiased, which is an easier task.
    #[serde(default)]
    reduction: Reduction, OneOf(&["released", "antialiased"]);

    /// The network that encodes a frame.
    encoder: EncoderKind, OneOf(&["mobilenet-v2", "resnet-12", "conv-4"]);
    /// Multiplies the channels of MobileNet-V2; the other networks have one width.
    encoder_width: f64, Real(Excluded(0.0), Included(4.0));
    /// Max pools of ResNet-12's four blocks (1: none); the other networks have their own.
    encoder_pools: [usize; 4], Wholes(4, 1, 8);
    /// Channels of Conv-4's four blocks, the last being the features; the other networks have their own.
    encoder_channels: [usize; 4], Wholes(4, 1, 1024);
    /// Height of the image that is encoded, in pixels.
    image_height: usize, Whole(16, 1024);
    /// Width of the image that is encoded, in pixels.
    image_width: usize, Whole(16, 1024);
    /// Its channels: 1 grey, 3 colour, 4 colour and a mask.
    image_channels: usize, Whole(1, 4);
    /// How the pixels of the network's last layer are weighed: all alike, or the middle more, where a head camera looks.
    #[serde(default)]
    pooling: Pooling, OneOf(&["mean", "centre"]);
    /// Where strided convolutions lie: as TensorFlow has it ("same") or PyTorch ("symmetric").
    padding: Padding, OneOf(&["same", "symmetric"]);
    /// Added to a variance before batch norm takes its root.
    norm_epsilon: f64, Real(Excluded(0.0), Included(1.0));
    /// Which statistics batch norm uses while it learns: the window's own, or the running ones, which then stay.
    norm_statistics: NormMode, OneOf(&["window", "running"]);
    /// Weight of a new window in batch norm's running statistics.
    norm_momentum: f64, Real(Excluded(0.0), Included(1.0));

    /// Adam's learning rate for the encoder at the start; 0 keeps it as it is.
    learning_rate: f64, Real(Included(0.0), Included(1.0));
    /// The same for an objective's own weights, such as SimCLR's projection; OUPN has none.
    head_learning_rate: f64, Real(Included(0.0), Included(1.0));
    /// The same for 1/τ.
    inv_tau_learning_rate: f64, Real(Included(0.0), Included(1.0));
    /// The same for β.
    beta_learning_rate: f64, Real(Included(0.0), Included(1.0));
    /// The same for γ.
    gamma_learning_rate: f64, Real(Included(0.0), Included(1.0));
    /// How the learning rates fall: to a tenth at each of `rate_drops`, or from `cosine_from` on, as a cosine, to 0 at `steps`.
    schedule: ScheduleKind, OneOf(&["staircase", "cosine"]);
    /// Updates before the cosine begins to fall.
    cosine_from: u64, Whole(0, 1_000_000_000);
    /// Updates of the whole run.
    steps: u64, Whole(1, 1_000_000_000);
    /// Updates after which the staircase falls.
    rate_drops: Vec<u64>, Rising(1, 1_000_000_000);

    /// How far each update pulls the encoder's weights back to an anchor: 0 not at all, 0.02 by 2 % of the way. At a constant rate
    /// it keeps what the start knew.
    anchor_pull: f64, Real(Included(0.0), Included(1.0));
    /// How far each update moves the anchor towards the weights; with 0 it stays at those of the start.
    anchor_rate: f64, Real(Included(0.0), Included(1.0));

    /// MiB of RAM for the long memory of frames, where second views come from it.
    long_memory: usize, Whole(1, 65_536);
    /// Frames of different segments of the stream show the same thing above this cosine, if they are among each other's nearest.
    group_similarity: f64, Real(Included(0.0), Excluded(1.0));
    /// Windows after which the long memory is embedded and grouped again.
    group_every: u64, Whole(1, 1_000_000_000);
    /// Share of a window's frames whose second view is another frame of their group; the others have the next frame.
    group_share: f64, Real(Included(0.0), Included(1.0));
    /// Share of the updates that learn from a window of the long memory instead of the stream's.
    replay_share: f64, Real(Included(0.0), Excluded(1.0));

    /// Start of every random sequence: initial weights, views, sampled decisions.
    seed: u64, Whole(0, i64::MAX);
}

impl Settings {
    /// What the memory and its losses go by.
    pub fn rules(&self) -> Rules {
        Rules {
            variant: self.variant,
            decay: self.decay,
            threshold: self.threshold,
            prior_mean: self.prior_mean,
            entropy_weight: self.entropy_weight,
            entropy_of: self.entropy_of,
            creation_weight: self.creation_weight,
            pseudo_label: self.pseudo_label,
            straight_through: self.straight_through,
            symmetric: self.symmetric,
        }
    }

    /// The learned scalars at the start.
    pub fn control(&self) -> Control {
        Control { inv_tau: self.inv_tau, beta: self.beta, gamma: self.gamma }
    }

    /// The network.
    pub fn architecture(&self) -> Architecture {
        let channels = self.image_channels;
        match self.encoder {
            EncoderKind::MobileNetV2 => Architecture::MobileNetV2 { width: self.encoder_width },
            EncoderKind::ResNet12 => Architecture::ResNet12 { channels, strides: self.encoder_pools },
            // The paper's Conv-4 ends without a ReLU.
            EncoderKind::Conv4 => {
                Architecture::Conv4 { channels, last_relu: false, widths: self.encoder_channels }
            }
        }
    }

    /// The plan of the network for images of the size set.
    pub fn plan(&self) -> Result<Plan> {
        #[allow(clippy::cast_possible_truncation)]
        let batch_norm = BatchNorm { epsilon: self.norm_epsilon as f32, momentum: self.norm_momentum as f32 };
        let plan = self.architecture().plan(self.image_height, self.image_width, self.padding, batch_norm)?;
        Ok(plan.with_pooling(self.pooling))
    }

    /// How the learning rates fall.
    pub fn schedule(&self) -> Schedule {
        match self.schedule {
            ScheduleKind::Staircase => Schedule::Staircase { drops: self.rate_drops.clone() },
            ScheduleKind::Cosine => Schedule::Cosine { from: self.cosine_from, steps: self.steps },
        }
    }

    /// The learning rates before they fall.
    pub fn base_rates(&self) -> Rates {
        Rates {
            encoder: self.learning_rate,
            inv_tau: self.inv_tau_learning_rate,
            beta: self.beta_learning_rate,
            gamma: self.gamma_learning_rate,
        }
    }

    /// Learns by this objective, with the views that the paper gives it: both augmented, unless they are of two frames.
    pub fn learn_by(&mut self, objective: Method) {
        self.objective = objective;
        if objective != Method::Oupn && self.views == Pairing::CleanAndAugmented {
            self.views = Pairing::TwoAugmented;
        }
    }

    /// What a long memory of frames goes by.
    pub fn long_rules(&self) -> LongRules {
        #[allow(clippy::cast_possible_truncation)]
        let alike = self.group_similarity as f32;
        LongRules { budget: self.long_memory << 20, alike, seed: self.seed }
    }

    /// Refuses values that are valid each by itself but not together.
    pub(super) fn check_together(&self) -> Result<()> {
        if self.stride > self.window {
            return Err(Error::input(format!(
                "stride = {} is larger than window = {}: frames between the windows would be lost",
                self.stride, self.window
            )));
        }
        if self.second_views > 1 && self.symmetric {
            return Err(Error::input(format!(
                "second_views = {} does not go with symmetric = true: only the first view can teach more than one",
                self.second_views
            )));
        }
        if self.second_views > 1 && self.objective != Method::Oupn {
            return Err(Error::input(format!(
                "second_views = {} does not go with objective = \"{}\", which compares two views of a frame",
                self.second_views, self.objective
            )));
        }
        let needs = self.architecture().image_channels();
        if self.image_channels != needs {
            return Err(Error::input(format!(
                "image_channels = {} does not suit this encoder, which reads {needs}",
                self.image_channels
            )));
        }
        let bytes = self.window_bytes();
        if bytes > LARGEST_WINDOW {
            return Err(Error::input(format!(
                "window = {} images of {} x {} pixels take {:.1} GB with their views, more than the {} GB that are allowed: \
                 lower window, second_views or the image's size",
                self.window,
                self.image_height,
                self.image_width,
                bytes as f64 / 1e9,
                LARGEST_WINDOW / 1_000_000_000
            )));
        }
        self.augmentation.recipe().check(self.image_channels)?;
        self.plan().map(drop)
    }

    /// What the images of a window take in memory: each as bytes with its companion, half a window more of them in waiting,
    /// and each view as 32-bit numbers.
    fn window_bytes(&self) -> u64 {
        let wide = |value: usize| value as u64;
        let image = wide(self.image_height)
            .saturating_mul(wide(self.image_width))
            .saturating_mul(wide(self.image_channels));
        let views = wide(self.second_views).saturating_add(1);
        image.saturating_mul(wide(self.window)).saturating_mul(views.saturating_mul(4).saturating_add(3))
    }
}

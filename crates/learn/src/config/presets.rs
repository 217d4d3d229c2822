//! The four presets: the values that the paper reports for each of its datasets.
//!
//! Where the paper is silent they are those of its released code. Its schedules are long: on a head camera the
//! updates of `saycam` take a hundred days. They are kept exact so that a run can be compared with the paper's.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::settings::{EncoderKind, ScheduleKind, Settings};
use crate::encoder::NormMode;
use crate::encoder::plan::{Padding, Pooling};
use crate::live::score::Publish;
use crate::memory::{EntropyOf, PseudoLabel, Variant, Writes};
use crate::objective::Method;
use crate::views::{Augmentation, Pairing, Reduction};

/// A named set of settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Head-camera video, MobileNet-V2 on 224×224 colour images.
    #[default]
    Saycam,
    /// Walks through rendered rooms, ResNet-12 on 120×160 images with the mask of an object.
    Rooms,
    /// Handwritten characters in changing contexts, Conv-4 on 28×28 grey images.
    Omniglot,
    /// Photographs in changing contexts, ResNet-12 on 84×84 colour images.
    Imagenet,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Saycam, Self::Rooms, Self::Omniglot, Self::Imagenet];

    /// The name in files and flags.
    pub fn name(self) -> &'static str {
        match self {
            Self::Saycam => "saycam",
            Self::Rooms => "rooms",
            Self::Omniglot => "omniglot",
            Self::Imagenet => "imagenet",
        }
    }

    /// The preset of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|preset| preset.name() == name)
    }

    /// Its settings.
    pub fn settings(self) -> Settings {
        let saycam = Settings {
            preset: self,
            window: 75,
            stride: 75,
            objective: Method::Oupn,
            slots: 75,
            variant: Variant::Reference,
            decay: 0.99,
            threshold: 0.5,
            prior_mean: 0.6,
            entropy_weight: 0.0,
            entropy_of: EntropyOf::All,
            creation_weight: 0.3,
            pseudo_label: PseudoLabel::OneHot,
            straight_through: true,
            symmetric: true,
            inv_tau: 10.0,
            beta: -12.0,
            gamma: 1.0,
            live_slots: 256,
            live_writes: Writes::Hard,
            live_frames: 5,
            live_megabytes: 64,
            publish: Publish::Better,
            views: Pairing::TwoAugmented,
            second_views: 1,
            augmentation: Augmentation::Saycam,
            reduction: Reduction::Released,
            encoder: EncoderKind::MobileNetV2,
            encoder_width: 1.0,
            encoder_pools: [2, 2, 2, 2],
            encoder_channels: [64, 64, 64, 64],
            image_height: 224,
            image_width: 224,
            image_channels: 3,
            pooling: Pooling::Mean,
            padding: Padding::Same,
            norm_epsilon: 1e-3,
            norm_statistics: NormMode::Window,
            norm_momentum: 1e-3,
            learning_rate: 1e-3,
            head_learning_rate: 1e-3,
            inv_tau_learning_rate: 1e-3,
            beta_learning_rate: 1e-3,
            gamma_learning_rate: 1e-3,
            schedule: ScheduleKind::Staircase,
            steps: 30_000,
            cosine_from: 0,
            rate_drops: vec![20_000],
            anchor_pull: 0.0,
            anchor_rate: 0.0,
            long_memory: 128,
            group_similarity: 0.92,
            group_every: 10,
            group_share: 0.8,
            replay_share: 0.5,
            seed: 0,
        };
        // What the three streams of episodes have in common.
        let episodes = Settings {
            prior_mean: 0.5,
            straight_through: false,
            symmetric: false,
            views: Pairing::CleanAndAugmented,
            steps: 80_000,
            rate_drops: vec![40_000, 60_000],
            ..saycam.clone()
        };
        match self {
            Self::Saycam => saycam,
            Self::Rooms => Settings {
                window: 50,
                stride: 50,
                slots: 150,
                decay: 0.995,
                entropy_weight: 0.0,
                creation_weight: 0.5,
                pseudo_label: PseudoLabel::Soft { ratio: 0.1 },
                augmentation: Augmentation::Rooms,
                encoder: EncoderKind::ResNet12,
                image_height: 120,
                image_width: 160,
                image_channels: 4,
                ..episodes
            },
            Self::Omniglot => Settings {
                window: 150,
                stride: 150,
                slots: 150,
                decay: 0.995,
                entropy_weight: 1.0,
                creation_weight: 1.0,
                pseudo_label: PseudoLabel::Soft { ratio: 0.2 },
                augmentation: Augmentation::Omniglot,
                encoder: EncoderKind::Conv4,
                image_height: 28,
                image_width: 28,
                image_channels: 1,
                ..episodes
            },
            Self::Imagenet => Settings {
                window: 48,
                stride: 48,
                slots: 600,
                decay: 0.99,
                entropy_weight: 0.5,
                creation_weight: 0.5,
                pseudo_label: PseudoLabel::OneHot,
                augmentation: Augmentation::Imagenet,
                encoder: EncoderKind::ResNet12,
                encoder_pools: [2, 2, 2, 1],
                image_height: 84,
                image_width: 84,
                ..episodes
            },
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published table, typed a second time in its own layout:
    /// T, K, ρ, μ, λ_ent, λ_new, pseudo-label (0: one-hot), sampled, symmetric, steps, drops, features.
    #[test]
    #[rustfmt::skip]
    #[allow(clippy::type_complexity)]
    fn the_papers_table() {
        let table: [(Preset, usize, usize, f64, f64, f64, f64, f64, bool, bool, u64, &[u64], usize); 4] = [
            (Preset::Rooms,    50,  150, 0.995, 0.5, 0.0, 0.5, 0.1, false, false, 80_000, &[40_000, 60_000], 256),
            (Preset::Saycam,   75,  75,  0.99,  0.6, 0.0, 0.3, 0.0, true,  true,  30_000, &[20_000],         1280),
            (Preset::Omniglot, 150, 150, 0.995, 0.5, 1.0, 1.0, 0.2, false, false, 80_000, &[40_000, 60_000], 64),
            (Preset::Imagenet, 48,  600, 0.99,  0.5, 0.5, 0.5, 0.0, false, false, 80_000, &[40_000, 60_000], 256),
        ];
        for (preset, window, slots, decay, mean, entropy, creation, ratio, sampled, symmetric, steps, drops, features) in table {
            let settings = preset.settings();
            settings.validate().unwrap();
            assert_eq!(settings.preset, preset);
            assert_eq!((settings.window, settings.stride, settings.slots), (window, window, slots));
            let rules = settings.rules();
            assert_eq!((rules.decay, rules.threshold, rules.prior_mean), (decay, 0.5, mean));
            assert_eq!((rules.entropy_weight, rules.creation_weight), (entropy, creation));
            assert_eq!(rules.pseudo_label, if ratio > 0.0 { PseudoLabel::Soft { ratio } } else { PseudoLabel::OneHot });
            assert_eq!((rules.straight_through, rules.symmetric), (sampled, symmetric));
            assert_eq!(settings.control(), crate::memory::Control::default());
            assert_eq!((settings.steps, settings.rate_drops.as_slice()), (steps, drops));
            let rates = |step| settings.base_rates().scaled(settings.schedule().factor(step));
            let (first, last) = (rates(0), rates(steps - 1));
            let fall = 0.1f64.powi(drops.len() as i32);
            for (first, last) in [(first.encoder, last.encoder), (first.inv_tau, last.inv_tau), (first.beta, last.beta), (first.gamma, last.gamma)] {
                assert_eq!(first, 1e-3);
                assert!((last - 1e-3 * fall).abs() < 1e-15);
            }
            assert_eq!(settings.plan().unwrap().features, features);
            assert_eq!(settings.views == Pairing::TwoAugmented, preset == Preset::Saycam);
        }
    }

    #[test]
    fn names_lead_back_to_presets() {
        for preset in Preset::ALL {
            assert_eq!(Preset::named(preset.name()), Some(preset));
        }
        assert_eq!(Preset::named("Rooms"), None);
    }
}

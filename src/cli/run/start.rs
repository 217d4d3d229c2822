//! What a device starts with, where it differs from the paper's settings.

use crate::config::Settings;
use crate::encoder::architecture::Architecture;
use crate::encoder::{ModelCard, NormMode};
use crate::memory::EntropyOf;
use crate::views::{Augmentation, Pairing};

/// What a device wants of every preset, since it has hours where the paper's runs had months: overlapping windows, running
/// statistics that agree with the learner's from the first windows on, and a β that gets somewhere.
pub(super) fn suit_a_device(settings: &mut Settings) {
    settings.stride = settings.stride.min(15);
    settings.norm_momentum = 0.1;
    settings.beta_learning_rate *= 10.0;
}

/// What keeps a warm start from being unlearned: real second looks, gentle augmentation, the statistics that the weights were
/// made with, and small steps that get smaller. At a constant rate what is gained by the fiftieth update is lost again, and
/// more, by the two hundredth. The entropy of known frames is what most of the gain comes from (RESULTS.md).
pub(super) fn suit_a_warm_start(settings: &mut Settings, card: &ModelCard) {
    settings.views = Pairing::NextFrame;
    settings.augmentation = Augmentation::Mild;
    settings.entropy_weight = 2.0;
    settings.entropy_of = EntropyOf::Known;
    settings.learning_rate = 1e-5;
    settings.rate_drops = vec![50, 100];
    settings.norm_statistics = NormMode::Running;
    settings.image_height = card.input.size;
    settings.image_width = card.input.size;
}

/// The network that the card's weights are for.
pub(super) fn adopt_card(settings: &mut Settings, card: &ModelCard) {
    use crate::config::EncoderKind;
    settings.padding = card.padding;
    settings.norm_epsilon = f64::from(card.bn_epsilon);
    match card.encoder {
        Architecture::MobileNetV2 { width } => {
            settings.encoder = EncoderKind::MobileNetV2;
            settings.encoder_width = width;
        }
        Architecture::ResNet12 { strides, .. } => {
            settings.encoder = EncoderKind::ResNet12;
            settings.encoder_pools = strides;
        }
        Architecture::Conv4 { widths, .. } => {
            settings.encoder = EncoderKind::Conv4;
            settings.encoder_channels = widths;
        }
    }
    settings.image_channels = card.encoder.image_channels();
    if settings.image_channels < 3 {
        // Nothing has a colour to change.
        settings.augmentation = Augmentation::Omniglot;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;

    #[test]
    fn a_card_brings_its_network() {
        for card in ModelCard::known().unwrap() {
            let mut settings = Preset::Saycam.settings();
            suit_a_device(&mut settings);
            suit_a_warm_start(&mut settings, &card);
            adopt_card(&mut settings, &card);
            settings.validate().unwrap();
            assert_eq!(settings.architecture(), card.encoder);
        }
    }
}

//! What a device records with: a preset, adjusted to hours of wearing instead of months of training, and to the weights that it
//! starts from.
//!
//! A recording, `train --stream objects-video` and the figures in RESULTS.md all take their settings from here.

use std::path::Path;

use super::{EncoderKind, Preset, Settings};
use crate::Result;
use crate::encoder::card::ModelCard;
use crate::encoder::plan::Pooling;
use crate::encoder::{Architecture, NormMode};
use crate::memory::EntropyOf;
use crate::views::{Augmentation, Pairing};

impl Settings {
    /// The settings of a device that starts from weights with this card, or from random ones, with the keys of a settings file
    /// on top.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub fn for_device(preset: Option<Preset>, file: Option<&Path>, card: Option<&ModelCard>) -> Result<Self> {
        Self::load_adjusted(preset, file, |settings| {
            settings.suit_a_device();
            if let Some(card) = card {
                settings.start_from(card);
            }
        })
    }

    /// The same settings for a start from weights with this card: their network, and what keeps them from being unlearned.
    pub fn start_from(&mut self, card: &ModelCard) {
        self.suit_a_warm_start(card);
        self.adopt_card(card);
    }

    /// Eyes for the middle of the picture, overlapping windows, running statistics that agree with the learner's from the first windows on, and a β that gets
    /// somewhere.
    fn suit_a_device(&mut self) {
        self.pooling = Pooling::Centre;
        self.stride = self.stride.min(15);
        self.norm_momentum = 0.1;
        self.beta_learning_rate *= 10.0;
    }

    /// What keeps the weights of a warm start from being unlearned: real second looks, gentle augmentation, the statistics that
    /// they were made with, and small steps that get smaller. At a constant rate what is gained by the fiftieth update is lost
    /// again, and more, by the two hundredth. Most of the gain comes from the entropy of known frames (RESULTS.md).
    fn suit_a_warm_start(&mut self, card: &ModelCard) {
        self.views = Pairing::NextFrame;
        self.augmentation = Augmentation::Mild;
        self.straight_through = false;
        self.entropy_weight = 2.0;
        self.entropy_of = EntropyOf::Known;
        self.learning_rate = 1e-5;
        self.inv_tau_learning_rate = 1e-5;
        self.beta_learning_rate = 1e-3;
        self.rate_drops = vec![50, 100];
        self.norm_statistics = NormMode::Running;
        self.image_height = card.input.size;
        self.image_width = card.input.size;
    }

    /// The network that the card's weights are for.
    fn adopt_card(&mut self, card: &ModelCard) {
        self.padding = card.padding;
        self.norm_epsilon = f64::from(card.bn_epsilon);
        match card.encoder {
            Architecture::MobileNetV2 { width } => {
                self.encoder = EncoderKind::MobileNetV2;
                self.encoder_width = width;
            }
            Architecture::ResNet12 { strides, .. } => {
                self.encoder = EncoderKind::ResNet12;
                self.encoder_pools = strides;
            }
            Architecture::Conv4 { widths, .. } => {
                self.encoder = EncoderKind::Conv4;
                self.encoder_channels = widths;
            }
        }
        self.image_channels = card.encoder.image_channels();
        if self.image_channels < 3 {
            // Nothing has a colour to change.
            self.augmentation = Augmentation::Omniglot;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::plan::Readout;

    #[test]
    fn a_card_brings_its_network() {
        for card in ModelCard::known().unwrap() {
            let settings = Settings::for_device(None, None, Some(&card)).unwrap();
            settings.validate().unwrap();
            assert_eq!(settings.architecture(), card.encoder);
            assert_eq!(settings.image_height, card.input.size);
        }
    }

    /// The presets are the paper's, and so are recordings whose `run.toml` says nothing of it.
    #[test]
    fn a_device_weighs_the_middle_more_and_a_preset_does_not() {
        let card = ModelCard::built_in().unwrap();
        for card in [None, Some(&card)] {
            let settings = Settings::for_device(None, None, card).unwrap();
            assert_eq!(settings.pooling, Pooling::Centre);
            assert_eq!(settings.plan().unwrap().readout, Readout::Pool(Pooling::Centre));
        }
        let paper = Preset::Saycam.settings();
        assert_eq!(paper.plan().unwrap().readout, Readout::Pool(Pooling::Mean));
        let mut remembered = toml::Table::try_from(&paper).unwrap();
        remembered.remove("pooling");
        assert_eq!(remembered.try_into::<Settings>().unwrap().pooling, Pooling::Mean);
    }

    /// The file that goes onto a device says what the program does anyway.
    #[test]
    fn the_file_of_the_device_is_the_programs_own_choice() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../firmware-config/oupn-edge.toml");
        let card = ModelCard::built_in().unwrap();
        for card in [None, Some(&card)] {
            let settings = |file| Settings::for_device(None, file, card).unwrap();
            assert_eq!(settings(Some(&file)), settings(None));
        }
    }
}

//! Model cards: what a weight file cannot say of itself in its tensors.
//!
//! Two networks of the same names and shapes can differ in where strided windows lie, in batch norm's epsilon and in how
//! pixels become numbers; with the wrong ones, weights load without a word and features are worthless. A card is a
//! short TOML text that states them, with where the weights come from. `models/` holds the cards of known files, and
//! `model import` writes the card into the weight file itself.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::Architecture;
use super::plan::{BatchNorm, Padding, Plan, Pooling};
use crate::{Error, Result};

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelCard {
    /// Short name, by which `--card` finds a known card.
    pub name: String,
    /// One sentence: what was trained on what.
    pub about: String,
    /// Where the weights come from and how they were made.
    pub source: String,
    /// Their licence, as an SPDX expression.
    pub licence: String,
    /// SHA-256 of the published file that the weights were read from, where it was downloaded by `model fetch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Names of the files that this card belongs to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Where strided windows lie.
    pub padding: Padding,
    /// Epsilon of the batch norms.
    pub bn_epsilon: f32,
    /// How the last layer's pixels were weighed when the weights were learned; a recording has a setting for it.
    #[serde(default, skip_serializing_if = "is_mean")]
    pub pooling: Pooling,
    /// Which network it is.
    pub encoder: Architecture,
    /// How images become numbers.
    pub input: InputScaling,
}

fn is_mean(pooling: &Pooling) -> bool {
    *pooling == Pooling::Mean
}

/// How a channel value from 0 to 1 becomes what the first convolution reads: `(value − mean) / deviation`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputScaling {
    /// Side of the square images that the network was trained on; others work, less well the further away.
    pub size: usize,
    /// Subtracted from each channel.
    pub mean: Vec<f32>,
    /// What each channel is divided by.
    pub deviation: Vec<f32>,
}

impl InputScaling {
    /// Pixels from 0 to 1 as they are.
    pub fn none(channels: usize) -> Self {
        Self { size: 0, mean: vec![0.0; channels], deviation: vec![1.0; channels] }
    }

    /// Makes of a picture's bytes, channels last, what the network reads.
    pub fn read(&self, picture: &[u8], image: &mut [f32]) {
        image.iter_mut().zip(picture).for_each(|(value, byte)| *value = f32::from(*byte) / 255.0);
        self.apply(image);
    }

    /// Scales pixels, channels last, from 0…1 to what the network reads.
    pub fn apply(&self, pixels: &mut [f32]) {
        for pixel in pixels.chunks_exact_mut(self.mean.len()) {
            for ((value, mean), deviation) in pixel.iter_mut().zip(&self.mean).zip(&self.deviation) {
                *value = (*value - mean) / deviation;
            }
        }
    }
}

/// The licence of weights that were learned from data of the user's own.
pub const OF_THE_DATA: &str = "LicenseRef-of-the-data";

/// The card of the weights that are part of the program.
const BUILT_IN: &str = include_str!("../../../models/mobilenet_v2_0.35_things.toml");

/// The cards that come with the program.
const KNOWN: [&str; 10] = [
    include_str!("../../../models/conv4_omniglot.toml"),
    include_str!("../../../models/conv4_64_omniglot.toml"),
    BUILT_IN,
    include_str!("../../../models/mobilenet_v2_1.0_imagenet.toml"),
    include_str!("../../../models/mobilenet_v2_0.35_imagenet.toml"),
    include_str!("../../../models/mobilenet_v2_torchvision_v1.toml"),
    include_str!("../../../models/mobilenet_v2_torchvision_v2.toml"),
    include_str!("../../../models/mobilenetv2_050.lamb_in1k.toml"),
    include_str!("../../../models/mobilenetv2_100.ra_in1k.toml"),
    include_str!("../../../models/mobilenetv2_140.ra_in1k.toml"),
];

impl ModelCard {
    /// Reads a card; `origin` names it in messages.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let fault = |message: &dyn std::fmt::Display| Error::input(format!("model card {origin}: {message}"));
        // The parser's message spans lines, with an excerpt; errors here are one line.
        let one_line = |error: toml::de::Error| {
            let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
            fault(&format!("line {line}: {}", error.message().replace('\n', " ")))
        };
        let card: Self = toml::from_str(text).map_err(one_line)?;
        let channels = card.encoder.image_channels();
        let InputScaling { size, mean, deviation } = &card.input;
        if mean.len() != channels || deviation.len() != channels {
            return Err(fault(&format!("input.mean and input.deviation need {channels} numbers each")));
        }
        if !mean.iter().all(|mean| mean.is_finite())
            || !deviation.iter().all(|&by| by > 0.0 && by.is_finite())
        {
            return Err(fault(&"input.mean must be finite and input.deviation above 0"));
        }
        card.plan(*size, *size, 0.1).map_err(|error| fault(&error))?;
        Ok(card)
    }

    /// The cards that come with the program.
    pub fn known() -> Result<Vec<Self>> {
        KNOWN.iter().map(|text| Self::parse(text, "of this program")).collect()
    }

    /// The card of the weights that are part of the program.
    pub fn built_in() -> Result<Self> {
        Self::parse(BUILT_IN, "of the built-in weights")
    }

    /// The card as it is stored.
    pub fn to_toml(&self) -> Result<String> {
        toml::to_string(self).map_err(|error| Error::input(format!("model card {}: {error}", self.name)))
    }

    /// The network for images of this size. `momentum` is batch norm's, a matter of training and not of the weights.
    pub fn plan(&self, height: usize, width: usize, momentum: f32) -> Result<Plan> {
        let norm = BatchNorm { epsilon: self.bn_epsilon, momentum };
        Ok(self.encoder.plan(height, width, self.padding, norm)?.with_pooling(self.pooling))
    }

    /// The card of what becomes of these weights when they go on learning `on` something: the same network and scaling, but
    /// neither the published file nor under its licence alone.
    pub fn learned(self, on: &str) -> Self {
        let data = format!(" AND {OF_THE_DATA}");
        let licence = if self.licence.ends_with(OF_THE_DATA) { self.licence } else { self.licence + &data };
        Self {
            name: format!("{}_learned", self.name.trim_end_matches("_learned")),
            about: format!("{}; then learned without labels {on}", self.about),
            source: format!("oupn-edge {}, from: {}", env!("CARGO_PKG_VERSION"), self.source),
            licence,
            sha256: None,
            files: Vec::new(),
            ..self
        }
    }

    /// Whether both are of one network and read pictures in the same way, wherever the weights come from.
    pub fn is_of_same_network(&self, other: &Self) -> bool {
        let network = |card: &Self| (card.encoder, card.padding, card.bn_epsilon);
        let scaling = |card: &Self| (card.input.mean.clone(), card.input.deviation.clone());
        network(self) == network(other) && scaling(self) == scaling(other)
    }

    /// What the card says, for people.
    pub fn describe(&self) -> String {
        let (mut text, none) = (String::new(), String::new());
        let scaling = format!(
            "(value − {:?}) / {:?} for values 0…1, trained at {}×{}",
            self.input.mean, self.input.deviation, self.input.size, self.input.size
        );
        for (name, value) in [
            ("model", &self.name),
            ("about", &self.about),
            ("encoder", &self.encoder.to_string()),
            ("padding", &self.padding.to_string()),
            ("epsilon", &self.bn_epsilon.to_string()),
            ("input", &scaling),
            ("source", &self.source),
            ("licence", &self.licence),
            ("sha256", self.sha256.as_ref().unwrap_or(&none)),
        ] {
            if value.is_empty() {
                continue;
            }
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name:<11} {value}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_cards_are_valid_and_distinct() {
        let cards = ModelCard::known().unwrap();
        let mut names: Vec<_> = cards.iter().flat_map(|card| card.files.iter().chain([&card.name])).collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        for card in cards {
            assert_eq!(ModelCard::parse(&card.to_toml().unwrap(), "again").unwrap(), card);
        }
    }

    #[test]
    fn learned_weights_do_not_pass_for_the_published_ones() {
        let published = ModelCard::known().unwrap().remove(1);
        let learned = published.clone().learned("on COIL").learned("on a walk");
        assert!(learned.is_of_same_network(&published));
        assert_ne!(learned.name, published.name);
        assert_eq!(learned.licence, format!("{} AND {OF_THE_DATA}", published.licence));
        assert!(
            learned.files.is_empty()
                && learned.about.ends_with("on COIL; then learned without labels on a walk")
        );
        assert_eq!(ModelCard::parse(&learned.to_toml().unwrap(), "again").unwrap(), learned);
        let mut other = published.clone();
        other.input.mean[0] = 0.4;
        assert!(!other.is_of_same_network(&published));
    }

    #[test]
    fn scaling_is_the_published_one() {
        let cards = ModelCard::known().unwrap();
        let scaled = |name: &str, bytes: [u8; 3]| {
            let mut pixel = bytes.map(|byte| f32::from(byte) / 255.0);
            cards.iter().find(|card| card.name == name).unwrap().input.apply(&mut pixel);
            pixel
        };
        let tensorflow = scaled("mobilenet_v2_1.0_imagenet", [0, 51, 255]);
        let right = [0.0f32, 51.0, 255.0].map(|byte| byte / 127.5 - 1.0);
        assert!(tensorflow.iter().zip(right).all(|(found, right)| (found - right).abs() < 1e-6));
        let torchvision = scaled("mobilenet_v2_torchvision_v1", [124, 116, 104]);
        assert!(
            torchvision.iter().all(|value| value.abs() < 0.02),
            "ImageNet's mean colour is zero: {torchvision:?}"
        );
    }

    #[test]
    fn faults_are_one_line_with_the_place() {
        let good = include_str!("../../../models/mobilenet_v2_1.0_imagenet.toml");
        for (from, to, expected) in [
            ("padding = \"same\"", "padding = \"none\"", "unknown variant `none`"),
            ("bn_epsilon", "epsilon", "unknown field `epsilon`"),
            ("width = 1.0", "width = -1.0", "width is -1"),
            ("mean = [0.5, 0.5, 0.5]", "mean = [0.5]", "3 numbers each"),
            ("deviation = [0.5, 0.5, 0.5]", "deviation = [0.5, 0.5, 0]", "above 0"),
        ] {
            let bad = good.replace(from, to);
            assert_ne!(bad, good, "{from}");
            let message = ModelCard::parse(&bad, "x.toml").unwrap_err().to_string();
            assert!(message.contains("x.toml") && message.contains(expected), "{message}");
            assert!(!message.contains('\n'), "{message}");
        }
    }
}

//! A model: an encoder with its weights, its card, and 1/τ, β, γ. Every start from weights is here: from random ones, and
//! from a file. The plan always comes from the card, so that weights are never read with another padding or epsilon.

use std::path::Path;
use std::sync::Arc;

use crate::config::Settings;
use crate::encoder::card::{InputScaling, ModelCard, OF_THE_DATA};
use crate::encoder::inference::Folded;
use crate::encoder::init::random_parameters;
use crate::encoder::{Parameters, Plan, Statistics, Weights};
use crate::learner::saved::learned_control;
use crate::memory::Control;
use crate::{Error, Result};

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Model {
    /// What the weights are, and how pictures are scaled for them.
    pub card: ModelCard,
    /// The network that the card names, for pictures of one size.
    pub plan: Arc<Plan>,
    /// Its weights.
    pub parameters: Parameters,
    /// The running statistics of its batch norms.
    pub statistics: Statistics,
    /// 1/τ, β, γ: those learned with the weights, or the settings'.
    pub control: Control,
    /// Whether they were learned with the weights.
    pub control_is_learned: bool,
}

impl Model {
    /// Random weights of the settings' network.
    ///
    /// # Errors
    /// If the network cannot be for pictures of the size set.
    pub fn random(settings: &Settings, seed: u64) -> Result<Self> {
        let encoder = settings.architecture();
        let plan = settings.plan()?;
        let input = InputScaling {
            size: settings.image_height.max(settings.image_width),
            // The paper feeds pixels from 0 to 1 as they are.
            ..InputScaling::none(plan.image.channels)
        };
        let card = ModelCard {
            name: "from-scratch".into(),
            about: format!("{encoder} from random weights"),
            source: format!("seed {seed}"),
            licence: OF_THE_DATA.into(),
            sha256: None,
            files: Vec::new(),
            padding: settings.padding,
            #[allow(clippy::cast_possible_truncation)]
            bn_epsilon: settings.norm_epsilon as f32,
            pooling: settings.pooling,
            encoder,
            input,
        };
        Ok(Self {
            card,
            parameters: random_parameters(encoder, &plan, seed),
            statistics: plan.fresh_statistics(),
            plan: Arc::new(plan),
            control: settings.control(),
            control_is_learned: false,
        })
    }

    /// The weights of a file, for pictures of the settings' size.
    ///
    /// # Errors
    /// If the file cannot be read, or is not of a network that takes pictures of that size.
    pub fn read(path: &Path, settings: &Settings) -> Result<Self> {
        let size = (settings.image_height, settings.image_width);
        Self::of(Weights::read(path)?, path, settings, size)
    }

    /// The weights that were read from a file, for pictures of this height and width.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn of(weights: Weights, path: &Path, settings: &Settings, size: (usize, usize)) -> Result<Self> {
        let Weights { mut card, parameters, statistics } = weights;
        card.pooling = settings.pooling;
        #[allow(clippy::cast_possible_truncation)]
        let plan = card.plan(size.0, size.1, settings.norm_momentum as f32)?;
        let learned = learned_control(path)?;
        Ok(Self {
            card,
            plan: Arc::new(plan),
            parameters,
            statistics,
            control: learned.unwrap_or_else(|| settings.control()),
            control_is_learned: learned.is_some(),
        })
    }

    /// The encoder for single pictures.
    ///
    /// # Errors
    /// If the weights are not of the plan.
    pub fn fold(&self) -> Result<Arc<Folded>> {
        Folded::new(&self.plan, &self.parameters, &self.statistics).map(Arc::new)
    }
}

/// Refuses weights of another network than the one that the settings describe; `file` is used in the message. Names and shapes
/// alone do not tell: the same tensors with another padding or epsilon are another network, and every feature is a little wrong.
///
/// # Errors
/// If they are of another network.
pub fn check_network(card: &ModelCard, settings: &Settings, file: &str) -> Result<()> {
    #[allow(clippy::cast_possible_truncation)]
    let asked = (settings.architecture(), settings.padding, settings.norm_epsilon as f32);
    let found = (card.encoder, card.padding, card.bn_epsilon);
    if asked == found {
        return Ok(());
    }
    let words = |(encoder, padding, epsilon)| {
        format!("{encoder} with padding = \"{padding}\" and norm_epsilon = {epsilon}")
    };
    Err(Error::input(format!(
        "{file}: its weights are of {}, but the settings say {}: leave these keys out of the settings file, or start in \
         another folder with --data",
        words(found),
        words(asked)
    )))
}

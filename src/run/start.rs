//! What a run starts with: the newest checkpoint, a weight file, or random weights.

use super::checkpoint::{self, Restored};
use super::plan::RunPlan;
use crate::config::Settings;
use crate::encoder::card::{InputScaling, OF_THE_DATA};
use crate::encoder::init::random_parameters;
use crate::encoder::{ModelCard, Parameters, Plan, Statistics, Weights};
use crate::learner::Adam;
use crate::learner::saved;
use crate::learner::update::LearnerState;
use crate::memory::{Control, Prototypes};
use crate::storage::{CheckpointStore, Faulty};
use crate::{Error, Result};

/// The encoder that a run starts with, and the checkpoint that it came from, if any.
#[derive(Debug)]
pub(super) struct Start {
    /// The model's card.
    pub card: ModelCard,
    /// Its weights.
    pub parameters: Parameters,
    /// The running statistics of its batch norms.
    pub statistics: Statistics,
    /// 1/τ, β, γ.
    pub control: Control,
    /// What else the checkpoint holds.
    pub restored: Option<Restored>,
    /// The checkpoint's name.
    pub resumed_from: Option<String>,
}

impl Start {
    /// Goes on from the newest checkpoint that can be used, or starts as the plan says.
    pub(super) fn resume_or_new(plan: &RunPlan, network: &Plan, store: &CheckpointStore) -> Result<Self> {
        let found = checkpoint::newest(store, Faulty::PutAside, network, plan.settings.slots)?;
        let Some((file, restored)) = found else { return Self::new(plan, network) };
        check_network(&restored.card, &plan.settings, "the newest checkpoint")?;
        // A recording goes on with its own weights: the file that they once came from may be gone.
        Ok(Self {
            card: restored.card.clone(),
            parameters: restored.learner.parameters.clone(),
            statistics: restored.learner.statistics.clone(),
            control: restored.live.control,
            restored: Some(restored),
            resumed_from: file.path.file_name().map(|name| name.to_string_lossy().into_owned()),
        })
    }

    /// Starts from the model's weights, or from random ones.
    pub(super) fn new(plan: &RunPlan, network: &Plan) -> Result<Self> {
        let settings = &plan.settings;
        let (restored, resumed_from) = (None, None);
        let Some(path) = &plan.model else {
            let parameters = random_parameters(settings.architecture(), network, settings.seed);
            let (statistics, control) = (network.fresh_statistics(), settings.control());
            let card = card_of_random_weights(settings);
            return Ok(Self { card, parameters, statistics, control, restored, resumed_from });
        };
        let Weights { card, parameters, statistics } = Weights::read(path)?;
        check_network(&card, settings, &path.display().to_string())?;
        let control = saved::learned_control(path)?.unwrap_or_else(|| settings.control());
        let card = card.learned("on a device");
        Ok(Self { card, parameters, statistics, control, restored, resumed_from })
    }
}

/// The learner's state before anything was learned.
pub(super) fn fresh(plan: &RunPlan) -> Result<LearnerState> {
    let network = plan.settings.plan()?;
    let start = Start::new(plan, &network)?;
    Ok(LearnerState {
        control: start.control,
        memory: Prototypes::new(plan.settings.slots, network.features)?,
        adam: Adam::new(start.parameters.values.len()),
        parameters: start.parameters,
        statistics: start.statistics,
    })
}

fn card_of_random_weights(settings: &Settings) -> ModelCard {
    let architecture = settings.architecture();
    let channels = architecture.image_channels();
    ModelCard {
        name: "from-scratch".into(),
        about: format!("{architecture} from random weights, learned on a device"),
        source: format!("seed {}", settings.seed),
        licence: OF_THE_DATA.into(),
        files: Vec::new(),
        padding: settings.padding,
        #[allow(clippy::cast_possible_truncation)]
        bn_epsilon: settings.norm_epsilon as f32,
        encoder: architecture,
        // The paper feeds pixels from 0 to 1 as they are.
        input: InputScaling {
            size: settings.image_height,
            mean: vec![0.0; channels],
            deviation: vec![1.0; channels],
        },
    }
}

/// Refuses weights of another network than the one that the settings describe. Names and shapes alone do not tell: the same
/// tensors with another padding or epsilon are another network, and every feature is a little wrong.
fn check_network(card: &ModelCard, settings: &Settings, file: &str) -> Result<()> {
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

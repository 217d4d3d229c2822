//! What a run starts with: the newest checkpoint, a weight file, or random weights.

use std::sync::Arc;

use super::checkpoint::{self, Restored};
use super::plan::RunPlan;
use crate::Result;
use crate::encoder::Plan;
use crate::learner::Adam;
use crate::learner::update::LearnerState;
use crate::model::{Model, check_network};
use crate::storage::{CheckpointStore, Faulty};

/// The model that a run starts with, and the checkpoint that it came from, if any.
#[derive(Debug)]
pub(super) struct Start {
    /// The model.
    pub model: Model,
    /// What else the checkpoint holds.
    pub restored: Option<Restored>,
    /// The checkpoint's name.
    pub resumed_from: Option<String>,
}

impl Start {
    /// Goes on from the newest checkpoint that can be used, or starts as the plan says.
    pub(super) fn resume_or_new(plan: &RunPlan, network: &Plan, store: &CheckpointStore) -> Result<Self> {
        let found = checkpoint::newest(store, Faulty::PutAside, network, &plan.settings)?;
        let Some((file, restored)) = found else { return Self::new(plan) };
        check_network(&restored.card, &plan.settings, "the newest checkpoint")?;
        // A recording goes on with its own weights: the file that they once came from may be gone.
        let model = Model {
            card: restored.card.clone(),
            plan: Arc::new(network.clone()),
            parameters: restored.learner.parameters.clone(),
            statistics: restored.learner.statistics.clone(),
            control: restored.live.control,
            control_is_learned: true,
        };
        let resumed_from = file.path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(Self { model, restored: Some(restored), resumed_from })
    }

    /// Starts from the model's weights, or from random ones.
    pub(super) fn new(plan: &RunPlan) -> Result<Self> {
        let settings = &plan.settings;
        let mut model = match &plan.model {
            None => Model::random(settings, settings.seed)?,
            Some(path) => Model::read(path, settings)?,
        };
        if let Some(path) = &plan.model {
            check_network(&model.card, settings, &path.display().to_string())?;
            model.card = model.card.learned("on a device");
        } else {
            model.card.about.push_str(", learned on a device");
        }
        Ok(Self { model, restored: None, resumed_from: None })
    }
}

/// The learner's state before anything was learned.
pub(super) fn fresh(plan: &RunPlan) -> Result<LearnerState> {
    let Model { plan: network, parameters, statistics, control, .. } = Start::new(plan)?.model;
    Ok(LearnerState {
        control,
        adam: Adam::new(parameters.values.len()),
        anchor: None,
        carried: plan.settings.objective.objective(&plan.settings, network.features)?.carried(),
        parameters,
        statistics,
    })
}

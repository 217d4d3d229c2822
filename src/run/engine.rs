//! What a run computes with: the live path and the learner, as new or as a checkpoint has them.

use std::sync::Arc;

use super::compute::Compute;
use super::device_trainer::DeviceTrainer;
use super::learning::{self, Student};
use super::live::LivePath;
use super::plan::RunPlan;
use super::resume::Before;
use super::start::Start;
use crate::Result;
use crate::encoder::inference::Inference;
use crate::encoder::{Plan, TrainingOptions};
use crate::learner::Trainer;
use crate::live::KeptFrames;
use crate::memory::LiveMemory;

/// What a run computes with.
pub(super) struct Core {
    pub(super) live: LivePath,
    pub(super) trainer: DeviceTrainer,
    /// The threads of learning.
    pub(super) pool: rayon::ThreadPool,
    /// What trains.
    pub(super) compute: Compute,
    /// The model's card, as TOML.
    pub(super) card: String,
}

impl Core {
    /// The live path and the learner, as new or as the checkpoint has them; what else it holds goes into `before`.
    pub(super) fn new(plan: &RunPlan, network: &Plan, start: Start, before: &mut Before) -> Result<Self> {
        let settings = &plan.settings;
        let compute = plan.device.open()?;
        let computing = compute.computing();
        let options = TrainingOptions { memory_budget: plan.memory_budget, ..TrainingOptions::default() };
        let encoder = compute.training_encoder(Arc::clone(&start.model.plan), options, plan.threads)?;
        let mut live = LivePath::new(
            network.image,
            Inference::new(start.model.fold()?, plan.threads)?,
            start.model.card.input.clone(),
            settings.rules(),
            LiveMemory::new(settings.live_slots, network.features)?.with_writes(settings.live_writes),
            KeptFrames::new(settings.live_frames, settings.live_megabytes << 20),
            start.model.control,
            plan.calibrate,
        );
        live.cold = plan.model.is_none();
        let card = start.model.card.to_toml()?;
        let pool = learning::pool(plan.threads)?;
        let trainer = pool.install(|| Trainer::new(settings, start.model, encoder))?;
        let warm = plan.model.is_some();
        let mut trainer = DeviceTrainer::new(trainer, settings.publish, warm, plan.threads);
        if let Some(restored) = start.restored {
            let part = restored.live;
            live.use_weights(trainer.restore(restored.learner, restored.in_use)?)?;
            live.control = part.control;
            live.restore_threshold(&part.header);
            live.kept.restore_directions(&part.header.kept, &part.exemplars, network.features);
            live.memory = part.memory.with_writes(settings.live_writes).with_slots(settings.live_slots)?;
            before.used = part.used;
            before.samples = part.samples;
        }
        Ok(Self { live, trainer, pool, compute: Compute::new(computing), card })
    }
}

//! The trainer of a recording: it learns from windows, and knows which weights the live path uses meanwhile.
//!
//! Weights in use and weights that learn are two things. The live memory's prototypes are made with the weights in use, and only
//! a publication changes both together. So a checkpoint that is written between two publications holds the weights in use beside
//! the newer ones: after a restart the memory would otherwise be read with weights that it was not made with.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use super::learning::{Judged, Learned, Lesson, Student};
use super::live::Fresh;
use crate::encoder::inference::{Folded, Inference};
use crate::encoder::{Parameters, Plan, Statistics};
use crate::learner::update::LearnerState;
use crate::learner::{Published, Trainer};
use crate::live::KeptFrames;
use crate::live::kept::direction;
use crate::live::score::{self, Publish};
use crate::tensors::{Tensor, TensorFile};
use crate::windows::Sample;
use crate::{Error, Result};

/// How the names of the weights in use begin, in a checkpoint.
const PREFIX: &str = "in_use.";

/// The weights that the live path uses, where they are not the learner's newest.
#[derive(Clone, Debug, PartialEq)]
pub struct InUse {
    /// The weights.
    pub parameters: Parameters,
    /// The statistics of their batch norms.
    pub statistics: Statistics,
}

impl InUse {
    /// What a checkpoint says of them; none if they are the learner's own.
    pub(super) fn take(file: &TensorFile, plan: &Plan) -> Result<Option<Self>> {
        if !file.tensors().keys().any(|name| name.starts_with(PREFIX)) {
            return Ok(None);
        }
        let (parameters, statistics) = (plan.zero_parameters(), plan.fresh_statistics());
        let mut in_use = Self { parameters, statistics };
        let Self { parameters, statistics } = &mut in_use;
        for index in 0..parameters.specs().len() {
            let spec = parameters.specs()[index].clone();
            parameters
                .tensor_mut(index)
                .copy_from_slice(file.finite(&format!("{PREFIX}{}", spec.name), &spec.shape)?);
        }
        for index in 0..statistics.specs().len() {
            let spec = statistics.specs()[index].clone();
            statistics
                .tensor_mut(index)
                .copy_from_slice(file.finite(&format!("{PREFIX}{}", spec.name), &spec.shape)?);
        }
        Ok(Some(in_use))
    }

    fn put(&self, tensors: &mut BTreeMap<String, Tensor>) {
        let mut named = BTreeMap::new();
        crate::encoder::weights::put(&self.parameters, &mut named);
        crate::encoder::weights::put(&self.statistics, &mut named);
        tensors.extend(named.into_iter().map(|(name, tensor)| (format!("{PREFIX}{name}"), tensor)));
    }
}

/// See the [module](self).
#[derive(Debug)]
pub struct DeviceTrainer {
    trainer: Trainer,
    /// None while they are the trainer's own.
    in_use: Option<InUse>,
    /// Embeds the kept pictures with weights that are about to be published.
    inference: Option<Inference>,
    threads: usize,
    /// Which weights are published.
    publish: Publish,
    /// Whether weights that are worse than those in use are given up: not those of a cold start, which has nothing to go back to.
    goes_back: bool,
}

impl DeviceTrainer {
    /// A trainer whose weights are the ones in use.
    pub fn new(trainer: Trainer, publish: Publish, goes_back: bool, threads: usize) -> Self {
        Self { trainer, in_use: None, inference: None, threads, publish, goes_back }
    }

    /// Goes on from the weights in use; whether there was anything to go back from.
    fn go_back(&mut self) -> bool {
        let Some(InUse { parameters, statistics }) = self.in_use.take() else { return false };
        self.trainer.go_back(parameters, statistics);
        true
    }

    /// The weights in use.
    fn published(&self) -> Result<Published> {
        let Some(InUse { parameters, statistics }) = &self.in_use else { return self.trainer.publish() };
        let model = self.trainer.model();
        let folded = Folded::new(&model.plan, parameters, statistics)?;
        Ok(Published { folded: Arc::new(folded), control: model.control })
    }

    fn embed_again(
        &mut self,
        folded: &Arc<Folded>,
        pictures: &BTreeMap<u64, Arc<[u8]>>,
    ) -> Result<HashMap<u64, Arc<[f32]>>> {
        let inference = match &mut self.inference {
            Some(inference) => {
                inference.replace(Arc::clone(folded))?;
                inference
            }
            None => self.inference.insert(Inference::new(Arc::clone(folded), self.threads)?),
        };
        let model = self.trainer.model();
        let mut image = vec![0.0; model.plan.image.len()];
        let mut embedding = vec![0.0; model.plan.features];
        let mut directions = HashMap::with_capacity(pictures.len());
        for (frame, pixels) in pictures {
            model.card.input.read(pixels, &mut image);
            inference.embed(&image, &mut embedding)?;
            if !embedding.iter().all(|value| value.is_finite()) {
                return Err(Error::input(
                    "with the new weights an embedding is not finite; the live path keeps the old ones",
                ));
            }
            directions.insert(*frame, direction(&embedding));
        }
        Ok(directions)
    }
}

impl Student for DeviceTrainer {
    fn learn(&mut self, lesson: &Lesson) -> Result<Learned> {
        let start = Instant::now();
        if let Some(beta) = lesson.beta.filter(|_| self.trainer.steps() == 0) {
            self.trainer.control_mut().beta = beta;
        }
        let before = self.in_use.is_none().then(|| {
            let model = self.trainer.model();
            InUse { parameters: model.parameters.clone(), statistics: model.statistics.clone() }
        });
        let update = self.trainer.learn(&lesson.window())?;
        if update.refused.is_none() && before.is_some() {
            self.in_use = before;
        }
        Ok(Learned {
            step: self.trainer.steps(),
            seconds: start.elapsed().as_secs_f64(),
            control: self.trainer.model().control,
            last_frame: lesson.samples.last().map_or(0, |sample| sample.frame),
            window: lesson.samples.len(),
            stride: lesson.stride,
            update,
        })
    }

    fn publish(&mut self, kept: &KeptFrames) -> Result<Judged> {
        let (step, published) = (self.trainer.steps(), self.trainer.publish()?);
        let directions = self.embed_again(&published.folded, &kept.pictures())?;
        let mut after = kept.clone();
        after.turn(|kept| {
            Ok::<_, Error>(Arc::clone(directions.get(&kept.frame).unwrap_or(&kept.direction)))
        })?;
        let comparison = score::compare(kept, &after);
        let better = comparison.is_some_and(|comparison| comparison.is_better());
        if better || self.publish == Publish::Always {
            self.in_use = None;
            let fresh = Some(Fresh { published, directions });
            return Ok(Judged { step, comparison, fresh, went_back: false });
        }
        let worse = comparison.is_some_and(|comparison| comparison.is_worse());
        let went_back = worse && self.goes_back && self.go_back();
        Ok(Judged { step, comparison, fresh: None, went_back })
    }

    fn save(&self, tensors: &mut BTreeMap<String, Tensor>, header: &mut HashMap<String, String>) {
        self.trainer.save(tensors, header);
        if let Some(in_use) = &self.in_use {
            in_use.put(tensors);
        }
    }

    fn measure(&mut self, samples: &[Sample]) -> Result<Option<Published>> {
        if self.trainer.steps() > 0 {
            return Ok(None);
        }
        let pictures: Vec<&[u8]> = samples.iter().map(|sample| &*sample.pixels).collect();
        self.trainer.measure_statistics(&pictures)?;
        self.trainer.publish().map(Some)
    }

    fn restore(&mut self, state: LearnerState, in_use: Option<InUse>) -> Result<Published> {
        self.trainer.restore(state)?;
        self.in_use = in_use;
        self.published()
    }
}

//! A training run in a file, and back.
//!
//! The file is a checkpoint of the [learner](crate::learner::saved) with the model's card, so every other command reads
//! it as a weight file. Four header entries are the run's own: `train.windows`, `train.running` (seconds), `train.stream` and
//! `train.settings` (TOML). A run goes on with its own network, stream and settings only, but for its length and the fall of
//! its learning rates: a run may be made longer, or brought to an end.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use super::Training;
use crate::config::Settings;
use crate::encoder::ModelCard;
use crate::learner::saved;
use crate::tensors::{self, TensorFile};
use crate::{Error, Result};

const CARD: &str = "card";
const WINDOWS: &str = "train.windows";
const RUNNING: &str = "train.running";
const STREAM: &str = "train.stream";
const SETTINGS: &str = "train.settings";

impl Training<'_> {
    /// The whole run as the bytes of a safetensors file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let (mut named, mut header) = (BTreeMap::new(), HashMap::new());
        self.trainer.save(&mut named, &mut header);
        if let Some(recall) = &self.recall {
            recall.save(self.model().plan.features, &mut named, &mut header);
        }
        header.insert(CARD.to_owned(), self.model().card.to_toml()?);
        header.insert(WINDOWS.to_owned(), self.windows.to_string());
        header.insert(RUNNING.to_owned(), self.running.as_secs_f64().to_string());
        header.insert(STREAM.to_owned(), self.name.clone());
        header.insert(SETTINGS.to_owned(), self.settings.to_toml());
        tensors::serialize(&named, header)
    }

    /// The trained model alone: weights, running statistics, 1/τ, β, γ if the objective learns them, and the card.
    pub fn model_bytes(&self) -> Result<Vec<u8>> {
        let (mut named, mut header) = (BTreeMap::new(), HashMap::new());
        self.trainer.save(&mut named, &mut header);
        named.retain(|name, _| {
            let learners = ["adam.", saved::ANCHOR].into_iter().chain(saved::CARRIED);
            !learners.into_iter().any(|prefix| name.starts_with(prefix))
        });
        header.retain(|name, _| !name.starts_with("adam."));
        if !self.learns_control() {
            // They are the settings' still, and no reader is to take them for learned.
            named.retain(|name, _| !name.starts_with("control."));
            header.remove(saved::CONTROL);
        }
        header.insert(CARD.to_owned(), self.model().card.to_toml()?);
        tensors::serialize(&named, header)
    }

    /// Goes on from such bytes; `path` is only used in messages.
    ///
    /// # Errors
    /// If they are those of another network, or of a run on another stream or with other settings.
    pub fn resume(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        let file = TensorFile::parse(path, bytes)?;
        let entry = |name: &str| {
            let text = file.metadata().get(name);
            text.ok_or_else(|| {
                file.fault(format!("header entry `{name}` is missing: not a training checkpoint"))
            })
        };
        let begun = Settings::from_toml(entry(SETTINGS)?, &format!("{}, {SETTINGS}", path.display()))?;
        if begun.objective != self.settings.objective {
            return Err(Error::input(format!(
                "{}: the run learns by the objective {} and not by {}; give the same --objective, or another --output folder",
                path.display(),
                begun.objective,
                self.settings.objective
            )));
        }
        let Settings { steps, schedule, cosine_from, ref rate_drops, .. } = self.settings;
        let expected = Settings { steps, schedule, cosine_from, rate_drops: rate_drops.clone(), ..begun };
        if expected != self.settings {
            return Err(Error::input(format!(
                "{}: the run was started with other settings; give the same ones, or another --output folder",
                path.display()
            )));
        }
        let stream = entry(STREAM)?;
        if *stream != self.name {
            return Err(Error::input(format!(
                "{}: the run learns from {stream} and not from {}; give the same stream, or another --output folder",
                path.display(),
                self.name
            )));
        }
        let card = ModelCard::parse(entry(CARD)?, &format!("in {}", path.display()))?;
        if !card.is_of_same_network(&self.model().card) {
            return Err(Error::input(format!(
                "{}: the run began with other weights ({}), whose pixels are scaled in another way; give the same \
                 --model, or another --output folder",
                path.display(),
                card.source
            )));
        }
        let number = |name: &str| -> Result<f64> {
            let text = entry(name)?;
            text.parse().map_err(|_| file.fault(format!("header entry `{name}` = {text} is not a number")))
        };
        let running = Duration::try_from_secs_f64(number(RUNNING)?)
            .map_err(|error| file.fault(format!("header entry `{RUNNING}`: {error}")))?;
        let windows = entry(WINDOWS)?;
        let windows = windows
            .parse()
            .map_err(|_| file.fault(format!("header entry `{WINDOWS}` = {windows} is not a whole number")))?;
        let state = saved::load(&file, &self.model().plan)?;
        if let Some(recall) = &mut self.recall {
            recall.restore(&file, &self.settings, self.trainer.model().plan.features, self.stream)?;
        }
        self.trainer.restore(state).map_err(|error| file.fault(error))?;
        self.windows = windows;
        self.running = running;
        Ok(())
    }
}

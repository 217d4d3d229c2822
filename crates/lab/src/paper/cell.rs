//! A cell: one row with one seed, trained and scored in a folder of its own.
//!
//! The folder, `cells/ID` in the output, is named by a hash of all that decides the result. It gets `cell.json` (what it is), while it
//! learns `checkpoints/`, and at its end `model.safetensors` and `result.json`. A cell that has a result is done, wherever it was
//! computed; one that another process is at is left to it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Effort;
use super::outcome::Outcome;
use super::tables::{Learner, Row};
use crate::config::{ScheduleKind, Settings};
use crate::encoder::TrainingOptions;
use crate::encoder::device::DeviceChoice;
use crate::eval::embed::{Encoder, embed_episodes};
use crate::eval::episodes::{Setting, Sweep, score};
use crate::model::Model;
use crate::storage::{CheckpointStore, FolderLock, Keep, Mark, OsFilesystem, write_atomically};
use crate::streams::{
    Digits, LabelledSet, LearningStream, Order, Rebatched, Roaming, SecondView, StreamKind,
};
use crate::training::Training;
use crate::{Error, Result};

/// Part of the hash: to be raised when the same settings come to mean something else.
const FORMAT: u32 = 1;

/// Windows between two checkpoints.
const CHECKPOINT: u64 = 250;

/// The least share of a run that batch norm's running statistics look back on.
const STATISTICS: f64 = 0.1;

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Cell {
    /// The row's name; no part of what it computes.
    pub row: String,
    /// The seed.
    pub seed: u64,
    stream: StreamKind,
    learner: Learner,
    digits: Digits,
    batches: Option<(usize, Order)>,
    settings: Settings,
    effort: Effort,
}

/// What cells are computed with.
#[derive(Clone, Copy, Debug)]
pub struct Means<'a> {
    /// Folder of the data.
    pub data: Option<&'a Path>,
    /// Folder of the results.
    pub out: &'a Path,
    /// Where the encoder trains.
    pub device: DeviceChoice,
    /// Threads; 0 for all.
    pub threads: usize,
}

/// What who watches a cell is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many windows were learned from before.
    Found(u64),
    /// One more is done.
    Learned,
}

impl Cell {
    pub(super) fn new(stream: StreamKind, row: &Row, seed: u64, effort: Effort) -> Self {
        let mut settings = row.settings.clone();
        settings.seed = seed;
        let Row { name, learner, digits, batches, .. } = row;
        let windows = windows(effort.windows, *batches);
        shorten(&mut settings, windows);
        Self {
            row: name.clone(),
            seed,
            stream,
            learner: *learner,
            digits: *digits,
            batches: *batches,
            settings,
            effort,
        }
    }

    /// Windows that it learns from.
    pub fn windows(&self) -> u64 {
        if self.learner == Learner::Nothing { 0 } else { windows(self.effort.windows, self.batches) }
    }

    /// All that decides the result.
    fn about(&self) -> Value {
        json!({
            "format": FORMAT, "stream": self.stream.to_string(), "windows": self.windows(),
            "teaching": match self.learner { Learner::Taught(teaching) => Some(teaching.to_string()), _ => None },
            "batch": self.batches.map(|(frames, order)| (frames, order.to_string())),
            "digits": self.digits.share, "digit": self.digits.only,
            "episodes": self.effort.episodes, "split": self.effort.split.to_string(),
            "settings": self.settings,
        })
    }

    /// The name of its folder.
    pub fn id(&self) -> String {
        let hash = Sha256::digest(self.about().to_string());
        hash.iter().take(10).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Its folder.
    pub fn folder(&self, out: &Path) -> PathBuf {
        out.join("cells").join(self.id())
    }

    /// What it came to, if it is done.
    ///
    /// # Errors
    /// If its file is damaged.
    pub fn outcome(&self, out: &Path) -> Result<Option<Outcome>> {
        Outcome::read(&self.folder(out).join("result.json"))
    }

    /// What is measured on; the same for all cells of a table.
    ///
    /// # Errors
    /// If the data cannot be read.
    pub fn labelled(&self, data: Option<&Path>) -> Result<LabelledSet> {
        let shape = self.settings.plan()?.image;
        self.stream.labelled(data, self.effort.split, &self.settings, shape, self.effort.episodes)
    }

    /// Computes the cell, from where it was left, while `progress` says that it should go on. None if it was stopped, or if another process is at it.
    ///
    /// # Errors
    /// If data or checkpoints cannot be read, or results not be written.
    pub fn compute(
        &self,
        means: &Means<'_>,
        labelled: &LabelledSet,
        progress: &mut dyn FnMut(Progress) -> bool,
    ) -> Result<Option<Outcome>> {
        let folder = self.folder(means.out);
        std::fs::create_dir_all(&folder).map_err(|error| Error::io(&folder, error))?;
        let _lock = match FolderLock::acquire(&folder) {
            Ok(lock) => lock,
            // Somebody else has it; anything but that is the system's.
            Err(Error::Input(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        if let Some(outcome) = self.outcome(means.out)? {
            return Ok(Some(outcome));
        }
        let mut about = self.about();
        (about["id"], about["row"], about["seed"]) = (json!(self.id()), json!(self.row), json!(self.seed));
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.join(name);
            write_atomically(&OsFilesystem, &path, bytes).map_err(|error| Error::io(&path, error))
        };
        write("cell.json", format!("{about:#}\n").as_bytes())?;

        let settings = self.settings.clone();
        let model = Model::random(&settings, self.seed)?;
        let shape = model.plan.image;
        let stream = self.stream.learning(means.data, &settings, shape, self.digits, SecondView::Next)?;
        let stream: Box<dyn LearningStream> = match self.batches {
            None => stream,
            Some((frames, order)) => Box::new(Rebatched { inner: stream, frames, order, seed: self.seed }),
        };
        let encoder = means.device.open()?.training_encoder(
            Arc::clone(&model.plan),
            TrainingOptions::default(),
            means.threads,
        )?;
        let name = self.stream.to_string();
        let mut training = match self.learner {
            Learner::Taught(teaching) => {
                Training::taught(teaching, settings, model, encoder, &*stream, &name)?
            }
            Learner::Objective | Learner::Nothing => Training::new(settings, model, encoder, &*stream, name)?,
        };
        let checkpoints = folder.join("checkpoints");
        let store = CheckpointStore::open(Arc::new(OsFilesystem), &checkpoints)?;
        if let Some((checkpoint, bytes)) = store.load_newest()? {
            training.resume(&checkpoint.path, &bytes)?;
            progress(Progress::Found(training.windows()));
        }
        while training.windows() < self.windows() {
            training.step()?;
            let going_on = progress(Progress::Learned);
            if !going_on || training.windows().is_multiple_of(CHECKPOINT) {
                let mark = Mark { trace_seq: training.windows(), running: training.running() };
                store.save(mark, &training.to_bytes()?, Keep::LastTwo)?;
            }
            if !going_on {
                return Ok(None);
            }
        }
        let outcome = self.score(&training, labelled)?;
        write("model.safetensors", &training.model_bytes()?)?;
        outcome.write(&folder.join("result.json"), &about)?;
        // The model says all that a reader wants to know; a checkpoint is three times as large.
        std::fs::remove_dir_all(&checkpoints).map_err(|error| Error::io(&checkpoints, error))?;
        Ok(Some(outcome))
    }

    /// Every method is scored in the same way: its frozen features, clustered by the memory, with a threshold found by one sweep.
    fn score(&self, training: &Training<'_>, labelled: &LabelledSet) -> Result<Outcome> {
        let model = training.model();
        let embedded = embed_episodes(&Encoder::of(model)?, &labelled.set, &labelled.episodes)?;
        let setting = Setting {
            dimension: model.plan.features,
            slots: self.settings.slots,
            control: model.control,
            rules: self.settings.rules(),
        };
        let scores = score(&embedded, &setting, Sweep::Similarity)?;
        let first_ten = score(&embedded, &setting, Sweep::FirstTen)?;
        Ok(Outcome::of(&scores, &first_ten, training.running().as_secs_f64()))
    }
}

/// Windows of another length than an episode's: as many as have as many frames.
fn windows(budget: u64, batches: Option<(usize, Order)>) -> u64 {
    let episode = Roaming::OMNIGLOT.frames() as u64;
    batches.map_or(budget, |(frames, _)| (budget * episode).div_ceil(frames.max(1) as u64))
}

/// Settings of a run of so many windows: the rates fall at the same shares of it, and batch norm's running statistics, which
/// scores are measured with, look back on a tenth of it at the most.
fn shorten(settings: &mut Settings, windows: u64) {
    let share = windows as f64 / settings.steps as f64;
    let mut drops: Vec<u64> =
        settings.rate_drops.iter().map(|drop| (*drop as f64 * share).round() as u64).collect();
    drops.retain(|drop| *drop > 0);
    drops.dedup();
    if settings.schedule == ScheduleKind::Staircase {
        settings.rate_drops = drops;
    }
    settings.steps = windows.max(1);
    let looking_back = 1.0 / (STATISTICS * windows.max(1) as f64);
    settings.norm_momentum = settings.norm_momentum.max(looking_back.min(STATISTICS));
}

#[cfg(test)]
mod tests {
    use super::super::Table;
    use super::*;
    use crate::streams::Split;

    fn effort(windows: u64) -> Effort {
        Effort { windows, seeds: 2, episodes: 10, split: Split::Test }
    }

    fn ids(table: Table, windows: u64) -> Vec<String> {
        table.cells(effort(windows)).iter().map(|(_, cell)| cell.id()).collect()
    }

    #[test]
    fn a_run_of_the_papers_length_has_the_papers_settings() {
        for (_, cell) in Table::Omniglot.cells(effort(80_000)) {
            let expected = Settings { seed: cell.seed, ..Table::Omniglot.rows()[7].settings.clone() };
            if cell.row == "OUPN" {
                assert_eq!(cell.settings, expected);
            }
            cell.settings.validate().unwrap();
        }
        let short = Table::Omniglot.cells(effort(3000)).remove(0).1.settings;
        assert_eq!((short.rate_drops, short.steps), (vec![1500, 2250], 3000));
        for windows in [0, 1, 3] {
            Table::Omniglot.cells(effort(windows)).remove(0).1.settings.validate().unwrap();
        }
    }

    /// What decides the result decides the name: each cell of a table has its own, and tables share what is the same.
    #[test]
    fn cells_are_named_by_what_they_compute() {
        let omniglot = ids(Table::Omniglot, 100);
        let mut distinct = omniglot.clone();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), omniglot.len());
        assert_eq!(omniglot, ids(Table::Omniglot, 100));
        let slots = ids(Table::Slots, 100);
        assert_eq!(slots[4..6], omniglot[14..16], "K = 150 is the preset");
        assert_eq!(slots.iter().filter(|id| omniglot.contains(id)).count(), 2);
        let longer = ids(Table::Omniglot, 200);
        assert!(omniglot.iter().all(|id| !longer.contains(id)), "the random row's settings say so, too");
    }
}

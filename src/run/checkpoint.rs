//! A run in one file: what it knows, in a safetensors file that is also a weight file.
//!
//! Beside the learner's own tensors ([`crate::learner::saved`]) the file has `live.prototypes` and `live.counts`, the
//! memory of the live path; `live.exemplars`, the directions of a few frames of each category; `in_use.*`, the weights that it was made with, if they are not the newest; and in its
//! header `format`, `card` (the model's), `settings` (TOML), `live`: counters, ids and places as JSON ([`LiveHeader`]), and
//! `trace`: the numbers that the trace had used by then ([`NumbersUsed`]), so that a restart need not read it from its beginning.
//!
//! **Versions.** A checkpoint of a newer format (a higher number in `format`) is left alone and an older one used. A new format
//! gets file names of its own, with another word than `checkpoint-`, so that the program before it goes on with its own
//! checkpoints, which the new program neither counts nor removes.
//!
//! **Pixels.** The window's frames are what learning continues from, but no picture is written unless asked for. Of a
//! source that can be read again (a folder, an archive, the built-in world) the file names the frames and a resumed run
//! reads them again, so it continues bit for bit. With a camera, the window fills anew after a restart, unless
//! `--keep-window` stores its pixels as `ring.frames` and `ring.companions`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::device_trainer::InUse;
use super::sampler::Sampler;
use crate::config::Settings;
use crate::encoder::{ModelCard, Plan};
use crate::learner::saved;
use crate::learner::update::LearnerState;
use crate::live::kept::Places;
use crate::memory::{Control, LiveMemory};
use crate::storage::{Checkpoint, CheckpointStore, Faulty, Keep, Mark, Unusable};
use crate::tensors::{Tensor, TensorFile, serialize_with_pixels};
use crate::trace::{self, DiskLevel, Recorder};
use crate::windows::Sample;
use crate::{Error, Result};

/// The version of the file's format: header entry `format`.
const FORMAT: &str = "oupn-edge checkpoint 1";

/// What `format` begins with, and the version that follows it.
const FORMAT_NAME: &str = "oupn-edge checkpoint ";
const FORMAT_VERSION: u32 = 1;

/// How long a checkpoint waits for the trace to reach the disk.
const TRACE_TIMEOUT: Duration = Duration::from_secs(20);

/// The numbers that the trace has given away, up to a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumbersUsed {
    /// Records up to this number are covered by the two others.
    pub seq: u64,
    /// The next frame number that no record has.
    pub frames: u64,
    /// The next category that no record has.
    pub categories: u64,
}

/// What the live path puts into a checkpoint.
#[derive(Clone, Debug)]
pub struct LivePart {
    /// Counters, places and times.
    pub header: LiveHeader,
    /// What the trace has used.
    pub used: NumbersUsed,
    /// The live memory.
    pub memory: LiveMemory,
    /// The directions of the frames that are kept of each category, in the order in which the header names them.
    pub exemplars: Vec<f32>,
    /// 1/τ, β, γ as the live path uses them.
    pub control: Control,
    /// The samples that learning can still reach.
    pub samples: Vec<Sample>,
    /// Whether the samples' pixels are stored.
    pub keep_window: bool,
}

/// The part of a checkpoint that is not numbers of the method. Stored as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveHeader {
    /// The number of the next sampled frame.
    pub frame: u64,
    /// The source's number of the next picture to look at; for sources that can be read again.
    pub next_sequence: u64,
    /// When the sampler wants what.
    pub sampler: Sampler,
    /// Frames from one update to the next.
    pub stride: usize,
    /// The frame with which the next window begins.
    pub window_start: u64,
    /// For each sample in reach: its frame, the source's numbers of it and of its companion.
    pub samples: Vec<(u64, u64, Option<u64>)>,
    /// The category of each slot, frames since it was created, and the next category.
    pub ids: Vec<u64>,
    /// See `ids`.
    pub ages: Vec<u64>,
    /// See `ids`.
    pub next_id: u64,
    /// The frames that each slot's prototype is the mean of. Checkpoints of before did not have it.
    #[serde(default)]
    pub averaged: Vec<u64>,
    /// The least similarity within a category, if it is measured.
    #[serde(default)]
    pub similarity: Option<f64>,
    /// Whether enough was seen to measure it.
    #[serde(default)]
    pub settled: bool,
    /// The pictures that are kept, by name.
    #[serde(default)]
    pub kept: Places,
    /// Updates since weights were published.
    #[serde(default)]
    pub unpublished: u64,
    /// For how long the program has run on this folder, in seconds.
    pub running_s: u64,
    /// Where the frames came from.
    pub camera: String,
}

/// A checkpoint that was read.
#[derive(Debug)]
pub struct Restored {
    /// The live part; its samples have pixels only if these were stored.
    pub live: LivePart,
    /// The learner.
    pub learner: LearnerState,
    /// The weights that the live memory was made with, if they are not the learner's.
    pub in_use: Option<InUse>,
    /// The model's card.
    pub card: ModelCard,
}

/// Writes checkpoints.
#[derive(Clone, Debug)]
pub struct CheckpointWriter {
    /// Where they lie.
    pub store: CheckpointStore,
    /// The trace, which must be on the disk before the checkpoint that knows of it.
    pub recorder: Recorder,
    /// The settings, as TOML.
    pub settings: String,
    /// The model's card, as TOML.
    pub card: String,
}

impl CheckpointWriter {
    /// Saves a checkpoint and says how that went. A failure is told, not passed on: the run goes on without it.
    pub fn save(
        &self,
        live: &LivePart,
        learner: impl FnOnce(&mut Tensors, &mut Header),
    ) -> trace::Checkpoint {
        let start = Instant::now();
        let outcome = self.try_save(live, learner);
        let mut record = trace::Checkpoint {
            frame: live.header.frame.saturating_sub(1),
            file: None,
            bytes: 0,
            seconds: 0.0,
            error: None,
        };
        match outcome {
            Ok((file, bytes)) => {
                record.file = Some(file);
                record.bytes = bytes;
            }
            Err(error) => {
                log::error!("no checkpoint could be written: {error}");
                record.error = Some(error.to_string());
            }
        }
        record.seconds = start.elapsed().as_secs_f32();
        record
    }

    fn try_save(
        &self,
        live: &LivePart,
        learner: impl FnOnce(&mut Tensors, &mut Header),
    ) -> Result<(String, u64)> {
        if let Some(trouble) = self.recorder.trouble() {
            return Err(Error::Device(format!("the disk is in trouble: {}", trouble.what)));
        }
        let keep = match self.recorder.disk_level() {
            DiskLevel::Critical => {
                return Err(Error::Device("the disk is nearly full: only the trace is written".into()));
            }
            DiskLevel::Low => Keep::LastTwo,
            _ => Keep::LastTwoAndOlder,
        };
        let trace_seq = self.recorder.flush_unless_trouble(TRACE_TIMEOUT)?;
        let bytes = encode(live, learner, &self.settings, &self.card)?;
        let running = Duration::from_secs(live.header.running_s);
        let saved = self.store.save(Mark { trace_seq, running }, &bytes, keep)?;
        let name = saved.path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok((name.unwrap_or_default(), bytes.len() as u64))
    }
}

/// What a file holds by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// Its header.
pub type Header = HashMap<String, String>;

/// The bytes of a checkpoint; `learner` adds everything that learning has changed.
pub fn encode(
    live: &LivePart,
    learner: impl FnOnce(&mut Tensors, &mut Header),
    settings: &str,
    card: &str,
) -> Result<Vec<u8>> {
    let (mut tensors, mut header) = (BTreeMap::new(), HashMap::new());
    learner(&mut tensors, &mut header);
    saved::put_prototypes("live", live.memory.prototypes(), &mut tensors);
    let dimension = live.memory.prototypes().dimension();
    let shape = vec![live.exemplars.len() / dimension, dimension];
    tensors.insert("live.exemplars".to_owned(), Tensor { shape, values: live.exemplars.clone() });
    let json = |what: serde_json::Result<String>| {
        what.map_err(|error| Error::input(format!("cannot store a checkpoint: {error}")))
    };
    let Control { inv_tau, beta, gamma } = live.control;
    header.insert("format".to_owned(), FORMAT.to_owned());
    header.insert("settings".to_owned(), settings.to_owned());
    header.insert("card".to_owned(), card.to_owned());
    header.insert("live".to_owned(), json(serde_json::to_string(&live.header))?);
    header.insert("trace".to_owned(), json(serde_json::to_string(&live.used))?);
    header.insert("live.control".to_owned(), json(serde_json::to_string(&[inv_tau, beta, gamma]))?);
    let pixels = if live.keep_window { stored_pixels(&live.samples) } else { BTreeMap::new() };
    serialize_with_pixels(&tensors, &pixels, header)
}

/// The pixels of all samples; companions that are missing are stored as the sample itself and left out on reading.
fn stored_pixels(samples: &[Sample]) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    let Some(length) = samples.first().map(|sample| sample.pixels.len()) else { return BTreeMap::new() };
    let shape = vec![samples.len(), length];
    let frames = samples.iter().flat_map(|sample| sample.pixels.iter().copied()).collect();
    let companion = |sample: &Sample| match &sample.companion {
        Some((_, pixels)) => Arc::clone(pixels),
        None => Arc::clone(&sample.pixels),
    };
    let companions = samples.iter().flat_map(|sample| companion(sample).to_vec()).collect();
    BTreeMap::from([
        ("ring.frames".to_owned(), (shape.clone(), frames)),
        ("ring.companions".to_owned(), (shape, companions)),
    ])
}

/// The newest checkpoint that can be gone on with: whole, of a format that is known, of the network of `plan`, and of the
/// objective and memory that the settings ask for. Others are passed over.
///
/// # Errors
/// If there are checkpoints, but none that can be used.
pub fn newest(
    store: &CheckpointStore,
    faulty: Faulty,
    plan: &Plan,
    settings: &Settings,
) -> Result<Option<(Checkpoint, Restored)>> {
    store.newest_usable(faulty, |checkpoint, bytes| {
        let restored = decode(&checkpoint.path, &bytes, plan).and_then(|restored| {
            settings.objective.check(&restored.learner.carried, settings)?;
            Ok(restored)
        });
        restored.map_err(|error| match is_newer(&bytes) {
            true => Unusable::Newer(error),
            false => Unusable::Nonsense(error),
        })
    })
}

/// Whether a file says of itself that it is of a later version of the format.
fn is_newer(bytes: &[u8]) -> bool {
    let header = safetensors::SafeTensors::read_metadata(bytes).ok();
    let version = header.and_then(|(_, header)| {
        let format = header.metadata().as_ref()?.get("format")?;
        format.strip_prefix(FORMAT_NAME)?.parse::<u32>().ok()
    });
    version.is_some_and(|version| version > FORMAT_VERSION)
}

/// Reads a checkpoint of the network of `plan`; `path` is used in messages only.
pub fn decode(path: &Path, bytes: &[u8], plan: &Plan) -> Result<Restored> {
    let file = TensorFile::parse(path, bytes)?;
    match file.metadata().get("format").map(String::as_str) {
        Some(FORMAT) => {}
        other => {
            let found = other.unwrap_or("none");
            return Err(file.fault(format!("its format is {found}; this program reads {FORMAT}")));
        }
    }
    let header: LiveHeader = file.setting("live")?;
    // Checkpoints of before did not have it: then the trace is read from its beginning.
    let used = match file.metadata().contains_key("trace") {
        true => file.setting("trace")?,
        false => NumbersUsed::default(),
    };
    let [inv_tau, beta, gamma]: [f64; 3] = file.setting("live.control")?;
    let prototypes =
        saved::take_prototypes(file.tensors(), "live", plan.features).map_err(|error| file.fault(error))?;
    let memory = LiveMemory::from_parts(prototypes, header.ids.clone(), header.ages.clone(), header.next_id)
        .map_err(|error| file.fault(error))?;
    let memory = match header.averaged.is_empty() {
        true => memory,
        false => memory.with_frames(header.averaged.clone()).map_err(|error| file.fault(error))?,
    };
    let named: usize = header.kept.exemplars.iter().map(|(_, own)| own.len()).sum();
    let exemplars = match named {
        0 => Vec::new(),
        _ => file.finite("live.exemplars", &[named, plan.features])?.to_vec(),
    };
    let samples = match file.get("ring.frames").is_some() {
        true => read_pixels(&file, &header, plan.image.len())?,
        false => Vec::new(),
    };
    let keep_window = !samples.is_empty();
    let live = LivePart {
        control: Control { inv_tau, beta, gamma },
        memory,
        exemplars,
        samples,
        keep_window,
        header,
        used,
    };
    let card = file.metadata().get("card").ok_or_else(|| file.fault("it has no model card"))?;
    let card = ModelCard::parse(card, &format!("in {}", path.display()))?;
    Ok(Restored { live, learner: saved::load(&file, plan)?, in_use: InUse::take(&file, plan)?, card })
}

fn read_pixels(file: &TensorFile, header: &LiveHeader, length: usize) -> Result<Vec<Sample>> {
    let shape = [header.samples.len(), length];
    let frames = file.finite("ring.frames", &shape)?;
    let companions = file.finite("ring.companions", &shape)?;
    // Stored as bytes; read as the same whole numbers.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let bytes = |values: &[f32]| values.iter().map(|value| *value as u8).collect::<Arc<[u8]>>();
    let pixels = frames.chunks_exact(length.max(1)).zip(companions.chunks_exact(length.max(1)));
    Ok(header
        .samples
        .iter()
        .zip(pixels)
        .map(|((frame, sequence, companion), (pixels, later))| Sample {
            frame: *frame,
            sequence: *sequence,
            pixels: bytes(pixels),
            companion: companion.map(|sequence| (sequence, bytes(later))),
        })
        .collect())
}

//! `oupn-edge self check`: whether this program can do its work on this machine, decided in seconds and without a camera.
//!
//! Made for updates: a device asks a new binary before it trusts it, and stays with the previous one if the answer is no
//! (`firmware-config/launch`). So it checks what a new binary can break: the numerical kernels on this processor, against
//! plain loops in f64; an update; the settings file; and that the recording which lies in the data folder can be gone on
//! with. Exit code 0 means good; 1 or 2, bad.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, Subcommand};

use oupn_edge::config::{EncoderKind, Preset, Settings};
use oupn_edge::encoder::device::DeviceChoice;
use oupn_edge::encoder::host_ops::HostOps;
use oupn_edge::encoder::inference::{Folded, Inference};
use oupn_edge::encoder::init::random_parameters;
use oupn_edge::encoder::probe::relative_difference;
use oupn_edge::encoder::stepwise::StepwiseEncoder;
use oupn_edge::encoder::{Fused, NormMode, TrainingEncoder, TrainingOptions};
use oupn_edge::learner::Trainer;
use oupn_edge::model::{Model, check_network};
use oupn_edge::random::{Purpose, Random};
use oupn_edge::run::checkpoint;
use oupn_edge::run::remembered::Remembered;
use oupn_edge::storage::{CheckpointStore, Faulty, OsFilesystem, write_atomically};
use oupn_edge::{Error, Result};

#[derive(Debug, Subcommand)]
pub(super) enum SelfCommand {
    /// Check that this program works on this machine: for updates, before the new binary is trusted
    Check(CheckArgs),
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Settings file that must be valid
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder that must be writable, or full, and that must hold a checkpoint that can be gone on from, if it holds any
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// Images of the check: enough that batch norm's statistics mean something.
const IMAGES: usize = 8;

/// f32 differs from f64 by about 1e-5 here; a wrong kernel by about 1.
const TOLERANCE: f64 = 1e-3;

pub(super) fn run(command: &SelfCommand) -> Result<()> {
    let SelfCommand::Check(args) = command;
    for (kind, name) in [(EncoderKind::MobileNetV2, "MobileNet-V2"), (EncoderKind::Conv4, "Conv-4")] {
        let worst = numbers(&small(kind))?;
        super::print(&format!("kernels: {name} agrees with plain loops within {worst:.1e}\n"))?;
    }
    if cfg!(feature = "cuda") {
        super::print(&format!("GPU: {}\n", gpu(&small(EncoderKind::MobileNetV2))?))?;
    }
    let loss = update(&small(EncoderKind::Conv4))?;
    super::print(&format!("learning: one update, loss {loss:.3}\n"))?;
    if let Some(file) = &args.config {
        Settings::load(None, Some(file))?;
        super::print(&format!("settings: {} is valid\n", file.display()))?;
    }
    if let Some(data) = &args.data {
        super::print(&format!("data: {}\n", recording(data)?))?;
    }
    super::print(concat!("good: oupn-edge ", env!("CARGO_PKG_VERSION"), "\n"))
}

/// A network that is done in a second, with every kind of layer that the large one has.
fn small(encoder: EncoderKind) -> Settings {
    let mut settings = Preset::Saycam.settings();
    settings.encoder = encoder;
    settings.encoder_width = 0.35;
    (settings.image_height, settings.image_width) = (48, 48);
    (settings.window, settings.stride) = (IMAGES / 2, IMAGES / 2);
    settings
}

fn pictures(values: usize) -> Vec<f32> {
    let mut random = Random::new(0, Purpose::World, 0);
    (0..values).map(|_| random.between(0.0, 1.0)).collect()
}

/// How far the fast kernels are from plain loops in f64, for both paths: learning and live.
fn numbers(settings: &Settings) -> Result<f64> {
    let plan = Arc::new(settings.plan()?);
    let parameters = random_parameters(settings.architecture(), &plan, 0);
    let images = pictures(IMAGES * plan.image.len());
    let options = TrainingOptions::default();
    let mut reference = StepwiseEncoder::new(Arc::clone(&plan), HostOps::<f64>::default(), options)?;
    let mut fused = Fused::new(Arc::clone(&plan), options, 0)?;
    let features = |encoder: &mut dyn TrainingEncoder, norm| -> Result<Vec<f32>> {
        let mut features = vec![0.0; IMAGES * plan.features];
        encoder.forward(&parameters, &mut plan.fresh_statistics(), &images, IMAGES, norm, &mut features)?;
        Ok(features)
    };
    let right = features(&mut reference, NormMode::Window)?;
    let learning = relative_difference(&features(&mut fused, NormMode::Window)?, &right);

    let right = features(&mut reference, NormMode::Running)?;
    let mut inference =
        Inference::new(Arc::new(Folded::new(&plan, &parameters, &plan.fresh_statistics())?), 0)?;
    let mut seen = vec![0.0; IMAGES * plan.features];
    for (image, embedding) in images.chunks(plan.image.len()).zip(seen.chunks_mut(plan.features)) {
        inference.embed(image, embedding)?;
    }
    let live = relative_difference(&seen, &right);
    // Written so that a difference which is not a number counts as too large.
    if learning < TOLERANCE && live < TOLERANCE {
        return Ok(learning.max(live));
    }
    Err(Error::Device(format!(
        "the kernels compute wrongly on this processor: {learning:.1e} (learning) and {live:.1e} (live) from what is right"
    )))
}

/// What the GPU is, once it has computed what the processor computes. If there is none, or it does not, that is said, and
/// this binary is still good: it would find the same when it records, and learn on the processor.
fn gpu(settings: &Settings) -> Result<String> {
    let device = match DeviceChoice::Cuda.open() {
        Ok(device) => device,
        Err(error) => return Ok(format!("not used, {error}")),
    };
    let name = device.name();
    match device.training_encoder(Arc::new(settings.plan()?), TrainingOptions::default(), 0) {
        Ok(_) => Ok(format!("{name} agrees with the processor")),
        Err(error) => {
            log::warn!("{error}");
            Ok(format!("{name} is not used, {error}"))
        }
    }
}

/// The loss of one update that must be applied.
fn update(settings: &Settings) -> Result<f64> {
    let model = Model::random(settings, 0)?;
    let encoder = Box::new(Fused::new(Arc::clone(&model.plan), TrainingOptions::default(), 0)?);
    let images = pictures((1 + settings.second_views) * settings.window * model.plan.image.len());
    let mut trainer = Trainer::new(settings, model, encoder)?;
    let done = trainer.learn_from_views(&images, settings.window, settings.stride)?;
    match done.refused {
        None => Ok(done.loss),
        Some(reason) => Err(Error::Device(format!("an update that must work was refused: {reason}"))),
    }
}

/// Whether the folder can be written to, and the recording in it be gone on with. Nothing in it is changed.
fn recording(data: &Path) -> Result<String> {
    let file = data.join("self-check");
    let written =
        write_atomically(&OsFilesystem, &file, b"self check").and_then(|()| std::fs::remove_file(&file));
    let place = match written {
        Ok(()) => format!("{} is writable", data.display()),
        // No binary can help that: the recording starts all the same, in the room that is held back for it.
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            log::warn!("{}: {error}: make room", data.display());
            format!("{} is full", data.display())
        }
        Err(error) => return Err(Error::io(data, error)),
    };
    let Some(remembered) = Remembered::read(&OsFilesystem, data)? else {
        return Ok(format!("{place} and holds no recording yet"));
    };
    let dir = data.join("checkpoints");
    if !dir.is_dir() {
        return Ok(format!("{place}; its recording has no checkpoint yet"));
    }
    let settings = &remembered.settings;
    let store = CheckpointStore::open(Arc::new(OsFilesystem), &dir)?;
    let newest = store.list()?.into_iter().next().map(|newest| newest.number);
    match checkpoint::newest(&store, Faulty::Leave, &settings.plan()?, settings)? {
        None => Ok(format!("{place}; its recording has no checkpoint yet")),
        Some((used, restored)) if Some(used.number) == newest => {
            check_network(&restored.card, settings, "the newest checkpoint")?;
            Ok(format!("{place}, its newest checkpoint readable"))
        }
        Some((used, _)) => Ok(format!(
            "{place}; its newest checkpoint is not readable, checkpoint {} before it is",
            used.number
        )),
    }
}

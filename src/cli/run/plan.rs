//! From flags, a settings file and what the data folder remembers to the plan of a recording.
//!
//! Settings come from, each over the one before: the preset, what suits a device ([`Settings::for_device`]), the
//! settings file, the flags. A data folder that was used before goes on with the settings it has, under the flags.

use std::time::Duration;

use serde_json::json;

use super::arguments::{RunArgs, Switch, ViewChoice};
use crate::camera;
use crate::config::Settings;
use crate::encoder::Weights;
use crate::run::RunPlan;
use crate::run::plan::Remembered;
use crate::storage::OsFilesystem;
use crate::views::{Augmentation, Pairing};
use crate::{Error, Result};

/// The plan of a recording that is started with these flags.
pub(super) fn plan(args: &RunArgs) -> Result<RunPlan> {
    let remembered = Remembered::read(&OsFilesystem, &args.data)?;
    let model =
        args.model.clone().or_else(|| remembered.as_ref().and_then(|remembered| remembered.model.clone()));
    let mut settings = match (&remembered, args.preset.is_some() || args.config.is_some()) {
        (Some(remembered), false) => remembered.settings.clone(),
        _ => {
            let card = model.as_deref().map(|path| Weights::read(path).map(|weights| weights.card));
            let card = card.transpose()?;
            Settings::for_device(args.preset, args.config.as_deref(), card.as_ref())?
        }
    };
    apply_flags(args, &mut settings)?;
    settings.validate()?;
    let camera = match (&args.camera, &remembered) {
        (Some(camera), _) => Some(camera::lasting(camera)),
        (None, Some(remembered)) => Some(remembered.own_camera(&args.data)?),
        (None, None) => None,
    };
    if let Some(remembered) = remembered.as_ref().filter(|_| !args.continue_with) {
        remembered.check_same(&args.data, camera.as_deref(), args.name.as_deref())?;
    }
    let Some(camera) = camera else {
        return Err(Error::input(format!(
            "{} holds no recording to go on with: say where frames come from with --camera",
            args.data.display()
        )));
    };
    let same_camera = remembered.as_ref().filter(|remembered| camera::same(&remembered.camera, &camera));
    let realtime = match args.realtime {
        Some(switch) => switch == Switch::On,
        // What lies on the disk already need not be waited for.
        None => same_camera.map_or(!camera::is_file(&camera), |remembered| remembered.realtime),
    };
    let mut camera_options = camera::Options {
        format: args.format,
        resolution: args.resolution,
        rate: args.rate,
        live_pipe: realtime,
        start_time: args.start_time,
        ..camera::Options::default()
    };
    // What was asked of one camera says nothing about another.
    if let Some(remembered) = same_camera {
        camera_options.start_time = args.start_time.or(remembered.start_time);
        camera_options.format = args.format.or(remembered.pixel_format()?);
        camera_options.resolution = args.resolution.or(remembered.resolution);
        camera_options.rate = args.rate.or(remembered.rate);
    }
    let remembered_period =
        remembered.as_ref().map(|remembered| Duration::from_secs_f64(remembered.period_s));
    let calibrate = match args.calibrate {
        Some(switch) => switch == Switch::On,
        None => remembered.as_ref().is_none_or(|remembered| remembered.calibrate),
    };
    let time = match args.minutes {
        Some(minutes) if !(minutes > 0.0 && minutes < 1e7) => {
            return Err(Error::input(format!("--minutes {minutes}: expected a number above 0")));
        }
        minutes => minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes)),
    };
    let name =
        args.name.clone().or_else(|| remembered.as_ref().and_then(|remembered| remembered.name.clone()));
    Ok(RunPlan {
        data: args.data.clone(),
        camera,
        camera_options,
        settings,
        model,
        period: args.period.or(remembered_period).unwrap_or(Duration::from_secs(4)),
        calibrate,
        realtime,
        frames: args.frames,
        time,
        checkpoint_every: args.checkpoint_every,
        keep_thumbnails: args.keep_thumbnails,
        keep_window: args.keep_window,
        device: args.device,
        threads: args.threads,
        memory_budget: args.memory_budget,
        reserve_bytes: args.reserve as u64,
        device_name: name.clone().unwrap_or_else(host_name),
        name,
    })
}

fn apply_flags(args: &RunArgs, settings: &mut Settings) -> Result<()> {
    if let Some(window) = args.window {
        settings.window = window;
        settings.stride = settings.stride.min(window);
    }
    if let Some(stride) = args.stride {
        settings.stride = stride;
    }
    if let Some(rate) = args.lr {
        settings.learning_rate = rate;
    }
    if let Some(variant) = &args.variant {
        settings.variant = serde_json::from_value(json!(variant))
            .map_err(|_| Error::input(format!("--variant {variant}: expected reference or paper")))?;
    }
    match args.views {
        Some(ViewChoice::Temporal) => {
            settings.views = Pairing::NextFrame;
            settings.augmentation = Augmentation::Mild;
        }
        Some(ViewChoice::Augmented) => {
            let paper = settings.preset.settings();
            settings.views = paper.views;
            settings.augmentation = paper.augmentation;
        }
        None => {}
    }
    if let Some(seed) = args.seed {
        settings.seed = seed;
    }
    Ok(())
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "oupn-edge".to_owned() } else { name.to_owned() }
}

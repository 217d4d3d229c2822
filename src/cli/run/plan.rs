//! What was typed, as the library takes it.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::arguments::{RunArgs, Switch, ViewChoice};
use oupn_edge::encoder::Weights;
use oupn_edge::run::RunPlan;
use oupn_edge::run::plan::{self, Changes, Request, Resolved};
use oupn_edge::run::remembered::Earlier;
use oupn_edge::storage::OsFilesystem;
use oupn_edge::{Error, Result};

/// The plan of a recording that is started with these flags.
pub(super) fn plan(args: &RunArgs) -> Result<RunPlan> {
    let earlier = Earlier::read(&OsFilesystem, &args.data)?;
    let card_of = |path: &Path| Ok(Weights::read(path)?.card);
    let Resolved { plan, warnings } = RunPlan::resolve(request(args)?, &earlier, card_of)?;
    for warning in warnings {
        log::warn!("{warning}");
    }
    Ok(plan)
}

fn request(args: &RunArgs) -> Result<Request> {
    let on = |switch: Option<Switch>| switch.map(|switch| switch == Switch::On);
    let time = match args.minutes {
        Some(minutes) if !(minutes > 0.0 && minutes < 1e7) => {
            return Err(Error::input(format!("--minutes {minutes}: expected a number above 0")));
        }
        minutes => minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes)),
    };
    let variant = args.variant.as_ref().map(|variant| {
        serde_json::from_value(json!(variant))
            .map_err(|_| Error::input(format!("--variant {variant}: expected reference or paper")))
    });
    Ok(Request {
        data: args.data.clone(),
        camera: args.camera.clone(),
        format: args.format,
        resolution: args.resolution,
        rate: args.rate,
        start_time: args.start_time,
        realtime: on(args.realtime),
        continue_with: args.continue_with,
        name: args.name.clone(),
        period: args.period,
        checkpoint_every: args.checkpoint_every,
        reserve_bytes: args.reserve as u64,
        time,
        frames: args.frames,
        model: args.model.clone(),
        preset: args.preset,
        config: args.config.clone(),
        changes: Changes {
            window: args.window,
            stride: args.stride,
            learning_rate: args.lr,
            variant: variant.transpose()?,
            views: args.views.map(|views| match views {
                ViewChoice::Temporal => plan::ViewChoice::Temporal,
                ViewChoice::Augmented => plan::ViewChoice::Augmented,
            }),
            objective: args.objective,
            seed: args.seed,
        },
        calibrate: on(args.calibrate),
        keep_thumbnails: args.keep_thumbnails,
        keep_window: args.keep_window,
        device: args.device,
        threads: args.threads,
        memory_budget: args.memory_budget,
    })
}

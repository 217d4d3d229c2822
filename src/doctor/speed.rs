//! What computes, and how fast: one frame, and a small window that tells how long a whole one will take.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Check;
use crate::Result;
use crate::config::{Preset, Settings};
use crate::encoder::TrainingOptions;
use crate::encoder::device::{ComputeDevice, DeviceChoice};
use crate::encoder::inference::Inference;
use crate::learner::Trainer;
use crate::model::Model;
use crate::random::{Purpose, Random};
use crate::run::plan::PERIOD;

/// Frames of the small window; the time of a window grows with them.
const FRAMES: usize = 4;

/// Frames that are timed one by one, unless that takes longer than [`LONGEST`]; the middle one counts.
const TIMED: usize = 7;
const LONGEST: Duration = Duration::from_secs(5);

pub(super) fn compute() -> Check {
    match DeviceChoice::Cuda.open() {
        Ok(gpu) => match tried(gpu) {
            Ok(name) => Check::ok("compute", format!("trains on {name}")),
            Err(reason) => Check::advice(
                "compute",
                format!("trains on the CPU: {reason}"),
                "see docs/CUDA.md, and report this: oupn-edge doctor --bundle FILE.zip",
            ),
        },
        Err(reason) if cfg!(feature = "cuda") => Check::advice(
            "compute",
            format!("trains on the CPU: {reason}"),
            "check the NVIDIA driver and the CUDA libraries (docs/CUDA.md)",
        ),
        Err(_) => {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            Check::ok(
                "compute",
                format!(
                    "trains on the CPU, {}; this program was built without CUDA",
                    crate::words::counted(threads as u64, "thread", "threads")
                ),
            )
        }
    }
}

/// The GPU's name, once it has computed a small window as the processor does.
fn tried(gpu: ComputeDevice) -> Result<String> {
    let mut settings = Preset::Saycam.settings();
    settings.encoder_width = 0.35;
    (settings.image_height, settings.image_width) = (48, 48);
    let name = gpu.name();
    gpu.training_encoder(Arc::new(settings.plan()?), TrainingOptions::default(), 0)?;
    Ok(name)
}

pub(super) fn timings() -> Vec<Check> {
    match measure() {
        Err(error) => vec![Check::problem(
            "speed",
            error.to_string(),
            "report this: oupn-edge doctor --bundle FILE.zip",
        )],
        Ok((frame, window)) => vec![one_frame(frame), whole_window(window)],
    }
}

/// Whether a frame takes so long that even the small window, whose frames also learn, would take minutes.
fn is_slow(frame: Duration) -> bool {
    frame > PERIOD / 2
}

fn one_frame(took: Duration) -> Check {
    let found = format!("{:.0} ms", took.as_secs_f64() * 1e3);
    if is_slow(took) {
        return Check::advice(
            "one frame",
            found,
            "that is slow for a frame every 4 s: set a longer --period or a smaller encoder_width",
        );
    }
    Check::ok("one frame", found)
}

fn whole_window(small: Option<Duration>) -> Check {
    let advice = "longer than 15 frames take to come: updates will come less often by themselves; a smaller \
                  encoder_width or image makes them faster";
    let Some(small) = small else {
        return Check::advice("one window", "not timed: it would take minutes".to_owned(), advice);
    };
    let settings = match Settings::for_device(None, None, None) {
        Ok(settings) => settings,
        Err(error) => return Check::problem("one window", error.to_string(), "report this"),
    };
    let whole = small.as_secs_f64() * settings.window as f64 / FRAMES as f64;
    let found = format!(
        "{FRAMES} frames in {:.1} s, so {} frames in about {whole:.0} s",
        small.as_secs_f64(),
        settings.window
    );
    if whole > PERIOD.as_secs_f64() * settings.stride as f64 {
        return Check::advice("one window", found, advice);
    }
    Check::ok("one window", found)
}

/// The time of one frame and, unless that is slow, of the small window.
fn measure() -> Result<(Duration, Option<Duration>)> {
    let mut settings: Settings = Preset::Saycam.settings();
    settings.window = FRAMES;
    settings.stride = FRAMES;
    settings.validate()?;
    let model = Model::random(&settings, settings.seed)?;
    let plan = Arc::clone(&model.plan);
    let mut random = Random::new(0, Purpose::World, 0);
    let mut noise = |length: usize| -> Vec<f32> { (0..length).map(|_| random.between(0.0, 1.0)).collect() };

    let mut inference = Inference::new(model.fold()?, 0)?;
    let (image, mut embedding) = (noise(plan.image.len()), vec![0.0; plan.features]);
    let mut times = Vec::with_capacity(TIMED);
    for _ in 0..TIMED {
        let start = Instant::now();
        inference.embed(&image, &mut embedding)?;
        times.push(start.elapsed());
        if times.iter().sum::<Duration>() > LONGEST {
            break;
        }
    }
    times.sort_unstable();
    let frame = times.get(times.len() / 2).copied().unwrap_or_default();
    if is_slow(frame) {
        return Ok((frame, None));
    }

    let on = |device: DeviceChoice| {
        device.open()?.training_encoder(Arc::clone(&plan), TrainingOptions::default(), 0)
    };
    let encoder = on(DeviceChoice::Cuda).or_else(|_| on(DeviceChoice::Cpu))?;
    let mut trainer = Trainer::new(&settings, model, encoder)?;
    let images = noise((1 + settings.second_views) * FRAMES * plan.image.len());
    // The first window pays for what later ones do not: memory, and on a GPU kernels and libraries.
    trainer.learn_from_views(&images, FRAMES, FRAMES)?;
    let start = Instant::now();
    trainer.learn_from_views(&images, FRAMES, FRAMES)?;
    Ok((frame, Some(start.elapsed())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn a_slow_machine_is_told_so() {
        let seconds = Duration::from_secs_f64;
        assert_eq!(one_frame(seconds(0.1)).verdict, Verdict::Ok);
        assert_eq!(one_frame(seconds(2.1)).verdict, Verdict::Advice);
        // 75 frames in 60 s are 4 in 3.2.
        assert_eq!(whole_window(Some(seconds(3.1))).verdict, Verdict::Ok);
        assert_eq!(whole_window(Some(seconds(3.3))).verdict, Verdict::Advice);
        let not_timed = whole_window(None);
        assert_eq!(not_timed.verdict, Verdict::Advice);
        assert!(not_timed.found.contains("not timed"));
    }
}

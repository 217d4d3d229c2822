//! `oupn-edge bench`: how fast this machine sees and learns.
//!
//! One learning window is timed by part (views, encode, memory, backward, Adam), one frame alone as the live path sees it,
//! and the most memory that was held. Images and weights are made up from a seed; nothing is read but the clock.
//!
//! `--json` prints one line: `window_s` (the best of the repeats, all parts together), `views_s`, `encode_s`, `memory_s`,
//! `backward_s`, `adam_s` (of that best repeat), `infer_p50_ms`, `infer_p95_ms`, `peak_rss_mb`, and the settings.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use super::bytes::parse_bytes;
use super::choice::choice;
use oupn_edge::config::{Preset, Settings};
use oupn_edge::encoder::device::DeviceChoice;
use oupn_edge::encoder::inference::{Folded, Inference};
use oupn_edge::encoder::{Plan, Storage, TrainingEncoder, TrainingOptions};
use oupn_edge::learner::update::Times;
use oupn_edge::learner::{Trainer, WindowOfFrames};
use oupn_edge::model::Model;
use oupn_edge::objective::Method;
use oupn_edge::random::{Purpose, Random};
use oupn_edge::views::Pixels;
use oupn_edge::{Error, Result, device};

#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    /// Frames of the window; each is seen in two views
    #[arg(long, default_value_t = 75, value_parser = clap::value_parser!(u16).range(1..=4096))]
    frames: u16,
    /// Height and width of the images in pixels
    #[arg(long, default_value_t = 224, value_parser = clap::value_parser!(u16).range(32..=1024))]
    size: u16,
    /// Width of MobileNet-V2
    #[arg(long, default_value_t = 1.0)]
    width: f64,
    /// Threads; 0 takes as many as the machine has
    #[arg(long, default_value_t = 0, value_parser = super::threads::parse_threads)]
    threads: usize,
    /// Windows to time; the best one counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    repeat: u16,
    /// What the encoder may hold at once, beside weights and images
    #[arg(long, value_name = "BYTES", default_value = "1400M", value_parser = parse_bytes)]
    memory_budget: usize,
    /// What is asked of the views
    #[arg(long, value_parser = choice::<Method>(), default_value = "oupn")]
    objective: Method,
    /// How block outputs are kept
    #[arg(long, value_parser = choice::<Storage>(), default_value = "f32")]
    storage: Storage,
    /// Where the encoder trains
    #[arg(long, value_parser = choice::<DeviceChoice>(), default_value = "auto")]
    device: DeviceChoice,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Single frames that are timed.
const FRAMES_TIMED: usize = 100;

pub(super) fn run(args: &BenchArgs) -> Result<()> {
    super::use_threads(args.threads)?;
    let settings = settings(args);
    settings.validate()?;
    let model = Model::random(&settings, settings.seed)?;

    progress(args, "one frame at a time");
    let latencies = time_frames(model.fold()?, &model.plan, args.threads)?;

    let encoder = encoder(args, &model.plan)?;
    let size = model.plan.image.len();
    let times = time_windows(args, settings.window, size, &mut Trainer::new(&settings, model, encoder)?)?;
    let peak = device::memory::read(Path::new("/")).peak_resident.unwrap_or_default();
    report(args, &latencies, &times, peak)
}

fn settings(args: &BenchArgs) -> Settings {
    let mut settings = Preset::Saycam.settings();
    settings.window = usize::from(args.frames);
    settings.stride = settings.window;
    settings.encoder_width = args.width;
    settings.image_height = usize::from(args.size);
    settings.image_width = usize::from(args.size);
    settings.learn_by(args.objective);
    settings
}

fn encoder(args: &BenchArgs, plan: &Arc<Plan>) -> Result<Box<dyn TrainingEncoder + Send>> {
    let options = TrainingOptions {
        memory_budget: args.memory_budget,
        storage: args.storage,
        ..TrainingOptions::default()
    };
    args.device.open()?.training_encoder(Arc::clone(plan), options, args.threads)
}

/// Latencies of single frames, in ascending order.
fn time_frames(folded: Arc<Folded>, plan: &Plan, threads: usize) -> Result<Vec<Duration>> {
    let mut inference = Inference::new(folded, threads)?;
    let mut embedding = vec![0.0; plan.features];
    let mut random = Random::new(0, Purpose::World, 0);
    let image: Vec<f32> = (0..plan.image.len()).map(|_| random.between(0.0, 1.0)).collect();
    let mut latencies = Vec::with_capacity(FRAMES_TIMED);
    for frame in 0..FRAMES_TIMED + 10 {
        let start = Instant::now();
        inference.embed(&image, &mut embedding)?;
        // The first ones fill caches and page tables.
        if frame >= 10 {
            latencies.push(start.elapsed());
        }
    }
    latencies.sort_unstable();
    Ok(latencies)
}

/// The time of the parts of the best window.
fn time_windows(args: &BenchArgs, frames: usize, size: usize, trainer: &mut Trainer) -> Result<Times> {
    let mut random = Random::new(0, Purpose::World, 1);
    let pictures: Vec<Vec<u8>> =
        (0..frames).map(|_| (0..size).map(|_| random.bits() as u8).collect()).collect();
    let mut best: Option<Times> = None;
    for repeat in 0..args.repeat {
        progress(args, &format!("window {} of {}", repeat + 1, args.repeat));
        let window = WindowOfFrames {
            number: u64::from(repeat),
            frames: pictures.iter().map(|picture| Pixels::Bytes(picture)).collect(),
            next: Vec::new(),
            stride: frames,
        };
        let times = trainer.learn(&window)?.times;
        if best.is_none_or(|best| times.total() < best.total()) {
            best = Some(times);
        }
    }
    progress(args, "");
    best.ok_or_else(|| Error::input("no window was timed"))
}

/// One line that the next one overwrites, on a terminal only.
fn progress(args: &BenchArgs, what: &str) {
    let mut terminal = io::stderr();
    if !args.json && terminal.is_terminal() {
        // A terminal that has gone away is no reason to stop.
        let _ = write!(terminal, "\r\x1b[2K{what}{}", if what.is_empty() { "" } else { " …" });
        let _ = terminal.flush();
    }
}

fn report(args: &BenchArgs, latencies: &[Duration], times: &Times, peak: u64) -> Result<()> {
    let window = times.total();
    let quantile = |part: usize| latencies.get(latencies.len() * part / 100).copied().unwrap_or_default();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let (p50, p95) = (milliseconds(quantile(50)), milliseconds(quantile(95)));
    let threads = if args.threads > 0 { args.threads } else { rayon::current_num_threads() };
    let peak_mb = peak >> 20;
    let parts = [
        ("views", times.views),
        ("encode", times.encode),
        ("memory", times.memory),
        ("backward", times.backward),
        ("adam", times.adam),
    ];
    let text = if args.json {
        let mut line = json!({
            "window_s": window.as_secs_f64(), "infer_p50_ms": p50, "infer_p95_ms": p95, "peak_rss_mb": peak_mb,
            "frames": args.frames, "size": args.size, "width": args.width, "threads": threads,
            "repeat": args.repeat, "memory_budget": args.memory_budget, "objective": args.objective, "storage": args.storage,
            "device": args.device, "version": env!("CARGO_PKG_VERSION"),
        });
        for (name, time) in parts {
            line[format!("{name}_s")] = json!(time.as_secs_f64());
        }
        format!("{line}\n")
    } else {
        let mut text = format!(
            "MobileNet-V2 ×{}, {}×{} pixels, {}\n\n\
             one frame   {p50:>8.1} ms   (95 % within {p95:.1} ms)\n\
             one window  {:>8.2} s    ({} frames, two views; best of {})\n",
            args.width,
            args.size,
            args.size,
            oupn_base::words::counted(threads as u64, "thread", "threads"),
            window.as_secs_f64(),
            args.frames,
            args.repeat
        );
        for (name, time) in parts {
            let share = 100.0 * time.as_secs_f64() / window.as_secs_f64().max(f64::MIN_POSITIVE);
            text.push_str(&format!("  {name:<9} {:>8.2} s    {share:>4.1} %\n", time.as_secs_f64()));
        }
        text.push_str(&format!("most memory {peak_mb:>8} MiB\n"));
        text
    };
    super::print(&text)
}

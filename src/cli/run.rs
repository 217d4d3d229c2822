//! `oupn-edge --camera SOURCE`: the recording itself.
//!
//! Settings come from, each over the one before: the preset, what suits a device ([`suit_a_device`]) or a warm start
//! ([`suit_a_warm_start`]), the settings file, the flags. A data folder that was used before goes on with the settings it
//! has, under the flags.
//!
//! Exit codes: 0 it ended as asked, or its source did; 1 the system failed; 2 bad usage or input; 3 it ended as asked, but
//! pictures or updates had to be left out.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::bytes::parse_bytes;
use super::duration::parse_duration;
use super::print;
use crate::camera;
use crate::config::{Preset, Settings};
use crate::dashboard::Server;
use crate::encoder::architecture::Architecture;
use crate::encoder::device::DeviceChoice;
use crate::encoder::{ModelCard, NormMode, Weights};
use crate::frame::PixelFormat;
use crate::memory::EntropyOf;
use crate::run::plan::Remembered;
use crate::run::status::{Snapshot, Status};
use crate::run::{Ended, Run, RunPlan};
use crate::storage::OsFilesystem;
use crate::trace::StopReason;
use crate::views::{Augmentation, Pairing};
use crate::{Error, Result};

/// Where a recording goes if nothing else is said.
pub(super) const DEFAULT_DATA: &str = "oupn-edge-data";

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Where frames come from: /dev/videoN, a folder or zip of images, `pipe:COMMAND`, `-`, `nokhwa:N`, or `rooms`, the
    /// built-in world
    #[arg(long, value_name = "SOURCE")]
    camera: Option<String>,
    /// Pixel format to ask the camera for, instead of the best one
    #[arg(long, value_name = "FORMAT")]
    format: Option<PixelFormat>,
    /// Size to ask the camera for, or of a raw pipe's frames, such as 640x480
    #[arg(long, value_name = "WxH", value_parser = parse_resolution)]
    resolution: Option<(u32, u32)>,
    /// Frames a second to ask the camera for, or at which images without times were taken
    #[arg(long, value_parser = parse_rate)]
    rate: Option<f64>,
    /// Folder of the recording; one that was used before goes on
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA)]
    data: PathBuf,
    /// Settings file; see `oupn-edge config show`
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The paper's settings for one of its datasets
    #[arg(long, value_parser = parse_preset)]
    preset: Option<Preset>,
    /// Weights to start from, instead of random ones
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Time between two samples, such as 4s [default: 4s]
    #[arg(long, value_parser = parse_duration)]
    period: Option<Duration>,
    /// Frames in a learning window
    #[arg(long)]
    window: Option<usize>,
    /// Frames between two updates
    #[arg(long)]
    stride: Option<usize>,
    /// The encoder's learning rate; 0 keeps it as it is
    #[arg(long, value_name = "RATE")]
    lr: Option<f64>,
    /// What is computed where paper and released code differ: reference or paper
    #[arg(long)]
    variant: Option<String>,
    /// What the second view of a frame is: `temporal` (the default with --model) is the camera's picture a moment later,
    /// `augmented` a second augmentation of the same picture
    #[arg(long, value_enum)]
    views: Option<ViewChoice>,
    /// Start of every random sequence
    #[arg(long)]
    seed: Option<u64>,
    /// Whether β is set from the first frames [default: on with --model]; off starts with the paper's −12
    #[arg(long, value_enum)]
    calibrate: Option<Switch>,
    /// Stop after so many minutes of the source's time
    #[arg(long)]
    minutes: Option<f64>,
    /// Stop after so many sampled frames
    #[arg(long)]
    frames: Option<u64>,
    /// Off: recorded and built-in sources run as fast as they can, and learning is waited for [default: on]
    #[arg(long, value_enum)]
    realtime: Option<Switch>,
    /// Time between two checkpoints
    #[arg(long, value_parser = parse_duration, default_value = "5m")]
    checkpoint_every: Duration,
    /// Keep a small picture of every new category on the disk; otherwise no pixel is written
    #[arg(long)]
    keep_thumbnails: bool,
    /// Keep the window's pictures in checkpoints, so that learning with a camera goes on at once after a restart
    #[arg(long)]
    keep_window: bool,
    /// Where the encoder trains
    #[arg(long, value_enum, default_value = "auto")]
    device: DeviceChoice,
    /// Threads; 0 takes as many as the machine has
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// What the encoder may hold at once while it learns, beside weights and images
    #[arg(long, value_name = "BYTES", default_value = "1400M", value_parser = parse_bytes)]
    memory_budget: usize,
    /// Disk that is held back for the trace; 0 for none
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = parse_reserve)]
    reserve: usize,
    /// Serve the live page on this address, such as 127.0.0.1:8077; any but loopback needs the token that is printed
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Name of this device in the trace [default: the host's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Print the summary as one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ViewChoice {
    Temporal,
    Augmented,
}

fn parse_preset(text: &str) -> std::result::Result<Preset, String> {
    let names = Preset::ALL.map(|preset| preset.to_string()).join(", ");
    Preset::named(text).ok_or_else(|| format!("expected one of {names}"))
}

fn parse_reserve(text: &str) -> std::result::Result<usize, String> {
    if text == "0" { Ok(0) } else { parse_bytes(text) }
}

fn parse_rate(text: &str) -> std::result::Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| camera::Options::RATES.contains(rate));
    rate.ok_or_else(|| "expected frames a second, from 0.001 to 10000".to_owned())
}

fn parse_resolution(text: &str) -> std::result::Result<(u32, u32), String> {
    let sides = text
        .split_once(['x', '×'])
        .and_then(|(width, height)| Some((width.parse::<u32>().ok()?, height.parse::<u32>().ok()?)));
    sides
        .filter(|sides| (16..=16_384).contains(&sides.0) && (16..=16_384).contains(&sides.1))
        .ok_or_else(|| "expected width and height such as 640x480, each from 16 to 16384".to_owned())
}

/// What a device wants of every preset, since it has hours where the paper's runs had months: overlapping windows, running
/// statistics that agree with the learner's from the first windows on, and a β that gets somewhere.
fn suit_a_device(settings: &mut Settings) {
    settings.stride = settings.stride.min(15);
    settings.norm_momentum = 0.1;
    settings.beta_learning_rate *= 10.0;
}

/// What keeps a warm start from being unlearned: real second looks, gentle augmentation, the statistics that the weights were
/// made with, and small steps that get smaller. At a constant rate what is gained by the fiftieth update is lost again, and
/// more, by the two hundredth. The entropy of known frames is what most of the gain comes from (RESULTS.md).
fn suit_a_warm_start(settings: &mut Settings, card: &ModelCard) {
    settings.views = Pairing::NextFrame;
    settings.augmentation = Augmentation::Mild;
    settings.entropy_weight = 2.0;
    settings.entropy_of = EntropyOf::Known;
    settings.learning_rate = 1e-5;
    settings.rate_drops = vec![50, 100];
    settings.norm_statistics = NormMode::Running;
    settings.image_height = card.input.size;
    settings.image_width = card.input.size;
}

/// The network that the card's weights are for.
fn adopt_card(settings: &mut Settings, card: &ModelCard) {
    use crate::config::EncoderKind;
    settings.padding = card.padding;
    settings.norm_epsilon = f64::from(card.bn_epsilon);
    match card.encoder {
        Architecture::MobileNetV2 { width } => {
            settings.encoder = EncoderKind::MobileNetV2;
            settings.encoder_width = width;
        }
        Architecture::ResNet12 { strides, .. } => {
            settings.encoder = EncoderKind::ResNet12;
            settings.encoder_pools = strides;
        }
        Architecture::Conv4 { widths, .. } => {
            settings.encoder = EncoderKind::Conv4;
            settings.encoder_channels = widths;
        }
    }
    settings.image_channels = card.encoder.image_channels();
    if settings.image_channels < 3 {
        // Nothing has a colour to change.
        settings.augmentation = Augmentation::Omniglot;
    }
}

pub(super) fn run(args: &RunArgs) -> Result<ExitCode> {
    let plan = plan(args)?;
    let run = Run::open(&plan)?;
    log::info!("recording into {}", plan.data.display());
    let page = args.listen.map(|listen| Server::start(listen, Arc::clone(&run.status), run.requests.clone()));
    let page = page.transpose()?;
    if let Some(page) = &page {
        log::info!("the live page is at {}", page.url());
    }
    let watcher = Watcher::start(Arc::clone(&run.status))?;
    let ended = run.run();
    drop(page);
    drop(watcher);
    let ended = ended?;
    summarise(args, &plan, &ended)?;
    let complete = ended.corrupt == 0 && ended.skipped == 0;
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::from(3) })
}

fn plan(args: &RunArgs) -> Result<RunPlan> {
    let remembered = Remembered::read(&OsFilesystem, &args.data)?;
    let model =
        args.model.clone().or_else(|| remembered.as_ref().and_then(|remembered| remembered.model.clone()));
    let mut settings = match (&remembered, args.preset.is_some() || args.config.is_some()) {
        (Some(remembered), false) => remembered.settings.clone(),
        _ => {
            let card = model.as_deref().map(|path| Weights::read(path).map(|weights| weights.card));
            let card = card.transpose()?;
            Settings::load_adjusted(args.preset, args.config.as_deref(), |settings| {
                suit_a_device(settings);
                if let Some(card) = &card {
                    suit_a_warm_start(settings, card);
                    adopt_card(settings, card);
                }
            })?
        }
    };
    apply_flags(args, &mut settings)?;
    settings.validate()?;
    let camera =
        args.camera.clone().or_else(|| remembered.as_ref().map(|remembered| remembered.camera.clone()));
    let Some(camera) = camera else {
        return Err(Error::input(format!(
            "{} holds no recording to go on with: say where frames come from with --camera",
            args.data.display()
        )));
    };
    let realtime = match args.realtime {
        Some(switch) => switch == Switch::On,
        None => remembered.as_ref().is_none_or(|remembered| remembered.realtime),
    };
    let mut camera_options = camera::Options {
        format: args.format,
        resolution: args.resolution,
        rate: args.rate,
        live_pipe: realtime,
    };
    // What was asked of one camera says nothing about another.
    if let Some(remembered) = remembered.as_ref().filter(|remembered| remembered.camera == camera) {
        camera_options.format = args.format.or(remembered.pixel_format()?);
        camera_options.resolution = args.resolution.or(remembered.resolution);
        camera_options.rate = args.rate.or(remembered.rate);
    }
    let remembered_period =
        remembered.as_ref().map(|remembered| Duration::from_secs_f64(remembered.period_s));
    let calibrate = match args.calibrate {
        Some(switch) => switch == Switch::On,
        None => remembered.as_ref().map_or(model.is_some(), |remembered| remembered.calibrate),
    };
    let time = match args.minutes {
        Some(minutes) if !(minutes > 0.0 && minutes < 1e7) => {
            return Err(Error::input(format!("--minutes {minutes}: expected a number above 0")));
        }
        minutes => minutes.map(|minutes| Duration::from_secs_f64(60.0 * minutes)),
    };
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
        device_name: args.name.clone().unwrap_or_else(host_name),
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

/// Tells people how it goes: a live line on a terminal, one line an update otherwise.
struct Watcher {
    ending: Arc<AtomicBool>,
    status: Arc<Status>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watcher {
    fn start(status: Arc<Status>) -> Result<Self> {
        let ending = Arc::new(AtomicBool::new(false));
        let (end, watched) = (Arc::clone(&ending), Arc::clone(&status));
        let watch = move || {
            let bar = std::io::stderr().is_terminal().then(live_line);
            let (mut version, mut updates) = (0, 0);
            while !end.load(Ordering::Acquire) {
                version = watched.wait_beyond(version, Duration::from_millis(500));
                match &bar {
                    Some(bar) => bar.set_message(watched.look(describe)),
                    None => updates = log_updates(&watched, updates),
                }
            }
            match bar {
                Some(bar) => bar.finish_and_clear(),
                None => drop(log_updates(&watched, updates)),
            }
        };
        let thread = std::thread::Builder::new().name("terminal".to_owned()).spawn(watch);
        let thread = thread.map_err(|error| Error::io("the terminal's thread", error))?;
        Ok(Self { ending, status, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        self.status.change(|_| {});
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn live_line() -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed_precise} {wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn describe(now: &Snapshot) -> String {
    if now.paused {
        return format!("paused · {} frames so far · `oupn-edge resume` goes on", now.frames);
    }
    if !now.feed.present {
        return format!("camera lost, trying again · {} frames so far", now.frames);
    }
    let Some(seen) = &now.newest else {
        return format!("waiting for the first frame of {}", now.feed.description);
    };
    let record = &seen.record;
    let what = if record.created { "new category" } else { "category" };
    let learning = if now.learning_since.is_some() { " · learning" } else { "" };
    let loss =
        now.lessons.back().map(|lesson| format!(" (loss {:.2})", lesson.losses.total)).unwrap_or_default();
    format!(
        "frame {} → {what} {} · {} categories · {} updates{loss}{learning}",
        record.frame, record.category, now.categories, now.updates
    )
}

/// Logs the updates after the first `known` of this start, and returns how many there are.
fn log_updates(status: &Status, known: u64) -> u64 {
    let (updates, fresh, founded) = status.look(|now| {
        let fresh =
            usize::try_from(now.updates.saturating_sub(known)).unwrap_or(usize::MAX).min(now.lessons.len());
        (
            now.updates,
            now.lessons.range(now.lessons.len() - fresh..).cloned().collect::<Vec<_>>(),
            now.founded,
        )
    });
    for lesson in fresh {
        log::info!(
            "update {} at frame {}: loss {:.3}, {} categories ({founded} founded), {:.1} s",
            lesson.update,
            lesson.frame,
            lesson.losses.total,
            lesson.categories,
            lesson.seconds
        );
    }
    updates
}

fn summarise(args: &RunArgs, plan: &RunPlan, ended: &Ended) -> Result<()> {
    let trace = plan.data.join("trace");
    if args.json {
        let line = json!({
            "reason": ended.reason, "frames": ended.frames, "updates": ended.updates, "skipped_updates": ended.skipped,
            "bad_pictures": ended.corrupt, "categories": ended.categories, "founded": ended.founded,
            "seconds": ended.seconds, "ami": ended.score.ami(), "ami_frames": ended.score.frames(),
            "things": ended.score.things(), "trace": trace,
        });
        return print(&format!("{line}\n"));
    }
    print(&in_words(plan, ended, &trace))
}

fn in_words(plan: &RunPlan, ended: &Ended, trace: &Path) -> String {
    let why = match ended.reason {
        StopReason::Signal => "stopped on request",
        StopReason::Frames => "the wanted frames were seen",
        StopReason::Time => "the wanted time is over",
        StopReason::EndOfSource => "the source has no more frames",
        StopReason::Error | StopReason::Unknown => "something failed",
    };
    let mut text = format!(
        "\n{} frames, one every {} s, in {:.0} s: {why}\n\n",
        ended.frames,
        plan.period.as_secs_f64(),
        ended.seconds
    );
    let mut line = |name: &str, value: String| text.push_str(&format!("  {name:<12} {value}\n"));
    line("categories", format!("{} live, {} founded", ended.categories, ended.founded));
    let skipped = if ended.skipped > 0 { format!(", {} thrown away", ended.skipped) } else { String::new() };
    line("learning", format!("{} updates of the encoder{skipped}", ended.updates));
    if ended.corrupt > 0 {
        line("left out", format!("{} pictures that could not be used", ended.corrupt));
    }
    if let Some(ami) = ended.score.ami() {
        line(
            "agreement",
            format!(
                "AMI {ami:.2} between categories and truth, last {} frames of {} things (1: the same grouping, 0: chance)",
                ended.score.frames(),
                ended.score.things()
            ),
        );
    }
    line("trace", trace.display().to_string());
    line("look at it", format!("oupn-edge report {} -o report.html", plan.data.display()));
    line("go on", format!("oupn-edge --data {}", plan.data.display()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_are_read_or_refused() {
        assert_eq!(parse_resolution("640x480"), Ok((640, 480)));
        for nonsense in ["", "640", "0x480", "640x99999", "ax b"] {
            assert!(parse_resolution(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn a_card_brings_its_network() {
        for card in ModelCard::known().unwrap() {
            let mut settings = Preset::Saycam.settings();
            suit_a_device(&mut settings);
            suit_a_warm_start(&mut settings, &card);
            adopt_card(&mut settings, &card);
            settings.validate().unwrap();
            assert_eq!(settings.architecture(), card.encoder);
        }
    }
}

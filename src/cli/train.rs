//! `oupn-edge train`: the device's learner on a labelled stream, without its labels.
//!
//! The folder `--out` gets `log.jsonl` ([its lines](oupn_edge::training::Log)), `checkpoints/`, and `model.safetensors`, the newest
//! weights with 1/τ, β, γ and their model card. Evaluations embed with the running statistics and clear a memory of their own
//! before every episode; the learning memory is not touched.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use super::choice::choice;
use oupn_edge::config::Settings;
use oupn_edge::encoder::device::DeviceChoice;
use oupn_edge::encoder::{TrainingOptions, Weights};
use oupn_edge::eval::embed::{Encoder, embed_episodes};
use oupn_edge::eval::episodes::{Scores, Setting, Sweep, score};
use oupn_edge::model::Model;
use oupn_edge::objective::Method;
use oupn_edge::storage::{CheckpointStore, FolderLock, Keep, Mark, OsFilesystem, write_atomically};
use oupn_edge::streams::{
    Digits, LabelledSet, LearningStream, Order, Rebatched, SecondView, Split, StreamKind,
};
use oupn_edge::taught::Teaching;
use oupn_edge::training::{Log, Step, Training};
use oupn_edge::views::Pairing;
use oupn_edge::{Error, Result};

#[derive(Debug, Args)]
pub(super) struct TrainArgs {
    /// What to learn from
    #[arg(long, value_parser = choice::<StreamKind>())]
    stream: StreamKind,
    /// Folder of the stream's data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Folder for log, checkpoints and weights; a run that is there already goes on
    #[arg(short, long = "output", alias = "out", value_name = "DIR")]
    out: PathBuf,
    /// Settings file over the stream's preset
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What is asked of the views, with both of them augmented for all but oupn [default: the setting, which is oupn]
    #[arg(long, value_parser = choice::<Method>())]
    objective: Option<Method>,
    /// Tell the learner the classes, for comparison: what labels would give on the same stream
    #[arg(long, value_parser = choice::<Teaching>(), conflicts_with = "objective")]
    teach: Option<Teaching>,
    /// Weights to start from: a file, or the name of a fetched model [default: random ones]
    #[arg(long = "model", alias = "weights", value_name = "FILE|NAME", value_parser = super::named_model::model_file())]
    weights: Option<PathBuf>,
    /// Set β by the first window, so that a fifth of its frames create a category
    #[arg(long)]
    calibrate: bool,
    /// Windows to learn from, all in all; 0 writes the weights that a run starts from [default: the setting `steps`]
    #[arg(long)]
    windows: Option<u64>,
    /// Start of every random sequence [default: the setting]
    #[arg(long)]
    seed: Option<u64>,
    /// Windows between two evaluations; 0 for none
    #[arg(long, default_value_t = 500)]
    evaluate: u64,
    /// Episodes of an evaluation
    #[arg(long, default_value_t = 40)]
    episodes: usize,
    /// What is evaluated on [default: val, or train where the data have no val]. Choose settings on these, and score `test` once
    #[arg(long, value_parser = choice::<Split>())]
    split: Option<Split>,
    /// Windows between two checkpoints
    #[arg(long, default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..))]
    checkpoint: u64,
    /// The order in which frames are shown: online, or iid with windows of the setting `window`
    #[arg(long, value_parser = choice::<Order>(), default_value = "online")]
    order: Order,
    /// Share of digits among the frames of the stream `imbalance`
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = parse_share)]
    digits: f32,
    /// The only digit among them [default: all ten]
    #[arg(long, value_name = "DIGIT", value_parser = clap::value_parser!(u8).range(0..=9))]
    digit: Option<u8>,
    /// What the second view of a frame shows, on the streams objects-video and objects-days: next (the next frame), groups (frames
    /// of the same thing that a long memory finds without labels), or by label another picture of the object within some
    /// degrees, as label:40, label:90, label:any: what perfect second views would give
    #[arg(long, value_name = "VIEW", default_value_t = SecondView::Next)]
    second_view: SecondView,
    /// Threads; 0 takes as many as the machine has
    #[arg(long, default_value_t = 0, value_parser = super::threads::parse_threads)]
    threads: usize,
    /// Where the encoder trains
    #[arg(long, value_parser = choice::<DeviceChoice>(), default_value = "auto")]
    device: DeviceChoice,
}

pub(super) fn run(args: &TrainArgs) -> Result<()> {
    super::use_threads(args.threads)?;
    let start = args.weights.as_deref().map(Weights::read).transpose()?;
    let card = start.as_ref().map(|weights| &weights.card);
    let mut settings = args.stream.settings(args.config.as_deref(), card)?;
    if let Some(objective) = args.objective {
        settings.learn_by(objective);
    }
    settings.seed = args.seed.unwrap_or(settings.seed);
    let total = args.windows.unwrap_or(settings.steps);
    settings.steps = total.max(1);
    let split = args.split.unwrap_or(args.stream.choosing_split());
    settings.validate()?;
    check_second_view(args, &settings)?;
    std::fs::create_dir_all(&args.out).map_err(|error| Error::io(&args.out, error))?;
    // Before anything in it is touched: another run may be writing there.
    let _lock = FolderLock::acquire(&args.out)?;
    let store = CheckpointStore::open(Arc::new(OsFilesystem), &args.out.join("checkpoints"))?;

    let model = beginning(args, start, &settings)?;
    let shape = model.plan.image;
    let digits = Digits { share: args.digits, only: args.digit };
    let stream = args.stream.learning(args.data.as_deref(), &settings, shape, digits, args.second_view)?;
    let stream: Box<dyn LearningStream> = match args.order {
        Order::Online => stream,
        order => Box::new(Rebatched { inner: stream, frames: settings.window, order, seed: settings.seed }),
    };
    if stream.frames() > settings.window {
        return Err(Error::input(format!(
            "window = {} is shorter than this stream's windows of {} frames",
            settings.window,
            stream.frames()
        )));
    }
    let labelled = match args.evaluate {
        0 => None,
        _ => Some(args.stream.labelled(args.data.as_deref(), split, &settings, shape, args.episodes)?),
    };

    let plan = Arc::clone(&model.plan);
    let encoder = args.device.open()?.training_encoder(plan, TrainingOptions::default(), args.threads)?;
    let name = stream_name(args);
    let mut training = match args.teach {
        None => Training::new(settings, model, encoder, &*stream, name)?,
        Some(teaching) => Training::taught(teaching, settings, model, encoder, &*stream, &name)?,
    };
    if args.second_view == SecondView::Groups {
        training.recall();
    }
    if let Some((checkpoint, bytes)) = store.load_newest()? {
        training.resume(&checkpoint.path, &bytes)?;
        super::print(&format!("going on after window {}\n", training.windows()))?;
    }
    if args.calibrate && training.windows() == 0 {
        super::print(&format!("β = {:.3} by the first window\n", training.calibrate()?))?;
    }
    let mut log = Log::open(&args.out.join("log.jsonl"), training.windows())?;
    if training.windows() == 0 {
        log.start(&args.stream.to_string(), training.settings().seed, &training.settings().to_toml())?;
    }

    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Error::io("signals", error))?;
    }
    let mut progress = Progress::new(&training, total);
    while training.windows() < total && !stop.load(Ordering::Relaxed) {
        let step = training.step()?;
        log.window(&step, &training.model().control)?;
        progress.step(&training, &step)?;
        if let Some(labelled) = &labelled
            && (step.window.is_multiple_of(args.evaluate) || step.window == total)
        {
            let scores = evaluate(&training, labelled)?;
            log.evaluation(step.window, split, &scores)?;
            progress.evaluation(step.window, split, &scores)?;
        }
        // Asked for only now: an evaluation takes its time, and a run that is told to stop keeps what it has learned.
        let at_end = step.window == total || stop.load(Ordering::Relaxed);
        if at_end || step.window.is_multiple_of(args.checkpoint) {
            save(&training, &store, &args.out)?;
            log.flush()?;
        }
    }
    if training.windows() == 0 {
        save(&training, &store, &args.out)?;
    }
    progress.end();
    if training.windows() >= total {
        log.end(training.windows(), training.running().as_secs_f64())?;
    }
    super::print(&format!(
        "{} windows in {:.0} s; weights in {}\n",
        training.windows(),
        training.running().as_secs_f64(),
        args.out.join("model.safetensors").display()
    ))
}

fn parse_share(text: &str) -> std::result::Result<f32, String> {
    text.parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a number from 0 to 1".into())
}

/// What is learned from, in words.
fn stream_name(args: &TrainArgs) -> String {
    if args.order != Order::Online {
        return format!("{}, {}", stream_of(args), args.order);
    }
    stream_of(args)
}

fn stream_of(args: &TrainArgs) -> String {
    match (args.stream, args.digit) {
        (StreamKind::Imbalance, None) => format!("{} with a share of {} digits", args.stream, args.digits),
        (StreamKind::Imbalance, Some(digit)) => {
            format!("{} with a share of {} of the digit {digit}", args.stream, args.digits)
        }
        _ if args.second_view != SecondView::Next => {
            format!("{} with second views {}", args.stream, args.second_view)
        }
        _ => args.stream.to_string(),
    }
}

/// Refuses a choice of second views where nothing would look at it.
fn check_second_view(args: &TrainArgs, settings: &Settings) -> Result<()> {
    let view = args.second_view;
    if view == SecondView::Next {
        return Ok(());
    }
    if args.order != Order::Online {
        return Err(Error::input(format!(
            "--second-view {view} needs frames in their order: leave --order at online"
        )));
    }
    if !args.stream.has_time() {
        return Err(Error::input(format!(
            "--second-view {view} needs frames that follow each other: take --stream objects-video or objects-days"
        )));
    }
    if settings.views != Pairing::NextFrame {
        return Err(Error::input(format!(
            "--second-view {view} needs views = \"next_frame\", which compares a frame with another one: set it with --config, \
             or start from weights with --model"
        )));
    }
    Ok(())
}

/// Random weights, or those of a file with its own padding, epsilon, scaling and, if they were learned, 1/τ, β, γ.
fn beginning(args: &TrainArgs, start: Option<Weights>, settings: &Settings) -> Result<Model> {
    let stream = stream_name(args);
    if let (Some(path), Some(weights)) = (&args.weights, start) {
        if weights.card.encoder != settings.architecture() {
            return Err(Error::input(format!(
                "{}: weights of {}, but the settings ask for {}",
                path.display(),
                weights.card.encoder,
                settings.architecture()
            )));
        }
        let size = (settings.image_height, settings.image_width);
        let model = Model::of(weights, path, settings, size)?;
        let card = model.card.clone().learned(&format!("on the stream {stream}"));
        return Ok(Model { card, ..model });
    }
    let mut model = Model::random(settings, settings.seed)?;
    let encoder = model.card.encoder;
    model.card.name = format!("{}_{}", encoder.file_name(), args.stream);
    let labels =
        args.teach.map_or("without labels".to_owned(), |teaching| format!("with labels, by {teaching}"));
    model.card.about = format!("{encoder}, trained on the stream {stream} {labels}");
    model.card.source = format!("oupn-edge {} train", env!("CARGO_PKG_VERSION"));
    Ok(model)
}

fn evaluate(training: &Training<'_>, labelled: &LabelledSet) -> Result<Scores> {
    let (model, settings) = (training.model(), training.settings());
    let encoder = Encoder::of(model)?;
    let embedded = embed_episodes(&encoder, &labelled.set, &labelled.episodes)?;
    let setting = Setting {
        dimension: model.plan.features,
        slots: settings.slots,
        control: model.control,
        rules: settings.rules(),
    };
    score(&embedded, &setting, Sweep::usual(training.learns_control()))
}

fn save(training: &Training<'_>, store: &CheckpointStore, out: &Path) -> Result<()> {
    let mark = Mark { trace_seq: training.windows(), running: training.running() };
    store.save(mark, &training.to_bytes()?, Keep::LastTwoAndOlder)?;
    let path = out.join("model.safetensors");
    write_atomically(&OsFilesystem, &path, &training.model_bytes()?).map_err(|error| Error::io(&path, error))
}

/// A bar on a terminal, plain lines elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    total: u64,
    /// Windows and time at the start of this process.
    from: (u64, Duration),
    losses: f64,
    created: f64,
    summed: u32,
}

/// Windows between two plain lines.
const PLAIN_LINES: u64 = 100;

impl Progress {
    fn new(training: &Training<'_>, total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} windows  {msg}  {eta} left");
            let bar =
                ProgressBar::new(total).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar.set_position(training.windows());
            bar.reset_eta();
            bar
        });
        let from = (training.windows(), training.running());
        Self { bar, total, from, losses: 0.0, created: 0.0, summed: 0 }
    }

    fn step(&mut self, training: &Training<'_>, step: &Step) -> Result<()> {
        self.losses += step.update.loss;
        self.created += step.update.created as f64;
        self.summed += 1;
        let done = step.window.saturating_sub(self.from.0) as f64;
        let rate = done / training.running().saturating_sub(self.from.1).as_secs_f64().max(1e-9);
        let mean = |sum: f64| sum / f64::from(self.summed.max(1));
        let message = format!(
            "loss {:.3}  created {:.0}  spread {:.2}  {rate:.2} windows/s",
            mean(self.losses),
            mean(self.created),
            step.update.spread
        );
        if let Some(bar) = &self.bar {
            bar.set_position(step.window);
            bar.set_message(message.clone());
        }
        let due = step.window.is_multiple_of(PLAIN_LINES) || step.window == self.total;
        if due && self.bar.is_none() {
            let left = (self.total - step.window.min(self.total)) as f64 / rate;
            super::print(&format!("{}/{}  {message}  {left:.0} s left\n", step.window, self.total))?;
        }
        if due {
            (self.losses, self.created, self.summed) = (0.0, 0.0, 0);
        }
        Ok(())
    }

    fn evaluation(&self, window: u64, split: Split, scores: &Scores) -> Result<()> {
        let line = format!(
            "window {window}: AMI {:.2} ± {:.2} %, AP {:.2} ± {:.2} % on {} episodes of {split} \
             (threshold {:.2}, {:.1} categories for {:.1} classes)",
            100.0 * scores.ami,
            100.0 * scores.ami_error,
            100.0 * scores.ap,
            100.0 * scores.ap_error,
            scores.episodes,
            scores.threshold,
            scores.categories,
            scores.classes
        );
        match &self.bar {
            Some(bar) => {
                bar.println(line);
                Ok(())
            }
            None => super::print(&format!("{line}\n")),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

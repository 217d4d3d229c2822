//! `oupn-edge eval`: an encoder scored on labelled episodes, as the paper scores it.
//!
//! `--json` prints one line: `model`, `stream`, `split` (null with `--embeddings`), `reduction` (Omniglot's), `slots`, `episodes`, `frames`, `sweep`, `ami`,
//! `ami_error`, `threshold`, `beta`, `ap`, `ap_error`, `categories` and `classes` (means over the episodes), `seconds`, and with
//! `--readout` `readout` (the protocol), `neighbours`, `knn`, `knn_error`, `linear`, `linear_error`, `linear_rate`,
//! `readout_classes` and `readout_pictures`. Scores are fractions.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use serde_json::json;

use super::choice::choice;
use super::watched::Watched;
use oupn_edge::config::{Preset, Settings};
use oupn_edge::encoder::Weights;
use oupn_edge::encoder::plan::Shape;
use oupn_edge::eval::embed::{Embed, Encoder, embed_episodes};
use oupn_edge::eval::embedded;
use oupn_edge::eval::episodes::{Scores, Setting, Sweep, score};
use oupn_edge::eval::frozen::{Frozen, FrozenKind};
use oupn_edge::eval::readout::{Protocol, Readout};
use oupn_edge::memory::Control;
use oupn_edge::model::Model;
use oupn_edge::streams::{LabelledSet, Split, StreamKind};
use oupn_edge::views::Reduction;
use oupn_edge::{Error, Result};

#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// What is measured on
    #[arg(long, value_parser = choice::<StreamKind>(), required_unless_present = "embeddings")]
    stream: Option<StreamKind>,
    /// Embeddings that another program made, instead: safetensors with `embeddings` (rows x numbers), `labels` and `episodes` (rows)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stream", "data", "model", "untrained", "encoder", "size", "reduction", "readout", "split", "episodes"])]
    embeddings: Option<PathBuf>,
    /// Folder of the stream's data
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Part of the data
    #[arg(long, value_parser = choice::<Split>(), default_value = "test")]
    split: Split,
    /// Episodes to score
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    episodes: u16,
    /// How the threshold of the AMI is chosen [default: first-ten, or similarity if β was never learned]. Compare weights only
    /// under the same one
    #[arg(long, value_enum)]
    sweep: Option<SweepArg>,
    /// Prototypes that the memory holds; with fewer than an episode has frames, some are replaced [default: the setting `slots`]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=1024))]
    slots: Option<u16>,
    /// Also a k-NN and a linear read-out of the classes, by one of the paper's protocols
    #[arg(long, value_parser = choice::<Protocol>(), value_name = "PROTOCOL")]
    readout: Option<Protocol>,
    /// Neighbours that vote in the k-NN read-out [default: the protocol's]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..), requires = "readout")]
    neighbours: Option<u16>,
    /// Threads; 0 takes as many as the machine has
    #[arg(long, default_value_t = 0, value_parser = super::threads::parse_threads)]
    threads: usize,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

/// Which encoder, and the memory's settings.
#[derive(Debug, Args)]
pub(super) struct ModelArgs {
    /// Weights with their model card, and 1/τ, β, γ if they were learned: a file, or the name of a fetched model; with --encoder,
    /// the weights of that one
    #[arg(
        long,
        alias = "weights",
        value_name = "FILE|NAME",
        value_parser = super::named_model::model_file()
    )]
    pub(super) model: Option<PathBuf>,
    /// Random weights instead, of the network in the settings: what nothing learned is worth
    #[arg(long, conflicts_with_all = ["model", "encoder"])]
    untrained: bool,
    /// Seed of those weights, and of the read-out's random halves
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// A published encoder instead of one of ours: frozen:resnet18, frozen:mobilenetv4 or frozen:dinov2
    #[arg(long, value_name = "NAME", requires = "model")]
    encoder: Option<FrozenKind>,
    /// Settings file over the stream's preset: the memory's rules, the size of the pictures
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Side of the square pictures that the encoder is shown [default: the setting's, or what a frozen one wants]
    #[arg(long, value_parser = clap::value_parser!(u16).range(16..=1024))]
    size: Option<u16>,
    /// How Omniglot's drawings are reduced: as the paper's released code does it, or antialiased, an easier task [default: the
    /// setting, which is released]
    #[arg(long, value_parser = choice::<Reduction>())]
    reduction: Option<Reduction>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SweepArg {
    /// The best of 100 thresholds on the first ten episodes
    FirstTen,
    /// The best of 100 thresholds on all episodes
    Full,
    /// The best of 100 similarities on the first ten episodes
    Similarity,
    /// None: the threshold of the settings
    Off,
}

impl From<SweepArg> for Sweep {
    fn from(arg: SweepArg) -> Self {
        match arg {
            SweepArg::FirstTen => Self::FirstTen,
            SweepArg::Full => Self::Full,
            SweepArg::Similarity => Self::Similarity,
            SweepArg::Off => Self::Off,
        }
    }
}

/// A sweep as `--sweep` names it.
fn sweep_name(sweep: Sweep) -> &'static str {
    match sweep {
        Sweep::FirstTen => "first-ten",
        Sweep::Full => "full",
        Sweep::Similarity => "similarity",
        Sweep::Off => "off",
    }
}

/// An encoder that can be measured.
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) encoder: Box<dyn Embed>,
    /// 1/τ, β, γ, if they were learned.
    pub(super) control: Option<Control>,
    pub(super) settings: Settings,
    /// Size of the pictures to load.
    pub(super) shape: Shape,
}

impl Subject {
    pub(super) fn open(args: &ModelArgs, stream: StreamKind) -> Result<Self> {
        if args.model.is_none() && !args.untrained {
            return Err(Error::input(
                "there is nothing to score: name weights with --model, or take --untrained",
            ));
        }
        let ours = args.model.as_deref().filter(|_| args.encoder.is_none());
        let weights = ours.map(Weights::read).transpose()?;
        let card = weights.as_ref().map(|weights| &weights.card);
        let mut settings = stream.settings(args.config.as_deref(), card)?;
        settings.reduction = args.reduction.unwrap_or(settings.reduction);
        if let (Some(card), None) = (card, &args.config) {
            settings.pooling = card.pooling;
        }
        let square = |side: usize, channels| Shape { height: side, width: side, channels };
        if let (Some(kind), Some(weights)) = (args.encoder, &args.model) {
            // Colour streams are shown at their best; the others have one size.
            let shape = match settings.image_channels {
                3 => square(args.size.map_or(kind.side(), usize::from), 3),
                channels => Shape { height: settings.image_height, width: settings.image_width, channels },
            };
            let encoder = Box::new(Frozen::read(kind, weights)?);
            return Ok(Self { name: file_name(weights), encoder, control: None, settings, shape });
        }
        let (model, name) = match (&args.model, weights) {
            (Some(path), Some(weights)) => {
                let own = (settings.image_height, settings.image_width);
                let size = args.size.map_or(own, |side| (usize::from(side), usize::from(side)));
                (Model::of(weights, path, &settings, size)?, file_name(path))
            }
            _ => {
                let name = format!("untrained {}, seed {}", settings.architecture(), args.seed);
                (Model::random(&settings, args.seed)?, name)
            }
        };
        let control = model.control_is_learned.then_some(model.control);
        let encoder = Box::new(Encoder { folded: model.fold()?, scaling: model.card.input });
        Ok(Self { name, encoder, control, settings, shape: model.plan.image })
    }

    /// What the memory goes by.
    fn setting(&self, slots: Option<u16>) -> Setting {
        Setting {
            dimension: self.encoder.dimension(),
            slots: slots.map_or(self.settings.slots, usize::from),
            control: self.control.unwrap_or_else(|| self.settings.control()),
            rules: self.settings.rules(),
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

pub(super) fn run(args: &EvalArgs) -> Result<()> {
    super::use_threads(args.threads)?;
    let start = Instant::now();
    let Some(stream) = args.stream else { return run_embeddings(args, start) };
    let subject = Subject::open(&args.model, stream)?;
    let labelled = stream.labelled(
        args.data.as_deref(),
        args.split,
        &subject.settings,
        subject.shape,
        usize::from(args.episodes),
    )?;
    let LabelledSet { set, episodes } = &labelled;
    let embedded = embed_episodes(&Watched::new(&*subject.encoder), set, episodes)?;
    let usual = Sweep::usual(subject.control.is_some());
    let sweep = args.sweep.map_or(usual, Sweep::from);
    let setting = subject.setting(args.slots);
    let scores = score(&embedded, &setting, sweep)?;
    let readout = match args.readout {
        Some(_) if stream == StreamKind::Rooms => {
            return Err(Error::input(
                "--readout needs pictures that have classes, and `rooms` has walks: leave it out",
            ));
        }
        Some(protocol) => Some(protocol.read_out(
            &*subject.encoder,
            set,
            args.neighbours.map(usize::from),
            args.model.seed,
        )?),
        None => None,
    };
    let outcome =
        Outcome { scores, sweep, slots: setting.slots, readout, seconds: start.elapsed().as_secs_f64() };
    let reduction =
        matches!(stream, StreamKind::Omniglot | StreamKind::Imbalance).then_some(subject.settings.reduction);
    let source = Source { name: subject.name, stream: Some((stream, args.split)), reduction };
    report(args, &source, &outcome)
}

/// Scores what another program has embedded. Its β was not learned with our memory, so the sweep is over similarities.
fn run_embeddings(args: &EvalArgs, start: Instant) -> Result<()> {
    let Some(path) = &args.embeddings else { return Err(Error::input("there is nothing to score")) };
    let (episodes, dimension) = embedded::read(path)?;
    let config = args.model.config.as_deref();
    let settings = Settings::load(config.is_none().then_some(Preset::Omniglot), config)?;
    let setting = Setting {
        dimension,
        slots: args.slots.map_or(settings.slots, usize::from),
        control: settings.control(),
        rules: settings.rules(),
    };
    let sweep = args.sweep.map_or(Sweep::usual(false), Sweep::from);
    let scores = score(&episodes, &setting, sweep)?;
    let seconds = start.elapsed().as_secs_f64();
    let outcome = Outcome { scores, sweep, slots: setting.slots, readout: None, seconds };
    report(args, &Source { name: file_name(path), stream: None, reduction: None }, &outcome)
}

/// Where embeddings come from.
struct Source {
    name: String,
    stream: Option<(StreamKind, Split)>,
    reduction: Option<Reduction>,
}

/// What an evaluation found.
struct Outcome {
    scores: Scores,
    sweep: Sweep,
    slots: usize,
    readout: Option<Readout>,
    seconds: f64,
}

fn report(args: &EvalArgs, source: &Source, outcome: &Outcome) -> Result<()> {
    let Outcome { scores, sweep, slots, readout, seconds } = outcome;
    let &Source { ref name, stream, reduction } = source;
    if args.json {
        let mut line = json!({
            "model": name, "stream": stream.map(|(stream, _)| stream.to_string()),
            "split": stream.map(|(_, split)| split.to_string()),
            "reduction": reduction, "slots": slots,
            "episodes": scores.episodes, "frames": scores.frames, "sweep": sweep_name(*sweep),
            "ami": scores.ami, "ami_error": scores.ami_error,
            "threshold": scores.threshold, "beta": scores.beta,
            "ap": scores.ap, "ap_error": scores.ap_error,
            "categories": scores.categories, "classes": scores.classes, "seconds": seconds,
        });
        if let (Some(protocol), Some(found)) = (args.readout, readout) {
            line["readout"] = json!(protocol.to_string());
            line["neighbours"] = json!(found.neighbours);
            line["knn"] = json!(found.knn.0);
            line["knn_error"] = json!(found.knn.1);
            line["linear"] = json!(found.linear.0);
            line["linear_error"] = json!(found.linear.1);
            line["linear_rate"] = json!(found.rate);
            line["readout_classes"] = json!(found.classes);
            line["readout_pictures"] = json!(found.asked);
        }
        return super::print(&format!("{line}\n"));
    }
    let percent = |(value, error): (f64, f64)| format!("{:>6.2} ± {:.2} %", 100.0 * value, 100.0 * error);
    let images = match reduction {
        Some(Reduction::Released) => ", images as the paper's released code makes them",
        Some(Reduction::Antialiased) => ", antialiased images (an easier task than the paper's)",
        None => "",
    };
    let of = stream.map_or(String::new(), |(stream, split)| format!(" of {stream}, {split}"));
    let mut text = format!(
        "{name} on {} episodes ({} frames){of}{images}\n\
         AMI         {}   sweep {}: threshold {:.3}, β {:.3}; {:.1} categories for {:.1} classes in {slots} slots\n\
         AP          {}\n",
        scores.episodes,
        scores.frames,
        percent((scores.ami, scores.ami_error)),
        sweep_name(*sweep),
        scores.threshold,
        scores.beta,
        scores.categories,
        scores.classes,
        percent((scores.ap, scores.ap_error)),
    );
    if let (Some(protocol), Some(found)) = (args.readout, readout) {
        text.push_str(&format!(
            "{:<12}{}   of {} classes, {} pictures, read-out {protocol}\nlinear      {}   rate {}\n",
            format!("{}-NN", found.neighbours),
            percent(found.knn),
            found.classes,
            found.asked,
            percent(found.linear),
            found.rate,
        ));
    }
    super::print(&text)
}

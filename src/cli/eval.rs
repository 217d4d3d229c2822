//! `oupn-edge eval`: an encoder scored on labelled episodes, as the paper scores it.
//!
//! `--json` prints one line: `model`, `stream`, `split`, `episodes`, `frames`, `ami`, `ami_error`, `threshold`, `beta`, `ap`,
//! `ap_error`, `categories` and `classes` (means over the episodes), `seconds`, and with `--readout` `knn`, `knn_error`,
//! `linear`, `linear_error` and `readout_classes`. Scores are fractions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use serde_json::json;

use crate::config::Settings;
use crate::encoder::Weights;
use crate::encoder::inference::Folded;
use crate::encoder::plan::Shape;
use crate::eval::embed::{Embed, Encoder, embed_episodes};
use crate::eval::episodes::{Scores, Setting, Sweep, score};
use crate::eval::frozen::{Frozen, FrozenKind};
use crate::eval::{LinearReadout, NearestNeighbours};
use crate::learner::saved::learned_control;
use crate::memory::Control;
use crate::streams::{ImageSet, LabelledSet, Split, StreamKind};
use crate::{Error, Result};

#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    #[command(flatten)]
    pub(super) model: ModelArgs,
    /// What is measured on
    #[arg(long, value_enum)]
    pub(super) stream: StreamKind,
    /// Folder of the stream's data
    #[arg(long, value_name = "DIR")]
    pub(super) data: Option<PathBuf>,
    /// Part of the data
    #[arg(long, value_enum, default_value = "test")]
    pub(super) split: Split,
    /// Episodes to score
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    episodes: u16,
    /// How the threshold of the AMI is chosen [default: first-ten, or similarity if β was never learned]
    #[arg(long, value_enum)]
    sweep: Option<SweepArg>,
    /// Also a k-NN and a linear read-out of the classes: half of each class's pictures are labelled, half are asked for
    #[arg(long)]
    readout: bool,
    /// Neighbours that vote in the k-NN read-out
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    neighbours: u16,
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
    /// Weights with their model card, and 1/τ, β, γ if they were learned
    #[arg(long, value_name = "FILE", required_unless_present = "encoder")]
    pub(super) model: Option<PathBuf>,
    /// A published encoder instead: frozen:resnet18, frozen:mobilenetv4 or frozen:dinov2
    #[arg(long, value_name = "NAME", conflicts_with = "model", requires = "weights")]
    encoder: Option<FrozenKind>,
    /// Its weights, in a safetensors file
    #[arg(long, value_name = "FILE", requires = "encoder")]
    weights: Option<PathBuf>,
    /// Settings file over the stream's preset: the memory's rules, the size of the pictures
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Side of the square pictures that the encoder is shown [default: the setting's, or what a frozen one wants]
    #[arg(long, value_parser = clap::value_parser!(u16).range(16..=1024))]
    size: Option<u16>,
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
        let settings = stream.settings(args.config.as_deref())?;
        let square = |side: usize, channels| Shape { height: side, width: side, channels };
        if let (Some(kind), Some(weights)) = (args.encoder, &args.weights) {
            // Colour streams are shown at their best; the others have one size.
            let shape = match settings.image_channels {
                3 => square(args.size.map_or(kind.side(), usize::from), 3),
                channels => Shape { height: settings.image_height, width: settings.image_width, channels },
            };
            let encoder = Box::new(Frozen::read(kind, weights)?);
            return Ok(Self { name: file_name(weights), encoder, control: None, settings, shape });
        }
        let Some(path) = &args.model else { return Err(Error::input("no --model was given")) };
        let Weights { card, parameters, statistics } = Weights::read(path)?;
        let (height, width) = match args.size {
            Some(side) => (usize::from(side), usize::from(side)),
            None => (settings.image_height, settings.image_width),
        };
        let plan = card.plan(height, width, 0.1)?;
        let folded = Arc::new(Folded::new(&plan, &parameters, &statistics)?);
        let shape = plan.image;
        let encoder = Box::new(Encoder { folded, scaling: card.input });
        Ok(Self { name: file_name(path), encoder, control: learned_control(path)?, settings, shape })
    }

    /// What the memory goes by on episodes of this length.
    pub(super) fn setting(&self, longest: usize) -> Setting {
        Setting {
            dimension: self.encoder.dimension(),
            slots: self.settings.slots.max(longest),
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
    let subject = Subject::open(&args.model, args.stream)?;
    let labelled =
        args.stream.labelled(args.data.as_deref(), args.split, &subject.settings, subject.shape, usize::from(args.episodes))?;
    let LabelledSet { set, episodes, longest } = &labelled;
    let embedded = embed_episodes(&*subject.encoder, set, episodes)?;
    let usual = if subject.control.is_some() { Sweep::FirstTen } else { Sweep::Similarity };
    let sweep = args.sweep.map_or(usual, Sweep::from);
    let scores = score(&embedded, &subject.setting(*longest), sweep)?;
    let readout = match args.readout {
        true if args.stream == StreamKind::Rooms => {
            return Err(Error::input(
                "--readout needs pictures that have classes: `rooms` has walks; leave it out",
            ));
        }
        true => Some(read_out(&*subject.encoder, set, usize::from(args.neighbours))?),
        false => None,
    };
    report(args, &subject, &scores, readout.as_ref(), start.elapsed().as_secs_f64())
}

/// Accuracies of the two read-outs, with their standard errors.
struct Readout {
    knn: (f64, f64),
    linear: (f64, f64),
    classes: usize,
}

/// Epochs of the linear read-out.
const EPOCHS: usize = 20;

/// Every other picture of a class is labelled, the rest are asked for.
fn read_out(encoder: &dyn Embed, set: &ImageSet, neighbours: usize) -> Result<Readout> {
    let (mut known, mut asked) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for (number, class) in set.classes().iter().enumerate() {
        for (place, image) in class.images.clone().enumerate() {
            let part = if place % 2 == 0 { &mut known } else { &mut asked };
            part.0.push(image);
            part.1.push(number);
        }
    }
    if asked.0.is_empty() {
        return Err(Error::input("a read-out needs classes of at least two pictures"));
    }
    let dimension = encoder.dimension();
    let (rows, queries) = (encoder.embed(set, &known.0)?, encoder.embed(set, &asked.0)?);
    let accuracy = |found: &[usize]| {
        let right = found.iter().zip(&asked.1).filter(|(found, truth)| found == truth).count();
        let share = right as f64 / found.len().max(1) as f64;
        (share, (share * (1.0 - share) / found.len().max(1) as f64).sqrt())
    };
    let nearest = NearestNeighbours::new(&rows, dimension, &known.1)?.classify(&queries, neighbours)?;
    let classes = set.classes().len();
    let linear = LinearReadout::train(&rows, dimension, &known.1, classes, EPOCHS, 0)?;
    Ok(Readout { knn: accuracy(&nearest), linear: accuracy(&linear.classify(&queries)), classes })
}

fn report(
    args: &EvalArgs,
    subject: &Subject,
    scores: &Scores,
    readout: Option<&Readout>,
    seconds: f64,
) -> Result<()> {
    if args.json {
        let mut line = json!({
            "model": subject.name, "stream": args.stream.to_string(), "split": args.split.to_string(),
            "episodes": scores.episodes, "frames": scores.frames,
            "ami": scores.ami, "ami_error": scores.ami_error,
            "threshold": scores.threshold, "beta": scores.beta,
            "ap": scores.ap, "ap_error": scores.ap_error,
            "categories": scores.categories, "classes": scores.classes, "seconds": seconds,
        });
        if let Some(Readout { knn, linear, classes }) = readout {
            line["knn"] = json!(knn.0);
            line["knn_error"] = json!(knn.1);
            line["linear"] = json!(linear.0);
            line["linear_error"] = json!(linear.1);
            line["readout_classes"] = json!(classes);
        }
        return super::print(&format!("{line}\n"));
    }
    let percent = |(value, error): (f64, f64)| format!("{:>6.2} ± {:.2} %", 100.0 * value, 100.0 * error);
    let mut text = format!(
        "{} on {} episodes ({} frames) of {}, {}\n\
         AMI         {}   threshold {:.3}, β {:.3}; {:.1} categories for {:.1} classes\n\
         AP          {}\n",
        subject.name,
        scores.episodes,
        scores.frames,
        args.stream,
        args.split,
        percent((scores.ami, scores.ami_error)),
        scores.threshold,
        scores.beta,
        scores.categories,
        scores.classes,
        percent((scores.ap, scores.ap_error)),
    );
    if let Some(Readout { knn, linear, classes }) = readout {
        text.push_str(&format!(
            "{}-NN        {}   of {classes} classes\nlinear      {}\n",
            args.neighbours,
            percent(*knn),
            percent(*linear)
        ));
    }
    super::print(&text)
}

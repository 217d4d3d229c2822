//! `oupn-edge inspect encoder`: an encoder's features, statistics and gradients on tensors from a file.
//!
//! The reference is the default, because it answers the question that a comparison with another implementation asks.
//! What computes in f32 differs from it by rounding, 1e-5 of the features; and where rounding carries an activation
//! across a bend of ReLU6, that pixel's gradient comes or goes, which can be some percent of a gradient. PyTorch's f32 does
//! the same.
//!
//! Input and output are those of [`oupn_edge::encoder::probe`]. If the input file also holds what should come out, under the
//! same names, the summary says how far the outcome is from it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::bytes::parse_bytes;
use oupn_edge::Result;
use oupn_edge::encoder::device::DeviceChoice;
use oupn_edge::encoder::fused::Fused;
use oupn_edge::encoder::host_ops::HostOps;
use oupn_edge::encoder::probe::{Probe, relative_difference};
use oupn_edge::encoder::stepwise::StepwiseEncoder;
use oupn_edge::encoder::{TrainingEncoder, TrainingOptions};
use oupn_edge::tensors::{self, Tensor, TensorFile};

#[derive(Debug, Args)]
pub(super) struct EncoderArgs {
    /// Parameters, images and settings: a safetensors file with `in.*` tensors
    #[arg(long, value_name = "FILE.safetensors")]
    tensors: PathBuf,
    /// Where to write the `eval.*`, `train.*` and `grad.*` tensors
    #[arg(short, long = "output", alias = "out", value_name = "FILE.safetensors")]
    out: PathBuf,
    /// What computes them
    #[arg(long, value_enum, default_value_t = Executor::Reference)]
    executor: Executor,
    /// Memory that may be used for values and gradients; decides how many frames are worked on at a time
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    memory_budget: Option<usize>,
    /// Print the summary as one line of JSON
    #[arg(long)]
    json: bool,
}

/// The executors that can be put to the test.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Executor {
    /// Plain loops in f64: the mathematics, free of rounding
    Reference,
    /// The same loops with values stored in f32
    Stepwise,
    /// What trains on a CPU, in f32
    Fused,
    /// What trains on an NVIDIA GPU, in f32; only in a program that was built for it
    Cuda,
}

impl Executor {
    fn encoder(self, probe: &Probe, options: TrainingOptions) -> Result<Box<dyn TrainingEncoder>> {
        let plan = Arc::clone(&probe.plan);
        Ok(match self {
            Self::Reference => Box::new(StepwiseEncoder::new(plan, HostOps::<f64>::default(), options)?),
            Self::Stepwise => Box::new(StepwiseEncoder::new(plan, HostOps::<f32>::default(), options)?),
            Self::Fused => Box::new(Fused::new(plan, options, 0)?),
            Self::Cuda => DeviceChoice::Cuda.open()?.training_encoder(plan, options, 0)?,
        })
    }
}

pub(super) fn run(args: &EncoderArgs) -> Result<()> {
    let file = TensorFile::read(&args.tensors)
        .map_err(|error| error.expecting("a safetensors file with `in.*` tensors"))?;
    let probe = Probe::read(&file)?;
    let mut options = TrainingOptions::default();
    options.memory_budget = args.memory_budget.unwrap_or(options.memory_budget);
    let outcome = probe.run(args.executor.encoder(&probe, options)?.as_mut())?;
    tensors::write(&args.out, &outcome, file.metadata().clone())?;
    super::print(&summary(args, &probe, &outcome, &file))
}

/// The largest difference of any tensor from the one of that name in the input file, how many there are, and its name.
///
/// Differences are relative to the tensor's own size, or to a ten-thousandth of the largest of its kind (`grad.`, `train.`) if it
/// is smaller: gradients that vanish are rounding noise on both sides.
fn comparison<'o>(outcome: &'o BTreeMap<String, Tensor>, file: &TensorFile) -> Option<(f64, usize, &'o str)> {
    let kind = |name: &str| name.split('.').next().map(str::to_owned).unwrap_or_default();
    let size =
        |tensor: &Tensor| tensor.values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    let expected: Vec<_> = outcome
        .iter()
        .filter_map(|(name, tensor)| Some((name, tensor, file.get(name)?)))
        .filter(|(_, tensor, expected)| tensor.shape == expected.shape)
        .collect();
    let mut largest = BTreeMap::<String, f64>::new();
    for (name, _, right) in &expected {
        let most = largest.entry(kind(name)).or_default();
        *most = most.max(size(right));
    }
    let differences = expected.iter().map(|(name, tensor, right)| {
        let floor = 1e-4 * largest[&kind(name)] / size(right).max(f64::MIN_POSITIVE);
        (relative_difference(&tensor.values, &right.values) / floor.max(1.0), name.as_str())
    });
    let (difference, name) = differences.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some((difference, expected.len(), name))
}

fn summary(
    args: &EncoderArgs,
    probe: &Probe,
    outcome: &BTreeMap<String, Tensor>,
    file: &TensorFile,
) -> String {
    let norm = |name: &str| {
        let values = outcome.get(name).map(|tensor| tensor.values.as_slice()).unwrap_or_default();
        values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt()
    };
    let (eval, train, images) = (norm("eval.features"), norm("train.features"), norm("grad.images"));
    let comparison = comparison(outcome, file);
    let executor = args.executor.to_possible_value().map(|value| value.get_name().to_owned());
    let executor = executor.unwrap_or_default();
    let image = probe.plan.image;
    if args.json {
        let mut summary = json!({
            "encoder": probe.architecture.to_string(), "executor": executor, "images": probe.count,
            "height": image.height, "width": image.width, "features": probe.plan.features,
            "tensors": outcome.len(), "eval.features.norm": eval, "train.features.norm": train,
            "grad.images.norm": images, "out": args.out,
        });
        if let Some((difference, compared, name)) = comparison {
            summary["compared"] = json!(compared);
            summary["largest_difference"] = json!({ "tensor": name, "relative": difference });
        }
        return format!("{summary}\n");
    }
    let compared = comparison.map_or_else(String::new, |(difference, compared, name)| {
        format!(
            "compared    {compared} tensors; the largest relative difference is {difference:.1e}, of {name}\n"
        )
    });
    format!(
        "encoder     {}, {} padding, epsilon {}, {executor} executor\n\
         images      {} of {}×{}\n\
         features    {} each; norm {eval:.6} in evaluation, {train:.6} in training\n\
         gradient    of the images has norm {images:.6}\n\
         {compared}written     {} tensors to {}\n",
        probe.architecture,
        probe.plan.padding,
        probe.plan.batch_norm.epsilon,
        probe.count,
        image.width,
        image.height,
        probe.plan.features,
        outcome.len(),
        args.out.display()
    )
}

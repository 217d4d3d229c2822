//! Evaluation: one frame in, its features out, as fast as the processor can.
//!
//! Batch norm with fixed statistics is a scale and a shift, so [`Folded`] works it into the weights once and the frame never
//! meets it. An [`Inference`] holds every buffer that a frame needs and its own threads: encoding a frame allocates nothing
//! and does not wait for the learner's work.
//!
//! Values lie in panels (see [`crate::kernels::gemm`]). An expansion and the depthwise convolution after it run together,
//! panel by panel and band by band, so that the widest values of MobileNet never leave the cache.

mod steps;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex};

use self::steps::{Step, StepKind, steps};
use super::plan::{Activation, ConvKind, Plan, Pooling, Readout, Unit};
use super::{Parameters, Statistics};
use crate::kernels::Aligned;
use crate::kernels::gemm::{PANEL, pack, padded, panels};
use crate::kernels::patches::to_panels;
use crate::kernels::pool;
use crate::{Error, Result};

/// An encoder with fixed statistics: weights with batch norm folded in. Immutable, to be shared.
#[derive(Debug)]
pub struct Folded {
    plan: Plan,
    units: Vec<FoldedUnit>,
}

#[derive(Debug)]
struct FoldedUnit {
    /// As the kernel of the unit's convolution reads them.
    weights: Aligned,
    /// A number for each channel, filled up to whole panels.
    shift: Vec<f32>,
    /// What the activation lets through.
    range: (f32, f32),
}

impl Folded {
    /// Folds the running statistics into the weights.
    pub fn new(plan: &Plan, parameters: &Parameters, statistics: &Statistics) -> Result<Self> {
        let fits = parameters.specs() == &**plan.parameter_specs()
            && statistics.specs() == &**plan.statistic_specs();
        if !fits {
            return Err(Error::input("the weights are those of another encoder"));
        }
        let units = plan.units.iter().map(|unit| fold(plan, unit, parameters, statistics)).collect();
        Ok(Self { plan: plan.clone(), units })
    }

    /// What is computed.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

fn fold(plan: &Plan, unit: &Unit, parameters: &Parameters, statistics: &Statistics) -> FoldedUnit {
    let (gamma, beta) = (parameters.tensor(unit.gamma), parameters.tensor(unit.beta));
    let (mean, variance) = (statistics.tensor(unit.mean), statistics.tensor(unit.variance));
    // In f64: the product of many such factors reaches the features.
    let epsilon = f64::from(plan.batch_norm.epsilon);
    let scale: Vec<f64> =
        gamma.iter().zip(variance).map(|(g, v)| f64::from(*g) / (f64::from(*v) + epsilon).sqrt()).collect();
    let mut shift = vec![0.0; padded(gamma.len())];
    for (channel, shift) in shift.iter_mut().take(gamma.len()).enumerate() {
        *shift = (f64::from(beta[channel]) - f64::from(mean[channel]) * scale[channel]) as f32;
    }
    let weight = parameters.tensor(unit.weight);
    let (inputs, outputs) = (unit.in_shape.channels, unit.conv_shape.channels);
    let folded = |channel: usize, rest: usize| {
        let per_channel = weight.len() / outputs;
        (f64::from(weight[channel * per_channel + rest]) * scale[channel]) as f32
    };
    let weights = match unit.conv {
        ConvKind::Pointwise => pack(inputs, outputs, |k, n| folded(n, k)),
        ConvKind::Depthwise => pack(9, outputs, |tap, n| folded(n, tap)),
        // Images are read as they lie, channels last; values in panels. Either way a row of the product is made of whole
        // lines of the window, three pixels each.
        ConvKind::Full => {
            let (stored, pieces) = if unit.input == 0 { (inputs, 3) } else { (PANEL, 3 * panels(inputs)) };
            pack(pieces * 3 * stored, outputs, |k, n| {
                let (piece, within) = (k / (3 * stored), k % (3 * stored));
                let (panel, line) = (piece / 3, piece % 3);
                let (column, channel) = (within / stored, panel * stored + within % stored);
                if channel < inputs { folded(n, channel * 9 + line * 3 + column) } else { 0.0 }
            })
        }
    };
    let range = match unit.activation {
        Activation::None => (f32::NEG_INFINITY, f32::INFINITY),
        Activation::Relu => (0.0, f32::INFINITY),
        Activation::Relu6 => (0.0, 6.0),
    };
    FoldedUnit { weights, shift, range }
}

/// Buffers and threads to encode frames with.
pub struct Inference {
    folded: Arc<Folded>,
    steps: Vec<Step>,
    /// Values share these: a value's place is free again after its last reader.
    buffers: Vec<Aligned>,
    /// Values before their pool.
    unpooled: Aligned,
    /// The input of a full convolution with its border of zeros.
    bordered: Aligned,
    /// For each thread, a band of one panel with its border of zeros.
    bands: Vec<Mutex<Aligned>>,
    /// The shares of the last value's pixels.
    shares: Vec<f32>,
    pool: Arc<rayon::ThreadPool>,
}

impl Inference {
    /// An encoder of frames on `threads` threads (0 takes as many as the machine has).
    pub fn new(folded: Arc<Folded>, threads: usize) -> Result<Self> {
        let threads =
            if threads > 0 { threads } else { std::thread::available_parallelism().map_or(1, usize::from) };
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|index| format!("infer-{index}"))
            .build()
            .map_err(|error| Error::Device(format!("{threads} threads cannot be had: {error}")))?;
        let (steps, sizes) = steps(&folded.plan, threads);
        let most = |size: fn(&Step) -> usize| Aligned::zeros(steps.iter().map(size).max().unwrap_or(0));
        let bands = (0..threads).map(|_| Mutex::new(most(|step| step.band))).collect();
        Ok(Self {
            buffers: sizes.iter().map(|size| Aligned::zeros(*size)).collect(),
            unpooled: most(|step| step.unpooled),
            bordered: most(|step| step.bordered),
            bands,
            shares: shares_of(&folded.plan),
            pool: Arc::new(pool),
            steps,
            folded,
        })
    }

    /// Goes on with other weights of the same encoder.
    pub fn replace(&mut self, folded: Arc<Folded>) -> Result<()> {
        let shapes = |plan: &Plan| {
            plan.units
                .iter()
                .map(|unit| (unit.conv, unit.in_shape, unit.out_shape, unit.pad))
                .collect::<Vec<_>>()
        };
        let same = shapes(&folded.plan) == shapes(&self.folded.plan);
        if !same || folded.plan.readout != self.folded.plan.readout {
            return Err(Error::input("the weights are those of another encoder"));
        }
        self.folded = folded;
        Ok(())
    }

    /// The features of one image (height × width × channels, scaled as the weights want it).
    pub fn embed(&mut self, image: &[f32], features: &mut [f32]) -> Result<()> {
        let plan = &self.folded.plan;
        if image.len() != plan.image.len() || features.len() != plan.features {
            return Err(Error::input(format!(
                "an image of {} numbers for {} features; this encoder reads {} and makes {}",
                image.len(),
                features.len(),
                plan.image.len(),
                plan.features
            )));
        }
        Arc::clone(&self.pool).install(|| self.run(image));
        self.read_out(features);
        Ok(())
    }

    fn run(&mut self, image: &[f32]) {
        for step in &self.steps {
            let mut target = std::mem::take(&mut self.buffers[step.target]);
            let input = step.source.map_or(image, |source| &self.buffers[source]);
            let residual = step.residual.map(|residual| &self.buffers[residual][..]);
            match &step.kind {
                StepKind::Full(border) => {
                    border.fill(input, &mut self.bordered);
                    step.multiply(&self.folded, &self.bordered, residual, &mut self.unpooled, &mut target);
                }
                StepKind::PointwiseOnImage => {
                    to_panels(input, self.folded.plan.image.channels, &mut self.bordered);
                    step.multiply(&self.folded, &self.bordered, residual, &mut self.unpooled, &mut target);
                }
                StepKind::Pointwise => {
                    step.multiply(&self.folded, input, residual, &mut self.unpooled, &mut target);
                }
                StepKind::Depthwise(border) => {
                    step.filter(&self.folded, border, input, &self.bands, &mut target)
                }
            }
            self.buffers[step.target] = target;
        }
    }

    fn read_out(&self, features: &mut [f32]) {
        let Some(last) = self.steps.last() else { return };
        let shape = self.folded.plan.last_shape();
        let value = &self.buffers[last.target][..padded(shape.channels) * shape.pixels()];
        match self.folded.plan.readout {
            Readout::Pool(pooling) => {
                let panels = value.chunks_exact(shape.pixels() * PANEL);
                for (panel, features) in panels.zip(features.chunks_mut(PANEL)) {
                    let everything = (f32::NEG_INFINITY, f32::INFINITY);
                    let mean = match pooling {
                        Pooling::Mean => pool::mean(panel, &[1.0; PANEL], &[0.0; PANEL], everything),
                        Pooling::Centre => pool::weighted_sum(panel, &self.shares),
                    };
                    features.copy_from_slice(&mean[..features.len()]);
                }
            }
            Readout::Flatten => {
                for (index, feature) in features.iter_mut().enumerate() {
                    let (pixel, channel) = (index / shape.channels, index % shape.channels);
                    *feature = value[(channel / PANEL * shape.pixels() + pixel) * PANEL + channel % PANEL];
                }
            }
        }
    }
}

/// The shares of the pixels of the last value in a feature.
fn shares_of(plan: &Plan) -> Vec<f32> {
    match plan.readout {
        Readout::Pool(pooling) => pooling.shares(plan.last_shape()),
        Readout::Flatten => Vec::new(),
    }
}

impl std::fmt::Debug for Inference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inference").field("threads", &self.bands.len()).finish_non_exhaustive()
    }
}

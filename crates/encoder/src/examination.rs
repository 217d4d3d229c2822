//! What whoever has a GPU should send back: whether it computes rightly, and where the time of a window goes.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::gpu_ops::gpu_encoder;
use super::host_ops::HostOps;
use super::init::random_parameters;
use super::probe::relative_difference;
use super::stepwise::StepwiseEncoder;
use super::warm_up::{Tolerance, window};
use super::{Architecture, BatchNorm, NormMode, Padding, TrainingEncoder, TrainingOptions};
use crate::Result;
use crate::cuda::timed::{Spendings, Timed};
use crate::cuda::{Element, Gpu};

/// The window that is timed: MobileNet-V2 on so many square images.
#[derive(Clone, Copy, Debug)]
pub struct WindowSize {
    /// Width of the network.
    pub width: f64,
    /// Height and width of the images.
    pub side: usize,
    /// Images.
    pub images: usize,
}

/// How far the device is from plain loops in f64 on the processor, for one network, relative to the size of what is compared.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// The network and the kind of number that values are stored in.
    pub network: String,
    /// Of the features.
    pub features: f64,
    /// Of all gradients together.
    pub gradients: f64,
    /// Whether both are what rounding makes.
    pub agrees: bool,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Examination {
    /// Every network in every kind of number.
    pub networks: Vec<Agreement>,
    /// Seconds of a forward and a backward pass over the window, as a recording makes them; the better of two.
    pub seconds: f64,
    /// Where they go, with a wait after every call.
    pub spendings: Spendings,
}

const NORM: BatchNorm = BatchNorm { epsilon: 1e-3, momentum: 0.1 };

/// Examines the device that `open` opens, again for every network.
///
/// # Errors
/// If the device fails, or the window cannot be.
pub fn examine<G>(mut open: impl FnMut() -> Result<G>, size: WindowSize) -> Result<Examination>
where
    G: Gpu<Buffer: Send> + Send + 'static,
{
    let networks = [
        ("MobileNet-V2 0.35", Architecture::MobileNetV2 { width: 0.35 }, 48),
        ("ResNet-12", Architecture::ResNet12 { channels: 3, strides: [2, 2, 2, 2] }, 16),
        ("Conv-4", Architecture::conv4(3, false), 32),
    ];
    let elements = [(Element::F32, Tolerance::SINGLE), (Element::F16, Tolerance::HALF)];
    let mut agreements = Vec::new();
    for (name, architecture, side) in networks {
        let plan = Arc::new(architecture.plan(side, side, Padding::Same, NORM)?);
        let options = TrainingOptions::default();
        let mut host = StepwiseEncoder::new(Arc::clone(&plan), HostOps::<f64>::default(), options)?;
        let right = window(&plan, &mut host, NormMode::Running)?;
        for (element, tolerance) in elements {
            let mut device = gpu_encoder(Arc::clone(&plan), open()?, element, options)?;
            let found = window(&plan, device.as_mut(), NormMode::Running)?;
            let (features, gradients) =
                (relative_difference(&found.0, &right.0), relative_difference(&found.1, &right.1));
            agreements.push(Agreement {
                network: format!("{name}, {}", element.suffix()),
                features,
                gradients,
                // A difference that is not a number is no agreement.
                agrees: features < tolerance.features && gradients < tolerance.gradients,
            });
        }
    }

    let mut seconds = f64::INFINITY;
    let mut plain = Window::new(size, open()?)?;
    plain.run()?;
    for _ in 0..2 {
        let start = Instant::now();
        plain.run()?;
        seconds = seconds.min(start.elapsed().as_secs_f64());
    }
    drop(plain);
    let (timed, spendings) = Timed::new(open()?)?;
    let mut timed = Window::new(size, timed)?;
    timed.run()?;
    let spendings = spendings.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Examination { networks: agreements, seconds, spendings })
}

/// A window to be timed. Its numbers do not matter.
struct Window {
    size: WindowSize,
    encoder: Box<dyn TrainingEncoder + Send>,
    plan: Arc<super::Plan>,
    parameters: super::Parameters,
    gradients: super::Parameters,
    images: Vec<f32>,
    features: Vec<f32>,
}

impl Window {
    fn new<G>(size: WindowSize, gpu: G) -> Result<Self>
    where
        G: Gpu<Buffer: Send> + Send + 'static,
    {
        let architecture = Architecture::MobileNetV2 { width: size.width };
        let plan = Arc::new(architecture.plan(size.side, size.side, Padding::Same, NORM)?);
        Ok(Self {
            size,
            encoder: gpu_encoder(Arc::clone(&plan), gpu, Element::F32, TrainingOptions::default())?,
            parameters: random_parameters(architecture, &plan, 0),
            gradients: plan.zero_parameters(),
            images: (0..size.images * plan.image.len()).map(|at| (at % 251) as f32 / 250.0).collect(),
            features: vec![0.0; size.images * plan.features],
            plan,
        })
    }

    fn run(&mut self) -> Result<()> {
        let Self { size, encoder, plan, parameters, gradients, images, features } = self;
        let mut statistics = plan.fresh_statistics();
        encoder.forward(parameters, &mut statistics, images, size.images, NormMode::Window, features)?;
        encoder.backward(parameters, images, features, gradients, None)
    }
}

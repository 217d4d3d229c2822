//! The encoder as candle sees it: a module with named variables, tensors in, tensors out, and a gradient.
//!
//! Inside, the whole network is one operation ([`Session::encode`]), computed by an executor of its plan. An autograd graph
//! of single layers would have to hold every layer's values of every image; the executor computes most of them again, which
//! is what makes statistics over a whole window fit into memory. Around it candle goes on as usual: own heads, own losses,
//! its optimisers, its files.
//!
//! Tensors may lie on any device of candle's; the executor decides for itself where it computes, and is handed them on the
//! host.

mod lent;
mod op;
mod session;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor, Var};
use candle_nn::{Init, ModuleT, VarBuilder, VarMap, init::DEFAULT_KAIMING_NORMAL};
pub use lent::Lent;
pub use session::Session;

use super::fallback::Executor;
use super::parameters::FlatTensors;
use super::{NormMode, Parameters, Plan, Statistics, TensorSpec};

/// MobileNet-V2, ResNet-12 or Conv-4 as a candle module: images `[N, channels, height, width]`, scaled as the weights want
/// them, become features `[N, `[`Plan::features`]`]`.
///
/// In training ([`ModuleT::forward_t`] with `true`) batch norm uses the statistics of all images of the call, and the running
/// ones move towards them; otherwise it uses the running ones. Gradients can be had in both cases.
///
/// ```
/// use std::sync::Arc;
/// use candle_core::{DType, Device, Tensor};
/// use candle_nn::{ModuleT, VarBuilder, VarMap};
/// use oupn_encoder::{Architecture, BatchNorm, Fused, Padding, TrainingOptions, candle::Encoder};
///
/// let norm = BatchNorm { epsilon: 1e-5, momentum: 0.1 };
/// let plan = Arc::new(Architecture::MobileNetV2 { width: 0.35 }.plan(32, 32, Padding::Same, norm)?);
/// let executor = Box::new(Fused::new(Arc::clone(&plan), TrainingOptions::default(), 0)?);
/// let map = VarMap::new();
/// let encoder = Encoder::new(plan, executor, &VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu))?;
/// let images = Tensor::rand(0f32, 1.0, (4, 3, 32, 32), &Device::Cpu)?;
/// let gradients = encoder.forward_t(&images, true)?.sqr()?.mean_all()?.backward()?;
/// let stem = &map.data().lock().unwrap()["features.0.0.weight"];
/// assert_eq!(gradients.get(stem).unwrap().dims(), [16, 3, 3, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Encoder {
    session: Session,
    weights: Vec<Tensor>,
    running: Vec<Var>,
}

impl Encoder {
    /// An encoder whose variables come from the builder, under PyTorch's names. A builder that makes what it lacks gets the
    /// usual random start; [`var_map`] has one with given numbers.
    ///
    /// # Errors
    /// If a variable is not there, or of another shape or type than f32.
    pub fn new(plan: Arc<Plan>, executor: Executor, variables: &VarBuilder<'_>) -> Result<Self> {
        let get = |spec: &TensorSpec| {
            let init = match spec.shape.len() {
                1 if spec.name.ends_with("weight") || spec.name.ends_with("running_var") => Init::Const(1.0),
                1 => Init::Const(0.0),
                _ => DEFAULT_KAIMING_NORMAL,
            };
            let tensor = variables.get_with_hints(spec.shape.as_slice(), &spec.name, init)?;
            match tensor.dtype() {
                DType::F32 => Ok(tensor),
                other => candle_core::bail!("{} is {other:?}; the encoder computes in f32", spec.name),
            }
        };
        let weights = plan.parameter_specs().iter().map(get).collect::<Result<_>>()?;
        let running = plan.statistic_specs().iter().map(|spec| Var::from_tensor(&get(spec)?));
        let running = running.collect::<Result<_>>()?;
        Ok(Self { weights, running, session: Session::new(plan, executor) })
    }

    /// The network.
    pub fn plan(&self) -> &Arc<Plan> {
        self.session.plan()
    }

    /// The weights as they are now.
    ///
    /// # Errors
    /// If a device cannot be read.
    pub fn parameters(&self) -> Result<Parameters> {
        let mut parameters = self.plan().zero_parameters();
        gather(self.weights.iter(), &mut parameters)?;
        Ok(parameters)
    }

    /// The running statistics as they are now.
    ///
    /// # Errors
    /// If a device cannot be read.
    pub fn statistics(&self) -> Result<Statistics> {
        let mut statistics = self.plan().fresh_statistics();
        gather(self.running.iter().map(Var::as_tensor), &mut statistics)?;
        Ok(statistics)
    }
}

impl ModuleT for Encoder {
    fn forward_t(&self, images: &Tensor, train: bool) -> Result<Tensor> {
        let flat = self.weights.iter().map(Tensor::flatten_all).collect::<Result<Vec<_>>>()?;
        let theta = Tensor::cat(&flat, 0)?;
        let mut statistics = self.statistics()?;
        let norm = if train { NormMode::Window } else { NormMode::Running };
        let features = self.session.encode(images, &theta, &mut statistics, norm)?;
        if train {
            for (index, var) in self.running.iter().enumerate() {
                let moved = Tensor::from_slice(statistics.tensor(index), var.shape(), var.device())?;
                var.set(&moved)?;
            }
        }
        Ok(features)
    }
}

/// Variables with these numbers, by name.
///
/// # Errors
/// If the device has no room for them.
pub fn var_map(parameters: &Parameters, statistics: &Statistics, device: &Device) -> Result<VarMap> {
    let map = VarMap::new();
    put(parameters, &map, device)?;
    put(statistics, &map, device)?;
    Ok(map)
}

fn put<Role>(from: &FlatTensors<Role>, map: &VarMap, device: &Device) -> Result<()> {
    let mut data = map.data().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (index, TensorSpec { name, shape, .. }) in from.specs().iter().enumerate() {
        let var = Var::from_slice(from.tensor(index), shape.as_slice(), device)?;
        data.insert(name.clone(), var);
    }
    Ok(())
}

fn gather<'a, Role>(from: impl Iterator<Item = &'a Tensor>, to: &mut FlatTensors<Role>) -> Result<()> {
    for (index, tensor) in from.enumerate() {
        let tensor = tensor.flatten_all()?.to_device(&Device::Cpu)?;
        read(&tensor, |values| to.tensor_mut(index).copy_from_slice(values))?;
    }
    Ok(())
}

/// Looks at the numbers of a tensor of f32 on the host that lie one after another, where they are.
///
/// # Errors
/// If it is another tensor.
pub fn read<T>(tensor: &Tensor, look: impl FnOnce(&[f32]) -> T) -> Result<T> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        candle_core::Storage::Cpu(storage) => Ok(look(op::numbers(storage, layout)?)),
        _ => candle_core::bail!("a tensor that is not on the host"),
    }
}

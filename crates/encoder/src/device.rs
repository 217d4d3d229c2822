//! Where training runs: on the processor or on a CUDA device, as asked for and as the machine allows.
//!
//! `auto` takes the CUDA device if this program was built with feature `cuda`, one can be opened, and it computes what the
//! processor computes; and the processor otherwise. A program that was built for CUDA says in its log which: a device that
//! runs for days should not stay down over a driver, but nobody should wonder why it is slow. `cuda` insists, and fails
//! where there is none. Once training has begun neither ends over the GPU: the processor takes over
//! ([`fallback`](super::fallback)).

use std::sync::Arc;

use oupn_base::choices;
use serde::{Deserialize, Serialize};

use super::examination::{Examination, WindowSize};
use super::fallback::{Computing, Executor};
use super::{Fused, Plan, TrainingOptions};
#[cfg(any(test, not(feature = "cuda")))]
use crate::Error;
use crate::Result;
#[cfg(feature = "cuda")]
use crate::cuda::driver::CudaGpu;

choices! {
    /// What the user asks for.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum DeviceChoice {
        #[default]
        Auto = "auto": "A CUDA device if there is one, the processor otherwise",
        Cpu = "cpu": "The processor",
        Cuda = "cuda": "A CUDA device, or an error",
    }
}

/// What was found.
#[derive(Debug)]
pub struct ComputeDevice {
    kind: Kind,
    computing: Computing,
}

#[derive(Debug)]
enum Kind {
    Cpu,
    #[cfg(feature = "cuda")]
    Cuda {
        gpu: CudaGpu,
        /// Whether nothing else was asked for.
        insists: bool,
    },
}

/// What the processor is called in messages and in the trace.
const CPU: &str = "the CPU";

impl DeviceChoice {
    /// Opens the device. If it was left open which one, and it is not the GPU that this program was built for, the log
    /// says why.
    pub fn open(self) -> Result<ComputeDevice> {
        let (device, trouble) = self.resolve(open_cuda)?;
        let Some(device) = device else {
            let computing = Computing::new(CPU);
            // Where the program can use a GPU, that it does not matters; where it cannot, nobody asked.
            if let Some(trouble) = trouble.filter(|_| cfg!(feature = "cuda")) {
                fall_back(&computing, &trouble);
            }
            return Ok(ComputeDevice { kind: Kind::Cpu, computing });
        };
        Ok(device)
    }

    /// The decision, apart from what it decides on: the opened device or `None` for the processor, and why.
    fn resolve<D>(self, open_cuda: impl FnOnce(bool) -> Result<D>) -> Result<(Option<D>, Option<String>)> {
        match self {
            Self::Cpu => Ok((None, None)),
            Self::Cuda => open_cuda(true).map(|device| (Some(device), None)),
            Self::Auto => Ok(match open_cuda(false) {
                Ok(device) => (Some(device), None),
                Err(error) => (None, Some(error.to_string())),
            }),
        }
    }
}

/// The processor trains although this program could use a GPU.
fn fall_back(computing: &Computing, reason: &str) {
    log::warn!("device auto: training on the CPU ({reason})");
    computing.change(CPU, reason);
}

impl ComputeDevice {
    /// An executor of this plan on the device; `threads` (0: all) are the processor's.
    ///
    /// A GPU first computes two tiny windows, which must come out as on the processor.
    pub fn training_encoder(
        self,
        plan: Arc<Plan>,
        options: TrainingOptions,
        threads: usize,
    ) -> Result<Executor> {
        match self.kind {
            Kind::Cpu => Ok(Box::new(Fused::new(plan, options, threads)?)),
            #[cfg(feature = "cuda")]
            Kind::Cuda { gpu, insists } => {
                let computing = self.computing;
                let host =
                    move |plan| -> Result<Executor> { Ok(Box::new(Fused::new(plan, options, threads)?)) };
                match on_gpu(&plan, gpu, options, host(Arc::clone(&plan))?) {
                    Ok(device) => {
                        log::info!("training on {}", computing.name());
                        let host = move || host(plan);
                        Ok(Box::new(super::fallback::WithFallback::new(device, host, computing)))
                    }
                    Err(error) if insists => Err(error),
                    Err(error) => {
                        fall_back(&computing, &error.to_string());
                        host(plan)
                    }
                }
            }
        }
    }

    /// What it is called in messages and in the trace.
    pub fn name(&self) -> String {
        self.computing.name()
    }

    /// What trains, now and later: a GPU may give way to the processor.
    pub fn computing(&self) -> Computing {
        self.computing.clone()
    }
}

/// The executor on the GPU, once it has shown that it computes as the host does.
#[cfg(feature = "cuda")]
fn on_gpu(plan: &Arc<Plan>, gpu: CudaGpu, options: TrainingOptions, mut host: Executor) -> Result<Executor> {
    use super::Storage;
    use super::warm_up::{Tolerance, compare};
    use crate::cuda::Element;
    let (element, tolerance) = match options.storage {
        Storage::F32 => (Element::F32, Tolerance::SINGLE),
        Storage::F16 => (Element::F16, Tolerance::HALF),
        Storage::Bf16 => (Element::Bf16, Tolerance::HALF),
    };
    let mut device = super::gpu_ops::gpu_encoder(Arc::clone(plan), gpu, element, options)?;
    let apart = compare(plan, device.as_mut(), host.as_mut(), tolerance)?;
    log::debug!("the GPU agrees with the CPU within {apart:.1e}");
    Ok(device)
}

/// The name of the GPU, and what an [examination](super::examination) of it finds.
///
/// # Errors
/// If there is none, or it fails.
#[cfg(feature = "cuda")]
pub fn examine_gpu(size: WindowSize) -> Result<(String, Examination)> {
    let name = CudaGpu::open(0)?.name().to_owned();
    Ok((name, super::examination::examine(|| CudaGpu::open(0), size)?))
}

/// As with feature `cuda`, but that there is none.
///
/// # Errors
/// Always.
#[cfg(not(feature = "cuda"))]
pub fn examine_gpu(_size: WindowSize) -> Result<(String, Examination)> {
    Err(without_cuda())
}

#[cfg(feature = "cuda")]
fn open_cuda(insists: bool) -> Result<ComputeDevice> {
    let gpu = CudaGpu::open(0)?;
    let computing = Computing::new(gpu.name());
    Ok(ComputeDevice { kind: Kind::Cuda { gpu, insists }, computing })
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(_insists: bool) -> Result<ComputeDevice> {
    Err(without_cuda())
}

#[cfg(not(feature = "cuda"))]
fn without_cuda() -> Error {
    Error::input("this program was built without CUDA; build it with `--features cuda`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn absent(_insists: bool) -> Result<&'static str> {
        Err(Error::Device("no device".into()))
    }

    #[test]
    fn auto_takes_the_gpu_or_says_why_not() {
        let (device, trouble) = DeviceChoice::Auto.resolve(|_| Ok("Orin")).unwrap();
        assert_eq!((device, trouble), (Some("Orin"), None));
        let (device, trouble) = DeviceChoice::Auto.resolve(absent).unwrap();
        assert_eq!((device, trouble.as_deref()), (None, Some("no device")));
    }

    #[test]
    fn the_other_choices_are_kept_to() {
        assert_eq!(DeviceChoice::Cuda.resolve(Ok).unwrap(), (Some(true), None));
        assert_eq!(DeviceChoice::Auto.resolve(Ok).unwrap(), (Some(false), None));
        assert_eq!(DeviceChoice::Cuda.resolve(absent).unwrap_err().to_string(), "no device");
        let never = |_| -> Result<&str> { panic!("the CPU was asked for") };
        assert_eq!(DeviceChoice::Cpu.resolve(never).unwrap(), (None, None));
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn without_the_feature_cuda_is_refused_as_bad_usage() {
        let error = DeviceChoice::Cuda.open().unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--features cuda"), "{error}");
        // Nobody asked for it: no reason is given.
        let device = DeviceChoice::Auto.open().unwrap();
        assert_eq!((device.name().as_str(), device.computing().reason()), (CPU, None));
    }
}

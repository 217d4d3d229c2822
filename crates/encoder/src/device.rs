//! Where the encoder trains: on the processor or on a CUDA device, as asked for and as the machine allows.
//!
//! `auto` takes the CUDA device if this program was built with feature `cuda` and one can be opened, and the processor
//! otherwise; a program that was built for CUDA says in its log which: a device that runs for days should not stay down over a
//! driver, but nobody should wonder why it is slow. `cuda` insists, and fails where there is none.

use std::sync::Arc;

use oupn_base::choices;
use serde::{Deserialize, Serialize};

use super::{Fused, Plan, TrainingEncoder, TrainingOptions};
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
pub enum ComputeDevice {
    /// The processor; [`super`] has the executors for it.
    Cpu,
    /// An open CUDA device; [`gpu_encoder`](super::gpu_ops::gpu_encoder) makes an executor of it.
    #[cfg(feature = "cuda")]
    Cuda(CudaGpu),
}

/// The operations of the encoder on a CUDA device.
#[cfg(feature = "cuda")]
pub type CudaOps = super::gpu_ops::GpuOps<CudaGpu>;

impl DeviceChoice {
    /// Opens the device and logs which one it is, if that was left open.
    pub fn open(self) -> Result<ComputeDevice> {
        let (device, note) = self.resolve(open_cuda)?;
        if let Some(note) = note {
            // Where the program can use a GPU, whether it does matters; where it cannot, nobody asked.
            log::log!(if cfg!(feature = "cuda") { log::Level::Info } else { log::Level::Debug }, "{note}");
        }
        Ok(device.unwrap_or(ComputeDevice::Cpu))
    }

    /// The decision, apart from what it decides on: the opened device or `None` for the processor, and a line for the log.
    fn resolve<D: Named>(self, open_cuda: impl FnOnce() -> Result<D>) -> Result<(Option<D>, Option<String>)> {
        match self {
            Self::Cpu => Ok((None, None)),
            Self::Cuda => open_cuda().map(|device| (Some(device), None)),
            Self::Auto => Ok(match open_cuda() {
                Ok(device) => {
                    let note = format!("device auto: training on {}", device.name());
                    (Some(device), Some(note))
                }
                Err(error) => (None, Some(format!("device auto: training on the CPU ({error})"))),
            }),
        }
    }
}

impl ComputeDevice {
    /// An executor of this plan on the device; `threads` (0: all) are the processor's.
    pub fn training_encoder(
        self,
        plan: Arc<Plan>,
        options: TrainingOptions,
        threads: usize,
    ) -> Result<Box<dyn TrainingEncoder + Send>> {
        match self {
            Self::Cpu => Ok(Box::new(Fused::new(plan, options, threads)?)),
            #[cfg(feature = "cuda")]
            Self::Cuda(gpu) => {
                use super::Storage;
                use crate::cuda::Element;
                let element = match options.storage {
                    Storage::F32 => Element::F32,
                    Storage::F16 => Element::F16,
                    Storage::Bf16 => Element::Bf16,
                };
                super::gpu_ops::gpu_encoder(plan, gpu, element, options)
            }
        }
    }

    /// What it is called in messages and in the trace.
    pub fn name(&self) -> String {
        Named::name(self)
    }
}

/// Something that can be called by its name in the log.
trait Named {
    fn name(&self) -> String;
}

impl Named for ComputeDevice {
    fn name(&self) -> String {
        match self {
            Self::Cpu => "the CPU".into(),
            #[cfg(feature = "cuda")]
            Self::Cuda(gpu) => gpu.name().into(),
        }
    }
}

#[cfg(feature = "cuda")]
fn open_cuda() -> Result<ComputeDevice> {
    CudaGpu::open(0).map(ComputeDevice::Cuda)
}

#[cfg(not(feature = "cuda"))]
fn open_cuda() -> Result<ComputeDevice> {
    Err(Error::input("this program was built without CUDA; build it with `--features cuda`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Named for &str {
        fn name(&self) -> String {
            (*self).into()
        }
    }

    fn absent() -> Result<&'static str> {
        Err(Error::Device("no device".into()))
    }

    #[test]
    fn auto_takes_the_gpu_or_says_why_not() {
        let (device, note) = DeviceChoice::Auto.resolve(|| Ok("Orin")).unwrap();
        assert_eq!((device, note.as_deref()), (Some("Orin"), Some("device auto: training on Orin")));
        let (device, note) = DeviceChoice::Auto.resolve(absent).unwrap();
        assert_eq!((device, note.as_deref()), (None, Some("device auto: training on the CPU (no device)")));
    }

    #[test]
    fn the_other_choices_are_kept_to() {
        assert_eq!(DeviceChoice::Cuda.resolve(|| Ok("Orin")).unwrap(), (Some("Orin"), None));
        assert_eq!(DeviceChoice::Cuda.resolve(absent).unwrap_err().to_string(), "no device");
        let never = || -> Result<&str> { panic!("the CPU was asked for") };
        assert_eq!(DeviceChoice::Cpu.resolve(never).unwrap(), (None, None));
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn without_the_feature_cuda_is_refused_as_bad_usage() {
        let error = DeviceChoice::Cuda.open().unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("--features cuda"), "{error}");
        assert!(matches!(DeviceChoice::Auto.open(), Ok(ComputeDevice::Cpu)));
    }
}

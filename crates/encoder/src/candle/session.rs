//! An executor in candle's terms: what it was given last, and which gradients it can give.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use candle_core::{DType, Device, Result, Tensor};

use super::op::Encode;
use crate::fallback::Executor;
use crate::plan::Shape;
use crate::{Error, NormMode, Parameters, Plan, Statistics};

/// An executor that candle's tensors go through. Clones share it.
#[derive(Clone)]
pub struct Session {
    plan: Arc<Plan>,
    computing: Arc<Mutex<Computing>>,
}

/// The executor and what belongs to its last forward call.
pub(super) struct Computing {
    pub(super) plan: Arc<Plan>,
    executor: Executor,
    /// The weights of that call.
    parameters: Parameters,
    /// Its number.
    call: u64,
    /// Whether a backward call may follow it.
    open: bool,
    /// What the executor said when it failed: candle keeps only the words of it.
    trouble: Option<Error>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whatever a panic has left behind is not looked at again: a call begins by closing the one before.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Tensors go through this executor of the plan.
    pub fn new(plan: Arc<Plan>, executor: Executor) -> Self {
        let computing = Computing {
            plan: Arc::clone(&plan),
            executor,
            parameters: plan.zero_parameters(),
            call: 0,
            open: false,
            trouble: None,
        };
        Self { plan, computing: Arc::new(Mutex::new(computing)) }
    }

    /// The network.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Features `[N, features]` of images `[N, channels, height, width]`, with all weights in one row (`theta`), which gradients
    /// reach. Images whose numbers lie channels last, as a permuted `[N, height, width, channels]`, are read where they are;
    /// others are copied once.
    ///
    /// A backward pass that comes after another call of `encode` runs its own forward pass again.
    ///
    /// # Errors
    /// If the tensors are not of the network, or the executor fails; [`error`](Self::error) has what it said.
    pub fn encode(
        &self,
        images: &Tensor,
        theta: &Tensor,
        statistics: &mut Statistics,
        norm: NormMode,
    ) -> Result<Tensor> {
        let Shape { height, width, channels } = self.plan.image;
        match images.dims() {
            [count, rest @ ..] if *count > 0 && rest == [channels, height, width] => {}
            other => candle_core::bail!(
                "images of {other:?}; this encoder takes [N, {channels}, {height}, {width}]"
            ),
        }
        if (images.dtype(), theta.dtype()) != (DType::F32, DType::F32) {
            candle_core::bail!(
                "images of {:?}, weights of {:?}; expected F32",
                images.dtype(),
                theta.dtype()
            );
        }
        let home = images.device();
        let images = images.permute((0, 2, 3, 1))?.contiguous()?.to_device(&Device::Cpu)?;
        let theta = theta.contiguous()?.to_device(&Device::Cpu)?;
        let after = Arc::default();
        let operation = Encode {
            computing: Arc::clone(&self.computing),
            norm,
            before: statistics.clone(),
            after: Arc::clone(&after),
            call: AtomicU64::new(0),
        };
        let features = images.apply_op2(&theta, operation)?;
        if let Some(moved) = lock(&after).take() {
            *statistics = moved;
        }
        features.to_device(home)
    }

    /// What went wrong, in this project's terms: what the executor said if it failed, and candle's words otherwise.
    pub fn error(&self, error: candle_core::Error) -> Error {
        let said = lock(&self.computing).trouble.take();
        said.unwrap_or_else(|| Error::input(error.to_string().lines().next().unwrap_or_default()))
    }
}

impl Computing {
    /// Whether the executor still has what a backward pass of this call needs.
    pub(super) fn remembers(&self, call: u64) -> bool {
        self.open && self.call == call
    }

    /// The number of this call, and the features.
    pub(super) fn forward(
        &mut self,
        images: &[f32],
        theta: &[f32],
        statistics: &mut Statistics,
        norm: NormMode,
    ) -> Result<(u64, Vec<f32>)> {
        (self.open, self.trouble) = (false, None);
        self.call += 1;
        if theta.len() != self.parameters.values.len() {
            candle_core::bail!("{} weights; this encoder has {}", theta.len(), self.parameters.values.len());
        }
        self.parameters.values.copy_from_slice(theta);
        let count = images.len() / self.plan.image.len();
        let mut features = vec![0.0; count * self.plan.features];
        let done = self.executor.forward(&self.parameters, statistics, images, count, norm, &mut features);
        self.told(done)?;
        self.open = true;
        Ok((self.call, features))
    }

    /// The gradient of all weights, and that of the images if there is room for it.
    pub(super) fn backward(
        &mut self,
        images: &[f32],
        d_features: &[f32],
        d_images: Option<&mut [f32]>,
    ) -> Result<Vec<f32>> {
        self.open = false;
        let mut gradients = self.plan.zero_parameters();
        let done = self.executor.backward(&self.parameters, images, d_features, &mut gradients, d_images);
        self.told(done)?;
        Ok(gradients.values)
    }

    fn told<T>(&mut self, done: crate::Result<T>) -> Result<T> {
        done.map_err(|error| {
            let told = candle_core::Error::msg(&error);
            self.trouble = Some(error);
            told
        })
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("plan", &self.plan).finish_non_exhaustive()
    }
}

//! A pass through the network as one candle operation: images `[N, height, width, channels]` and all weights in one row become
//! features.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};

use super::read;
use super::session::{Computing, lock};
use crate::{NormMode, Statistics};

/// See the [module](self).
pub(super) struct Encode {
    pub(super) computing: Arc<Mutex<Computing>>,
    pub(super) norm: NormMode,
    /// The running statistics before the call.
    pub(super) before: Statistics,
    /// The same after it.
    pub(super) after: Arc<Mutex<Option<Statistics>>>,
    /// Which of the executor's forward calls was this one's.
    pub(super) call: AtomicU64,
}

impl CustomOp2 for Encode {
    fn name(&self) -> &'static str {
        "encode"
    }

    fn cpu_fwd(
        &self,
        images: &CpuStorage,
        images_layout: &Layout,
        theta: &CpuStorage,
        theta_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (images, theta) = (numbers(images, images_layout)?, numbers(theta, theta_layout)?);
        let mut computing = lock(&self.computing);
        let mut statistics = self.before.clone();
        let (call, features) = computing.forward(images, theta, &mut statistics, self.norm)?;
        self.call.store(call, Ordering::Relaxed);
        *lock(&self.after) = Some(statistics);
        let shape = Shape::from((features.len() / computing.plan.features, computing.plan.features));
        Ok((CpuStorage::F32(features), shape))
    }

    fn bwd(
        &self,
        images: &Tensor,
        theta: &Tensor,
        _features: &Tensor,
        d_features: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let d_features = d_features.contiguous()?;
        let mut computing = lock(&self.computing);
        let call = self.call.load(Ordering::Relaxed);
        // The gradient of the images costs a pass of its own, so only who asks for it pays.
        let mut d_images = images.track_op().then(|| vec![0.0; images.elem_count()]);
        let d_theta = read(images, |images| {
            read(theta, |theta| {
                if !computing.remembers(call) {
                    let _ = computing.forward(images, theta, &mut self.before.clone(), self.norm)?;
                }
                read(&d_features, |d_features| {
                    computing.backward(images, d_features, d_images.as_deref_mut())
                })?
            })?
        })??;
        let tensor = |numbers, like: &Tensor| Tensor::from_vec(numbers, like.shape(), like.device());
        let d_images = d_images.map(|numbers| tensor(numbers, images)).transpose()?;
        Ok((d_images, Some(tensor(d_theta, theta)?)))
    }
}

/// The numbers of a tensor of f32 that lie one after another.
pub(super) fn numbers<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let (CpuStorage::F32(all), Some((from, to))) = (storage, layout.contiguous_offsets()) else {
        candle_core::bail!("a tensor of f32 whose numbers lie one after another was expected")
    };
    match all.get(from..to) {
        Some(numbers) => Ok(numbers),
        None => candle_core::bail!("this tensor's numbers have gone back to their owner"),
    }
}

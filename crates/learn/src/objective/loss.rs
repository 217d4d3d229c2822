//! An objective as a candle loss: features in, a number out, and its gradient on the way back.
//!
//! The objective computes loss and gradient in one go, so both are known when the tensor is made; all that is left to the
//! backward pass is to hand the gradient on.

use candle_core::{CpuStorage, CustomOp1, Device, Layout, Shape, Tensor};

use super::{Answer, Embeddings, Objective, Question};
use crate::encoder::candle::read;
use crate::memory::Control;
use crate::{Error, Result};

/// What an objective has to know of a window beside its features.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Frames of the window. The features are of view 1 of all frames, then view 2, then further second views.
    pub frames: usize,
    /// 1/τ, β, γ.
    pub control: Control,
    /// Updates applied so far.
    pub step: u64,
    /// The frames after which the next window begins.
    pub stride: usize,
}

/// The loss of a window's features `[views × frames, D]` as a tensor without extents, which gradients flow back from, and
/// all else that the objective answers. What it carries from window to window moves with [`Objective::commit`], once the
/// update has been applied.
///
/// ```
/// use candle_core::{Device, Var};
/// use oupn_learn::config::Preset;
/// use oupn_learn::objective::{Asked, Oupn, window_loss};
///
/// let mut settings = Preset::Saycam.settings();
/// (settings.window, settings.stride, settings.slots) = (2, 2, 2);
/// let mut oupn = Oupn::new(&settings, 3)?;
/// // Two frames, and the same two seen a second time.
/// let features = [[0.9f32, 0.1, 0.0], [0.0, 0.2, 0.9], [0.8, 0.2, 0.1], [0.1, 0.1, 0.8]];
/// let features = Var::new(&features, &Device::Cpu)?;
/// let asked = Asked { frames: 2, control: settings.control(), step: 0, stride: 2 };
/// let (loss, answer) = window_loss(&mut oupn, &features, &asked)?;
/// let gradients = loss.backward()?;
/// assert_eq!(gradients.get(&features).unwrap().dims(), [4, 3]);
/// assert_eq!(loss.to_scalar::<f32>()?, answer.loss as f32);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the window is not of the size that the objective was made for, or the features are not f32.
pub fn window_loss(
    objective: &mut dyn Objective,
    features: &Tensor,
    asked: &Asked,
) -> Result<(Tensor, Answer)> {
    let fault =
        |error: candle_core::Error| Error::input(error.to_string().lines().next().unwrap_or_default());
    let &Asked { frames, control, step, stride } = asked;
    let (rows, dimension) = features.dims2().map_err(fault)?;
    if frames == 0 || !rows.is_multiple_of(frames) || rows < 2 * frames {
        return Err(Error::input(format!(
            "{rows} features of {frames} frames; expected two views of each, or more"
        )));
    }
    let home = features.device();
    let features =
        features.contiguous().and_then(|features| features.to_device(&Device::Cpu)).map_err(fault)?;
    let mut gradient = vec![0.0; rows * dimension];
    let answer = read(&features, |values| {
        let embeddings = Embeddings { values, frames, dimension };
        objective.run(&Question { embeddings, control, step, stride }, &mut gradient)
    })
    .map_err(fault)??;
    let gradient = Tensor::from_vec(gradient, features.shape(), &Device::Cpu).map_err(fault)?;
    #[allow(clippy::cast_possible_truncation)]
    let loss = features.apply_op1(Known { loss: answer.loss as f32, gradient }).map_err(fault)?;
    Ok((loss.to_device(home).map_err(fault)?, answer))
}

/// A loss that has been computed, with its gradient.
struct Known {
    loss: f32,
    gradient: Tensor,
}

impl CustomOp1 for Known {
    fn name(&self) -> &'static str {
        "window-loss"
    }

    fn cpu_fwd(&self, _features: &CpuStorage, _layout: &Layout) -> candle_core::Result<(CpuStorage, Shape)> {
        Ok((CpuStorage::F32(vec![self.loss]), Shape::from(())))
    }

    fn bwd(
        &self,
        _features: &Tensor,
        _loss: &Tensor,
        d_loss: &Tensor,
    ) -> candle_core::Result<Option<Tensor>> {
        self.gradient.broadcast_mul(d_loss).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use candle_core::{DType, Var};

    use super::*;
    use crate::config::{Preset, Settings};
    use crate::objective::Oupn;
    use crate::random::{Purpose, Random};
    use crate::tensors::Tensor as Saved;

    const FRAMES: usize = 6;
    const DIMENSION: usize = 5;

    fn settings(second_views: usize) -> Settings {
        let mut settings = Preset::Saycam.settings();
        (settings.window, settings.stride, settings.slots) = (FRAMES, 3, 4);
        settings.second_views = second_views;
        settings
    }

    fn features(views: usize) -> Vec<f32> {
        let mut random = Random::new(1, Purpose::World, 0);
        (0..views * FRAMES * DIMENSION).map(|_| random.between(-1.0, 1.0)).collect()
    }

    fn asked(settings: &Settings) -> Asked {
        Asked { frames: FRAMES, control: settings.control(), step: 3, stride: 3 }
    }

    #[test]
    fn loss_and_gradient_are_the_windows() {
        for second_views in [1, 2] {
            let settings = settings(second_views);
            let asked = asked(&settings);
            let numbers = features(1 + second_views);
            let mut right = vec![0.0; numbers.len()];
            let embeddings = Embeddings { values: &numbers, frames: FRAMES, dimension: DIMENSION };
            let Asked { control, step, stride, .. } = asked;
            let mut oupn = Oupn::new(&settings, DIMENSION).unwrap();
            let answer = oupn.run(&Question { embeddings, control, step, stride }, &mut right).unwrap();

            let var =
                Var::from_slice(&numbers, ((1 + second_views) * FRAMES, DIMENSION), &Device::Cpu).unwrap();
            let mut oupn = Oupn::new(&settings, DIMENSION).unwrap();
            let (loss, found) = window_loss(&mut oupn, &var, &asked).unwrap();
            assert_eq!(found, answer);
            assert_eq!(loss.to_scalar::<f32>().unwrap(), answer.loss as f32);
            let gradient = |loss: &Tensor| -> Vec<f32> {
                let gradients = loss.backward().unwrap();
                gradients.get(&var).unwrap().flatten_all().unwrap().to_vec1().unwrap()
            };
            assert_eq!(gradient(&loss), right);
            // As a part of a larger loss, its gradient is weighted.
            let twice: Vec<f32> = right.iter().map(|g| 2.0 * g).collect();
            assert_eq!(gradient(&loss.affine(2.0, 1.0).unwrap()), twice);
            assert!(right.iter().any(|g| *g != 0.0));
        }
    }

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        // Against differences of the loss itself, along a direction. The loss is a tensor of f32, but the answer's is f64.
        let settings = settings(1);
        let numbers = features(2);
        let loss_at = |by: f32| {
            let moved: Vec<f32> =
                numbers.iter().enumerate().map(|(at, x)| x + by * (at as f32 * 0.7).sin()).collect();
            let var = Var::from_vec(moved, (2 * FRAMES, DIMENSION), &Device::Cpu).unwrap();
            let mut oupn = Oupn::new(&settings, DIMENSION).unwrap();
            let (loss, answer) = window_loss(&mut oupn, &var, &asked(&settings)).unwrap();
            let gradient: Vec<f32> =
                loss.backward().unwrap().get(&var).unwrap().flatten_all().unwrap().to_vec1().unwrap();
            let slope: f64 =
                gradient.iter().enumerate().map(|(at, g)| f64::from(*g) * (at as f64 * 0.7).sin()).sum();
            (answer.loss, slope)
        };
        let step = 1e-3;
        let difference = (loss_at(step).0 - loss_at(-step).0) / (2.0 * f64::from(step));
        let slope = loss_at(0.0).1;
        assert!((difference - slope).abs() < 1e-3 * slope.abs().max(1.0), "{difference} {slope}");
        assert!(slope.abs() > 1e-2, "{slope}");
    }

    #[test]
    fn windows_of_another_size_are_refused() {
        let settings = settings(1);
        let mut oupn = Oupn::new(&settings, DIMENSION).unwrap();
        let asked = asked(&settings);
        for rows in [0, 1, FRAMES, 2 * FRAMES + 1] {
            let bad = Tensor::zeros((rows, DIMENSION), DType::F32, &Device::Cpu).unwrap();
            assert_eq!(window_loss(&mut oupn, &bad, &asked).unwrap_err().exit_code(), 2, "{rows}");
        }
        let good = Tensor::ones((2 * FRAMES, DIMENSION), DType::F32, &Device::Cpu).unwrap();
        for bad in [good.to_dtype(DType::F64).unwrap(), good.get(0).unwrap()] {
            assert_eq!(window_loss(&mut oupn, &bad, &asked).unwrap_err().exit_code(), 2);
        }
        assert!(window_loss(&mut oupn, &good, &Asked { frames: 0, ..asked }).is_err());
        assert!(window_loss(&mut oupn, &good, &asked).is_ok());
    }

    /// An objective that fails.
    struct Gone;

    impl Objective for Gone {
        fn terms(&self) -> &'static [&'static str] {
            &[]
        }
        fn run(&mut self, _: &Question<'_>, _: &mut [f32]) -> Result<Answer> {
            Err(Error::Device("gone".into()))
        }
        fn commit(&mut self) {}
        fn carried(&self) -> BTreeMap<String, Saved> {
            BTreeMap::new()
        }
        fn carry(&mut self, _: &BTreeMap<String, Saved>) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_objectives_error_comes_out_as_it_was() {
        let features = Tensor::ones((2 * FRAMES, DIMENSION), DType::F32, &Device::Cpu).unwrap();
        let error = window_loss(&mut Gone, &features, &asked(&settings(1))).unwrap_err();
        assert!(matches!(error, Error::Device(words) if words == "gone"));
    }
}

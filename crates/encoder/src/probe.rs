//! An encoder laid open: parameters, images and a cotangent in, features, statistics and gradients out.
//!
//! This is the form in which an encoder is compared with another implementation of it, such as PyTorch's. A tensor file
//! holds the input:
//! - metadata `width`, `padding` (`same` or `symmetric`), `bn_eps`, `bn_momentum`; for the small encoders `encoder` =
//!   `resnet-12` with `strides` = `[2,2,2,2]`, or `encoder` = `conv-4` with `last_relu` = `true` or `false` and,
//!   unless they are the paper's, `widths` = `[64,64,64,256]`, in the place of `width`;
//! - `in.NAME` for every parameter and running statistic; `in.images` `[N, channels, height, width]`; `in.cotangent`
//!   `[N, features]`.
//!
//! What is computed from it, under these names: `eval.features`, with the running statistics; `train.features`, with
//! those of the images, and `train.NAME`, the running statistics after that; `grad.NAME` and `grad.images`, gradients of
//! Σ train.features · cotangent.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::parameters::{FlatTensors, TensorSpec};
use super::plan::{BatchNorm, Padding, Plan, Shape};
use super::{Architecture, NormMode, Parameters, Statistics, TrainingEncoder};
use crate::Result;
use crate::tensors::{Tensor, TensorFile};

/// The input of a comparison.
#[derive(Debug)]
pub struct Probe {
    /// Which network it is.
    pub architecture: Architecture,
    /// The network for images of this size.
    pub plan: Arc<Plan>,
    /// What is trained.
    pub parameters: Parameters,
    /// Running statistics before the call.
    pub statistics: Statistics,
    /// Number of images.
    pub count: usize,
    /// The images, channels last.
    pub images: Vec<f32>,
    /// Gradient of the probed sum with respect to the features.
    pub cotangent: Vec<f32>,
}

impl Probe {
    /// Takes the input out of a file.
    pub fn read(file: &TensorFile) -> Result<Self> {
        let shape = &file.require("in.images")?.shape;
        let &[count, channels, height, width] = &shape[..] else {
            return Err(file.fault(format!(
                "tensor `in.images` has shape {shape:?}; expected [images, channels, height, width]"
            )));
        };
        if count == 0 {
            return Err(file.fault("tensor `in.images` holds no image"));
        }
        let architecture = architecture(file, channels)?;
        let padding = match word(file, "padding")? {
            "same" => Padding::Same,
            "symmetric" => Padding::Symmetric,
            other => {
                return Err(
                    file.fault(format!("metadata entry `padding` = {other}; expected same or symmetric"))
                );
            }
        };
        let batch_norm =
            BatchNorm { epsilon: file.setting("bn_eps")?, momentum: file.setting("bn_momentum")? };
        let plan =
            architecture.plan(height, width, padding, batch_norm).map_err(|error| file.fault(error))?;
        let images = file.finite("in.images", &[count, plan.image.channels, height, width])?;
        let images = channels_last(images, plan.image);
        let cotangent = file.finite("in.cotangent", &[count, plan.features])?.to_vec();
        let mut parameters = plan.zero_parameters();
        fill(file, &mut parameters)?;
        let mut statistics = plan.fresh_statistics();
        fill(file, &mut statistics)?;
        for unit in &plan.units {
            if let Some(at) = statistics.tensor(unit.variance).iter().position(|&variance| variance < 0.0) {
                let name = &statistics.specs()[unit.variance].name;
                return Err(
                    file.fault(format!("tensor `in.{name}` holds a negative variance at element {at}"))
                );
            }
        }
        Ok(Self { architecture, plan: Arc::new(plan), parameters, statistics, count, images, cotangent })
    }

    /// Computes everything that is to be compared, by name.
    pub fn run(&self, encoder: &mut dyn TrainingEncoder) -> Result<BTreeMap<String, Tensor>> {
        let mut outcome = BTreeMap::new();
        let shape = vec![self.count, self.plan.features];
        let mut features = vec![0.0; self.count * self.plan.features];
        let mut statistics = self.statistics.clone();
        for (name, norm) in [("eval.features", NormMode::Running), ("train.features", NormMode::Window)] {
            encoder.forward(
                &self.parameters,
                &mut statistics,
                &self.images,
                self.count,
                norm,
                &mut features,
            )?;
            outcome.insert(name.to_owned(), Tensor { shape: shape.clone(), values: features.clone() });
        }
        let mut gradients = self.plan.zero_parameters();
        let mut d_images = vec![0.0; self.images.len()];
        encoder.backward(
            &self.parameters,
            &self.images,
            &self.cotangent,
            &mut gradients,
            Some(&mut d_images),
        )?;
        outcome.extend(named("train", &statistics));
        outcome.extend(named("grad", &gradients));
        let Shape { height, width, channels } = self.plan.image;
        let d_images = Tensor {
            shape: vec![self.count, channels, height, width],
            values: channels_first(&d_images, self.plan.image),
        };
        outcome.insert("grad.images".to_owned(), d_images);
        Ok(outcome)
    }
}

/// Distance of a tensor from the one that is right, relative to the size of that one: ‖a − b‖ / ‖b‖.
pub fn relative_difference(values: &[f32], right: &[f32]) -> f64 {
    let norm = |sum: f64| sum.sqrt();
    let square = |x: f64| x * x;
    let apart: f64 = values.iter().zip(right).map(|(&a, &b)| square(f64::from(a) - f64::from(b))).sum();
    let size: f64 = right.iter().map(|&b| square(f64::from(b))).sum();
    if apart == 0.0 { 0.0 } else { norm(apart) / norm(size) }
}

fn architecture(file: &TensorFile, channels: usize) -> Result<Architecture> {
    let encoder =
        if file.metadata().contains_key("encoder") { word(file, "encoder")? } else { "mobilenet-v2" };
    Ok(match encoder {
        "mobilenet-v2" => Architecture::MobileNetV2 { width: file.setting("width")? },
        "resnet-12" => Architecture::ResNet12 { channels, strides: file.setting("strides")? },
        "conv-4" => {
            let last_relu = file.setting("last_relu")?;
            match file.metadata().contains_key("widths") {
                true => Architecture::Conv4 { channels, last_relu, widths: file.setting("widths")? },
                false => Architecture::conv4(channels, last_relu),
            }
        }
        other => {
            return Err(file.fault(format!(
                "metadata entry `encoder` = {other}; expected mobilenet-v2, resnet-12 or conv-4"
            )));
        }
    })
}

/// A metadata entry that is one word, in JSON's quotes or without.
fn word<'f>(file: &'f TensorFile, key: &str) -> Result<&'f str> {
    let missing = || file.fault(format!("metadata entry `{key}` is missing"));
    file.metadata().get(key).map(|text| text.trim_matches('"')).ok_or_else(missing)
}

fn fill<Role>(file: &TensorFile, tensors: &mut FlatTensors<Role>) -> Result<()> {
    for index in 0..tensors.specs().len() {
        let TensorSpec { name, shape, .. } = &tensors.specs()[index];
        let values = file.finite(&format!("in.{name}"), shape)?;
        tensors.tensor_mut(index).copy_from_slice(values);
    }
    Ok(())
}

fn named<Role>(prefix: &str, tensors: &FlatTensors<Role>) -> impl Iterator<Item = (String, Tensor)> {
    tensors.specs().iter().enumerate().map(move |(index, TensorSpec { name, shape, .. })| {
        (format!("{prefix}.{name}"), Tensor { shape: shape.clone(), values: tensors.tensor(index).to_vec() })
    })
}

/// From images channel by channel to images pixel by pixel.
pub fn channels_last(images: &[f32], shape: Shape) -> Vec<f32> {
    let mut turned = vec![0.0; images.len()];
    turn(shape, |first, last| turned[last] = images[first], images.len());
    turned
}

/// From images pixel by pixel to images channel by channel.
pub fn channels_first(images: &[f32], shape: Shape) -> Vec<f32> {
    let mut turned = vec![0.0; images.len()];
    turn(shape, |first, last| turned[first] = images[last], images.len());
    turned
}

/// Calls `place` with the two indices of every number of all images: channels first, channels last.
fn turn(shape: Shape, mut place: impl FnMut(usize, usize), len: usize) {
    let (pixels, channels) = (shape.pixels(), shape.channels);
    for image in (0..len).step_by(shape.len()) {
        for channel in 0..channels {
            for pixel in 0..pixels {
                place(image + channel * pixels + pixel, image + pixel * channels + channel);
            }
        }
    }
}

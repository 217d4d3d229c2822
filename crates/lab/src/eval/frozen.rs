//! Published encoders as they are, to set the learner beside: `--encoder frozen:NAME --model FILE`.
//!
//! The networks are candle's; the files are safetensors with the names that they are published under (timm's for ResNet-18
//! and MobileNet-V4, Facebook's for DINOv2). Pictures are shown at the size that each was trained on, with ImageNet's means
//! and deviations. ResNet and MobileNet give their pooled last maps, DINOv2 its class token and the mean of its patches.

use std::collections::HashMap;
use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::{Func, Module, VarBuilder};
use candle_transformers::models::{dinov2, mobilenetv4, resnet};

use super::embed::Embed;
use crate::streams::ImageSet;
use crate::{Error, Result};

/// A published network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrozenKind {
    /// ResNet-18, 512 features.
    ResNet18,
    /// MobileNet-V4 (conv, small), 960 features.
    MobileNetV4,
    /// DINOv2 ViT-S/14, 768 features.
    DinoV2,
}

impl std::str::FromStr for FrozenKind {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        match name {
            "frozen:resnet18" => Ok(Self::ResNet18),
            "frozen:mobilenetv4" => Ok(Self::MobileNetV4),
            "frozen:dinov2" => Ok(Self::DinoV2),
            _ => Err("expected frozen:resnet18, frozen:mobilenetv4 or frozen:dinov2".to_owned()),
        }
    }
}

impl FrozenKind {
    /// Side of the pictures that it is shown.
    pub fn side(self) -> usize {
        match self {
            Self::ResNet18 | Self::MobileNetV4 => 224,
            Self::DinoV2 => 518,
        }
    }

    /// Length of its features.
    pub fn features(self) -> usize {
        match self {
            Self::ResNet18 => 512,
            Self::MobileNetV4 => 960,
            Self::DinoV2 => 2 * DINO_WIDTH,
        }
    }
}

const DINO_WIDTH: usize = 384;
/// Outputs of the classifier that candle's DINOv2 insists on.
const DINO_CLASSES: usize = 1000;
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

/// A frozen network, ready.
pub struct Frozen {
    kind: FrozenKind,
    network: Network,
}

enum Network {
    Pooled(Func<'static>),
    Dino(dinov2::DinoVisionTransformer),
}

impl Frozen {
    /// Reads the weights.
    ///
    /// # Errors
    /// If the file is not a whole safetensors file, or a tensor is missing or of another shape.
    pub fn read(kind: FrozenKind, path: &Path) -> Result<Self> {
        let fault = |error: candle_core::Error| {
            // Candle adds a trace of the stack from the second line on.
            let text = error.to_string();
            Error::input(format!("{}: {}", path.display(), text.lines().next().unwrap_or("not readable")))
        };
        let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
        let mut tensors: HashMap<String, Tensor> =
            candle_core::safetensors::load_buffer(&bytes, &Device::Cpu).map_err(fault)?;
        if kind == FrozenKind::DinoV2 {
            // The classifier is not wanted: an identity in its place hands its input through.
            tensors.insert("head.weight".to_owned(), wide_identity().map_err(fault)?);
            let zeros = Tensor::zeros(DINO_CLASSES, DType::F32, &Device::Cpu).map_err(fault)?;
            tensors.insert("head.bias".to_owned(), zeros);
        }
        let weights = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
        let network = match kind {
            FrozenKind::ResNet18 => Network::Pooled(resnet::resnet18_no_final_layer(weights).map_err(fault)?),
            FrozenKind::MobileNetV4 => Network::Pooled(
                mobilenetv4::mobilenetv4_no_final_layer(&mobilenetv4::Config::small(), weights)
                    .map_err(fault)?,
            ),
            FrozenKind::DinoV2 => Network::Dino(dinov2::vit_small(weights).map_err(fault)?),
        };
        Ok(Self { kind, network })
    }

    fn features_of(&self, image: &Tensor) -> candle_core::Result<Vec<f32>> {
        let out = match &self.network {
            Network::Pooled(network) => network.forward(image)?,
            Network::Dino(network) => network.forward(image)?,
        };
        let features: Vec<f32> = out.flatten_all()?.to_vec1()?;
        Ok(features.into_iter().take(self.kind.features()).collect())
    }
}

/// Ones on the diagonal of a matrix that is taller than wide.
fn wide_identity() -> candle_core::Result<Tensor> {
    let columns = 2 * DINO_WIDTH;
    let mut values = vec![0.0f32; DINO_CLASSES * columns];
    (0..columns).for_each(|at| values[at * columns + at] = 1.0);
    Tensor::from_vec(values, (DINO_CLASSES, columns), &Device::Cpu)
}

impl Embed for Frozen {
    fn dimension(&self) -> usize {
        self.kind.features()
    }

    fn embed(&self, set: &ImageSet, images: &[usize]) -> Result<Vec<f32>> {
        let device = |error: candle_core::Error| Error::Device(format!("a frozen encoder failed: {error}"));
        let side = self.kind.side();
        let mut embeddings = Vec::with_capacity(images.len() * self.dimension());
        for &index in images {
            let rgb = set.rgb(index, side)?;
            // Channels first, as candle's networks read them.
            let planes: Vec<f32> = (0..3)
                .flat_map(|channel| {
                    let values = rgb.iter().skip(channel).step_by(3);
                    values.map(move |byte| (f32::from(*byte) / 255.0 - MEAN[channel]) / DEVIATION[channel])
                })
                .collect();
            let image = Tensor::from_vec(planes, (1, 3, side, side), &Device::Cpu).map_err(device)?;
            let features = self.features_of(&image).map_err(device)?;
            if features.len() != self.dimension() {
                return Err(Error::Device(format!("a frozen encoder gave {} features", features.len())));
            }
            embeddings.extend(features);
        }
        Ok(embeddings)
    }
}

//! Published encoders in the evaluation: files of the right names and shapes, with random numbers in them.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::{Module, VarBuilder, VarMap};
use candle_transformers::models::{dinov2, mobilenetv4, resnet};
use oupn_edge::encoder::plan::Shape;
use oupn_edge::eval::embed::Embed;
use oupn_edge::eval::frozen::{Frozen, FrozenKind};
use oupn_edge::streams::ImageSet;

/// Two pictures at the size that the encoder wants, so that nothing is resized.
fn pictures(side: usize) -> ImageSet {
    let mut set = ImageSet::new(Shape { height: side, width: side, channels: 3 });
    let pixels = 2 * side * side * 3;
    let bytes: Vec<u8> = (0..pixels).map(|at| (at * at / 7 % 251) as u8).collect();
    set.push("both".to_owned(), None, &bytes).unwrap();
    set
}

/// The first picture as the networks read it.
fn first_picture(set: &ImageSet, side: usize) -> Tensor {
    let values: Vec<f32> = set.image(0).iter().map(|byte| f32::from(*byte) / 255.0).collect();
    let image = Tensor::from_vec(values, (side, side, 3), &Device::Cpu).unwrap().permute((2, 0, 1)).unwrap();
    let channel = |values: [f32; 3]| Tensor::new(&values, &Device::Cpu).unwrap().reshape((3, 1, 1)).unwrap();
    let image = image.broadcast_sub(&channel([0.485, 0.456, 0.406])).unwrap();
    image.broadcast_div(&channel([0.229, 0.224, 0.225])).unwrap().unsqueeze(0).unwrap()
}

/// Numbers with which a network that was never trained still tells pictures apart: kernels small enough that values do not
/// grow from layer to layer, and no scale or shift that is zero.
fn enliven(variables: &VarMap) {
    for variable in variables.all_vars() {
        let shape = variable.shape();
        let values = match variable.dims() {
            [_] => Tensor::rand(0.5f32, 1.0, shape, &Device::Cpu),
            [outputs, _, _, _] => {
                let terms = variable.elem_count() / outputs;
                Tensor::randn(0.0f32, (1.0 / terms as f32).sqrt(), shape, &Device::Cpu)
            }
            _ => continue,
        };
        variable.set(&values.unwrap()).unwrap();
    }
}

fn check(name: &str, features: usize, folder: &Path, build: impl Fn(VarBuilder<'static>) -> Box<dyn Module>) {
    let kind: FrozenKind = name.parse().unwrap();
    let variables = VarMap::new();
    let network = build(VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu));
    enliven(&variables);
    let path = folder.join("weights.safetensors");
    variables.save(&path).unwrap();
    let frozen = Frozen::read(kind, &path).unwrap();
    assert_eq!(frozen.dimension(), features);
    let set = pictures(kind.side());
    let found = frozen.embed(&set, &[0, 1]).unwrap();
    assert_eq!(found.len(), 2 * features);
    assert!(found.iter().all(|value| value.is_finite()));
    let (first, second) = found.split_at(features);
    assert_ne!(first, second, "{name}: two pictures, two embeddings");

    let expected = network.forward(&first_picture(&set, kind.side())).unwrap().flatten_all().unwrap();
    let expected: Vec<f32> = expected.to_vec1().unwrap();
    if expected.len() == features {
        let scale = expected.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let apart = first.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max);
        assert!(apart <= 1e-5 * scale, "{name}: {apart} of {scale}");
    }
}

#[test]
fn published_networks_are_read_and_run() {
    let folder = tempfile::tempdir().unwrap();
    check("frozen:resnet18", 512, folder.path(), |vb| Box::new(resnet::resnet18_no_final_layer(vb).unwrap()));
    check("frozen:mobilenetv4", 960, folder.path(), |vb| {
        Box::new(mobilenetv4::mobilenetv4_no_final_layer(&mobilenetv4::Config::small(), vb).unwrap())
    });
}

/// Its own classifier is replaced, so only the form of the features is checked.
#[test]
fn dinov2_gives_its_class_token_and_patches() {
    let folder = tempfile::tempdir().unwrap();
    check("frozen:dinov2", 768, folder.path(), |vb| Box::new(dinov2::vit_small(vb).unwrap()));
}

#[test]
fn a_file_of_another_network_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.safetensors");
    let one = Tensor::zeros(1, DType::F32, &Device::Cpu).unwrap();
    candle_core::safetensors::save(&[("a", one)].into_iter().collect(), &path).unwrap();
    for name in ["frozen:resnet18", "frozen:mobilenetv4", "frozen:dinov2"] {
        let error = Frozen::read(name.parse().unwrap(), &path).err().unwrap();
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        assert!(text.contains("other.safetensors") && !text.contains('\n'), "{text}");
    }
    std::fs::write(&path, b"short").unwrap();
    assert_eq!(Frozen::read(FrozenKind::ResNet18, &path).err().unwrap().exit_code(), 2);
    assert!("frozen:vgg".parse::<FrozenKind>().is_err());
}

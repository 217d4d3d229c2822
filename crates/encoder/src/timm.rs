//! timm's names for MobileNet-V2's tensors, turned into torchvision's, which this crate uses.
//!
//! Both libraries hold the same network: the same order of layers, the same rounding of channels, PyTorch's layout. timm calls the
//! stem `conv_stem` and `bn1`, counts blocks as `blocks.STAGE.BLOCK`, and names the parts of a block by what they do. Its networks
//! with a `d` in the name (`110d`, `120d`) have more blocks in a stage; no plan here computes those, so they are refused.

use std::collections::BTreeMap;

use crate::architecture::MOBILENET_V2;
use crate::tensors::Tensor;
use crate::{Error, Result};

/// Parts of the first block, which does not expand: timm's name, and what follows `features.1.conv.` in torchvision's.
const FIRST: [(&str, &str); 4] = [("conv_dw", "0.0"), ("bn1", "0.1"), ("conv_pw", "1"), ("bn2", "2")];

/// The same for all others.
const EXPANDED: [(&str, &str); 6] =
    [("conv_pw", "0.0"), ("bn1", "0.1"), ("conv_dw", "1.0"), ("bn2", "1.1"), ("conv_pwl", "2"), ("bn3", "3")];

/// The tensors under torchvision's names. A file that is not timm's is left as it is, and so is a name that means nothing here.
///
/// # Errors
/// If the network is one of timm's deeper ones.
pub(super) fn renamed(tensors: BTreeMap<String, Tensor>) -> Result<BTreeMap<String, Tensor>> {
    if !tensors.contains_key("conv_stem.weight") {
        return Ok(tensors);
    }
    tensors.into_iter().map(|(name, tensor)| Ok((torchvision_name(&name)?.unwrap_or(name), tensor))).collect()
}

/// What torchvision calls a tensor of timm's; nothing if it has no such tensor.
fn torchvision_name(name: &str) -> Result<Option<String>> {
    let Some((module, tensor)) = name.rsplit_once('.') else { return Ok(None) };
    let module = match module {
        "conv_stem" => "features.0.0".to_owned(),
        "bn1" => "features.0.1".to_owned(),
        "conv_head" => "features.18.0".to_owned(),
        "bn2" => "features.18.1".to_owned(),
        _ => match block_part(module)? {
            Some(module) => module,
            None => return Ok(None),
        },
    };
    Ok(Some(format!("{module}.{tensor}")))
}

/// A part of a block, such as `blocks.2.1.conv_dw`.
fn block_part(module: &str) -> Result<Option<String>> {
    let parts: Vec<&str> = module.split('.').collect();
    let ["blocks", stage, block, part] = parts[..] else { return Ok(None) };
    let (Ok(stage), Ok(block)) = (stage.parse::<usize>(), block.parse::<usize>()) else { return Ok(None) };
    let blocks = MOBILENET_V2.map(|(_, _, repeats, _)| repeats);
    let of_stage = blocks.get(stage).copied().unwrap_or(0);
    if block >= of_stage {
        return Err(Error::input(format!(
            "a deeper network than MobileNet-V2: stage {stage} has a block {block}, but should have {of_stage} blocks in all; \
             timm's networks with a d in the name (110d, 120d) cannot be used, those without can"
        )));
    }
    let known: &[(&str, &str)] = if stage == 0 { &FIRST } else { &EXPANDED };
    // The stem is layer 0.
    let layer = 1 + blocks[..stage].iter().sum::<usize>() + block;
    let part = known.iter().find(|(timm, _)| *timm == part);
    Ok(part.map(|(_, torchvision)| format!("features.{layer}.conv.{torchvision}")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::inference::{Folded, Inference};
    use crate::tensors::TensorFile;
    use crate::{ModelCard, Weights};

    /// Names and shapes as timm makes them, pictures' features as timm computes them: `tests/golden/make_timm.py`.
    fn golden() -> TensorFile {
        TensorFile::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/timm.safetensors"))
            .unwrap()
    }

    type Shapes = BTreeMap<String, Vec<usize>>;

    /// The number from −1 to 1 that belongs to a name and a position. The script that made the golden file has the same function.
    fn number(name: &str, at: usize) -> f64 {
        let name = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let mut bits = name.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) >> 40) as f64 / f64::from(1 << 23) - 1.0
    }

    fn tensor(name: &str, shape: &[usize]) -> Tensor {
        let length: usize = shape.iter().product();
        let (centre, spread) = match shape {
            // A convolution, so that what comes out is about as large as what goes in.
            [_, inputs, height, width] => (0.0, (6.0 / (inputs * height * width) as f64).sqrt()),
            _ if name.ends_with("num_batches_tracked") => (0.0, 0.0),
            _ if name.ends_with("running_var") || name.ends_with("weight") => (1.0, 0.5),
            _ => (0.0, 0.5),
        };
        let values = (0..length).map(|at| (centre + spread * number(name, at)) as f32).collect();
        Tensor { shape: shape.to_vec(), values }
    }

    fn card(name: &str) -> ModelCard {
        ModelCard::known().unwrap().into_iter().find(|card| card.name == name).unwrap()
    }

    /// timm computes in double precision; f32 is off by about 1e-6 of the largest feature, a tensor in the wrong place by about 1.
    #[test]
    fn features_are_those_that_timm_computes() {
        let golden = golden();
        let side: usize = golden.setting("side").unwrap();
        for name in ["mobilenetv2_050.lamb_in1k", "mobilenetv2_100.ra_in1k", "mobilenetv2_140.ra_in1k"] {
            let shapes: Shapes = golden.setting(name).unwrap();
            let tensors = shapes.iter().map(|(name, shape)| (name.clone(), tensor(name, shape))).collect();
            let weights = Weights::check(card(name), &renamed(tensors).unwrap()).unwrap();
            let plan = Arc::new(weights.card.plan(side, side, 0.1).unwrap());
            let folded = Folded::new(&plan, &weights.parameters, &weights.statistics).unwrap();
            let image: Vec<f32> = (0..side * side * 3).map(|at| number("image", at) as f32).collect();
            let mut found = vec![0.0; plan.features];
            Inference::new(Arc::new(folded), 1).unwrap().embed(&image, &mut found).unwrap();
            let right = golden.finite(&format!("{name}.features"), &[plan.features]).unwrap();
            let largest = right.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
            let worst = found.iter().zip(right).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(largest > 0.1, "{name}: features that say nothing");
            assert!(worst < 1e-4 * largest, "{name}: {worst} of {largest}");
        }
    }

    #[test]
    fn a_width_that_is_not_the_cards_is_refused() {
        let shapes: Shapes = golden().setting("mobilenetv2_050.lamb_in1k").unwrap();
        let tensors = shapes.iter().map(|(name, shape)| (name.clone(), tensor(name, shape))).collect();
        let tensors = renamed(tensors).unwrap();
        let message = Weights::check(card("mobilenetv2_100.ra_in1k"), &tensors).unwrap_err().to_string();
        assert!(
            message.contains("MobileNet-V2 width 1.0")
                && message.contains("`features.0.0.weight` [16, 3, 3, 3] instead of [32, 3, 3, 3]"),
            "{message}"
        );
    }

    #[test]
    fn deeper_networks_are_refused() {
        let shapes: Shapes = golden().setting("mobilenetv2_110d.ra_in1k").unwrap();
        let tensors = shapes.iter().map(|(name, shape)| (name.clone(), tensor(name, shape))).collect();
        let message = renamed(tensors).unwrap_err().to_string();
        assert!(message.contains("stage 1 has a block 2") && message.contains("110d"), "{message}");
    }

    #[test]
    fn other_files_and_other_names_are_left_alone() {
        let one = |name: &str| BTreeMap::from([(name.to_owned(), tensor(name, &[1]))]);
        assert_eq!(renamed(one("bn1.weight")).unwrap(), one("bn1.weight"), "no stem, so not timm's");
        for name in
            ["classifier.bias", "blocks.1.0.se.conv_reduce.weight", "blocks.1.0.conv_x.weight", "lonely"]
        {
            assert_eq!(torchvision_name(name).unwrap(), None, "{name}");
        }
    }
}

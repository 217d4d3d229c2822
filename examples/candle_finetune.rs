//! A head and a loss of your own on this project's encoder, in candle: four textures are told apart after ten steps.
//!
//! The encoder is a candle module with named variables; inside it one of this project's executors computes, on the CPU or a GPU.
//! Conv-4 learns this at once; MobileNet-V2 goes the same way, with torchvision's names.
//!
//! `cargo run --release --example candle_finetune`

#![allow(clippy::print_stdout)] // an example is there to be looked at

use candle_core::{D, DType, Device, Tensor};
use candle_nn::{AdamW, Module, ModuleT, Optimizer, VarBuilder, VarMap, linear, loss::cross_entropy};
use oupn_edge::encoder::candle::Encoder;
use oupn_edge::encoder::{
    Architecture, BatchNorm, Padding, TrainingOptions, device::DeviceChoice, init::random_parameters,
};

const SIDE: usize = 32;
const CLASSES: usize = 4;
const EACH: usize = 8;

/// Stripes whose direction is the class, each time elsewhere and with other noise.
fn pictures(device: &Device) -> candle_core::Result<(Tensor, Tensor)> {
    let at = Tensor::arange(0f32, SIDE as f32, device)?.affine(0.8, 0.0)?;
    let (down, across) = (at.reshape((SIDE, 1))?, at.reshape((1, SIDE))?);
    let mut all = Vec::new();
    for number in 0..CLASSES * EACH {
        let angle = (number % CLASSES) as f64 * std::f64::consts::PI / CLASSES as f64;
        let phase =
            down.affine(angle.sin(), number as f64)?.broadcast_add(&across.affine(angle.cos(), 0.0)?)?;
        let stripes = phase.sin()?.broadcast_as((3, SIDE, SIDE))?;
        all.push((stripes + Tensor::randn(0f32, 0.3, (3, SIDE, SIDE), device)?)?);
    }
    let labels = Tensor::from_iter((0..all.len() as u32).map(|number| number % CLASSES as u32), device)?;
    Ok((Tensor::stack(&all, 0)?, labels))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::Cpu;
    let norm = BatchNorm { epsilon: 1e-5, momentum: 0.3 };
    let architecture = Architecture::conv4(3, true);
    let plan = std::sync::Arc::new(architecture.plan(SIDE, SIDE, Padding::Symmetric, norm)?);
    let executor =
        DeviceChoice::Auto.open()?.training_encoder(plan.clone(), TrainingOptions::default(), 0)?;

    // The variables: the encoder's, here from random weights (`Weights::read` has those of a file), and the head's.
    let weights = random_parameters(architecture, &plan, 1);
    let variables: VarMap = oupn_edge::encoder::candle::var_map(&weights, &plan.fresh_statistics(), &device)?;
    let builder = VarBuilder::from_varmap(&variables, DType::F32, &device);
    let features = plan.features;
    let encoder = Encoder::new(plan, executor, &builder)?;
    let head = linear(features, CLASSES, builder.pp("head"))?;

    let mut adam = AdamW::new_lr(variables.all_vars(), 3e-3)?;
    let mut losses = Vec::new();
    for step in 0..10 {
        let (images, labels) = pictures(&device)?;
        let loss = cross_entropy(&head.forward(&encoder.forward_t(&images, true)?)?, &labels)?;
        adam.backward_step(&loss)?;
        losses.push(loss.to_scalar::<f32>()?);
        println!("step {step}: loss {:.3}", losses[step]);
    }
    let (images, labels) = pictures(&device)?;
    let guesses = head.forward(&encoder.forward_t(&images, true)?)?.argmax(D::Minus1)?;
    let right = guesses.eq(&labels)?.to_dtype(DType::U32)?.sum_all()?.to_scalar::<u32>()?;
    println!("{right} of {} new pictures are told apart", CLASSES * EACH);
    // What was learned, by name.
    let file = std::env::temp_dir().join(format!("candle-finetune-{}.safetensors", std::process::id()));
    variables.save(&file)?;
    println!("{} tensors, {} bytes", variables.all_vars().len(), std::fs::metadata(&file)?.len());
    Ok(std::fs::remove_file(&file)?)
}

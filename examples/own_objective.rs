//! A method of learning of your own: the two views of a frame are to be alike, and the frames are to stay apart.
//!
//! `cargo run --release --example own_objective`

#![allow(clippy::print_stdout)] // an example is there to be looked at

use std::collections::BTreeMap;

use oupn_edge::camera::{Frame, rooms::Rooms};
use oupn_edge::config::{EncoderKind, Preset};
use oupn_edge::encoder::{TrainingOptions, device::DeviceChoice};
use oupn_edge::frame::Fit;
use oupn_edge::learner::{Trainer, WindowOfFrames};
use oupn_edge::model::Model;
use oupn_edge::objective::{Answer, Objective, Question};
use oupn_edge::tensors::Tensor;
use oupn_edge::views::{Augmentation, Pixels};
use oupn_edge::{Error, Result};

/// With a and b the views of a frame, z all 2N embeddings of D numbers, and m their mean:
/// together = Σ‖a−b‖² / ND, variance = Σ‖z−m‖² / 2ND, apart = (1 − variance)², loss = together + apart.
struct Apart;

impl Objective for Apart {
    fn terms(&self) -> &'static [&'static str] {
        &["together", "apart"]
    }

    fn run(&mut self, question: &Question<'_>, d_embeddings: &mut [f32]) -> Result<Answer> {
        let embeddings = question.embeddings;
        let (first, second, dimension) = (embeddings.first(), embeddings.seconds(), embeddings.dimension);
        if first.len() != second.len() {
            return Err(Error::input("this objective is for one second view: leave second_views at 1"));
        }
        let numbers = first.len() as f32; // N · D
        let (d_first, d_second) = d_embeddings.split_at_mut(first.len());
        let mut together = 0.0;
        for (((a, b), d_a), d_b) in first.iter().zip(second).zip(d_first).zip(d_second) {
            together += (a - b).powi(2) / numbers;
            *d_a = 2.0 * (a - b) / numbers;
            *d_b = -*d_a;
        }
        let mut mean = vec![0.0; dimension];
        for z in embeddings.values.chunks_exact(dimension) {
            mean.iter_mut().zip(z).for_each(|(mean, z)| *mean += z * dimension as f32 / (2.0 * numbers));
        }
        let offsets = || embeddings.values.iter().zip(mean.iter().cycle()).map(|(z, mean)| z - mean);
        let variance = offsets().map(|offset| offset.powi(2)).sum::<f32>() / (2.0 * numbers);
        for (d, offset) in d_embeddings.iter_mut().zip(offsets()) {
            *d -= 2.0 * (1.0 - variance) * offset / numbers; // the mean's own part is Σ(z−m) = 0
        }
        let (together, apart) = (f64::from(together), f64::from((1.0 - variance).powi(2)));
        let terms = vec![("together", together), ("apart", apart)];
        Ok(Answer { loss: together + apart, terms, ..Answer::default() })
    }

    // It carries nothing from window to window, so there is nothing to move, to save or to go on from.
    fn commit(&mut self) {}

    fn carried(&self) -> BTreeMap<String, Tensor> {
        BTreeMap::new()
    }

    fn carry(&mut self, _from: &BTreeMap<String, Tensor>) -> Result<()> {
        Ok(())
    }
}

fn main() -> Result<()> {
    let mut settings = Preset::Saycam.settings();
    (settings.encoder, settings.augmentation) = (EncoderKind::Conv4, Augmentation::Mild);
    (settings.image_height, settings.image_width) = (32, 32);
    (settings.window, settings.stride) = (16, 16);

    // Frames of the built-in world, two seconds apart, of the encoder's size.
    let (mut world, mut fit, mut frame) = (Rooms::new(1), Fit::new(32, 32), Frame::default());
    let mut pictures = vec![vec![0; 32 * 32 * 3]; settings.window];
    for (number, picture) in pictures.iter_mut().enumerate() {
        world.render(20 * number as u64, &mut frame);
        fit.rgb(&frame.rgb, frame.width, frame.height, picture)?;
    }

    let model = Model::random(&settings, 1)?;
    let device = DeviceChoice::Cpu.open()?;
    let encoder = device.training_encoder(model.plan.clone(), TrainingOptions::default(), 0)?;
    let mut trainer = Trainer::with(&settings, model, encoder, Box::new(Apart))?;
    let mut losses = Vec::new();
    for number in 0..20 {
        let frames = pictures.iter().map(|picture| Pixels::Bytes(picture)).collect();
        // A window's number decides which views its frames get: others each time.
        let window = WindowOfFrames { number, frames, next: Vec::new(), stride: settings.stride };
        let update = trainer.learn(&window)?;
        let (together, apart) = (update.term("together"), update.term("apart"));
        println!("window {number:>2}: loss {:.3} = together {together:.3} + apart {apart:.3}", update.loss);
        losses.push(update.loss);
    }
    if let [first, .., last] = losses[..] {
        println!("loss {first:.3} in the first window, {last:.3} in the last");
    }
    Ok(())
}

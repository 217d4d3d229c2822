//! Learning without a recording: windows of frames in, better weights out, and a frame embedded with them.
//!
//! `cargo run --release --example learn_from_frames`

#![allow(clippy::print_stdout)] // an example is there to be looked at

use oupn_edge::Result;
use oupn_edge::camera::{Frame, rooms::Rooms};
use oupn_edge::config::Settings;
use oupn_edge::encoder::inference::Inference;
use oupn_edge::encoder::{TrainingOptions, device::DeviceChoice};
use oupn_edge::frame::Fit;
use oupn_edge::learner::{Trainer, WindowOfFrames};
use oupn_edge::model::Model;
use oupn_edge::views::Pixels;

const WINDOWS: u64 = 5;

fn main() -> Result<()> {
    // The demo's settings, with shorter windows. `Preset::Saycam.settings()` are the paper's for a head camera.
    let mut settings = Settings::from_toml(include_str!("rooms.toml"), "rooms.toml")?;
    (settings.window, settings.stride) = (20, 20);
    let (height, width) = (settings.image_height, settings.image_width);

    // `Model::read` starts from a file of weights instead.
    let model = Model::random(&settings, 1)?;
    let (scaling, features) = (model.card.input.clone(), model.plan.features);
    let device = DeviceChoice::Cpu.open()?;
    let encoder = device.training_encoder(model.plan.clone(), TrainingOptions::default(), 0)?;
    let mut trainer = Trainer::new(&settings, model, encoder)?;

    let (mut world, mut fit, mut frame) = (Rooms::new(1), Fit::new(height, width), Frame::default());
    let mut picture = |number: u64| {
        world.render(number, &mut frame);
        let mut pixels = vec![0; height * width * 3];
        fit.rgb(&frame.rgb, frame.width, frame.height, &mut pixels)?;
        Result::Ok(pixels)
    };

    for number in 0..WINDOWS {
        // A frame every four seconds, and for the second view the one a moment later: the world has ten a second.
        let places = (0..settings.window as u64).map(|place| 40 * (number * settings.window as u64 + place));
        let (mut frames, mut next) = (Vec::new(), Vec::new());
        for place in places {
            frames.push(picture(place)?);
            next.push(picture(place + 1)?);
        }
        let update = trainer.learn(&WindowOfFrames {
            number,
            frames: frames.iter().map(|pixels| Pixels::Bytes(pixels)).collect(),
            next: next.iter().map(|pixels| Pixels::Bytes(pixels)).collect(),
            stride: settings.stride,
        })?;
        // What is not finite is never applied, and no error: a device goes on.
        if let Some(why) = update.refused {
            println!("window {number}: refused, {why}");
            continue;
        }
        let terms: Vec<_> = update.terms.iter().map(|(name, value)| format!("{name} {value:.3}")).collect();
        println!("window {number}: loss {:.3} ({})", update.loss, terms.join(", "));
    }

    // The encoder as it is now, with batch norm folded into its weights, for single pictures.
    let published = trainer.publish()?;
    let mut inference = Inference::new(published.folded, 1)?;
    let mut image: Vec<f32> = picture(0)?.iter().map(|byte| f32::from(*byte) / 255.0).collect();
    scaling.apply(&mut image);
    let mut embedding = vec![0.0; features];
    inference.embed(&image, &mut embedding)?;
    let length = embedding.iter().map(|value| value * value).sum::<f32>().sqrt();
    println!("after {} updates: an embedding of {features} numbers, length {length:.2}", trainer.steps());
    Ok(())
}

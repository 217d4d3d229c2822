//! A source of frames of your own, and the live path by hand: picture, embedding, category.
//!
//! `cargo run --release --example own_source`

#![allow(clippy::print_stdout)] // an example is there to be looked at

use oupn_edge::Result;
use oupn_edge::calibration::Calibrator;
use oupn_edge::camera::{Counters, Frame, Kind, Next, Source};
use oupn_edge::config::{EncoderKind, Preset};
use oupn_edge::encoder::inference::Inference;
use oupn_edge::frame::Fit;
use oupn_edge::memory::{Control, LiveMemory};
use oupn_edge::model::Model;

const SIDE: usize = 64;
const FRAMES: u64 = 30;
const COLOURS: [(&str, [u8; 3]); 3] =
    [("red", [250, 30, 30]), ("green", [30, 250, 30]), ("blue", [30, 30, 250])];

/// A square that moves, and changes its colour after every fifth frame.
#[derive(Debug, Default)]
struct Squares {
    next: u64,
    frames: u64,
}

impl Source for Squares {
    fn kind(&self) -> Kind {
        Kind::Recorded // frame n is always the same, and waits to be read
    }

    fn identity(&self) -> String {
        "squares".into()
    }

    fn describe(&self) -> String {
        format!("a moving square, {SIDE}x{SIDE}, {FRAMES} frames")
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Next> {
        if self.next >= FRAMES {
            return Ok(Next::End);
        }
        let (colour, left) = ((self.next / 5 % 3) as usize, 4 + 4 * (self.next % 5) as usize);
        frame.rgb.clear();
        for place in 0..SIDE * SIDE {
            let (y, x) = (place / SIDE, place % SIDE);
            let inside = (12..52).contains(&y) && (left..left + 40).contains(&x);
            frame.rgb.extend(if inside { COLOURS[colour].1 } else { [20, 20, 20] });
        }
        (frame.width, frame.height, frame.sequence) = (SIDE, SIDE, self.next);
        frame.recorded_ns = Some(self.next * 1_000_000_000);
        frame.truth = Some(colour as u32);
        self.next += 1;
        self.frames += 1;
        Ok(Next::Frame)
    }

    fn seek(&mut self, sequence: u64) -> Result<()> {
        self.next = sequence;
        Ok(())
    }

    fn rate(&self) -> Option<f64> {
        Some(1.0)
    }

    fn counters(&self) -> Counters {
        Counters { frames: self.frames, ..Counters::default() }
    }
}

fn main() -> Result<()> {
    let mut settings = Preset::Saycam.settings();
    settings.encoder = EncoderKind::Conv4;
    (settings.image_height, settings.image_width) = (28, 28);
    let (rules, model) = (settings.rules(), Model::random(&settings, 1)?);
    let mut inference = Inference::new(model.fold()?, 1)?;

    // Picture to embedding: crop and resize, pixels from 0 to 1, scaled as the weights want them, encoded.
    let mut fit = Fit::new(settings.image_height, settings.image_width);
    let mut pixels = vec![0; model.plan.image.len()];
    let mut embed = |frame: &Frame| {
        fit.rgb(&frame.rgb, frame.width, frame.height, &mut pixels)?;
        let mut image: Vec<f32> = pixels.iter().map(|byte| f32::from(*byte) / 255.0).collect();
        model.card.input.apply(&mut image);
        let mut embedding = vec![0.0; model.plan.features];
        inference.embed(&image, &mut embedding)?;
        Result::Ok(embedding)
    };

    // A first look at half of the frames tells how similar "the same" is, for this encoder and this world.
    let (mut squares, mut frame) = (Squares::default(), Frame::default());
    let mut first = Vec::new();
    while squares.next < FRAMES / 2 && squares.next(&mut frame)? == Next::Frame {
        first.extend(embed(&frame)?);
    }
    let beta = Calibrator::with(model.plan.features, first).beta(&model.control, &rules)?;
    let control = Control { beta, ..model.control };

    // Then each frame gets its category as it comes.
    let mut memory = LiveMemory::new(settings.slots, model.plan.features)?;
    squares.seek(0)?;
    while squares.next(&mut frame)? == Next::Frame {
        let seen = memory.observe(&embed(&frame)?, &control, &rules)?;
        let (name, _) = COLOURS[frame.truth.unwrap_or(0) as usize];
        let what = if seen.created { "new" } else { "known" };
        println!("frame {:>2}, {name:<5}: category {}, {what}", frame.sequence, seen.category);
    }
    println!("{FRAMES} frames of {} colours: {} categories", COLOURS.len(), memory.next_id());
    Ok(())
}

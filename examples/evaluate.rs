//! Scores of an encoder as the paper has them, on a few labelled walks through the built-in world.
//!
//! ```text
//! cargo run --release --example evaluate -- [WEIGHTS]
//! ```
//!
//! Without a file of weights it scores random ones: what every method of learning has to beat.

#![allow(clippy::print_stdout)] // an example is there to be looked at

use std::path::Path;

use oupn_edge::Result;
use oupn_edge::config::{EncoderKind, Preset};
use oupn_edge::eval::embed::{Embed, Encoder, embed_episodes};
use oupn_edge::eval::episodes::{Setting, Sweep, score};
use oupn_edge::model::Model;
use oupn_edge::streams::{Split, rooms};

const EPISODES: usize = 3;

fn main() -> Result<()> {
    let mut settings = Preset::Rooms.settings();
    settings.encoder = EncoderKind::Conv4;
    (settings.image_height, settings.image_width) = (32, 32);
    let model = match std::env::args_os().nth(1) {
        Some(weights) => Model::read(Path::new(&weights), &settings)?,
        None => Model::random(&settings, 1)?,
    };

    // Frames with the object that each one shows, from houses that no training has seen.
    let (set, episodes) = rooms::episodes(Split::Test, model.plan.image, EPISODES, settings.seed)?;

    // Each picture is embedded once. Whatever implements `Embed` can be scored so, also an encoder of other people.
    let encoder = Encoder { folded: model.fold()?, scaling: model.card.input.clone() };
    let embedded = embed_episodes(&encoder, &set, &episodes)?;

    // An empty memory sees each episode frame by frame. β of random weights was never learned: the sweep finds the best one.
    let sweep = if model.control_is_learned { Sweep::FirstTen } else { Sweep::Similarity };
    let setting = Setting {
        dimension: encoder.dimension(),
        slots: settings.slots,
        control: model.control,
        rules: settings.rules(),
    };
    let scores = score(&embedded, &setting, sweep)?;

    println!("{}: {} episodes, {} frames", model.card.about, scores.episodes, scores.frames);
    println!("adjusted mutual information {:.3} ± {:.3}", scores.ami, scores.ami_error);
    println!("average precision {:.3} ± {:.3}", scores.ap, scores.ap_error);
    println!("{:.1} categories for {:.1} objects an episode", scores.categories, scores.classes);
    Ok(())
}

//! The live memory by itself: categories form as embeddings come in.
//!
//! `cargo run --example categorise` walks around a circle twice, with a stop at each of three places.

use oupn_edge::Result;
use oupn_edge::config::Preset;
use oupn_edge::memory::{Control, LiveMemory};

fn main() -> Result<()> {
    let rules = Preset::Saycam.settings().rules();
    // β = −9.5 merges what is more similar than a cosine of 0.95; the paper's start, −12, merges nothing.
    let control = Control { beta: -9.5, ..Control::default() };
    let mut memory = LiveMemory::new(8, 2)?;
    for step in 0..12 {
        // Three places, seen from slightly different angles.
        let angle = f64::from(step / 2 % 3) * 2.1 + 0.05 * f64::from(step % 2);
        let seen = memory.observe(&[angle.cos() as f32, angle.sin() as f32], &control, &rules)?;
        let what = if seen.created { "is new" } else { "is known" };
        #[allow(clippy::print_stdout)] // an example is there to be looked at
        {
            println!(
                "step {step:>2}: category {} {what} (û {:.2}, similarity {:+.2})",
                seen.category, seen.new_probability, seen.similarity
            );
        }
    }
    Ok(())
}

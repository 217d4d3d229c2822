//! Times the encoder's part of one window update: forward and backward of all frames and views.
//!
//! `cargo run --release --example window_step -- [frames] [size] [width] [threads] [budget MiB] [repeats]`
//!
//! Prints seconds for each repeat and the process's peak resident memory. The weights are random: time does not depend
//! on them.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]

use std::sync::Arc;
use std::time::Instant;

use oupn_edge::Result;
use oupn_edge::encoder::{
    Architecture, BatchNorm, Fused, NormMode, Padding, TrainingEncoder, TrainingOptions,
};

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: f64| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (frames, size, width) = (next(75.0) as usize, next(224.0) as usize, next(1.0));
    let (threads, budget, repeats) = (next(2.0) as usize, next(1024.0) as usize, next(3.0) as usize);

    let architecture = match width {
        0.0 => Architecture::Conv4 { channels: 1, last_relu: false },
        width if width < 0.0 => Architecture::ResNet12 { channels: 4, strides: [2; 4] },
        width => Architecture::MobileNetV2 { width },
    };
    let batch_norm = BatchNorm { epsilon: 1e-3, momentum: 0.01 };
    let plan = Arc::new(architecture.plan(size, size, Padding::Same, batch_norm)?);
    let count = 2 * frames;
    let mut random = Random(1);
    let mut parameters = plan.zero_parameters();
    for (index, spec) in plan.parameter_specs().iter().enumerate() {
        let fan_in = spec.shape.iter().skip(1).product::<usize>();
        for value in parameters.tensor_mut(index) {
            *value = match spec.shape.len() {
                1 if spec.name.ends_with("weight") => 1.0,
                1 => 0.0,
                _ => random.next() * (6.0 / fan_in as f32).sqrt(),
            };
        }
    }
    let mut statistics = plan.fresh_statistics();
    let images: Vec<f32> = (0..count * plan.image.len()).map(|_| random.next() * 0.5 + 0.5).collect();
    let mut features = vec![0.0; count * plan.features];
    let mut gradients = plan.zero_parameters();
    let options = TrainingOptions { memory_budget: budget << 20, ..TrainingOptions::default() };
    let mut encoder = Fused::new(plan, options, threads)?;
    for _ in 0..repeats {
        let start = Instant::now();
        encoder.forward(&parameters, &mut statistics, &images, count, NormMode::Window, &mut features)?;
        let forward = start.elapsed().as_secs_f64();
        let scale = 2.0 / features.len() as f32;
        let d_features: Vec<f32> = features.iter().map(|feature| scale * feature).collect();
        let start = Instant::now();
        encoder.backward(&parameters, &images, &d_features, &mut gradients, None)?;
        let backward = start.elapsed().as_secs_f64();
        println!(
            "{count} images of {size}: {:.3} s (forward {forward:.3}, backward {backward:.3}), arena {} MiB, peak {} MiB",
            forward + backward,
            encoder.held_bytes() >> 20,
            peak_resident() >> 20,
        );
    }
    Ok(())
}

/// The highest resident memory of the process so far, in bytes.
fn peak_resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok()).unwrap_or(0) << 10
}

/// A small generator of numbers in (−1, 1).
struct Random(u32);

impl Random {
    fn next(&mut self) -> f32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 8) as f32 / 8_388_608.0 - 1.0
    }
}

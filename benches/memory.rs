//! The learning core: one frame seen by the live memory, one learning window forward and backward.

#![allow(clippy::unwrap_used)] // the inputs are the benchmark's own

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use oupn_edge::memory::{
    Control, EntropyOf, LiveMemory, Noise, Prototypes, PseudoLabel, Rules, Variant, Window, WindowInput,
};

const CONTROL: Control = Control { inv_tau: 10.0, beta: -7.0, gamma: 1.0 };

fn rules(symmetric: bool) -> Rules {
    Rules {
        variant: Variant::Reference,
        decay: 0.99,
        threshold: 0.5,
        prior_mean: 0.6,
        entropy_weight: 0.0,
        entropy_of: EntropyOf::All,
        creation_weight: 0.3,
        pseudo_label: if symmetric { PseudoLabel::OneHot } else { PseudoLabel::Soft { ratio: 0.2 } },
        straight_through: symmetric,
        symmetric,
    }
}

/// Embeddings as ReLU6 features are: not negative, each kind with its own pattern.
fn embeddings(count: usize, kinds: usize, dimension: usize) -> Vec<f32> {
    let wave = |seed: usize| ((seed as f32) * 12.9898).sin() * 43758.547;
    (0..count * dimension)
        .map(|index| {
            let (frame, i) = (index / dimension, index % dimension);
            let pattern = wave((frame * 5 % kinds) * dimension + i).fract().abs();
            pattern + 0.2 * wave(index + 7).fract().abs()
        })
        .collect()
}

fn observe(criterion: &mut Criterion) {
    let (slots, dimension) = (75, 1280);
    let rules = rules(true);
    let all = embeddings(300, 100, dimension);
    let mut memory = LiveMemory::new(slots, dimension).unwrap();
    for z in all.chunks_exact(dimension) {
        // β = −12: every frame creates a category, until all slots are in use.
        memory.observe(z, &Control::default(), &rules).unwrap();
    }
    assert_eq!(memory.prototypes().in_use(), slots);
    // β = 0: no frame creates one, so every slot is read and written, the most work that a frame can be.
    let control = Control { beta: 0.0, ..CONTROL };
    let mut next = all.chunks_exact(dimension).cycle();
    criterion.bench_function("observe K=75 D=1280, all slots written", |bencher| {
        bencher.iter(|| memory.observe(black_box(next.next().unwrap()), &control, &rules).unwrap());
    });
}

fn window(criterion: &mut Criterion) {
    for (name, frames, slots, dimension, symmetric) in [
        ("window saycam T=75 K=75 D=1280, symmetric, forward+backward", 75, 75, 1280, true),
        ("window omniglot T=150 K=150 D=64, forward+backward", 150, 150, 64, false),
    ] {
        let rules = rules(symmetric);
        let (one, two) = (embeddings(frames, 40, dimension), embeddings(frames, 40, dimension));
        let noise: Vec<f32> = (0..frames).map(|frame| (frame as f32 * 1.7).sin() * 2.0).collect();
        let mut window = Window::new(frames, slots, dimension).unwrap();
        let mut memory = Prototypes::new(slots, dimension).unwrap();
        let input = |memory: &Prototypes<f32>, window: &mut Window<f32>| {
            window
                .run(&WindowInput {
                    embeddings: [&one, &two],
                    memory,
                    control: CONTROL,
                    rules: &rules,
                    kappa: 1.0,
                    noise: Some(Noise { creation: [&noise, &noise], assignment: [&[], &[]] }),
                    stride: frames,
                })
                .unwrap();
        };
        input(&memory, &mut window);
        memory.clone_from(window.memory_after());
        criterion.bench_function(name, |bencher| bencher.iter(|| input(black_box(&memory), &mut window)));
    }
}

criterion_group!(benches, observe, window);
criterion_main!(benches);

//! The measures at the size of a day's evaluation: 5,000 frames, 75 categories.

use criterion::{Criterion, criterion_group, criterion_main};
use oupn_edge::eval::{NearestNeighbours, ami, average_precision};

fn measures(criterion: &mut Criterion) {
    let frames = 5_000usize;
    let mix = |seed: usize| (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    let truth: Vec<usize> = (0..frames).map(|frame| mix(frame) % 75).collect();
    let predicted: Vec<usize> = truth
        .iter()
        .enumerate()
        .map(|(frame, &label)| if frame % 3 == 0 { mix(frame * 7) % 75 } else { label })
        .collect();
    criterion
        .bench_function("ami of 5000 labels, 75 clusters", |bench| bench.iter(|| ami(&truth, &predicted)));

    let scores: Vec<f64> = (0..frames).map(|frame| mix(frame * 5) as f64).collect();
    let known: Vec<Option<usize>> =
        truth.iter().enumerate().map(|(frame, &label)| (frame % 9 != 0).then_some(label)).collect();
    criterion.bench_function("average precision of 5000 frames", |bench| {
        bench.iter(|| average_precision(&scores, &predicted, &known));
    });

    let features: Vec<f32> =
        (0..frames * 1280).map(|value| (mix(value) % 1000) as f32 / 1000.0 - 0.5).collect();
    let known = NearestNeighbours::new(&features, 1280, &truth);
    criterion.bench_function("39-NN of 64 queries among 5000 rows of 1280", |bench| {
        bench.iter(|| known.as_ref().map(|known| known.classify(&features[..64 * 1280], 39)));
    });
}

criterion_group!(benches, measures);
criterion_main!(benches);

//! What a window costs beside its encoder: the two views of 75 frames of 224×224 pixels, and Adam's update of
//! MobileNet-V2. One thread, so that the figures are per core.

use criterion::{Criterion, criterion_group, criterion_main};
use oupn_edge::encoder::plan::Shape;
use oupn_edge::learner::{Adam, Rates};
use oupn_edge::memory::Control;
use oupn_edge::memory::window::ControlGradient;
use oupn_edge::views::{Augmentation, Pairing, Pixels, Views};

fn beside_the_encoder(criterion: &mut Criterion) {
    let size = Shape { height: 224, width: 224, channels: 3 };
    let bytes: Vec<u8> = (0..size.len()).map(|index| ((index * 2_654_435_761) >> 13) as u8).collect();
    let frames = vec![Pixels::Bytes(&bytes); 75];
    let mut images = vec![0.0; 150 * size.len()];
    let Ok(pool) = rayon::ThreadPoolBuilder::new().num_threads(1).build() else { return };
    let mut group = criterion.benchmark_group("views");
    group.sample_size(10);
    for (name, augmentation) in [("saycam", Augmentation::Saycam), ("mild", Augmentation::Mild)] {
        let recipe = augmentation.recipe();
        let Ok(mut views) = pool.install(|| Views::new(Pairing::TwoAugmented, recipe, size, 0)) else {
            return;
        };
        let mut window = 0;
        group.bench_function(format!("{name}, 150 images of 224x224"), |bench| {
            bench.iter(|| {
                window += 1;
                pool.install(|| views.make(window, &frames, &[], &mut images))
            });
        });
    }
    group.finish();

    let weights = 2_223_872;
    let (mut values, gradient) = (vec![0.1; weights], vec![0.01; weights]);
    let (mut adam, mut control) = (Adam::new(weights), Control::default());
    let rates = Rates { encoder: 1e-3, inv_tau: 1e-3, beta: 1e-3, gamma: 1e-3 };
    criterion.bench_function("adam, 2.2 million weights", |bench| {
        bench.iter(|| adam.update(&mut values, &gradient, &mut control, &ControlGradient::default(), &rates));
    });
}

criterion_group!(benches, beside_the_encoder);
criterion_main!(benches);

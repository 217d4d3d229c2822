//! The learner on a small encoder: it learns, it repeats itself exactly, and it never applies what is not finite.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oupn_edge::config::{Preset, Settings};
use oupn_edge::encoder::{Fused, NormMode, Parameters, Statistics, TrainingEncoder, TrainingOptions};
use oupn_edge::learner::Trainer;
use oupn_edge::learner::update::{Refusal, Update};
use oupn_edge::model::Model;
use oupn_edge::random::{Purpose, Random};

const FRAMES: usize = 12;

fn settings(straight_through: bool) -> Settings {
    let mut settings = Preset::Omniglot.settings();
    settings.window = FRAMES;
    settings.stride = 4;
    settings.slots = 8;
    settings.straight_through = straight_through;
    settings.image_height = 16;
    settings.image_width = 16;
    settings.beta = -8.0;
    settings
}

fn trainer(settings: &Settings) -> Trainer {
    let model = Model::random(settings, 3).unwrap();
    let encoder = Fused::new(Arc::clone(&model.plan), TrainingOptions::default(), 2).unwrap();
    Trainer::new(settings, model, Box::new(encoder)).unwrap()
}

/// Three kinds of stroke, each at a random place: view 1 of all frames, then view 2.
fn images(number: u64) -> Vec<f32> {
    let mut random = Random::new(1, Purpose::World, number);
    let kinds: Vec<usize> = (0..FRAMES).map(|_| random.below(3)).collect();
    let mut images = vec![0.0; 2 * FRAMES * 256];
    for (index, image) in images.chunks_exact_mut(256).enumerate() {
        let (x, y) = (2 + random.below(6), 2 + random.below(6));
        for i in 0..8 {
            let (dx, dy) = [(i, 0), (0, i), (i, i)][kinds[index % FRAMES]];
            image[(y + dy) * 16 + x + dx] = 1.0;
        }
    }
    images
}

fn run(trainer: &mut Trainer, updates: std::ops::Range<u64>) -> Vec<Update> {
    updates.map(|number| trainer.learn_from_views(&images(number), FRAMES, 4).unwrap()).collect()
}

#[test]
fn the_loss_falls() {
    let settings = settings(false);
    let mut trainer = trainer(&settings);
    let updates = run(&mut trainer, 0..60);
    let mean = |updates: &[Update]| updates.iter().map(|u| u.loss).sum::<f64>() / updates.len() as f64;
    let (before, after) = (mean(&updates[..10]), mean(&updates[50..]));
    assert!(after < 0.8 * before, "{before} → {after}");
    assert!(updates.iter().all(|update| update.refused.is_none() && update.spread > 0.0));
    assert_eq!(trainer.steps(), 60);
}

/// The state is all there is: a learner rebuilt around it goes on with the same bits, sampling included.
#[test]
fn a_restored_state_goes_on_bit_for_bit() {
    for straight_through in [false, true] {
        let settings = settings(straight_through);
        let mut whole = trainer(&settings);
        run(&mut whole, 0..5);
        let mut resumed = trainer(&settings);
        resumed.restore(whole.state()).unwrap();
        run(&mut whole, 5..10);
        run(&mut resumed, 5..10);
        assert_eq!(whole.state(), resumed.state());
        let mut other = Settings { seed: settings.seed + 1, ..settings.clone() };
        other.straight_through = straight_through;
        let mut other = trainer(&other);
        run(&mut other, 0..10);
        assert_eq!(
            other.state() == whole.state(),
            !straight_through,
            "the seed decides the samples, and nothing else"
        );
    }
}

/// One update with a pull is the same update without it, moved back by that part of the way; the anchor is in the state, so a
/// learner that goes on from it has it too.
#[test]
fn weights_are_pulled_back_after_adam() {
    let free = settings(false);
    let pulled = Settings { anchor_pull: 0.25, anchor_rate: 0.1, ..free.clone() };
    let start = trainer(&free).state().parameters.values;
    let after = |settings: &Settings| {
        let mut trainer = trainer(settings);
        run(&mut trainer, 0..1);
        trainer.state()
    };
    let (free, once) = (after(&free), after(&pulled));
    assert_eq!(free.anchor, None);
    assert_eq!(once.adam, free.adam);
    let anchor = once.anchor.clone().unwrap();
    let mut moved = 0;
    for (at, start) in start.iter().enumerate() {
        let expected = free.parameters.values[at] + 0.25 * (start - free.parameters.values[at]);
        let found = once.parameters.values[at];
        assert!((found - expected).abs() <= f32::EPSILON * expected.abs(), "{found} {expected}");
        assert!((anchor[at] - (start + 0.1 * (found - start))).abs() <= f32::EPSILON * start.abs().max(1e-3));
        moved += usize::from(found != *start);
    }
    assert!(moved > start.len() / 2, "the test shows something");

    let (mut whole, mut resumed) = (trainer(&pulled), trainer(&pulled));
    run(&mut whole, 0..3);
    resumed.restore(whole.state()).unwrap();
    run(&mut whole, 3..6);
    run(&mut resumed, 3..6);
    assert_eq!(whole.state(), resumed.state());
}

/// Two second views are two windows with the same first view, averaged: loss, gradient (Adam's first moment after one update is a
/// tenth of it) and the scalars'. Under running statistics, since those of a window depend on all of its images. f32: 1e-5 of
/// the largest.
#[test]
fn second_views_are_averaged() {
    // β so low that every frame creates a category: there is something to tell apart.
    let one = Settings { norm_statistics: NormMode::Running, beta: -12.0, ..settings(false) };
    let two = Settings { second_views: 2, ..one.clone() };
    let both = [images(0), images(7)[FRAMES * 256..].to_vec()].concat();
    let (first, seconds) = both.split_at(FRAMES * 256);
    let separate: Vec<_> = seconds
        .chunks_exact(FRAMES * 256)
        .map(|second| {
            let mut trainer = trainer(&one);
            let update = trainer.learn_from_views(&[first, second].concat(), FRAMES, 4).unwrap();
            (update, trainer.state())
        })
        .collect();
    let mut trainer = trainer(&two);
    let update = trainer.learn_from_views(&both, FRAMES, 4).unwrap();

    let [(a, a_state), (b, b_state)] = &separate[..] else { panic!("two second views") };
    assert!((a.loss - b.loss).abs() > 1e-3, "views that differ");
    let mean = (a.loss + b.loss) / 2.0;
    assert!((update.loss - mean).abs() < 1e-6, "{} {mean}", update.loss);
    let state = trainer.state();
    assert_eq!(state.carried, a_state.carried, "written by the first view alone");

    let moments = [&a_state.adam, &b_state.adam, &state.adam].map(|adam| &adam.first);
    let largest = moments[2].iter().fold(0.0f32, |largest, moment| largest.max(moment.abs()));
    assert!(largest > 0.0);
    for ((a, b), both) in moments[0].iter().zip(moments[1]).zip(moments[2]) {
        assert!(((a + b) / 2.0 - both).abs() < 1e-5 * largest, "{a} {b} {both}");
    }
}

#[test]
fn what_is_not_finite_is_not_applied() {
    let mut trainer = trainer(&settings(false));
    run(&mut trainer, 0..2);
    let before = trainer.state();
    let mut bad = images(2);
    bad[0] = f32::NAN;
    let update = trainer.learn_from_views(&bad, FRAMES, 4).unwrap();
    assert!(update.refused.unwrap().to_string().contains("not finite"));
    assert_eq!(trainer.state(), before);
    assert!(run(&mut trainer, 2..3)[0].refused.is_none(), "and the next window is learned from");
}

/// An encoder that counts its backward passes.
struct Counted(Fused, Arc<AtomicUsize>);

impl TrainingEncoder for Counted {
    fn forward(
        &mut self,
        parameters: &Parameters,
        statistics: &mut Statistics,
        images: &[f32],
        count: usize,
        norm: NormMode,
        features: &mut [f32],
    ) -> oupn_edge::Result<()> {
        self.0.forward(parameters, statistics, images, count, norm, features)
    }

    fn backward(
        &mut self,
        parameters: &Parameters,
        images: &[f32],
        d_features: &[f32],
        gradients: &mut Parameters,
        d_images: Option<&mut [f32]>,
    ) -> oupn_edge::Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.backward(parameters, images, d_features, gradients, d_images)
    }
}

#[test]
fn a_loss_that_is_not_finite_costs_no_backward_pass() {
    let settings = Settings { creation_weight: f64::INFINITY, ..settings(false) };
    let model = Model::random(&settings, 3).unwrap();
    let passes = Arc::new(AtomicUsize::new(0));
    let encoder = Fused::new(Arc::clone(&model.plan), TrainingOptions::default(), 2).unwrap();
    let encoder = Box::new(Counted(encoder, Arc::clone(&passes)));
    let mut trainer = Trainer::new(&settings, model, encoder).unwrap();
    let before = trainer.state();
    let update = trainer.learn_from_views(&images(0), FRAMES, 4).unwrap();
    assert_eq!(update.refused, Some(Refusal::LossNotFinite));
    assert!(update.gradient_norm.is_nan(), "none was computed");
    assert_eq!(passes.load(Ordering::Relaxed), 0);
    assert_eq!(trainer.state(), before);
}

#[test]
fn windows_of_the_wrong_size_are_refused() {
    let mut trainer = trainer(&settings(false));
    assert!(trainer.learn_from_views(&[], 0, 1).is_err());
    assert!(trainer.learn_from_views(&images(0), FRAMES + 1, 1).is_err());
    assert!(trainer.learn_from_views(&images(0), FRAMES, FRAMES + 1).is_err());
    assert!(trainer.learn_from_views(&images(0)[256..], FRAMES, 4).is_err());
}

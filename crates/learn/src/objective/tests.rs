//! The objectives by automatic differentiation against PyTorch, and their way through a checkpoint.

use std::path::Path;

use super::autograd::{ByAutograd, Loss};
use super::simclr::SimClr;
use super::simsiam::SimSiam;
use super::swav::SwAv;
use super::widths::Widths;
use super::{Embeddings, Method, Objective, Question};
use crate::Choice;
use crate::config::{Preset, Settings};
use crate::memory::Control;
use crate::random::{Purpose, Random};
use crate::tensors::TensorFile;

/// Of the golden file: frames, numbers of an embedding.
const FRAMES: usize = 6;
const DIMENSION: usize = 8;

fn small(normed_end: bool) -> Widths {
    Widths { hidden: 7, output: 5, prototypes: 9, queue: 10, normed_end }
}

fn settings() -> Settings {
    Settings { steps: 20, ..Preset::Omniglot.settings() }
}

fn ask(objective: &mut dyn Objective, values: &[f32], step: u64, d: &mut [f32]) -> f64 {
    let embeddings = Embeddings { values, frames: FRAMES, dimension: DIMENSION };
    let question = Question { embeddings, control: Control::default(), step, stride: FRAMES };
    objective.run(&question, d).unwrap().loss
}

/// Computed in 32 bits against 64: gradients of size 1 agree to a few 1e-6 by rounding; a wrong one is off by its own size.
fn close(name: &str, ours: &[f32], theirs: &[f32]) {
    assert_eq!(ours.len(), theirs.len(), "{name}");
    let largest = theirs.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    assert!(largest > 1e-3, "{name}: nothing to compare");
    for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        assert!((ours - theirs).abs() < 2e-5 * largest.max(1.0), "{name}[{at}]: {ours}, PyTorch {theirs}");
    }
}

fn compare<L: Loss>(name: &str, mut objective: ByAutograd<L>, prepare: impl Fn(&mut L, &TensorFile)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/objectives.safetensors");
    let file = TensorFile::read(path).unwrap();
    let golden = |part: &str| file.require(&format!("{name}.{part}")).unwrap().values.as_slice();
    let weights = objective.weights_mut().all_mut();
    assert_eq!(weights.len(), golden("weights").len(), "{name}: another layout");
    weights.copy_from_slice(golden("weights"));
    prepare(objective.loss_mut(), &file);
    let mut d = vec![f32::NAN; 2 * FRAMES * DIMENSION];
    let loss = ask(&mut objective, golden("z"), 5, &mut d);
    close(name, &[loss as f32], golden("loss"));
    close(&format!("{name}: at the embeddings"), &d, golden("d_z"));
    close(&format!("{name}: at the head"), objective.gradient(), golden("d_weights"));
}

#[test]
fn losses_and_gradients_are_pytorchs() {
    let settings = settings();
    compare("simclr", SimClr::with(&settings, DIMENSION, small(false)), |_, _| {});
    compare("simclr-normed", SimClr::with(&settings, DIMENSION, small(true)), |_, _| {});
    compare("swav", SwAv::with(&settings, DIMENSION, false, small(false)), |_, _| {});
    compare("simsiam", SimSiam::with(&settings, DIMENSION, small(false)), |_, _| {});
    compare("swav-queue", SwAv::with(&settings, DIMENSION, true, small(false)), |loss, file| {
        let queue = file.require("swav-queue.queue").unwrap().clone();
        loss.carry(&[("objective.swav-queue.queue".to_owned(), queue)].into()).unwrap();
    });
}

/// Each of the methods, of the paper's widths, for small embeddings.
fn all() -> impl Iterator<Item = (Method, Box<dyn Objective>)> {
    let settings = Settings { window: FRAMES, stride: FRAMES, slots: 4, ..settings() };
    Method::ALL.iter().map(move |(method, _, _)| (*method, method.objective(&settings, DIMENSION).unwrap()))
}

fn embeddings(step: u64) -> Vec<f32> {
    let mut random = Random::new(1, Purpose::Sampling, step);
    (0..2 * FRAMES * DIMENSION).map(|_| random.normal() as f32).collect()
}

fn learn(objective: &mut dyn Objective, steps: std::ops::Range<u64>) -> Vec<u64> {
    let mut d = vec![0.0; 2 * FRAMES * DIMENSION];
    let one = |step| {
        let loss = ask(objective, &embeddings(step), step, &mut d);
        objective.commit();
        loss.to_bits()
    };
    steps.map(one).collect()
}

/// What is carried is all there is: from a copy the same losses follow, bit for bit, while weights move.
#[test]
fn an_objective_goes_on_from_what_it_carries() {
    for ((method, mut whole), (_, mut resumed)) in all().zip(all()) {
        learn(&mut *whole, 0..3);
        let carried = whole.carried();
        resumed.carry(&carried).unwrap();
        let went_on = learn(&mut *whole, 3..6);
        assert_eq!(went_on, learn(&mut *resumed, 3..6), "{method}");
        assert_eq!(whole.carried(), resumed.carried(), "{method}");
        assert_ne!(whole.carried(), carried, "{method}: nothing moved");
    }
}

/// The same with a queue that is full and asked, and with a window in between that begins without it.
#[test]
fn a_queue_goes_on_too() {
    let made = || SwAv::with(&settings(), DIMENSION, true, small(false));
    let (mut whole, mut resumed) = (made(), made());
    learn(&mut whole, 0..4);
    let carried = whole.carried();
    assert_eq!(carried["objective.swav-queue.queue"].shape, [10, 5]);
    resumed.carry(&carried).unwrap();
    resumed.put_aside();
    let mut d = vec![0.0; 2 * FRAMES * DIMENSION];
    let without = ask(&mut resumed, &embeddings(4), 4, &mut d);
    resumed.take_up();
    assert_eq!(resumed.carried(), carried);
    let with = ask(&mut resumed, &embeddings(4), 4, &mut d);
    assert_ne!(without, with, "the queue is asked");
    assert_eq!(learn(&mut whole, 4..7), learn(&mut resumed, 4..7));
    assert_eq!(whole.carried(), resumed.carried());
}

/// A run that is not committed leaves everything as it was: the update may be refused.
#[test]
fn a_refused_update_leaves_no_trace() {
    for (method, mut objective) in all() {
        learn(&mut *objective, 0..2);
        let before = objective.carried();
        ask(&mut *objective, &embeddings(7), 2, &mut vec![0.0; 2 * FRAMES * DIMENSION]);
        assert_eq!(objective.carried(), before, "{method}");
    }
}

/// The same window again and again: each method lowers its own loss by its head alone.
#[test]
fn heads_learn() {
    for (method, mut objective) in all().filter(|(method, _)| *method != Method::Oupn) {
        let window = embeddings(0);
        let mut d = vec![0.0; window.len()];
        let losses: Vec<f64> = (0..30)
            .map(|step| {
                let loss = ask(&mut *objective, &window, step, &mut d);
                objective.commit();
                loss
            })
            .collect();
        assert!(losses[29] < losses[0] - 0.1, "{method}: {losses:?}");
    }
}

/// Every pair of different methods: one sentence that names both.
#[test]
fn a_checkpoint_of_another_objective_is_refused() {
    for (from, first) in all() {
        for (to, mut second) in all().filter(|(to, _)| *to != from) {
            let error = second.carry(&first.carried()).unwrap_err().to_string();
            assert!(
                error.contains(&format!("of the objective {from}, the settings ask for {to}")),
                "{error}"
            );
        }
    }
}

#[test]
fn more_than_two_views_are_refused() {
    let values = vec![0.5; 3 * FRAMES * DIMENSION];
    let embeddings = Embeddings { values: &values, frames: FRAMES, dimension: DIMENSION };
    let question = Question { embeddings, control: Control::default(), step: 0, stride: FRAMES };
    let mut objective = SimSiam::with(&settings(), DIMENSION, small(false));
    let error = objective.run(&question, &mut vec![0.0; values.len()]).unwrap_err().to_string();
    assert!(error.contains("second_views"), "{error}");
}

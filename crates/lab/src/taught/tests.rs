//! The taught objectives against PyTorch.

use std::path::Path;

use super::{CrossEntropy, Labels, OnlineProtoNet};
use crate::config::{Preset, Settings};
use crate::memory::Control;
use crate::objective::autograd::{ByAutograd, Loss};
use crate::objective::{Embeddings, Objective, Question};
use crate::tensors::TensorFile;

const FRAMES: usize = 6;
const DIMENSION: usize = 8;

/// The classes in tests/golden/make_objectives.py.
const LABELS: [usize; FRAMES] = [3, 1, 3, 0, 1, 3];

fn labels() -> Labels {
    let labels = Labels::default();
    labels.set(LABELS.to_vec());
    labels
}

fn compare<L: Loss>(name: &str, mut objective: ByAutograd<L>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/objectives.safetensors");
    let file = TensorFile::read(path).unwrap();
    let golden = |part: &str| file.require(&format!("{name}.{part}")).unwrap().values.as_slice();
    let mut carried = objective.carried();
    let weights = carried.get_mut(&format!("objective.{name}.weights")).unwrap();
    assert_eq!(weights.values.len(), golden("weights").len(), "{name}: another layout");
    weights.values.copy_from_slice(golden("weights"));
    objective.carry(&carried).unwrap();
    let embeddings = Embeddings { values: golden("z"), frames: FRAMES, dimension: DIMENSION };
    let question = Question { embeddings, control: Control::default(), step: 5, stride: FRAMES };
    let mut d = vec![f32::NAN; 2 * FRAMES * DIMENSION];
    let answer = objective.run(&question, &mut d).unwrap();
    // Computed in 32 bits against 64, with cosines times 10: a wrong gradient is off by its own size.
    let close = |what: &str, ours: &[f32], theirs: &[f32]| {
        assert_eq!(ours.len(), theirs.len(), "{name}: {what}");
        let largest = theirs.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
        assert!(largest > 1e-3, "{name}: {what}: nothing to compare");
        for (at, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            assert!(
                (ours - theirs).abs() < 2e-5 * largest.max(1.0),
                "{name}: {what}[{at}]: {ours}, PyTorch {theirs}"
            );
        }
    };
    close("loss", &[answer.loss as f32], golden("loss"));
    close("at the embeddings", &d, golden("d_z"));
    close("at the head", objective.gradient(), golden("d_weights"));
}

fn settings() -> Settings {
    Preset::Omniglot.settings()
}

#[test]
fn taught_losses_and_gradients_are_pytorchs() {
    compare("cross-entropy", CrossEntropy::objective(&settings(), DIMENSION, 4, labels()));
    compare("prototypes", OnlineProtoNet::objective(&settings(), labels()));
}

#[test]
fn a_window_without_its_labels_is_refused() {
    let mut objective = OnlineProtoNet::objective(&settings(), Labels::default());
    let values = vec![0.5; 2 * FRAMES * DIMENSION];
    let embeddings = Embeddings { values: &values, frames: FRAMES, dimension: DIMENSION };
    let question = Question { embeddings, control: Control::default(), step: 0, stride: FRAMES };
    let error = objective.run(&question, &mut vec![0.0; values.len()]).unwrap_err().to_string();
    assert!(error.contains("0 labels for 6 frames"), "{error}");
}

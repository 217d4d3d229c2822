//! The published ImageNet weights on real pictures: finite features, and neighbours that make sense.
//!
//! Needs `OUPN_WEIGHTS` and `OUPN_DATA` (with `coil100` and `tum_fr1_desk`).

use std::path::Path;
use std::sync::Arc;

use oupn_edge::encoder::Weights;
use oupn_edge::encoder::inference::{Folded, Inference};
use oupn_edge::eval::NearestNeighbours;
use oupn_edge::frame::Fit;

use crate::support::{data, weights};

/// Encodes picture files of any size with one of the published models.
struct Eye {
    inference: Inference,
    scaling: oupn_edge::encoder::card::InputScaling,
    fit: Fit,
    side: usize,
    features: usize,
}

impl Eye {
    fn new(weights: &Path, side: usize) -> Self {
        let weights = Weights::read(weights).unwrap();
        let plan = weights.card.plan(side, side, 0.1).unwrap();
        let folded = Folded::new(&plan, &weights.parameters, &weights.statistics).unwrap();
        let inference = Inference::new(Arc::new(folded), 0).unwrap();
        Self {
            inference,
            scaling: weights.card.input,
            fit: Fit::new(side, side),
            side,
            features: plan.features,
        }
    }

    fn look(&mut self, picture: &Path) -> Vec<f32> {
        let picture = image::open(picture).unwrap().to_rgb8();
        let mut fitted = vec![0; 3 * self.side * self.side];
        let (width, height) = (picture.width() as usize, picture.height() as usize);
        self.fit.rgb(picture.as_raw(), width, height, &mut fitted).unwrap();
        let mut image: Vec<f32> = fitted.iter().map(|byte| f32::from(*byte) / 255.0).collect();
        self.scaling.apply(&mut image);
        let mut features = vec![0.0; self.features];
        self.inference.embed(&image, &mut features).unwrap();
        assert!(features.iter().all(|feature| feature.is_finite()));
        assert!(features.iter().any(|feature| *feature != 0.0));
        features
    }
}

/// Each of twelve angles of a hundred objects against all other views: the nearest one shows the same object.
#[test]
#[ignore = "needs OUPN_DATA and OUPN_WEIGHTS: make test-data"]
fn the_nearest_view_of_an_object_is_the_same_object() {
    let mut eye = Eye::new(&weights("mobilenet_v2_0.35_imagenet.safetensors"), 128);
    let (mut features, mut objects) = (Vec::new(), Vec::new());
    for object in 1..=100 {
        for angle in (0..360).step_by(30) {
            features.extend(eye.look(&data("coil100").join(format!("obj{object}__{angle}.jpg"))));
            objects.push(object);
        }
    }
    let dimension = eye.features;
    // Each question copies all other views, so every tenth view is asked for.
    let (mut asked, mut right) = (0, 0);
    for at in (0..objects.len()).step_by(10) {
        let rest = [&features[..at * dimension], &features[(at + 1) * dimension..]].concat();
        let labels = [&objects[..at], &objects[at + 1..]].concat();
        let neighbours = NearestNeighbours::new(&rest, dimension, &labels).unwrap();
        let query = &features[at * dimension..][..dimension];
        asked += 1;
        right += usize::from(neighbours.classify(query, 1).unwrap() == [objects[at]]);
    }
    eprintln!("{right} of {asked} views have the same object as their nearest neighbour");
    assert!(right * 100 > asked * 95, "{right} of {asked}");
}

#[test]
#[ignore = "needs OUPN_DATA and OUPN_WEIGHTS: make test-data"]
fn features_of_a_walk_are_finite_and_neighbouring_frames_are_alike() {
    let mut eye = Eye::new(&weights("mobilenet_v2_1.0_imagenet.safetensors"), 224);
    let folder = data("tum_fr1_desk");
    let list = std::fs::read_to_string(folder.join("rgb.txt")).unwrap();
    let files: Vec<&str> = list
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    let chosen: Vec<Vec<f32>> = files.iter().step_by(20).map(|file| eye.look(&folder.join(file))).collect();
    let next = eye.look(&folder.join(files[1]));
    let cosine = |a: &[f32], b: &[f32]| {
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    };
    let near = cosine(&chosen[0], &next);
    let far = chosen[1..].iter().map(|other| cosine(&chosen[0], other)).fold(0.0f64, f64::max);
    eprintln!("{} frames; next frame {near:.3}, most similar of the others {far:.3}", chosen.len());
    assert!(near > far);
}

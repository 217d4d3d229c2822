//! The long memory on real objects: what it takes for the same thing is the same thing, by the labels that it never sees.
//!
//! Needs `OUPN_WEIGHTS` and `OUPN_DATA` (with `coil100`).

use std::collections::HashMap;
use std::sync::Arc;

use oupn_edge::config::Settings;
use oupn_edge::encoder::Weights;
use oupn_edge::eval::embed::Encoder;
use oupn_edge::model::Model;
use oupn_edge::random::{Purpose, Random};
use oupn_edge::streams::video::{Places, VideoStream};
use oupn_edge::streams::{LearningStream, SecondView, Split, coil};
use oupn_edge::windows::LongMemory;

use crate::support::{data, weights};

/// 40 windows of each stream, then the second views of the next ten: nearly all show the same object, and most are farther than
/// the 5° of the next frame. Frozen weights of ImageNet.
#[test]
#[ignore = "needs OUPN_DATA and OUPN_WEIGHTS: make test-data"]
fn second_views_show_the_same_object() {
    let path = weights("mobilenet_v2_0.35_imagenet.safetensors");
    let weights = Weights::read(&path).unwrap();
    let settings = Settings::for_device(None, None, Some(&weights.card)).unwrap();
    let model = Model::of(weights, &path, &settings, (128, 128)).unwrap();
    let encoder = Encoder::of(&model).unwrap();
    let set = coil::load(&data("coil100"), Split::Train, model.plan.image).unwrap();
    // Which object and angle a picture shows, by its bytes.
    let shows: HashMap<Vec<u8>, (usize, usize)> =
        (0..set.len()).map(|at| (set.image(at).to_vec(), (at / 72, at % 72))).collect();
    for places in [Places::Anywhere, Places::Rooms] {
        let (second, window, stride) = (SecondView::Groups, 75, 75);
        let stream = VideoStream { set: set.clone(), places, second, window, stride, seed: 0 };
        let mut memory = LongMemory::new(settings.long_rules());
        let mut random = Random::new(0, Purpose::Replay, 0);
        let (mut frames, mut found, mut same, mut degrees) = (0, 0, 0, 0);
        for number in 0..50 {
            let shown = stream.window(number).unwrap().frames;
            let pictures: Vec<&[u8]> = shown.iter().map(|frame| &**frame).collect();
            let embeddings = encoder.embed_pictures(&pictures).unwrap();
            let rows = || (75 * number..).zip(embeddings.chunks_exact(model.plan.features));
            for ((frame, row), picture) in rows().zip(&pictures) {
                memory.push(frame, Arc::from(*picture), row);
            }
            if number % 10 == 9 {
                memory.embed_again(|pictures| encoder.embed_pictures(pictures)).unwrap();
            }
            for ((frame, row), picture) in rows().zip(&pictures).filter(|_| number >= 40) {
                frames += 1;
                let Some(other) = memory.second_view_of(frame, row, &mut random) else { continue };
                let (this, other) = (shows[*picture], shows[&other[..]]);
                found += 1;
                if this.0 == other.0 {
                    same += 1;
                    let apart = this.1.abs_diff(other.1);
                    degrees += 5 * apart.min(72 - apart);
                }
            }
        }
        eprintln!(
            "{places:?}: {frames} frames, {found} second views, {same} of the same object, {:.0} degrees away; {:?}",
            degrees as f64 / f64::from(same.max(1)),
            memory.held()
        );
        assert!(found * 10 > frames * 8, "{found} of {frames}");
        assert!(same * 100 > found * 95, "{same} of {found}");
        assert!(degrees > 20 * same as usize, "{degrees} degrees in {same}");
    }
}

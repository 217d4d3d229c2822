//! The steps of opening a run, each on its own.

use std::collections::HashMap;
use std::sync::Arc;

use super::{plan, small_settings};
use crate::camera::{Camera, Frame};
use crate::config::Settings;
use crate::learner::{Published, Trainer};
use crate::live::score::Publish;
use crate::run::Session;
use crate::run::checkpoint::{LiveHeader, NumbersUsed};
use crate::run::device_trainer::DeviceTrainer;
use crate::run::engine::Core;
use crate::run::feed::Feed;
use crate::run::learning::{Lesson, Student};
use crate::run::live::{Fresh, LivePath, Threshold};
use crate::run::plan::RunPlan;
use crate::run::resume::{Before, Position};
use crate::run::start::Start;
use crate::storage::{CheckpointStore, OsFilesystem};
use crate::trace::Place;
use crate::windows::Sample;

fn store(plan: &RunPlan) -> CheckpointStore {
    CheckpointStore::open(std::sync::Arc::new(OsFilesystem), &plan.data.join("checkpoints")).unwrap()
}

#[test]
fn a_start_is_random_then_a_checkpoint_and_a_checkpoint_is_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(&folder.path().join("first"), small_settings());
    (plan.frames, plan.realtime) = (Some(9), false);
    let network = plan.settings.plan().unwrap();
    let random = Start::resume_or_new(&plan, &network, &store(&plan)).unwrap();
    assert!(random.restored.is_none() && random.resumed_from.is_none());
    assert_eq!(random.model.card.name, "from-scratch");

    Session::open(&plan).unwrap().run().unwrap();
    let resumed = Start::resume_or_new(&plan, &network, &store(&plan)).unwrap();
    assert!(resumed.resumed_from.unwrap().starts_with("checkpoint-"));
    assert_ne!(resumed.model.parameters, random.model.parameters, "two updates fit into nine frames");

    let mut second = plan.clone();
    second.data = folder.path().join("second");
    second.model = Some(store(&plan).list().unwrap()[0].path.clone());
    let warm = Start::resume_or_new(&second, &network, &store(&second)).unwrap();
    assert_eq!(warm.model.parameters, resumed.model.parameters);
    assert_eq!(
        warm.model.control,
        resumed.restored.unwrap().learner.control,
        "1/τ, β, γ come with the weights"
    );
}

/// A source and a live path, as they are before the position is known.
fn opened(plan: &RunPlan, before: &mut Before) -> (Feed, LivePath) {
    let network = plan.settings.plan().unwrap();
    let start = Start::new(plan).unwrap();
    let live = Core::new(plan, &network, start, before).unwrap().live;
    let camera: Camera = plan.camera.parse().unwrap();
    (Feed::open(plan, &camera, before.next_sequence()).unwrap(), live)
}

/// What a checkpoint after five frames says, of a trace that reached the eighth.
fn five_frames() -> Before {
    Before {
        header: Some(LiveHeader {
            frame: 5,
            next_sequence: 50,
            stride: 6,
            window_start: 3,
            samples: vec![(3, 30, None), (4, 40, Some(41))],
            running_s: 70,
            camera: "rooms".into(),
            unpublished: 2,
            ..LiveHeader::default()
        }),
        used: NumbersUsed { seq: 20, frames: 8, categories: 4 },
        same_source: true,
        ..Before::default()
    }
}

#[test]
fn the_same_recorded_source_goes_back_to_the_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), small_settings());
    let mut before = five_frames();
    let (mut feed, mut live) = opened(&plan, &mut before);
    let position = Position::restore(&plan, before, &mut feed, &mut live).unwrap();
    assert_eq!((position.next_frame, feed.next_sequence()), (5, 50), "frames 5 to 7 are seen again");
    assert_eq!(live.memory.next_id(), 0, "and so are their categories");
    assert_eq!((position.pace.stride(), position.ran_before.as_secs(), position.unpublished), (6, 70, 2));
    let kept = position.windows.kept();
    let window: Vec<_> = kept.samples.iter().map(|sample| (sample.frame, sample.sequence)).collect();
    assert_eq!(window, [(3, 30), (4, 40)]);
    assert_eq!(kept.samples[1].companion.as_ref().unwrap().0, 41);
}

#[test]
fn another_source_begins_after_all_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let plan = RunPlan { camera: "rooms:7".into(), ..plan(folder.path(), small_settings()) };
    let mut before = five_frames();
    before.same_source = Before::is_same_source(&plan, Some("rooms"), before.header.as_ref());
    assert!(!before.same_source);
    let (mut feed, mut live) = opened(&plan, &mut before);
    let position = Position::restore(&plan, before, &mut feed, &mut live).unwrap();
    assert_eq!((position.next_frame, feed.next_sequence(), live.memory.next_id()), (8, 0, 4));
    assert_eq!(position.windows.kept().samples.len(), 0);
    assert_eq!(position.windows.kept().next_start, 8);
}

#[test]
fn what_was_forgotten_is_not_seen_again() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), small_settings());
    let mut before = five_frames();
    before.forgot_at = Some(Place { frame: 9, category: 6, sequence: 90 });
    let (mut feed, mut live) = opened(&plan, &mut before);
    let position = Position::restore(&plan, before, &mut feed, &mut live).unwrap();
    assert_eq!((position.next_frame, feed.next_sequence(), live.memory.next_id()), (9, 90, 6));
    assert_eq!(position.windows.kept().samples.len(), 0, "the pictures of before are not learned from");
}

/// A live path shown these samples of the built-in world.
fn shown(live: &mut LivePath, feed: &mut Feed, numbers: std::ops::Range<u64>) {
    let mut picture = Frame::default();
    for number in numbers {
        assert!(feed.playback().unwrap().read_again(10 * number, &mut picture).unwrap());
        let pixels = live.prepare(&picture).unwrap();
        live.recognise(number, 10 * number, &pixels).unwrap();
    }
}

#[test]
fn a_memory_that_has_lost_its_pictures_keeps_its_categories() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), Settings { live_slots: 64, ..small_settings() });
    let mut before = Before::default();
    let (mut feed, mut live) = opened(&plan, &mut before);
    assert!(live.cold);
    shown(&mut live, &mut feed, 0..30);
    // As after a restart with a camera: the threshold is measured again from what comes now, the memory is not made anew from it.
    live.kept.forget();
    shown(&mut live, &mut feed, 30..100);
    assert_eq!(live.memory.ages().iter().max(), Some(&100), "the first category is still the first");
    assert!(live.threshold.is_some_and(|threshold| threshold.settled));
}

#[test]
fn weights_that_changed_nothing_change_no_category() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(folder.path(), small_settings());
    let mut before = Before::default();
    let (mut feed, mut live) = opened(&plan, &mut before);
    shown(&mut live, &mut feed, 0..60);
    let (prototypes, threshold) = (live.memory.prototypes().clone(), live.threshold);
    let published =
        Published { folded: Start::new(&plan).unwrap().model.fold().unwrap(), control: live.control };
    live.take_up(Fresh { published, directions: HashMap::new() }).unwrap();
    let differ =
        prototypes.vectors().iter().zip(live.memory.prototypes().vectors()).map(|(a, b)| (a - b).abs());
    assert!(differ.fold(0.0, f32::max) < 1e-5);
    let similarity = |threshold: Option<Threshold>| threshold.unwrap().similarity;
    assert!((similarity(threshold) - similarity(live.threshold)).abs() < 0.05);
}

/// A trainer with a window of the built-in world learned, and a live path that was shown some of it.
fn learned(publish: Publish, warm: bool) -> (DeviceTrainer, LivePath, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { publish, learning_rate: 0.05, ..small_settings() };
    let plan = plan(folder.path(), settings);
    let mut before = Before::default();
    let (mut feed, mut live) = opened(&plan, &mut before);
    shown(&mut live, &mut feed, 0..120);
    let model = Start::new(&plan).unwrap().model;
    let encoder = plan.device.open().unwrap();
    let encoder = encoder.training_encoder(Arc::clone(&model.plan), Default::default(), 1).unwrap();
    let trainer = Trainer::new(&plan.settings, model, encoder).unwrap();
    let mut trainer = DeviceTrainer::new(trainer, publish, warm, 1);
    let pictures = live.kept.pictures();
    let samples = (0..plan.settings.window as u64).zip(pictures.values().cycle()).map(|(frame, pixels)| {
        let pixels = Arc::clone(pixels);
        Sample { frame, sequence: frame, pixels, companion: None }
    });
    let lesson = Lesson { samples: samples.collect(), stride: 1, beta: None };
    assert_eq!(trainer.learn(&lesson).unwrap().update.refused, None);
    (trainer, live, folder)
}

/// The weights in use that a checkpoint would name beside the newest.
fn in_use(trainer: &DeviceTrainer) -> bool {
    let (mut tensors, mut header) = Default::default();
    trainer.save(&mut tensors, &mut header);
    tensors.keys().any(|name| name.starts_with("in_use."))
}

#[test]
fn new_weights_are_taken_up_only_if_they_are_better() {
    // A step this long from weights that tell things apart is no gain.
    let (mut trainer, live, _folder) = learned(Publish::Better, false);
    let judged = trainer.publish(&live.kept).unwrap();
    let comparison = judged.comparison.unwrap();
    assert_eq!(judged.fresh.is_some(), comparison.is_better());
    assert!(!comparison.is_better(), "{comparison:?}: the test shows nothing");
    assert!(in_use(&trainer) && !judged.went_back, "the newest are still beside those in use");

    let (mut trainer, live, _folder) = learned(Publish::Always, false);
    assert!(in_use(&trainer));
    assert!(trainer.publish(&live.kept).unwrap().fresh.is_some());
    assert!(!in_use(&trainer), "they are the ones in use now");
}

#[test]
fn a_warm_start_goes_back_from_weights_that_are_worse() {
    let (mut trainer, live, _folder) = learned(Publish::Better, true);
    let worse = trainer.publish(&live.kept).unwrap();
    assert!(worse.comparison.unwrap().is_worse(), "{worse:?}: the test shows nothing");
    assert!(worse.went_back && worse.fresh.is_none() && !in_use(&trainer));
    // The weights are those in use again: nothing is left to compare.
    let again = trainer.publish(&live.kept).unwrap().comparison.unwrap();
    assert!((again.before - again.after).abs() < 1e-6, "{again:?}");
}

//! The live memory: what must hold for every sequence of embeddings.

use std::collections::HashSet;

use oupn_edge::memory::{
    Control, EntropyOf, LiveMemory, Prototypes, PseudoLabel, Rules, Variant, Window, WindowInput, Writes,
};
use proptest::prelude::*;

fn rules(variant: Variant) -> Rules {
    Rules {
        variant,
        decay: 0.99,
        threshold: 0.5,
        prior_mean: 0.6,
        entropy_weight: 0.0,
        entropy_of: EntropyOf::All,
        creation_weight: 0.3,
        pseudo_label: PseudoLabel::OneHot,
        straight_through: false,
        symmetric: false,
    }
}

/// Merges what is more similar than a cosine of about 0.8.
const CONTROL: Control = Control { inv_tau: 10.0, beta: -8.0, gamma: 1.0 };

/// A reproducible embedding: one of `kinds` directions and a little of another.
fn embedding(frame: usize, kinds: usize, dimension: usize) -> Vec<f32> {
    let kind = (frame * 7 + frame / 5) % kinds;
    (0..dimension)
        .map(|i| {
            let base = ((i * (kind + 1)) as f32 * 0.37).sin();
            base + 0.05 * ((i * 31 + frame * 17) as f32).sin()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_finite_sequence_keeps_the_invariants(
        frames in prop::collection::vec(prop::collection::vec(prop_oneof![
            4 => -2.0..2.0f32, 1 => Just(0.0f32), 1 => -1e30..1e30f32, 1 => -1e-30..1e-30f32
        ], 3), 1..80),
        slots in 1..6usize,
        paper in any::<bool>(),
        beta in -12.0..0.0f64,
    ) {
        let rules = rules(if paper { Variant::Paper } else { Variant::Reference });
        let control = Control { beta, ..CONTROL };
        let mut memory = LiveMemory::new(slots, 3).unwrap();
        let mut created = HashSet::new();
        let mut alive = HashSet::new();
        for frame in &frames {
            let before = memory.clone();
            let Ok(seen) = memory.observe(frame, &control, &rules) else {
                // Refused only where the norm has no finite value, and then nothing has changed.
                prop_assert!(!frame.iter().map(|x| x * x).sum::<f32>().is_finite());
                prop_assert_eq!(memory.prototypes(), before.prototypes());
                prop_assert_eq!(memory.next_id(), before.next_id());
                continue;
            };
            if seen.created {
                prop_assert!(created.insert(seen.category), "id {} was given twice", seen.category);
                alive.insert(seen.category);
            }
            if let Some(evicted) = seen.evicted {
                prop_assert!(seen.created && alive.remove(&evicted));
            }
            prop_assert!(alive.contains(&seen.category));
            prop_assert!(alive.len() <= slots);
            prop_assert_eq!(memory.prototypes().in_use(), alive.len());
            prop_assert!((0.0..=1.0).contains(&seen.new_probability));
            prop_assert!(seen.similarity.abs() <= 1.0 + 1e-5);
            prop_assert!(seen.top.windows(2).all(|pair| pair[0].similarity >= pair[1].similarity));
            prop_assert!(memory.prototypes().counts().iter().all(|count| *count >= 0.0 && count.is_finite()));
            prop_assert!(memory.prototypes().vectors().iter().all(|value| value.is_finite()));
        }
    }
}

/// The live path and the learning window are the same algorithm: f32 vectors against f64 inner products. Tolerance: the
/// rounding of 60 writes in f32.
#[test]
fn the_live_memory_does_what_a_window_does() {
    for variant in [Variant::Reference, Variant::Paper] {
        let (frames, slots, dimension) = (60, 5, 32);
        let rules = rules(variant);
        let all: Vec<f32> = (0..frames).flat_map(|frame| embedding(frame, 8, dimension)).collect();
        let start = Prototypes::new(slots, dimension).unwrap();
        let mut window = Window::new(frames, slots, dimension).unwrap();
        window
            .run(&WindowInput {
                embeddings: [&all, &all],
                memory: &start,
                control: CONTROL,
                rules: &rules,
                kappa: 1.0,
                noise: None,
                stride: frames,
            })
            .unwrap();
        let mut live = LiveMemory::new(slots, dimension).unwrap();
        let mut merged = 0;
        for (z, expected) in all.chunks_exact(dimension).zip(window.outcomes()) {
            let seen = live.observe(z, &CONTROL, &rules).unwrap();
            assert_eq!(seen.created, expected.created);
            assert!((f64::from(seen.new_probability) - expected.new_probability).abs() < 1e-4);
            merged += usize::from(!seen.created);
        }
        assert!(
            (10..frames).contains(&merged),
            "{merged} of {frames} frames merged: the test sees both cases"
        );
        for (live, window) in live.prototypes().vectors().iter().zip(window.memory_after().vectors()) {
            assert!((live - window).abs() < 1e-4);
        }
        for (live, window) in live.prototypes().counts().iter().zip(window.memory_after().counts()) {
            assert!((live - window).abs() < 1e-4);
        }
    }
}

#[test]
fn what_cannot_be_seen_changes_nothing() {
    let mut memory = LiveMemory::new(3, 2).unwrap();
    let rules = rules(Variant::Reference);
    memory.observe(&[1.0, 0.0], &CONTROL, &rules).unwrap();
    let before = memory.clone();
    for (z, word) in [
        (&[1.0][..], "1 numbers"),
        (&[1.0, 0.0, 0.0][..], "3 numbers"),
        (&[f32::NAN, 0.0][..], "not finite"),
        (&[1.0, f32::INFINITY][..], "not finite"),
        (&[f32::MAX, f32::MAX][..], "not finite"),
    ] {
        let error = memory.observe(z, &CONTROL, &rules).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
        assert_eq!(memory.prototypes(), before.prototypes());
        assert_eq!(
            (memory.ids(), memory.ages(), memory.next_id()),
            (before.ids(), before.ages(), before.next_id())
        );
    }
}

#[test]
fn a_memory_comes_back_as_it_was() {
    let rules = rules(Variant::Reference);
    let mut memory = LiveMemory::new(4, 16).unwrap();
    for frame in 0..30 {
        memory.observe(&embedding(frame, 6, 16), &CONTROL, &rules).unwrap();
    }
    let mut back = LiveMemory::from_parts(
        memory.prototypes().clone(),
        memory.ids().to_vec(),
        memory.ages().to_vec(),
        memory.next_id(),
    )
    .unwrap();
    for frame in 30..60 {
        let z = embedding(frame, 6, 16);
        assert_eq!(
            memory.observe(&z, &CONTROL, &rules).unwrap(),
            back.observe(&z, &CONTROL, &rules).unwrap()
        );
    }
    assert!(LiveMemory::from_parts(memory.prototypes().clone(), vec![0; 3], vec![0; 4], 9).is_err());
    assert!(LiveMemory::from_parts(memory.prototypes().clone(), vec![5; 4], vec![0; 4], 5).is_err());
}

#[test]
fn capacity_has_limits() {
    assert!(LiveMemory::new(0, 4).is_err());
    assert!(LiveMemory::new(1025, 4).is_err());
    assert!(LiveMemory::new(1024, 4).is_ok());
    assert!(LiveMemory::new(4, 0).is_err());
}

#[test]
fn a_hard_write_touches_one_category_alone() {
    let mut memory = LiveMemory::new(4, 2).unwrap().with_writes(Writes::Hard);
    let control = Control { beta: -5.0, ..CONTROL };
    // Two directions, of different lengths: lengths do not count.
    for z in [[2.0, 0.0], [0.0, 5.0], [0.0, 1.0], [3.0, 0.0]] {
        memory.observe(&z, &control, &rules(Variant::Reference)).unwrap();
    }
    // A norm has 1e-5 added to it, so that a vector of zeros can be divided by it.
    let near = |a: &[f32], b: [f32; 2]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 2e-5);
    assert!(
        near(memory.prototypes().vector(0), [1.0, 0.0]) && near(memory.prototypes().vector(1), [0.0, 1.0])
    );
    memory.observe(&[1.0, 1.0], &control, &rules(Variant::Reference)).unwrap();
    let third = std::f32::consts::FRAC_1_SQRT_2 / 3.0;
    assert!(near(memory.prototypes().vector(0), [2.0 / 3.0 + third, third]), "the plain mean of three");
    assert!(near(memory.prototypes().vector(1), [0.0, 1.0]), "the other one stays as it was");
    assert_eq!(memory.frames()[..2], [3, 2]);
}

#[test]
fn only_nearest_neighbours_are_joined_and_the_older_number_stays() {
    let mut memory = LiveMemory::new(6, 2).unwrap().with_writes(Writes::Hard);
    // All apart at first: a frame creates a category whatever it is.
    let always = Control { beta: -20.0, ..CONTROL };
    let at = |degrees: f32| [degrees.to_radians().cos(), degrees.to_radians().sin()];
    for degrees in [0.0, 10.0, 19.0, 90.0, 93.0] {
        assert!(memory.observe(&at(degrees), &always, &rules(Variant::Reference)).unwrap().created);
    }
    let joined = memory.join_alike(9.5f64.to_radians().cos());
    // 10° and 19° are nearest neighbours; 0° is not joined through 10°, though it is nearly as near.
    let pairs: Vec<_> = joined.iter().map(|joined| (joined.from, joined.into)).collect();
    assert_eq!(pairs, [(2, 1), (4, 3)]);
    assert!((f64::from(joined[0].similarity) - 9f64.to_radians().cos()).abs() < 1e-4);
    assert_eq!(memory.prototypes().in_use(), 3);
    assert!(memory.slot_of(2).is_none() && memory.slot_of(1).is_some());
    assert!(memory.join_alike(0.999).is_empty());
    // The place is free again, and the number is not.
    assert_eq!(memory.observe(&at(200.0), &always, &rules(Variant::Reference)).unwrap().category, 5);
    assert_eq!(memory.prototypes().in_use(), 4);
}

#[test]
fn more_slots_change_nothing_else() {
    let mut small = LiveMemory::new(2, 2).unwrap().with_writes(Writes::Hard);
    small.observe(&[1.0, 0.0], &CONTROL, &rules(Variant::Reference)).unwrap();
    let mut large = small.clone().with_slots(5).unwrap();
    assert_eq!((large.prototypes().slots(), large.frames()), (5, &[1, 0, 0, 0, 0][..]));
    let control = Control { beta: -5.0, ..CONTROL };
    let seen =
        |memory: &mut LiveMemory| memory.observe(&[1.0, 0.2], &control, &rules(Variant::Reference)).unwrap();
    assert_eq!(seen(&mut small), seen(&mut large));
    assert!(large.with_slots(2000).is_err());
}

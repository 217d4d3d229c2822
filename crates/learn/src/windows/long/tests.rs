//! The long memory on a small world of things that turn: a frame's pixels say what it shows, its embedding lies on the arc of its
//! thing.

use super::*;

/// A frame's number, its pixels and its embedding.
type Shown = (u64, Arc<[u8]>, Vec<f32>);

const THINGS: usize = 6;
/// Places on a thing's arc, a tenth of a radian apart: the ends have a cosine of 0.36.
const PLACES: usize = 13;

fn embedding(thing: usize, place: usize) -> Vec<f32> {
    let mut embedding = vec![0.0; 2 * THINGS];
    let angle = place as f32 * 0.1;
    // Not of length 1: the memory is to make it so.
    (embedding[2 * thing], embedding[2 * thing + 1]) = (3.0 * angle.cos(), 3.0 * angle.sin());
    embedding
}

/// Looks of five frames, each at another thing than the last.
fn frames(count: u64) -> Vec<Shown> {
    let mut random = Random::new(5, Purpose::World, 0);
    let (mut thing, mut place) = (0, 0);
    (0..count)
        .map(|number| {
            if number % 5 == 0 {
                thing = (thing + 1 + random.below(THINGS - 1)) % THINGS;
                place = random.below(PLACES - 4);
            } else {
                place += 1;
            }
            (number, Arc::from([thing as u8, place as u8]), embedding(thing, place))
        })
        .collect()
}

fn rules(budget: usize) -> LongRules {
    LongRules { budget, alike: 0.99, seed: 7 }
}

fn filled(count: u64, budget: usize) -> LongMemory {
    let mut memory = LongMemory::new(rules(budget));
    for (number, pixels, embedding) in frames(count) {
        memory.push(number, pixels, &embedding);
    }
    memory
}

/// The embeddings that the pictures have anyway.
fn embed(pictures: &[&[u8]]) -> Result<Vec<f32>> {
    Ok(pictures.iter().flat_map(|p| embedding(usize::from(p[0]), usize::from(p[1]))).collect())
}

#[test]
fn what_is_forgotten_is_held_nowhere() {
    let mut memory = LongMemory::new(rules(1 << 20));
    let shown = frames(200);
    for (number, pixels, embedding) in &shown {
        memory.push(*number, Arc::clone(pixels), embedding);
    }
    memory.embed_again(embed).unwrap();
    let held = |shown: &[Shown]| shown.iter().filter(|(_, pixels, _)| Arc::strong_count(pixels) > 1).count();
    assert!(held(&shown) > 100, "the test shows nothing");
    memory.forget();
    assert_eq!(held(&shown), 0);
    assert_eq!(memory.held(), Held::default());
    assert_eq!(memory.boundaries, Boundaries::default(), "embeddings tell what was seen, too");
    assert!(memory.lately.is_empty());
    assert_eq!(memory.second_view_of(150, &shown[150].2, &mut Random::new(0, Purpose::Replay, 0)), None);
}

/// Groups of looks are the things, found without being told; and second views are of the same thing, seen from farther away than the
/// next frame is.
#[test]
fn second_views_are_of_the_same_thing() {
    let mut memory = filled(600, 1 << 20);
    memory.embed_again(embed).unwrap();
    let held = memory.held();
    assert!(held.groups >= THINGS && held.grouped * 10 > held.segments * 9, "{held:?}");
    let mut random = Random::new(1, Purpose::Replay, 0);
    let (mut apart, mut found) = (0, 0);
    for (number, pixels, embedding) in frames(600).into_iter().skip(30) {
        let Some(second) = memory.second_view_of(number, &embedding, &mut random) else { continue };
        assert_eq!(second[0], pixels[0], "frame {number}");
        apart += usize::from(second[1].abs_diff(pixels[1]));
        found += 1;
    }
    assert!(found > 500, "{found}");
    assert!(apart > 4 * found, "{apart} places in {found}");
}

/// What ended since the last grouping belongs to something already.
#[test]
fn a_new_segment_joins_a_group() {
    let mut memory = filled(500, 1 << 20);
    memory.embed_again(embed).unwrap();
    let all = frames(520);
    for (number, pixels, embedding) in &all[500..] {
        memory.push(*number, Arc::clone(pixels), embedding);
    }
    for number in 500..515 {
        let group = memory.group_of(number).unwrap();
        let others = memory.closed.iter().filter(|segment| segment.group == group && segment.last < 500);
        let things: Vec<u8> = others.flat_map(|other| &other.frames).map(|frame| frame.pixels[0]).collect();
        assert!(!things.is_empty() && things.iter().all(|thing| *thing == all[number as usize].1[0]));
    }
}

#[test]
fn a_window_of_the_memory_has_groups_and_their_second_views() {
    let mut memory = filled(600, 1 << 20);
    assert_eq!(LongMemory::new(rules(1)).replay_window(0, 20), None);
    memory.embed_again(embed).unwrap();
    let window = memory.replay_window(3, 20).unwrap();
    assert_eq!((window.frames.len(), window.seconds.len()), (20, 20));
    for (frame, second) in window.frames.iter().zip(&window.seconds) {
        assert_eq!(frame[0], second[0]);
    }
    let mut counts = [0; THINGS];
    window.frames.iter().for_each(|frame| counts[usize::from(frame[0])] += 1);
    assert!(counts.iter().filter(|count| **count > 0).count() >= 3, "{counts:?}");
    assert_eq!(memory.replay_window(3, 20), Some(window.clone()));
    assert_ne!(memory.replay_window(4, 20), Some(window));
}

/// All segments have the same chance to be here, whenever they were. With 40 of 400 kept, the mean of their places lies within
/// three standard errors, 3·(400/√12)/√40, of the middle.
#[test]
fn the_sample_is_even_and_within_its_budget() {
    let one = filled(100, 1 << 20);
    let budget = 40 * one.bytes / one.closed.len();
    let mut memory = LongMemory::new(rules(budget));
    for (number, pixels, embedding) in frames(2000) {
        memory.push(number, pixels, &embedding);
        assert!(memory.bytes <= budget);
        let counted: usize = memory.closed.iter().chain(&memory.open).map(Segment::bytes).sum();
        assert_eq!(memory.bytes, counted);
    }
    let count = memory.closed.len();
    assert!((20..=60).contains(&count), "{count}");
    let mean = memory.closed.iter().map(|segment| segment.number as f64).sum::<f64>() / count as f64;
    let middle = memory.begun as f64 / 2.0;
    assert!(
        (mean - middle).abs() < 3.0 * memory.begun as f64 / (12.0 * count as f64).sqrt(),
        "{mean} of {middle}"
    );
}

#[test]
fn a_gap_and_a_long_look_end_a_segment() {
    let mut memory = filled(103, 1 << 20);
    let pixels: Arc<[u8]> = Arc::from([0, 0]);
    memory.push(50, Arc::clone(&pixels), &embedding(0, 0));
    assert_eq!(memory.newest, Some(102), "what is older is not taken");
    memory.push(200, Arc::clone(&pixels), &embedding(0, 0));
    assert_eq!(memory.open.as_ref().unwrap().first, 200);
    for number in 201..400 {
        memory.push(number, Arc::clone(&pixels), &embedding(0, 0));
    }
    assert!(memory.closed.iter().chain(&memory.open).all(|segment| segment.length() <= LONGEST));
    assert!(memory.closed.iter().all(|segment| segment.frames.len() <= KEPT));
}

#[test]
fn what_cannot_be_is_left_out_or_refused() {
    let mut memory = filled(100, 1 << 20);
    let before = memory.held();
    for bad in [vec![f32::NAN; 12], vec![0.0; 12], vec![f32::INFINITY; 12]] {
        memory.push(100, Arc::from([0]), &bad);
    }
    assert_eq!(memory.held(), before);
    for bad in [vec![], vec![1.0; 7], vec![0.0; 12 * before.frames]] {
        assert!(memory.embed_again(|_| Ok(bad)).is_err());
    }
    memory.embed_again(embed).unwrap();
}

/// Everything but the pictures is saved; with them the memory is the same, at any moment.
#[test]
fn a_memory_comes_back_with_its_pictures_read_again() {
    let all = frames(333);
    let mut memory = LongMemory::new(rules(20_000));
    let back = |saved: &SavedMemory| {
        let picture = |number: u64| Ok(Arc::clone(&all[number as usize].1));
        LongMemory::restore(rules(20_000), saved, 2 * THINGS, picture)
    };
    assert_eq!(back(&memory.saved()).unwrap(), memory);
    for (number, pixels, embedding) in &all {
        memory.push(*number, Arc::clone(pixels), embedding);
        if number % 37 == 0 {
            assert_eq!(back(&memory.saved()).unwrap(), memory, "after frame {number}");
        }
        if number % 100 == 50 {
            memory.embed_again(embed).unwrap();
        }
    }
    let whole = memory.saved();
    for cut in [0, 1, 10, whole.text.len() / 2] {
        let torn = SavedMemory { text: whole.text[..cut].to_owned(), ..whole.clone() };
        assert!(back(&torn).unwrap_err().to_string().contains("older checkpoint"));
    }
    let torn = SavedMemory { embeddings: whole.embeddings[12..].to_vec(), ..whole };
    assert!(back(&torn).is_err());
}

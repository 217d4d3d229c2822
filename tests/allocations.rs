//! Looking at a frame and learning from a window allocate nothing. A program of its own: it counts every allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use oupn_edge::memory::{
    Control, EntropyOf, LiveMemory, Prototypes, PseudoLabel, Rules, Variant, Window, WindowInput,
};

/// The system's allocator, counting this thread's requests.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting touches a plain thread-local integer
// and allocates nothing itself.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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

#[test]
fn observing_allocates_nothing() {
    let mut memory = LiveMemory::new(20, 1280).unwrap();
    let rules = rules(Variant::Reference);
    let frames: Vec<Vec<f32>> = (0..200).map(|frame| embedding(frame, 90, 1280)).collect();
    let before = ALLOCATIONS.with(Cell::get);
    let evictions =
        frames.iter().filter(|z| memory.observe(z, &CONTROL, &rules).unwrap().evicted.is_some()).count();
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
    assert!(evictions > 0, "the test reaches eviction");
}

#[test]
fn a_window_allocates_once() {
    let (frames, slots, dimension) = (20, 8, 64);
    let all: Vec<f32> = (0..frames).flat_map(|frame| embedding(frame, 8, dimension)).collect();
    let memory = Prototypes::new(slots, dimension).unwrap();
    let rules = Rules { symmetric: true, ..rules(Variant::Reference) };
    let mut window = Window::new(frames, slots, dimension).unwrap();
    let before = ALLOCATIONS.with(Cell::get);
    window
        .run(&WindowInput {
            embeddings: [&all, &all],
            memory: &memory,
            control: CONTROL,
            rules: &rules,
            kappa: 1.0,
            noise: None,
            stride: 5,
        })
        .unwrap();
    assert_eq!(ALLOCATIONS.with(Cell::get), before);
}

//! Every step against TensorFlow's own operations, and the properties of whole views.

use std::path::Path;

use proptest::prelude::*;

use super::augment::{Choices, Scratch};
use super::blur::{Kernel, Motion, gaussian, motion};
use super::colour::{Change, Changes};
use super::crop::Region;
use super::resample::{Stretch, rotate};
use super::*;
use crate::tensors::TensorFile;

const HEIGHT: usize = 84;
const WIDTH: usize = 16;

fn golden() -> TensorFile {
    let bytes = include_bytes!("../../../../tests/golden/views.safetensors");
    TensorFile::parse(Path::new("views.safetensors"), bytes).unwrap()
}

fn tensor<'a>(file: &'a TensorFile, name: &str) -> &'a [f32] {
    &file.require(name).unwrap().values
}

fn image(file: &TensorFile) -> Vec<Pixel> {
    let mut pixels = vec![[0.0; 4]; HEIGHT * WIDTH];
    Pixels::Floats(tensor(file, "image")).unpack(4, &mut pixels);
    pixels
}

/// Values of size 1 that went through a few dozen operations in f32, on both sides.
fn assert_close(name: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{name}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-5, "{name}: {found}, not {expected}, at {index}");
    }
}

#[test]
fn blurs_are_tensorflows() {
    let file = golden();
    let (mut kernel, mut other) = (Kernel::new(), vec![[7.0; 4]; HEIGHT * WIDTH]);
    let mut blurred = image(&file);
    gaussian(&mut blurred, &mut other, WIDTH, 0.9, &mut kernel);
    assert_close("gaussian", blurred.as_flattened(), tensor(&file, "gaussian"));
    for (name, path) in [
        ("motion.3.37.0.3", Motion { half_length: 3, angle: 37.0, lean: 0.3 }),
        ("motion.2.200.-1", Motion { half_length: 2, angle: 200.0, lean: -1.0 }),
    ] {
        motion(&image(&file), &mut other, WIDTH, &path, &mut kernel);
        assert_close(name, other.as_flattened(), tensor(&file, name));
    }
}

#[test]
fn geometry_is_tensorflows() {
    let file = golden();
    let whole = Region::whole(HEIGHT, WIDTH);
    let mut rotated = vec![[7.0; 4]; HEIGHT * WIDTH];
    rotate(&image(&file), &mut rotated, WIDTH, 0.2, &whole);
    assert_close("rotation", rotated.as_flattened(), tensor(&file, "rotation.0.2"));

    for (name, region) in [
        ("stretch.5.3.21.11", Region { top: 5, left: 3, height: 21, width: 11 }),
        ("stretch.0.0.83.15", Region { top: 0, left: 0, height: 83, width: 15 }),
        ("image", whole),
    ] {
        let mut stretched: Vec<Pixel> = Vec::new();
        Stretch::default().rows(&image(&file), WIDTH, &region, |_, row| stretched.extend(row));
        assert_close(name, stretched.as_flattened(), tensor(&file, name));
    }
}

/// The golden image beyond [0, 1] on both sides, as planes.
fn wide_planes(file: &TensorFile) -> [Vec<f32>; 3] {
    [0, 1, 2].map(|channel| image(file).iter().map(|pixel| 1.4 * pixel[channel] - 0.2).collect())
}

#[test]
fn colours_are_tensorflows() {
    let file = golden();
    for (name, change) in [
        ("brightness.1.3", Some(Change::Brightness(1.3))),
        ("contrast.0.7", Some(Change::Contrast(0.7))),
        ("saturation.1.4", Some(Change::Saturation(1.4))),
        ("saturation.0.6", Some(Change::Saturation(0.6))),
        ("hue.0.1", Some(Change::Hue(0.1))),
        ("hue.-0.07", Some(Change::Hue(-0.07))),
        ("grey", None),
    ] {
        // Brightness by 1 leaves a clipped image as it is, so one change can stand alone among four.
        let jitter = change.map(|change| {
            [change, Change::Brightness(1.0), Change::Brightness(1.0), Change::Brightness(1.0)]
        });
        let [mut red, mut green, mut blue] = wide_planes(&file);
        Changes { jitter, grey: change.is_none() }.apply([&mut red, &mut green, &mut blue]);
        let found: Vec<f32> = red
            .iter()
            .zip(&green)
            .zip(&blue)
            .flat_map(|((red, green), blue)| [*red, *green, *blue])
            .collect();
        assert_close(name, &found, tensor(&file, name));
    }
}

#[test]
fn a_whole_view_is_tensorflows() {
    let file = golden();
    let size = Shape { height: HEIGHT, width: WIDTH, channels: 4 };
    for (name, grey) in [("whole", false), ("whole.grey", true)] {
        let choices = Choices {
            gaussian: Some(0.7),
            motion: Some(Motion { half_length: 1, angle: 310.0, lean: -0.4 }),
            rotation: -0.15,
            warp: None,
            crop: Region { top: 10, left: 2, height: 60, width: 12 },
            mirrored: true,
            colour: Changes {
                jitter: Some([
                    Change::Hue(0.08),
                    Change::Brightness(0.8),
                    Change::Saturation(1.3),
                    Change::Contrast(1.2),
                ]),
                grey,
            },
        };
        let mut out = vec![0.0; size.len()];
        let mut scratch = Scratch::new(size);
        scratch.load(Pixels::Floats(tensor(&file, "image")));
        scratch.apply(&choices, &mut out);
        assert_close(name, &out, tensor(&file, name));
    }
}

#[test]
fn hues_come_back_after_a_full_turn() {
    let file = golden();
    let clean = wide_planes(&file).map(|plane| plane.into_iter().map(clipped).collect::<Vec<f32>>());
    let turned = |turn: f32| {
        let [mut red, mut green, mut blue] = clean.clone();
        crate::kernels::image::turn_hue(&mut red, &mut green, &mut blue, turn);
        [red, green, blue]
    };
    for turn in [0.0, 1.0, -1.0] {
        for (found, expected) in turned(turn).iter().zip(&clean) {
            assert_close("full turn", found, expected);
        }
    }
    let [red, green, blue] = turned(1.0 / 3.0);
    assert_close("a third: red becomes green", &green, &clean[0]);
    assert_close("a third: green becomes blue", &blue, &clean[1]);
    assert_close("a third: blue becomes red", &red, &clean[2]);
}

/// 100,000 draws on either side; the means may differ by five standard errors of their difference, the standard
/// deviations by two per cent.
#[test]
fn crops_are_distributed_as_tensorflows() {
    let file = golden();
    let object = Region { top: 30, left: 100, height: 60, width: 30 };
    for (name, augmentation, height, width, object) in [
        ("boxes.rooms", Augmentation::Rooms, 120, 160, object),
        ("boxes.saycam", Augmentation::Saycam, 224, 224, Region::whole(224, 224)),
        ("boxes.omniglot", Augmentation::Omniglot, 28, 28, Region::whole(28, 28)),
        ("boxes.imagenet", Augmentation::Imagenet, 84, 84, Region::whole(84, 84)),
    ] {
        let (count, crop) = (100_000u64, augmentation.recipe().crop.unwrap());
        let drawn: Vec<Region> = (0..count)
            .map(|place| crop.draw(height, width, &object, &mut Random::new(1, Purpose::Views, place)))
            .collect();
        let [means, deviations, least, greatest] =
            [0, 1, 2, 3].map(|part| &tensor(&file, name)[4 * part..4 * part + 4]);
        let parts: [fn(&Region) -> usize; 4] = [|r| r.top, |r| r.left, |r| r.height, |r| r.width];
        for (index, part) in parts.into_iter().enumerate() {
            let values = || drawn.iter().map(part);
            let mean = values().sum::<usize>() as f64 / count as f64;
            let deviation = (values().map(|v| (v as f64 - mean).powi(2)).sum::<f64>() / count as f64).sqrt();
            let error = 5.0 * deviation * (2.0 / count as f64).sqrt();
            assert!(
                (mean - f64::from(means[index])).abs() < error,
                "{name} {index}: mean {mean}, not {means:?}"
            );
            let ratio = deviation / f64::from(deviations[index]);
            assert!((ratio - 1.0).abs() < 0.02, "{name} {index}: deviation {deviation}, not {deviations:?}");
            // The rarest sizes and places need not turn up in both.
            let (low, high) = (values().min().unwrap() as f32, values().max().unwrap() as f32);
            assert!(
                (low - least[index]).abs() <= 2.0 && (high - greatest[index]).abs() <= 2.0,
                "{name} {index}"
            );
        }
        let whole = drawn.iter().filter(|region| (region.height, region.width) == (height, width)).count();
        let expected = f64::from(tensor(&file, name)[16]);
        assert!((whole as f64 / count as f64 - expected).abs() < 1e-3, "{name}: {whole} whole images");
    }
}

#[test]
fn the_object_is_where_the_mask_is() {
    let mut pixels = vec![[0.5, 0.5, 0.5, 0.0]; 6 * 8];
    assert_eq!(Object::Mask.find(6, 8, &pixels), Region::whole(6, 8), "an empty mask");
    pixels[2 * 8 + 5][3] = 1.0;
    pixels[4 * 8 + 1][3] = 0.2;
    assert_eq!(Object::Mask.find(6, 8, &pixels), Region { top: 2, left: 1, height: 2, width: 4 });
    assert_eq!(Object::Image.find(6, 8, &pixels), Region::whole(6, 8));

    // A mask in one column has no area: no crop ever covers it.
    pixels[2 * 8 + 5][3] = 0.0;
    pixels[8 + 1][3] = 1.0;
    let object = Object::Mask.find(6, 8, &pixels);
    let crop = Augmentation::Rooms.recipe().crop.unwrap();
    for place in 0..50 {
        assert_eq!(crop.draw(6, 8, &object, &mut Random::new(0, Purpose::Views, place)), Region::whole(6, 8));
    }
}

#[test]
fn choices_come_as_often_as_the_recipe_says() {
    let size = Shape { height: 224, width: 224, channels: 3 };
    let count = 20_000u64;
    let draw = |recipe: Recipe| {
        (0..count)
            .map(move |place| Choices::draw(&recipe, size, &[], &mut Random::new(9, Purpose::Views, place)))
    };
    let saycam: Vec<Choices> = draw(Augmentation::Saycam.recipe()).collect();
    let share = |choices: &[Choices], which: &dyn Fn(&Choices) -> bool| {
        choices.iter().filter(|choices| which(choices)).count() as f64 / count as f64
    };
    // Five standard errors of a share of 20,000.
    let near = |share: f64, expected: f64| (share - expected).abs() < 0.018;
    assert!(near(share(&saycam, &|c| c.gaussian.is_some()), 0.2));
    assert!(near(share(&saycam, &|c| c.motion.is_some()), 0.3));
    assert!(near(share(&saycam, &|c| c.rotation > 7.5f32.to_radians()), 0.25));
    assert!(near(share(&saycam, &|c| c.colour.jitter.is_some()), 0.8));
    assert!(near(share(&saycam, &|c| c.colour.grey), 0.2));
    let first_is = |kind: fn(&Change) -> bool| {
        share(&saycam, &|c| c.colour.jitter.is_some_and(|jitter| kind(&jitter[0])))
    };
    assert!(near(first_is(|c| matches!(c, Change::Brightness(f) if (0.6..=1.4).contains(f))), 0.2));
    assert!(near(first_is(|c| matches!(c, Change::Contrast(f) if (0.6..=1.4).contains(f))), 0.2));
    assert!(near(first_is(|c| matches!(c, Change::Saturation(f) if (0.6..=1.4).contains(f))), 0.2));
    assert!(near(first_is(|c| matches!(c, Change::Hue(t) if t.abs() <= 0.1)), 0.2));
    let lengths =
        |length: usize| share(&saycam, &|c| c.motion.is_some_and(|motion| motion.half_length == length));
    assert!((1..=10).all(|length| near(lengths(length), 0.03)) && lengths(0) + lengths(11) == 0.0);
    assert!(saycam.iter().all(|c| c.gaussian.is_none_or(|sigma| (0.1..=1.2).contains(&sigma))));
    assert!(saycam.iter().all(|c| !c.mirrored && c.rotation.abs() <= 15.0f32.to_radians()));
    assert!(saycam.iter().all(|c| c.crop.height * c.crop.width * 2 >= 224 * 224));

    let imagenet: Vec<Choices> = draw(Augmentation::Imagenet.recipe()).collect();
    assert!(near(share(&imagenet, &|c| c.mirrored), 0.5));
    assert!(imagenet.iter().all(|c| c.gaussian.is_none() && c.motion.is_none() && c.rotation == 0.0));
    let mild: Vec<Choices> = draw(Augmentation::Mild.recipe()).collect();
    assert!(mild.iter().all(|c| c.crop.height * c.crop.width * 10 >= 7 * 224 * 224 && !c.colour.grey));
}

/// An image without two equal neighbours.
fn noise(size: Shape, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed, Purpose::Views, 0);
    (0..size.len()).map(|_| random.between(0.0, 1.0)).collect()
}

/// A recipe that changes nothing in an image of this shape.
fn identity(size: Shape) -> Recipe {
    let aspect = size.width as f32 / size.height as f32;
    let crop = Crop { area: (1.0, 1.0), aspect: (aspect, aspect), covered: 1.0, object: Object::Image };
    Recipe {
        gaussian_blur: 0.0,
        motion_blur: 0.0,
        rotation: 0.0,
        warp: None,
        crop: Some(crop),
        flip: 0.0,
        colour: None,
        script: None,
        redrawn: false,
        window_shift: 0,
    }
}

/// The four sizes of the paper, each with its recipe.
const SIZES: [(Shape, Augmentation); 5] = [
    (Shape { height: 224, width: 224, channels: 3 }, Augmentation::Saycam),
    (Shape { height: 224, width: 224, channels: 3 }, Augmentation::Mild),
    (Shape { height: 120, width: 160, channels: 4 }, Augmentation::Rooms),
    (Shape { height: 28, width: 28, channels: 1 }, Augmentation::Omniglot),
    (Shape { height: 84, width: 84, channels: 3 }, Augmentation::Imagenet),
];

fn make(views: &mut Views, window: u64, frames: &[Vec<f32>], next: &[Vec<f32>]) -> (Vec<f32>, Vec<f32>) {
    let length = views.size.len() * frames.len();
    let mut first = vec![7.0; 2 * length];
    views.make(window, &floats(frames), &floats(next), &mut first).unwrap();
    let second = first.split_off(length);
    (first, second)
}

#[test]
fn a_recipe_without_changes_gives_the_image_bit_for_bit() {
    for (size, _) in SIZES {
        let frames = [noise(size, 1), noise(size, 2)];
        let mut views = Views::new(Pairing::TwoAugmented, identity(size), size, 0).unwrap();
        let (first, second) = make(&mut views, 0, &frames, &[]);
        assert!(first == frames.concat() && second == frames.concat(), "{size:?}");
    }
}

#[test]
fn views_stay_in_range_and_differ() {
    for (size, augmentation) in SIZES {
        let mut frames = vec![noise(size, 1), noise(size, 2), noise(size, 3)];
        frames[2][5] = f32::NAN;
        frames[2][6] = f32::INFINITY;
        let mut views = Views::new(Pairing::TwoAugmented, augmentation.recipe(), size, 4).unwrap();
        for window in 0..4 {
            let (first, second) = make(&mut views, window, &frames, &[]);
            assert!(first.iter().chain(&second).all(|value| (0.0..=1.0).contains(value)), "{augmentation:?}");
            assert_ne!(first, second);
            assert_ne!(first, make(&mut views, window + 9, &frames, &[]).0);
        }
    }
}

#[test]
fn threads_and_neighbours_do_not_matter() {
    let (size, augmentation) = SIZES[0];
    let frames: Vec<Vec<f32>> = (0..5).map(|frame| noise(size, frame)).collect();
    let in_pool = |threads: usize, window: u64, frames: &[Vec<f32>]| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let mut views = Views::new(Pairing::TwoAugmented, augmentation.recipe(), size, 11).unwrap();
            assert_eq!(views.workers.len(), threads);
            make(&mut views, window, frames, &[])
        })
    };
    let expected = in_pool(1, 3, &frames);
    for threads in [2, 3, 8] {
        assert!(in_pool(threads, 3, &frames) == expected, "{threads} threads");
    }
    // One frame alone, and after other windows.
    assert!(in_pool(1, 3, &frames[..1]).1 == expected.1[..size.len()]);
    let mut views = Views::new(Pairing::TwoAugmented, augmentation.recipe(), size, 11).unwrap();
    for window in 0..3 {
        make(&mut views, window, &frames, &[]);
    }
    assert!(make(&mut views, 3, &frames, &[]) == expected);
    let mut other_seed = Views::new(Pairing::TwoAugmented, augmentation.recipe(), size, 12).unwrap();
    assert!(make(&mut other_seed, 3, &frames, &[]) != expected);
}

#[test]
fn pairings_take_their_images_from_the_right_place() {
    let (size, _) = SIZES[4];
    let (frames, next) = ([noise(size, 1), noise(size, 2)], [noise(size, 3), noise(size, 4)]);
    let recipe = Augmentation::Imagenet.recipe();
    let mut clean = Views::new(Pairing::CleanAndAugmented, recipe, size, 0).unwrap();
    let (first, augmented) = make(&mut clean, 0, &frames, &[]);
    assert!(first == frames.concat());
    let mut two = Views::new(Pairing::TwoAugmented, recipe, size, 0).unwrap();
    let both = make(&mut two, 0, &frames, &next);
    assert!(both.0 != first && both.1 == augmented);

    let mut pair = Views::new(Pairing::NextFrame, identity(size), size, 0).unwrap();
    assert!(make(&mut pair, 0, &frames, &next) == (frames.concat(), next.concat()));
}

#[test]
fn bytes_are_as_good_as_numbers() {
    let (size, augmentation) = SIZES[4];
    let bytes: Vec<u8> = noise(size, 1).iter().map(|value| (value * 256.0) as u8).collect();
    let floats: Vec<f32> = bytes.iter().map(|&byte| f32::from(byte) / 255.0).collect();
    let mut views = Views::new(Pairing::CleanAndAugmented, augmentation.recipe(), size, 0).unwrap();
    let expected = make(&mut views, 0, &[floats], &[]);
    let mut images = vec![0.0; 2 * size.len()];
    views.make(0, &[Pixels::Bytes(&bytes)], &[], &mut images).unwrap();
    assert!(images == [expected.0, expected.1].concat());
}

#[test]
fn further_views_differ_and_leave_the_first_two_as_they_are() {
    let (size, augmentation) = SIZES[3];
    let frames = [noise(size, 1), noise(size, 2)];
    let mut views = Views::new(Pairing::CleanAndAugmented, augmentation.recipe(), size, 0).unwrap();
    let (first, second) = make(&mut views, 3, &frames, &[]);
    let mut images = vec![7.0; 4 * first.len()];
    views.make(3, &floats(&frames), &[], &mut images).unwrap();
    let made: Vec<&[f32]> = images.chunks_exact(first.len()).collect();
    assert!(made[..2] == [&first[..], &second[..]]);
    assert!(made[2] != made[1] && made[3] != made[1] && made[3] != made[2]);
}

/// All images of a window are mirrored, or none: both views, every frame.
#[test]
fn a_script_is_one_for_the_whole_window() {
    let (size, _) = SIZES[4];
    let still = Augmentation::Scripts.recipe().script.unwrap();
    let recipe = Recipe { script: Some(Script { mirrored: 0.5, warped: 0.0, ..still }), ..identity(size) };
    let frames = [noise(size, 1), noise(size, 2)];
    let mirrored = frames.concat();
    let mirrored: Vec<f32> = mirrored
        .chunks_exact(size.width * size.channels)
        .flat_map(|row| row.chunks_exact(size.channels).rev().flatten().copied())
        .collect();
    for pairing in [Pairing::CleanAndAugmented, Pairing::NextFrame] {
        let mut views = Views::new(pairing, recipe, size, 0).unwrap();
        let mut windows = [0; 2];
        for window in 0..40 {
            let (first, second) = make(&mut views, window, &frames, &frames);
            assert!(first == second);
            let turn = if first == mirrored { 1 } else { 0 };
            assert!(turn == 1 || first == frames.concat());
            windows[turn] += 1;
        }
        assert!(windows[0] > 8 && windows[1] > 8, "{windows:?}");
    }
    // A change of shape is the same for all, too: equal frames stay equal.
    let shaped = Recipe { script: Some(Script { mirrored: 0.0, warped: 1.0, ..still }), ..identity(size) };
    let mut views = Views::new(Pairing::CleanAndAugmented, shaped, size, 0).unwrap();
    let (first, second) = make(&mut views, 0, &[frames[0].clone(), frames[0].clone()], &[]);
    assert!(
        first == second && first[..size.len()] == first[size.len()..] && first[..size.len()] != frames[0]
    );
}

#[test]
fn a_window_is_shifted_as_one() {
    let (size, _) = SIZES[3];
    let recipe = Recipe { window_shift: 2, ..identity(size) };
    let frames = [noise(size, 1), noise(size, 2)];
    let mut views = Views::new(Pairing::CleanAndAugmented, recipe, size, 0).unwrap();
    let mut shifts = std::collections::BTreeSet::new();
    for window in 0..300 {
        let (first, second) = make(&mut views, window, &frames, &[]);
        assert!(first == second);
        let fits = |down: isize, right: isize| {
            let value = |image: &[f32], row: isize, column: isize| {
                let inside = (0..28).contains(&row) && (0..28).contains(&column);
                if inside { image[(row * 28 + column) as usize] } else { 0.0 }
            };
            (0..28 * 28).all(|at| {
                let (row, column) = (at / 28, at % 28);
                (0..2).all(|frame| {
                    let shown = &first[frame * size.len()..];
                    value(shown, row, column) == value(&frames[frame], row - down, column - right)
                })
            })
        };
        let found =
            (-2..=2).flat_map(|down| (-2..=2).map(move |right| (down, right))).find(|&(d, r)| fits(d, r));
        shifts.insert(found.unwrap());
    }
    assert_eq!(shifts.len(), 25, "all shifts turn up: {shifts:?}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let size = Shape { height: 28, width: 28, channels: 1 };
    let refused = |augmentation: Augmentation, size| {
        Views::new(Pairing::TwoAugmented, augmentation.recipe(), size, 0).unwrap_err().to_string()
    };
    assert!(refused(Augmentation::Mild, size).contains("colours"));
    assert!(refused(Augmentation::Rooms, Shape { channels: 3, ..size }).contains("mask"));
    assert!(refused(Augmentation::Omniglot, Shape { height: 0, ..size }).contains("28x0"));
    assert!(refused(Augmentation::Omniglot, Shape { channels: 5, ..size }).contains("1 to 4 channels"));

    let mut views = Views::new(Pairing::NextFrame, Augmentation::Omniglot.recipe(), size, 0).unwrap();
    let mut attempt = |frames: &[Vec<f32>], next: &[Vec<f32>], room: usize| {
        views.make(0, &floats(frames), &floats(next), &mut vec![0.0; room]).unwrap_err().to_string()
    };
    let (image, short) = ([vec![0.0; 784]], [vec![0.0; 783]]);
    assert!(attempt(&image, &[], 1568).contains("there are 1 and 0"));
    assert!(attempt(&image, &short, 1568).contains("783 numbers"));
    assert!(attempt(&image, &image, 1567).contains("times 784 numbers, not for 1567"));
    assert!(attempt(&image, &image, 784).contains("times 784 numbers, not for 784"));
}

proptest! {
    #[test]
    fn crops_lie_in_the_image_and_cover_the_object(
        (height, width) in (1usize..300, 1usize..300),
        (low, high) in (0.01f32..1.0, 0.01f32..1.0),
        (aspect, wider) in (0.2f32..4.0, 0.0f32..2.0),
        covered in 0.0f32..1.0,
        object in (0.0f64..1.0, 0.0f64..1.0, 0.0f64..1.0, 0.0f64..1.0),
        seed in any::<u64>(),
    ) {
        let crop = Crop {
            area: (low.min(high), low.max(high)),
            aspect: (aspect, aspect + wider),
            covered,
            object: Object::Mask,
        };
        let within = |share: f64, room: usize| (share * room as f64) as usize;
        let (top, left) = (within(object.0, height), within(object.1, width));
        let object = Region { top, left, height: within(object.2, height - top), width: within(object.3, width - left) };
        let found = crop.draw(height, width, &object, &mut Random::new(seed, Purpose::Views, 0));
        prop_assert!(found.height >= 1 && found.top + found.height <= height);
        prop_assert!(found.width >= 1 && found.left + found.width <= width);
        if found != Region::whole(height, width) {
            let area = (found.height * found.width) as f32 / (height * width) as f32;
            prop_assert!(area >= crop.area.0 - 1e-6 && area <= crop.area.1 + 1e-6, "area {area}");
            let rows = (found.top..found.top + found.height).filter(|row| (top..top + object.height).contains(row));
            let columns = (found.left..found.left + found.width).filter(|c| (left..left + object.width).contains(c));
            let share = (rows.count() * columns.count()) as f32 / (object.height * object.width) as f32;
            prop_assert!(share >= covered, "covers {share} of {covered}");
        }
    }

    /// Any size, any recipe: whatever is drawn, nothing indexes outside.
    #[test]
    fn small_images_work_too(
        (height, width, channels) in (1usize..48, 1usize..48, 1usize..5),
        seed in any::<u64>(),
    ) {
        let size = Shape { height, width, channels };
        let colour = (channels >= 3).then_some(Colour { strength: 1.0, jittered: 1.0, greyed: 0.5 });
        let object = if channels == 4 { Object::Mask } else { Object::Image };
        let warping = Warping {
            rotation: 180.0,
            shear: 1.0,
            zoom: 1.0,
            scale: 1.0,
            shift: 1.0,
            bend: 1.0,
            jitter: 1.0,
            gain: 3.0,
            level: (0.0, 1.0),
        };
        let recipe = Recipe {
            gaussian_blur: 0.7,
            motion_blur: 0.7,
            rotation: 180.0,
            warp: Some(warping),
            crop: Some(Crop { area: (0.01, 1.0), aspect: (0.3, 3.0), covered: 0.0, object }),
            flip: 0.5,
            colour,
            script: Some(Script { mirrored: 0.5, warped: 0.5, warping }),
            redrawn: false,
            window_shift: 3,
        };
        let mut views = Views::new(Pairing::TwoAugmented, recipe, size, seed).unwrap();
        let (first, second) = make(&mut views, 1, &[noise(size, seed)], &[]);
        prop_assert!(first.iter().chain(&second).all(|value| (0.0..=1.0).contains(value)));
    }
}

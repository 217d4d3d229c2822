//! Loaders on small data in the publishers' layouts, refusals, and the statistics of the samplers.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use oupn_edge::encoder::plan::Shape;
use oupn_edge::streams::mnist::{self, ImbalancedStream};
use oupn_edge::streams::rooms::RoomsStream;
use oupn_edge::streams::video::{Places, VideoStream};
use oupn_edge::streams::{
    ImageSet, LearningStream, Roaming, RoamingStream, SecondView, Split, coil, folder, omniglot,
};
use oupn_edge::views::Reduction;

use crate::support::{data, small_omniglot};

const TINY: Shape = Shape { height: 1, width: 1, channels: 1 };

fn message<T>(outcome: oupn_edge::Result<T>) -> String {
    let error = outcome.err().unwrap();
    assert_eq!(error.exit_code(), 2, "{error}");
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

/// One number a picture: its class, in groups of these sizes.
fn set_of(groups: &[usize], images: usize) -> ImageSet {
    let mut set = ImageSet::new(TINY);
    for (group, size) in groups.iter().enumerate() {
        for class in 0..*size {
            set.push(format!("{group}/{class}"), Some(group), &vec![group as u8; images]).unwrap();
        }
    }
    set
}

#[test]
fn omniglot_has_four_classes_a_character_and_ink_is_one() {
    let folder = tempfile::tempdir().unwrap();
    small_omniglot::write(folder.path());
    let set = omniglot::load(folder.path(), Split::Val, Reduction::Released, false).unwrap();
    assert_eq!(set.shape(), Shape { height: 28, width: 28, channels: 1 });
    assert_eq!((set.classes().len(), set.len()), (24, 480));
    let groups: Vec<_> = set.classes().iter().step_by(4).map(|class| class.group.unwrap()).collect();
    assert_eq!(groups, [0, 0, 1, 1, 2, 2], "the two Japanese scripts are one group");
    let ink = |index: usize| set.image(index).iter().map(|&value| u32::from(value)).sum::<u32>();
    assert!(ink(0) > 0 && ink(0) < 255 * 28 * 28 / 4, "mostly background, which is 0: {}", ink(0));

    // Turning is about pixel (14, 14): four turns leave all but the first row and column where they were.
    let (quarter, whole) = (set.image(0), set.image(60));
    let half = set.image(20);
    for row in 1..28 {
        for column in 1..28 {
            assert_eq!(half[(28 - row) * 28 + 28 - column], whole[row * 28 + column]);
            assert_eq!(quarter[(28 - column) * 28 + row], whole[row * 28 + column], "{row} {column}");
        }
    }
}

/// What Pillow makes of the same drawing with `resize((28, 28), BICUBIC)`, inverted: two rows. Kernels are rounded
/// differently: two levels apart at most.
#[test]
fn drawings_shrink_as_pillow_shrinks_them() {
    let folder = tempfile::tempdir().unwrap();
    small_omniglot::write(folder.path());
    let drawing = image::GrayImage::from_fn(105, 105, |x, y| {
        let square = (x as i32 - 52).pow(2) + (y as i32 - 40).pow(2);
        let ink = square > 600 && square < 900 || (x / 4) % 5 == (y / 7) % 5 && y > 70;
        image::Luma([if ink { 0 } else { 255 }])
    });
    let mut zip = zip::ZipWriter::new(fs::File::create(folder.path().join("images_background.zip")).unwrap());
    for drawer in 1..=20 {
        let name = format!("images_background/Angelic/character01/0001_{drawer:02}.png");
        zip.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(&small_omniglot::png(&drawing)).unwrap();
    }
    zip.finish().unwrap();
    fs::write(folder.path().join("split_test.txt"), "Angelic/character01\n").unwrap();
    let set = omniglot::load(folder.path(), Split::Test, Reduction::Antialiased, false).unwrap();
    // The class of four turns; its first row and column are lost.
    let image = set.image(60);
    let row = |row: usize| &image[row * 28 + 1..(row + 1) * 28];
    let seventh: [u8; 28] =
        [0, 0, 0, 0, 0, 0, 76, 255, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 99, 255, 76, 0, 0, 0, 0, 0, 0];
    let last: [u8; 28] =
        [0, 0, 227, 60, 0, 0, 0, 151, 153, 0, 0, 0, 57, 228, 0, 0, 0, 0, 227, 60, 0, 0, 0, 151, 153, 0, 0, 0];
    for (found, expected) in [(row(7), &seventh[1..]), (row(23), &last[1..])] {
        let close = found.iter().zip(expected).all(|(found, expected)| found.abs_diff(*expected) <= 2);
        assert!(close, "{found:?}, not {expected:?}");
    }
}

#[test]
fn damaged_omniglot_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = || message(omniglot::load(folder.path(), Split::Test, Reduction::Released, false));
    assert!(
        refusal().contains("images_background.zip") && refusal().contains("docs/DATA.md"),
        "{}",
        refusal()
    );
    small_omniglot::write(folder.path());
    let archive = folder.path().join("images_evaluation.zip");
    let whole = fs::read(&archive).unwrap();
    fs::write(&archive, &whole[..whole.len() / 2]).unwrap();
    assert!(refusal().contains("images_evaluation.zip") && refusal().contains("official archive"));
    fs::write(&archive, &whole).unwrap();
    fs::write(folder.path().join("split_test.txt"), "Angelic/character01\nAngelic/character09\n").unwrap();
    assert!(refusal().contains("0 drawings of Angelic/character09"), "{}", refusal());
    fs::write(folder.path().join("split_test.txt"), "Angelic\n").unwrap();
    assert!(refusal().contains("Alphabet/characterNN"));
}

/// The figures of an independent simulation of the same rules (5,000 episodes): mean length 145.8, 39 % of them full, 43.0
/// classes. The tolerances are four standard errors of 2,000 episodes.
#[test]
fn roaming_omniglot_has_the_published_statistics() {
    let set = set_of(&[127; 31], 20);
    let episodes: Vec<_> = (0..2000).map(|number| Roaming::OMNIGLOT.episode(&set, 1, number)).collect();
    let count = episodes.len() as f64;
    let length = episodes.iter().map(|episode| episode.images.len()).sum::<usize>() as f64 / count;
    let full = episodes.iter().filter(|episode| episode.images.len() == 150).count() as f64 / count;
    let classes = episodes.iter().map(|e| e.labels.iter().max().unwrap() + 1).sum::<usize>() as f64 / count;
    assert!((length - 145.8).abs() < 0.8, "{length}");
    assert!((full - 0.39).abs() < 0.05, "{full}");
    assert!((classes - 43.0).abs() < 0.4, "{classes}");
    for episode in &episodes {
        let mut shown = episode.images.clone();
        shown.sort_unstable();
        assert!(shown.windows(2).all(|pair| pair[0] != pair[1]), "a picture is shown once");
        let mut next = 0;
        for &label in &episode.labels {
            assert!(label <= next, "classes are numbered by first appearance");
            next = next.max(label + 1);
        }
    }
    assert_eq!(episodes[7], Roaming::OMNIGLOT.episode(&set, 1, 7), "an episode follows from its number");
    assert_ne!(episodes[7], Roaming::OMNIGLOT.episode(&set, 2, 7));
}

/// Five groups only, as Omniglot's validation alphabets: 43 numbers fall on 25 classes.
#[test]
fn numbers_wrap_where_there_are_few_groups() {
    let set = set_of(&[137, 138, 137, 138, 138], 20);
    let classes: usize = (0..500)
        .map(|number| Roaming::OMNIGLOT.episode(&set, 0, number).labels.iter().max().unwrap() + 1)
        .sum();
    assert!((classes as f64 / 500.0 - 25.0).abs() < 0.2, "{}", classes as f64 / 500.0);
}

#[test]
fn data_without_groups_is_dealt_out_to_the_contexts() {
    let mut set = ImageSet::new(TINY);
    (0..100).for_each(|class| set.push(class.to_string(), None, &[0; 72]).unwrap());
    let classes: usize = (0..200)
        .map(|number| Roaming::OMNIGLOT.episode(&set, 0, number).labels.iter().max().unwrap() + 1)
        .sum();
    assert!((classes as f64 / 200.0 - 43.0).abs() < 1.5, "{}", classes as f64 / 200.0);
    assert!(Roaming::OMNIGLOT.episode(&ImageSet::new(TINY), 0, 0).images.is_empty());
}

fn write_idx(path: &Path, dimensions: &[u32], content: &[u8]) {
    let mut file = GzEncoder::new(fs::File::create(path).unwrap(), Compression::fast());
    file.write_all(&(0x0800 + dimensions.len() as u32).to_be_bytes()).unwrap();
    for dimension in dimensions {
        file.write_all(&dimension.to_be_bytes()).unwrap();
    }
    file.write_all(content).unwrap();
    file.finish().unwrap();
}

/// Twenty pictures; every pixel of a digit's is 100 + the digit.
fn write_mnist(folder: &Path) {
    let labels: Vec<u8> = (0..20).map(|at| at % 10).collect();
    let images: Vec<u8> = labels.iter().flat_map(|digit| [100 + digit; 784]).collect();
    write_idx(&folder.join("train-images-idx3-ubyte.gz"), &[20, 28, 28], &images);
    write_idx(&folder.join("train-labels-idx1-ubyte.gz"), &[20], &labels);
}

#[test]
fn digits_crowd_out_characters_which_keep_their_order() {
    let folder = tempfile::tempdir().unwrap();
    write_mnist(folder.path());
    small_omniglot::write(folder.path());
    let stream = |share| ImbalancedStream {
        characters: RoamingStream {
            set: omniglot::load(folder.path(), Split::Train, Reduction::Released, false).unwrap(),
            roaming: Roaming::OMNIGLOT,
            seed: 3,
        },
        digits: mnist::load(folder.path(), Split::Train).unwrap(),
        share,
    };
    let (mixed, plain) = (stream(0.3), stream(0.0));
    let is_digit = |frame: &[u8]| frame[0] >= 100 && frame.iter().all(|value| *value == frame[0]);
    let (mut digits, mut frames) = (0, 0);
    for number in 0..20 {
        let (mixed, plain) = (mixed.window(number).unwrap(), plain.window(number).unwrap());
        assert_eq!(mixed.frames.len(), plain.frames.len());
        let characters: Vec<_> = mixed.frames.iter().filter(|frame| !is_digit(frame)).collect();
        digits += mixed.frames.len() - characters.len();
        frames += mixed.frames.len();
        assert!(characters.into_iter().eq(plain.frames.iter().take(characters_in(&mixed.frames, is_digit))));
    }
    let share = digits as f64 / frames as f64;
    assert!((share - 0.3).abs() < 0.035, "{share}: four deviations of 3,000 draws");
}

fn characters_in(frames: &[std::borrow::Cow<'_, [u8]>], is_digit: impl Fn(&[u8]) -> bool) -> usize {
    frames.iter().filter(|frame| !is_digit(frame)).count()
}

#[test]
fn damaged_mnist_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = || message(mnist::load(folder.path(), Split::Train));
    assert!(refusal().contains("train-images-idx3-ubyte.gz"));
    write_mnist(folder.path());
    assert!(mnist::load(folder.path(), Split::Train).is_ok());
    assert!(message(mnist::load(folder.path(), Split::Val)).contains("no split val"));
    let labels = folder.path().join("train-labels-idx1-ubyte.gz");
    write_idx(&labels, &[19], &[0; 19]);
    assert!(refusal().contains("19 labels for 20 images"));
    write_idx(&labels, &[20], &[0; 19]);
    assert!(refusal().contains("20 items are announced, but 19"));
    write_idx(&labels, &[20, 1], &[0; 20]);
    assert!(refusal().contains("idx file"));
    fs::write(&labels, b"no gzip").unwrap();
    assert!(refusal().contains("train-labels-idx1-ubyte.gz") && refusal().contains("gzip"));
}

fn write_picture(path: &Path, level: u8) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    image::RgbImage::from_pixel(24, 16, image::Rgb([level, 10, 20])).save(path).unwrap();
}

#[test]
fn folders_are_classes_and_may_be_grouped_and_split() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape { height: 8, width: 8, channels: 3 };
    let refusal = || message(folder::load(folder.path(), Split::Train, shape));
    assert!(refusal().contains("no class folders"));
    for (path, level) in
        [("train/animal/cat/1.png", 50), ("train/animal/dog/1.png", 60), ("train/thing/cup/1.png", 70)]
    {
        write_picture(&folder.path().join(path), level);
    }
    let set = folder::load(folder.path(), Split::Train, shape).unwrap();
    let classes: Vec<_> =
        set.classes().iter().map(|class| (class.name.as_str(), class.group.unwrap())).collect();
    assert_eq!(classes, [("cat", 0), ("dog", 0), ("cup", 1)]);
    assert_eq!(&set.image(2)[..3], [70, 10, 20]);
    let absent = message(folder::load(folder.path(), Split::Test, shape));
    assert!(absent.contains("no folder `test`") && absent.contains("--split train"), "{absent}");
    write_picture(&folder.path().join("test/cup/1.png"), 80);
    let set = folder::load(folder.path(), Split::Test, shape).unwrap();
    assert_eq!((set.len(), set.classes()[0].group), (1, None));
    fs::write(folder.path().join("test/cup/2.jpg"), b"no picture").unwrap();
    assert!(message(folder::load(folder.path(), Split::Test, shape)).contains("2.jpg"));
    fs::create_dir(folder.path().join("test/empty")).unwrap();
    fs::remove_file(folder.path().join("test/cup/2.jpg")).unwrap();
    assert!(message(folder::load(folder.path(), Split::Test, shape)).contains("empty"));
}

#[test]
fn objects_must_be_complete() {
    let folder = tempfile::tempdir().unwrap();
    let shape = Shape { height: 4, width: 4, channels: 3 };
    for object in 51..=100u32 {
        for angle in (0..360).step_by(5) {
            let name = format!("obj{object}__{angle}.png");
            image::RgbImage::from_pixel(4, 4, image::Rgb([object as u8, (angle / 5) as u8, 0]))
                .save(folder.path().join(name))
                .unwrap();
        }
    }
    let set = coil::load(folder.path(), Split::Test, shape).unwrap();
    assert_eq!((set.classes().len(), set.len()), (50, 3600));
    assert_eq!(&set.image(72 + 10)[..2], [52, 10], "pictures lie in the order of their angles");
    assert!(message(coil::load(folder.path(), Split::Train, shape)).contains("obj1__0"));
    fs::remove_file(folder.path().join("obj77__185.png")).unwrap();
    assert!(message(coil::load(folder.path(), Split::Test, shape)).contains("obj77__185"));

    // As a head camera meets them: the same object goes on turning, and what comes next is the next angle.
    let (places, second) = (Places::Anywhere, SecondView::Next);
    let rolling = VideoStream { set: set.clone(), places, second, window: 75, stride: 15, seed: 4 };
    let stream = VideoStream { set, places, second, window: 75, stride: 75, seed: 4 };
    let (first, second) = (rolling.window(0).unwrap(), rolling.window(1).unwrap());
    assert_eq!(first.frames[15..], second.frames[..60], "a rolling window keeps what the one before it saw");
    assert_eq!(first.next[15..], second.next[..60]);
    assert_eq!(rolling.window(5).unwrap().frames, stream.window(1).unwrap().frames);
    for number in 0..10 {
        let window = stream.window(number).unwrap();
        assert_eq!((window.frames.len(), window.next.len()), (75, 75));
        let mut same = 0;
        for (pair, next) in window.frames.windows(2).zip(&window.next) {
            let ([object, angle, ..], [next_object, next_angle, ..]) = (&*pair[0], &**next) else { panic!() };
            assert_eq!(object, next_object);
            assert!([1, 71].contains(&((72 + next_angle - angle) % 72)), "{angle} → {next_angle}");
            if pair[1][0] == *object {
                same += 1;
                assert_eq!(pair[1], *next, "the next frame of a look is what was announced");
            }
        }
        assert!((45..=74).contains(&same), "looks of 3 to 8 frames: {same} of 74 stay with the object");
        assert_eq!(window.frames, stream.window(number).unwrap().frames);
    }
}

#[test]
fn rooms_are_walks_with_a_mask() {
    let shape = Shape { height: 60, width: 80, channels: 4 };
    let stream = RoomsStream::new(Split::Test, shape, 6, 1).unwrap();
    let window = stream.window(2).unwrap();
    assert_eq!(window.frames.len(), 6);
    for frame in &window.frames {
        assert_eq!(frame.len(), shape.len());
        let marked = frame.chunks_exact(4).filter(|pixel| pixel[3] > 127).count();
        assert!(marked > 10 && marked < 60 * 80, "the object is in view: {marked} pixels");
    }
    assert_eq!(window.frames, stream.window(2).unwrap().frames);
    assert_ne!(window.frames, stream.window(3).unwrap().frames);
    let colour = Shape { channels: 3, ..shape };
    assert!(message(RoomsStream::new(Split::Train, colour, 6, 1)).contains("four channels"));
}

/// The real archives: the counts that the paper states.
#[test]
#[ignore = "needs OUPN_DATA: make test-data"]
fn the_official_archives_are_whole() {
    let folder = data("omniglot");
    for (split, characters, groups) in [(Split::Train, 987, 31), (Split::Val, 172, 5), (Split::Test, 464, 13)]
    {
        let set = omniglot::load(&folder, split, Reduction::Released, false).unwrap();
        assert_eq!((set.classes().len(), set.len()), (4 * characters, 80 * characters));
        let last = set.classes().iter().filter_map(|class| class.group).max();
        assert_eq!(last, Some(groups - 1), "{split}");
    }
}

//! `oupn-edge walk`, and pictures with labels, through the real binary.

use std::path::Path;

use crate::support::recording::{Place, said};

/// A stand-in for COIL-100: a square of its own colour for each object, the same from all sides.
fn objects(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    for object in 1..=100u32 {
        let colour = image::Rgb([
            (object * 37 % 200 + 50) as u8,
            (object * 91 % 200 + 50) as u8,
            (object * 53 % 250) as u8,
        ]);
        let picture = image::RgbImage::from_fn(32, 32, |x, y| {
            if (8..24).contains(&x) && (8..24).contains(&y) { colour } else { image::Rgb([0, 0, 0]) }
        });
        let first = folder.join(format!("obj{object}__0.png"));
        picture.save(&first).unwrap();
        for angle in 1..72 {
            std::fs::hard_link(&first, folder.join(format!("obj{object}__{}.png", 5 * angle))).unwrap();
        }
    }
}

#[test]
fn a_walk_is_recorded_and_scored() {
    let place = Place::new();
    objects(&place.path("coil"));
    place.pictures("desks", &["1.png", "2.png", "3.png"]);
    let walk = |output: &str, more: &[&str]| {
        let fixed = ["walk", "--data", "coil", "--output", output, "--samples", "40", "--things", "12"];
        let output = place.call(&[&fixed[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(walk("plain", &[]).contains("40 samples"));
    walk("again", &[]);
    walk("desk", &["--backgrounds", "desks", "--seed", "5"]);
    let read = |name: &str| std::fs::read(place.path(name)).unwrap();
    for name in ["rgb.txt", "labels.csv", "rgb/000017_1.jpg"] {
        assert_eq!(read(&format!("plain/{name}")), read(&format!("again/{name}")), "{name}");
    }
    assert_ne!(read("plain/labels.csv"), read("desk/labels.csv"));
    assert_eq!(String::from_utf8(read("desk/labels.csv")).unwrap().lines().count(), 1 + 2 * 40);

    // The recording knows what each sample shows, and its summary says how the categories agree with that.
    let summary = place.recorded(&["--camera", "plain", "--realtime", "off", "--data", "run"]);
    assert_eq!((summary["frames"].as_u64(), summary["ami_frames"].as_u64()), (Some(40), Some(40)));
    assert!(summary["things"].as_u64().is_some_and(|things| things > 2), "{summary}");
    assert!(summary["ami"].as_f64().is_some_and(|ami| ami > 0.3), "{summary}");

    let refused = |arguments: &[&str], words: &str| {
        let output = place.call(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains(words), "{}", said(&output));
    };
    let with = |folder| ["walk", "--data", "coil", "--output", folder, "--backgrounds", "coil/obj1__0.png"];
    refused(&["walk", "--data", "coil", "--output", "plain"], "there is something in it");
    refused(&["walk", "--data", "desks", "--output", "new"], "expected COIL-100: 100 objects");
    assert_ne!(place.call(&with("other")).status.code(), Some(0), "a picture is no folder");
    std::fs::write(place.path("plain/labels.csv"), "rgb/000000_0.jpg,cup\n").unwrap();
    refused(
        &["record", "--camera", "plain", "--realtime", "off", "--data", "run2"],
        "first line is not file,label",
    );
}

//! The checks on trees of other machines.

use std::path::Path;

use super::{Machine, Verdict, camera, machine};

fn machine(root: &Path, data: &Path) -> Vec<super::Check> {
    let (root, data) = (root.to_path_buf(), data.to_path_buf());
    machine::checks(&Machine { root, data, model: None, models: None })
}

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn an_orin_is_recognised_and_read() {
    let data = tempfile::tempdir().unwrap();
    let checks = machine(&fixture("sysfs-orin-nano-jetpack6"), data.path());
    let of = |name: &str| checks.iter().find(|check| check.name == name).unwrap();
    assert!(of("board").found.contains("Orin Nano"), "{:?}", of("board"));
    assert!(of("board").found.contains("power mode"), "{:?}", of("board"));
    assert!(of("temperature").found.contains("°C"), "{:?}", of("temperature"));
    assert_eq!(of("data folder").verdict, Verdict::Ok);
    assert_eq!(of("clock").verdict, Verdict::Advice, "the tree has no flag of synchronisation");
}

#[test]
fn what_is_not_as_it_should_be_comes_with_something_to_do() {
    let nowhere = Path::new("/proc/nowhere");
    let checks = machine(&fixture("sysfs-orin-nano-jetpack6"), nowhere);
    let folder = checks.iter().find(|check| check.name == "data folder").unwrap();
    assert_eq!(folder.verdict, Verdict::Problem);
    for check in &checks {
        assert_eq!(check.verdict == Verdict::Ok, check.advice.is_empty(), "{check:?}");
    }
}

#[test]
fn cameras_are_told_with_what_they_offer_or_what_is_wrong() {
    use crate::camera::v4l2::{Device, OfferedFormat};
    let none = camera::checks(&[]);
    assert_eq!((none.len(), none[0].verdict), (1, Verdict::Advice));
    let format =
        |format: &str, readable| OfferedFormat { format: format.to_owned(), readable, sizes: Vec::new() };
    let good = Device {
        path: "/dev/video2".into(),
        stable_path: "/dev/video2".into(),
        name: "Head Camera".to_owned(),
        bus: "usb-1".to_owned(),
        formats: vec![format("MJPG", true), format("H264", false)],
        trouble: None,
    };
    let bad = Device { trouble: Some("permission denied".to_owned()), ..good.clone() };
    let checks = camera::checks(&[good, bad]);
    assert_eq!((checks[0].verdict, checks[1].verdict), (Verdict::Ok, Verdict::Problem));
    assert!(checks[0].found.contains("MJPG") && !checks[0].found.contains("H264"), "{:?}", checks[0]);
    assert!(checks[1].found.contains("permission denied") && !checks[1].advice.is_empty(), "{:?}", checks[1]);
}

//! A camera that comes back to a place: does the category come back?
//!
//! TUM RGB-D freiburg1_desk is 20 s of a hand-held camera over desks, with the camera's pose for every moment. The recording
//! runs over it from a warm start, sampling five frames a second. Two samples show the same view if the camera was at
//! nearly the same place with nearly the same direction; it has come back if it was elsewhere in between.
//!
//! Needs `OUPN_DATA` (with `tum_fr1_desk`) and `OUPN_WEIGHTS` (with the width 0.35 ImageNet weights).

use std::process::Command;
use std::sync::Arc;

use oupn_edge::storage::OsFilesystem;
use oupn_edge::trace::{Reader, Record};

use crate::support::{data, weights};

/// Place in metres, and the direction of view.
#[derive(Clone, Copy)]
struct Pose {
    seconds: f64,
    place: [f64; 3],
    view: [f64; 3],
}

/// Lines of `timestamp tx ty tz qx qy qz qw`; the camera looks along its own z axis.
fn poses(text: &str) -> Vec<Pose> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let n: Vec<f64> = line.split_whitespace().map(|number| number.parse().unwrap()).collect();
            let (x, y, z, w) = (n[4], n[5], n[6], n[7]);
            let view = [2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)];
            Pose { seconds: n[0], place: [n[1], n[2], n[3]], view }
        })
        .collect()
}

impl Pose {
    /// Within 30 cm and 20°: most of the picture is the same.
    fn is_near(&self, other: &Self) -> bool {
        let distance: f64 = self.place.iter().zip(&other.place).map(|(a, b)| (a - b).powi(2)).sum();
        let cosine: f64 = self.view.iter().zip(&other.view).map(|(a, b)| a * b).sum();
        distance.sqrt() < 0.3 && cosine > 20f64.to_radians().cos()
    }

    /// Beyond 60 cm or 45°.
    fn is_elsewhere(&self, other: &Self) -> bool {
        let distance: f64 = self.place.iter().zip(&other.place).map(|(a, b)| (a - b).powi(2)).sum();
        let cosine: f64 = self.view.iter().zip(&other.view).map(|(a, b)| a * b).sum();
        distance.sqrt() > 0.6 || cosine < 45f64.to_radians().cos()
    }
}

#[test]
#[ignore = "needs OUPN_DATA and OUPN_WEIGHTS: make test-data"]
fn a_place_seen_again_returns_to_its_category() {
    let source = data("tum_fr1_desk");
    let model = weights("mobilenet_v2_0.35_imagenet.safetensors");
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let output = Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
        .args(["--camera", source.to_str().unwrap(), "--model", model.to_str().unwrap(), "--realtime", "off"])
        .args(["--period", "200ms", "--window", "40", "--stride", "20", "--reserve", "0", "--json"])
        .args(["--data", run.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    eprintln!("{}", String::from_utf8_lossy(&output.stdout));

    let truth = poses(&std::fs::read_to_string(source.join("groundtruth.txt")).unwrap());
    let mut seen: Vec<(Pose, u64, bool)> = Vec::new();
    for entry in Reader::open(Arc::new(OsFilesystem), &run.join("trace")).unwrap() {
        if let Record::Frame(frame) = entry.unwrap().record {
            let seconds = frame.source_ns.unwrap() as f64 / 1e9;
            let pose = truth
                .iter()
                .min_by(|a, b| (a.seconds - seconds).abs().total_cmp(&(b.seconds - seconds).abs()))
                .unwrap();
            assert!((pose.seconds - seconds).abs() < 0.05, "no pose for {seconds}");
            seen.push((*pose, frame.category, frame.created));
        }
    }
    assert!(seen.len() > 80, "{} frames", seen.len());

    // A return: near an earlier sample, with one from elsewhere in between.
    let (mut returns, mut known, mut same) = (0u32, 0u32, 0u32);
    let (mut far_pairs, mut far_same) = (0u32, 0u32);
    for (at, (pose, category, created)) in seen.iter().enumerate() {
        let earlier: Vec<usize> = (0..at)
            .filter(|&before| seen[before].0.is_near(pose))
            .filter(|&before| seen[before..at].iter().any(|(other, ..)| other.is_elsewhere(pose)))
            .collect();
        if !earlier.is_empty() {
            returns += 1;
            known += u32::from(!created);
            same += u32::from(earlier.iter().any(|&before| seen[before].1 == *category));
        }
        for (other, its_category, _) in &seen[..at] {
            if other.is_elsewhere(pose) {
                far_pairs += 1;
                far_same += u32::from(its_category == category);
            }
        }
    }
    let share = |part: u32, whole: u32| f64::from(part) / f64::from(whole.max(1));
    eprintln!(
        "{} frames; {returns} returns: {:.0} % to an existing category, {:.0} % to one the place had before; \
         {:.0} % of pairs from elsewhere share a category",
        seen.len(),
        100.0 * share(known, returns),
        100.0 * share(same, returns),
        100.0 * share(far_same, far_pairs)
    );
    assert!(returns >= 5, "{returns} returns: too few to say anything");
    assert!(share(known, returns) > 0.5);
    assert!(share(same, returns) > 2.0 * share(far_same, far_pairs), "no better than chance");
}

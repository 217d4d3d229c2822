//! Pictures that are not whole, through the real binary.

use std::process::Command;

use image::ExtendedColorType;
use image::codecs::jpeg::JpegEncoder;

use crate::support::recording::SETTINGS;

#[test]
fn a_picture_that_is_cut_off_is_counted_and_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let pictures = folder.path().join("pictures");
    std::fs::create_dir(&pictures).unwrap();
    std::fs::write(folder.path().join("settings.toml"), SETTINGS).unwrap();
    for number in 0..4_u8 {
        let pixels: Vec<u8> = (0..64 * 64 * 3).map(|at| (at as u8).wrapping_mul(number + 3)).collect();
        let mut jpeg = Vec::new();
        JpegEncoder::new(&mut jpeg).encode(&pixels, 64, 64, ExtendedColorType::Rgb8).unwrap();
        if number == 1 {
            jpeg.truncate(jpeg.len() / 2);
        }
        std::fs::write(pictures.join(format!("{number}.jpg")), jpeg).unwrap();
    }
    let run = Command::new(env!("CARGO_BIN_EXE_oupn-edge"))
        .args(["--camera", pictures.to_str().unwrap(), "--rate", "1", "--period", "1s", "--realtime", "off"])
        .args(["--config", folder.path().join("settings.toml").to_str().unwrap()])
        .args(["--data", folder.path().join("data").to_str().unwrap(), "--reserve", "0", "--json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(3), "done, but something was left out: {said}");
    let summary: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!((&summary["bad_pictures"], &summary["frames"]), (&1.into(), &3.into()), "{summary}");
}

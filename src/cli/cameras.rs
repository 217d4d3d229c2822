//! `oupn-edge cameras`: the cameras of this machine, with what each offers and the name to give to `--camera`.
//!
//! With `--json` an array, one object a camera: `path`, `stable_path`, `name`, `bus`, `formats` (each with `format`,
//! `readable` and `sizes` of `width`, `height`, `rates` and, for a range, `up_to`: width, height and their steps) and, where
//! it cannot be used, `trouble`.

use std::fmt::Write as _;

use clap::Args;

use super::plain::plain;
use oupn_edge::camera::v4l2::{Device, list};
use oupn_edge::{Error, Result};

#[derive(Debug, Args)]
pub(super) struct CamerasArgs {
    /// Print JSON for programs instead of text for people
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CamerasArgs) -> Result<()> {
    let cameras = list();
    if args.json {
        let text = serde_json::to_string_pretty(&cameras)
            .map_err(|error| Error::Device(format!("cannot write the list as JSON: {error}")))?;
        return super::print(&format!("{text}\n"));
    }
    super::print(&for_people(&cameras))
}

fn for_people(cameras: &[Device]) -> String {
    if cameras.is_empty() {
        return "No camera found. Plug one in and look again (`dmesg` tells whether the system saw it); a camera of the board's \
                own connector (CSI) comes in through a pipe, see docs/CAMERAS.md. To try without: --camera rooms\n"
            .to_owned();
    }
    let mut text = String::new();
    for camera in cameras {
        // Writing to a string cannot fail.
        let (name, bus) = (plain(&camera.name), plain(&camera.bus));
        let _ = writeln!(text, "{}  {name} ({bus})", camera.path.display());
        let _ = writeln!(text, "  --camera {}", camera.stable_path.display());
        for format in &camera.formats {
            let note = if format.readable { "" } else { "  (not read by oupn-edge)" };
            let _ = writeln!(text, "  {}{note}", format.describe());
        }
        if let Some(trouble) = &camera.trouble {
            let _ = writeln!(text, "  {trouble}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use oupn_edge::camera::v4l2::{OfferedFormat, OfferedSize};

    #[test]
    fn a_camera_is_shown_with_its_lasting_name_and_what_it_offers() {
        let size = |width, height, up_to| OfferedSize { width, height, up_to, rates: vec![29.97, 5.0] };
        let camera = Device {
            path: PathBuf::from("/dev/video2"),
            stable_path: PathBuf::from("/dev/v4l/by-id/usb-Head_Camera-video-index0"),
            name: "Head Camera".to_owned(),
            bus: "usb-1".to_owned(),
            formats: vec![
                OfferedFormat { format: "YUYV".into(), readable: true, sizes: vec![size(640, 480, None)] },
                OfferedFormat {
                    format: "H264".into(),
                    readable: false,
                    sizes: vec![size(48, 32, Some([1920, 1080, 2, 2]))],
                },
            ],
            trouble: None,
        };
        assert_eq!(
            for_people(&[camera]),
            "/dev/video2  Head Camera (usb-1)\n  --camera /dev/v4l/by-id/usb-Head_Camera-video-index0\n  YUYV 640x480@30\n  \
             H264 48x32-1920x1080@30  (not read by oupn-edge)\n"
        );
        assert!(for_people(&[]).contains("--camera rooms"));
    }
}

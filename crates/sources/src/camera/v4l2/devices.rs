//! Which cameras this machine has, and under which name each is found again after a replug.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::kernel::Node;
use super::modes::{self, OfferedFormat};
use super::refusal;
use crate::camera::natural;

/// Major number of video devices (video4linux).
const VIDEO_MAJOR: u32 = 81;

/// Folders with links that keep their names when the device numbers change: by the camera's serial number, else by its plug.
const STABLE: [&str; 2] = ["/dev/v4l/by-id", "/dev/v4l/by-path"];

/// A camera, as `oupn-edge cameras` shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Device {
    /// The device node.
    pub path: PathBuf,
    /// The name to give to `--camera`: the same after a replug or a restart, where the system provides one.
    pub stable_path: PathBuf,
    /// What the camera calls itself.
    pub name: String,
    /// Where it is plugged in.
    pub bus: String,
    /// Formats, sizes and rates.
    pub formats: Vec<OfferedFormat>,
    /// Why it cannot be used, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// All nodes that capture video, in the order of their numbers; those that cannot be opened with the reason.
pub fn list() -> Vec<Device> {
    let entries = fs::read_dir("/dev").into_iter().flatten().flatten();
    let mut nodes: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with("video"))
        .collect();
    nodes.sort_by(|a, b| natural::compare(a, b));
    nodes.iter().map(|name| Path::new("/dev").join(name)).filter_map(|path| look_at(&path)).collect()
}

/// Asks one node; `None` if it does not capture video (a webcam has a second node for its metadata).
fn look_at(path: &Path) -> Option<Device> {
    if !is_camera_node(path) {
        return None;
    }
    let device = Device {
        path: path.to_path_buf(),
        stable_path: stable_path(path),
        name: String::new(),
        bus: String::new(),
        formats: Vec::new(),
        trouble: None,
    };
    let asked = Node::open(path).and_then(|node| Ok((node.about()?, node)));
    let (about, node) = match asked {
        Ok(asked) => asked,
        Err(error) => return Some(Device { trouble: Some(refusal(path, &error).to_string()), ..device }),
    };
    if !about.captures {
        return None;
    }
    let formats = modes::offered(&node);
    let readable = formats.iter().any(|format| format.readable);
    let trouble = (!readable).then(|| "none of its formats is read by this program".to_owned());
    Some(Device { name: about.card, bus: about.bus, formats, trouble, ..device })
}

/// Whether a path leads to a video device, without opening it: opening some other device may have consequences.
pub(in crate::camera) fn is_camera_node(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| {
        about.file_type().is_char_device() && rustix::fs::major(about.rdev()) == VIDEO_MAJOR
    })
}

/// The link to this node that stays; the path itself if there is none.
pub(in crate::camera) fn stable_path(path: &Path) -> PathBuf {
    let target = path.canonicalize().ok();
    let links = STABLE.iter().filter_map(|folder| fs::read_dir(folder).ok()).flat_map(|folder| {
        let mut links: Vec<PathBuf> = folder.flatten().map(|entry| entry.path()).collect();
        links.sort();
        links
    });
    let same = |link: &PathBuf| target.is_some() && link.canonicalize().ok() == target;
    links.into_iter().find(same).unwrap_or_else(|| path.to_path_buf())
}

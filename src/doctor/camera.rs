//! Cameras: which there are, whether this user may open them, and what they offer.

use super::Check;
use crate::camera::v4l2::Device;

/// One check a camera, or one that says that there is none.
pub(super) fn checks(cameras: &[Device]) -> Vec<Check> {
    if cameras.is_empty() {
        let advice = "plug one in (dmesg shows whether the kernel sees it); recordings, pipes and the built-in world work \
                      without: --camera rooms";
        return vec![Check::advice("camera", "none found", advice)];
    }
    cameras.iter().map(check).collect()
}

fn check(camera: &Device) -> Check {
    let path = camera.path.display();
    if let Some(trouble) = &camera.trouble {
        let advice = "may this user open it (sudo usermod -aG video $USER, then log in again), and has no other program?";
        return Check::problem("camera", format!("{path}: {trouble}"), advice);
    }
    let formats: Vec<String> =
        camera.formats.iter().filter(|format| format.readable).map(|format| format.describe()).collect();
    Check::ok("camera", format!("{} ({path}): {}", camera.name, formats.join("; ")))
}

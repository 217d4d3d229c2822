//! The integrated GPU: its clock and its load, through devfreq.
//!
//! JetPack 6 names it `17000000.gpu`, JetPack 5 `17000000.ga10b` (Xavier: `gv11b`). Devices that are not GPUs (video
//! engines) have devfreq entries too. The load is in thousandths, in the device's own folder or under the old name
//! `gpu.0`.

use std::path::{Path, PathBuf};

use super::sysfs;

/// How a GPU's devfreq entry may end.
const NAMES: [&str; 5] = [".gpu", ".ga10b", ".gv11b", ".gp10b", "gpu-gpc-0"];

/// The state of the integrated GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct Gpu {
    /// Its name in devfreq.
    pub name: String,
    /// Its clock now, in MHz.
    pub megahertz: f32,
    /// The highest clock that the power mode allows, in MHz.
    pub most_megahertz: Option<f32>,
    /// How busy it is, 0 to 1.
    pub load: Option<f32>,
}

/// The integrated GPU, if there is one.
pub fn read(root: &Path) -> Option<Gpu> {
    let entries = std::fs::read_dir(root.join("sys/class/devfreq")).ok()?.flatten();
    let mut found: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .filter(|(name, _)| NAMES.iter().any(|end| name.ends_with(end)))
        .collect();
    found.sort_unstable();
    let (name, path) = found.into_iter().next()?;
    let megahertz =
        |file: &str| sysfs::number::<u64>(path.join(file)).map(|hertz| (hertz as f64 / 1e6) as f32);
    let loads = [path.join("device/load"), root.join("sys/devices/platform/gpu.0/load")];
    let load =
        loads.iter().find_map(sysfs::number::<u32>).map(|thousandths| thousandths.min(1000) as f32 / 1000.0);
    Some(Gpu { megahertz: megahertz("cur_freq")?, most_megahertz: megahertz("max_freq"), load, name })
}

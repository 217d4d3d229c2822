//! Which board this is: model, NVIDIA's release, power mode.

use std::path::Path;

use super::sysfs;

/// What the board says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Board {
    /// The device tree's model line.
    pub model: Option<String>,
    /// The first line of NVIDIA's release file, by which a JetPack is known.
    pub release: Option<String>,
    /// The name of the power mode in force, or its number where the name is not known.
    pub power_mode: Option<String>,
}

/// The board whose files are under `root`.
pub fn read(root: &Path) -> Board {
    let release = sysfs::text(root.join("etc/nv_tegra_release"));
    Board {
        model: sysfs::text(root.join("proc/device-tree/model")).filter(|model| !model.is_empty()),
        release: release
            .and_then(|text| text.lines().next().map(|line| line.trim_matches(['#', ' ']).to_owned())),
        power_mode: power_mode(root),
    }
}

/// `nvpmodel` keeps the mode as `pmode:0002` and lists the modes as `< POWER_MODEL ID=2 NAME=25W >`.
fn power_mode(root: &Path) -> Option<String> {
    let status = sysfs::text(root.join("var/lib/nvpmodel/status"))?;
    let number: u32 = status.split_whitespace().find_map(|word| word.strip_prefix("pmode:"))?.parse().ok()?;
    let modes = sysfs::text(root.join("etc/nvpmodel.conf")).unwrap_or_default();
    let name = modes.lines().filter(|line| line.contains("POWER_MODEL")).find_map(|line| {
        let value = |key: &str| line.split_whitespace().find_map(|word| word.strip_prefix(key));
        let same = value("ID=")?.parse() == Ok(number);
        same.then(|| value("NAME=").map(str::to_owned))?
    });
    Some(name.unwrap_or_else(|| number.to_string()))
}

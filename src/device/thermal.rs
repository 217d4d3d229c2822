//! Temperatures: the kernel's thermal zones.
//!
//! Orin boards name theirs `cpu-thermal`, `gpu-thermal`, `cv0-thermal` …, `soc0-thermal` … and `tj-thermal`, the hottest
//! of them all (JetPack 5: `CPU-therm`, `tj-therm` …). A zone whose part is switched off answers with an error or with
//! −256 °C; it is left out.

use std::path::Path;

use super::sysfs;

/// What a working sensor on a board can show, in °C.
const PLAUSIBLE: std::ops::RangeInclusive<f32> = -55.0..=150.0;

/// One thermal zone.
#[derive(Debug, Clone, PartialEq)]
pub struct Zone {
    /// The kernel's name for it.
    pub name: String,
    /// Its temperature in °C.
    pub celsius: f32,
    /// Where the kernel begins to slow the machine down: the lowest passive trip point, in °C.
    pub slows_down_at: Option<f32>,
    /// Where it switches off: the critical trip point, in °C.
    pub switches_off_at: Option<f32>,
}

/// The zones that answer, in the kernel's order.
pub fn read(root: &Path) -> Vec<Zone> {
    sysfs::numbered(root.join("sys/class/thermal"), "thermal_zone")
        .iter()
        .filter_map(|zone| read_zone(zone))
        .collect()
}

/// The hottest zone.
pub fn hottest(zones: &[Zone]) -> Option<&Zone> {
    zones.iter().max_by(|a, b| a.celsius.total_cmp(&b.celsius))
}

fn read_zone(path: &Path) -> Option<Zone> {
    let celsius = degrees(path.join("temp"))?;
    let trip = |kind: &str| {
        // Sixteen is more than any zone has; the kernel numbers trip points without holes.
        let points =
            (0..16).map_while(|n| Some((n, sysfs::text(path.join(format!("trip_point_{n}_type")))?)));
        let of_kind = points.filter(|(_, found)| found == kind);
        of_kind.filter_map(|(n, _)| degrees(path.join(format!("trip_point_{n}_temp")))).reduce(f32::min)
    };
    Some(Zone {
        name: sysfs::text(path.join("type"))?,
        celsius,
        slows_down_at: trip("passive"),
        switches_off_at: trip("critical"),
    })
}

fn degrees(path: impl AsRef<Path>) -> Option<f32> {
    let thousandths: i32 = sysfs::number(path)?;
    let celsius = thousandths as f32 / 1000.0;
    PLAUSIBLE.contains(&celsius).then_some(celsius)
}

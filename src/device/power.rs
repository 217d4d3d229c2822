//! Power: the INA3221 monitors of Jetson boards, as the kernel's hwmon shows them.
//!
//! A rail has a name (`inN_label`), a voltage (`inN_input`, mV) and a current (`currN_input`, mA). Orin Nano and NX have
//! `VDD_IN` (the whole module), `VDD_CPU_GPU_CV` and `VDD_SOC`. AGX Orin has no such total: `VDD_GPU_SOC`, `VDD_CPU_CV`,
//! `VIN_SYS_5V0` and, on a second chip behind the last, `VDDQ_VDD2_1V8AO`.

use std::path::Path;

use super::sysfs;

/// One supply rail.
#[derive(Debug, Clone, PartialEq)]
pub struct Rail {
    /// The board's name for it.
    pub name: String,
    /// Its voltage.
    pub volts: f32,
    /// Its current.
    pub amperes: f32,
}

impl Rail {
    /// What it draws.
    pub fn watts(&self) -> f32 {
        self.volts * self.amperes
    }
}

/// The rails that answer. Channels that are not connected (`NC`), switched off, or mere sums are left out.
pub fn read(root: &Path) -> Vec<Rail> {
    let monitors = sysfs::numbered(root.join("sys/class/hwmon"), "hwmon").into_iter();
    let monitors =
        monitors.filter(|path| sysfs::text(path.join("name")).is_some_and(|name| name == "ina3221"));
    monitors.flat_map(|path| (1..=3).filter_map(move |channel| read_rail(&path, channel))).collect()
}

/// What the module draws: the rail of the whole module where there is one, else the rails that are not part of another.
pub fn total_watts(rails: &[Rail]) -> Option<f32> {
    let whole = rails.iter().find(|rail| rail.name == "VDD_IN").map(Rail::watts);
    let parts = rails.iter().filter(|rail| rail.name != "VDDQ_VDD2_1V8AO").map(Rail::watts);
    whole.or_else(|| parts.reduce(|a, b| a + b))
}

fn read_rail(monitor: &Path, channel: u8) -> Option<Rail> {
    let name = sysfs::text(monitor.join(format!("in{channel}_label"))).filter(|name| name != "NC")?;
    let millivolts: u32 = sysfs::number(monitor.join(format!("in{channel}_input")))?;
    // A current may be negative by the monitor's offset when nothing flows.
    let milliamperes: i32 = sysfs::number(monitor.join(format!("curr{channel}_input")))?;
    Some(Rail { name, volts: millivolts as f32 / 1000.0, amperes: milliamperes.max(0) as f32 / 1000.0 })
}

//! The sensor readers on the trees of Orin boards (see tests/fixtures/README.md for where those come from).

use std::path::{Path, PathBuf};

use oupn_edge::device::{Sensors, board, power, thermal};

fn tree(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn orin_nano_on_jetpack_6() {
    let root = tree("sysfs-orin-nano-jetpack6");
    let readings = Sensors::new(&root).read();

    let names: Vec<_> = readings.zones.iter().map(|zone| zone.name.as_str()).collect();
    assert_eq!(
        names,
        ["cpu-thermal", "gpu-thermal", "soc0-thermal", "soc1-thermal", "soc2-thermal", "tj-thermal"],
        "the zones of the switched-off vision processors are left out"
    );
    let hottest = thermal::hottest(&readings.zones).unwrap();
    assert_eq!(hottest.celsius, 51.187);
    assert_eq!((hottest.slows_down_at, hottest.switches_off_at), (Some(99.0), Some(104.5)));

    let rails: Vec<_> = readings.rails.iter().map(|rail| rail.name.as_str()).collect();
    assert_eq!(rails, ["VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"]);
    let watts = power::total_watts(&readings.rails).unwrap();
    assert!((watts - 4.984 * 0.960).abs() < 1e-4, "VDD_IN alone is the module: {watts}");

    let gpu = readings.gpu.unwrap();
    assert_eq!(
        (gpu.name.as_str(), gpu.megahertz, gpu.most_megahertz),
        ("17000000.gpu", 305.235, Some(624.75))
    );
    assert_eq!(gpu.load, Some(0.734));

    assert_eq!(readings.memory.resident, Some(512_000 * 1024));
    assert_eq!(readings.memory.peak_resident, Some(640_000 * 1024));
    assert_eq!(readings.memory.available, Some(4_693_552 * 1024));

    let board = board::read(&root);
    assert_eq!(board.model.as_deref(), Some("NVIDIA Jetson Orin Nano Developer Kit"));
    assert!(board.release.unwrap().starts_with("R36 (release), REVISION: 4.7"));
    assert_eq!(board.power_mode.as_deref(), Some("25W"));
}

#[test]
fn agx_orin_on_jetpack_5() {
    let root = tree("sysfs-orin-agx-jetpack5");
    let readings = Sensors::new(&root).read();

    assert!(readings.zones.iter().all(|zone| zone.celsius > 0.0), "no zone at -256 °C: {:?}", readings.zones);
    assert_eq!(readings.zones.len(), 7);
    assert_eq!(thermal::hottest(&readings.zones).map(|zone| zone.celsius), Some(48.5));

    let rails: Vec<_> = readings.rails.iter().map(|rail| rail.name.as_str()).collect();
    assert_eq!(rails, ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO"]);
    let watts = power::total_watts(&readings.rails).unwrap();
    assert!(
        (watts - (18.792 * 0.140 + 4.968 * 0.980)).abs() < 1e-4,
        "the last rail is behind the third: {watts}"
    );

    let gpu = readings.gpu.unwrap();
    assert_eq!((gpu.name.as_str(), gpu.megahertz, gpu.load), ("17000000.ga10b", 1300.5, Some(0.0)));
    assert_eq!(board::read(&root).power_mode.as_deref(), Some("0"), "without a list of modes, its number");
}

#[test]
fn a_machine_without_sensors_has_no_readings_and_no_error() {
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(Sensors::new(empty.path()).read(), Default::default());
    assert_eq!(board::read(empty.path()), Default::default());
    // Whatever this machine has, reading it must work.
    Sensors::system().read();
}

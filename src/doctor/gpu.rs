//! The GPU alone, for somebody who has a board: does it compute rightly, where does its time go, and in what state was the
//! machine meanwhile. One JSON object, to be sent back as it is.

use std::path::Path;

use serde_json::{Value, json};

use crate::device::{Readings, Sensors, board, power};
use crate::encoder::device::examine_gpu;
use crate::encoder::examination::{Examination, WindowSize};
use crate::{Error, Result};

/// What was found.
#[derive(Debug)]
pub struct Report {
    /// All of it.
    pub json: Value,
    /// The networks on which the GPU computes other numbers than plain loops.
    pub wrong: Vec<String>,
}

/// Examines the GPU of the machine whose files are under `root`.
///
/// # Errors
/// If there is none, or it fails.
pub fn report(root: &Path, size: WindowSize) -> Result<Report> {
    if size.images == 0 || size.side == 0 {
        return Err(Error::input("a window without pixels cannot be timed"));
    }
    let sensors = Sensors::new(root);
    let before = sensors.read();
    let (device, found) = examine_gpu(size)?;
    Ok(compose(&device, &found, size, &board::read(root), [&before, &sensors.read()]))
}

fn compose(
    device: &str,
    found: &Examination,
    size: WindowSize,
    board: &board::Board,
    [before, after]: [&Readings; 2],
) -> Report {
    let networks: Vec<Value> = found
        .networks
        .iter()
        .map(|network| {
            json!({
                "network": network.network,
                "features_apart": number(network.features),
                "gradients_apart": number(network.gradients),
                "agrees": network.agrees,
            })
        })
        .collect();
    let mut operations: Vec<_> = found.spendings.iter().collect();
    operations.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
    let operations: Vec<Value> = operations
        .into_iter()
        .map(|(name, spent)| {
            json!({ "name": name, "calls": spent.calls, "seconds": spent.seconds, "bytes": spent.bytes })
        })
        .collect();
    let allocated = found.spendings.get("allocate").map_or(0, |spent| spent.bytes);
    let json = json!({
        "program": env!("CARGO_PKG_VERSION"),
        "device": device,
        "board": { "model": board.model, "release": board.release, "power_mode": board.power_mode },
        "networks": networks,
        "window": {
            "width": size.width,
            "side": size.side,
            "images": size.images,
            "seconds": found.seconds,
            "allocated_bytes": allocated,
            "operations": operations,
        },
        "before": state(before),
        "after": state(after),
    });
    let wrong = found.networks.iter().filter(|network| !network.agrees);
    Report { json, wrong: wrong.map(|network| network.network.clone()).collect() }
}

/// JSON has no infinity and no NaN: they become words, so that a reader sees them.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { json!(value.to_string()) }
}

/// Clock, heat, power and memory.
fn state(readings: &Readings) -> Value {
    let zones: Vec<Value> =
        readings.zones.iter().map(|zone| json!({ "name": zone.name, "celsius": zone.celsius })).collect();
    json!({
        "gpu_megahertz": readings.gpu.as_ref().map(|gpu| gpu.megahertz),
        "gpu_most_megahertz": readings.gpu.as_ref().and_then(|gpu| gpu.most_megahertz),
        "zones": zones,
        "watts": power::total_watts(&readings.rails),
        "memory_total": readings.memory.total,
        "memory_available": readings.memory.available,
        "resident": readings.memory.resident,
    })
}

#[cfg(test)]
mod tests {
    use oupn_cuda::timed::Spent;

    use super::*;
    use crate::encoder::examination::Agreement;

    const SIZE: WindowSize = WindowSize { width: 0.35, side: 32, images: 2 };

    fn agreement(gradients: f64, agrees: bool) -> Agreement {
        Agreement { network: format!("network {gradients}"), features: 1e-6, gradients, agrees }
    }

    #[test]
    fn a_report_has_everything_and_names_what_is_wrong() {
        let spent = |seconds, bytes| Spent { calls: 1, seconds, bytes };
        let spendings =
            [("depthwise", spent(0.1, 0)), ("allocate", spent(0.0, 4096)), ("product 1x2x3", spent(0.3, 0))];
        let found = Examination {
            networks: vec![agreement(1e-5, true), agreement(f64::NAN, false)],
            seconds: 0.25,
            spendings: spendings.into_iter().map(|(name, spent)| (name.to_owned(), spent)).collect(),
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/sysfs-orin-nano-jetpack6");
        let readings = Sensors::new(&root).read();
        let Report { json, wrong } =
            compose("a GPU", &found, SIZE, &board::read(&root), [&readings, &Readings::default()]);
        assert_eq!(wrong, ["network NaN"]);
        assert_eq!(json["networks"][1]["gradients_apart"], "NaN");
        assert_eq!(json["window"]["allocated_bytes"], 4096);
        // The dearest comes first.
        assert_eq!(json["window"]["operations"][0]["name"], "product 1x2x3");
        assert!(json["board"]["model"].as_str().unwrap().contains("Orin"), "{json}");
        assert!(json["before"]["gpu_megahertz"].as_f64().unwrap() > 0.0, "{json}");
        assert!(!json["before"]["zones"].as_array().unwrap().is_empty(), "{json}");
        // A machine without these files has nothing to say, and that is said.
        assert!(json["after"]["gpu_megahertz"].is_null() && json["after"]["watts"].is_null(), "{json}");
    }

    #[test]
    fn windows_without_pixels_are_refused() {
        for size in [WindowSize { side: 0, ..SIZE }, WindowSize { images: 0, ..SIZE }] {
            assert_eq!(report(Path::new("/"), size).unwrap_err().exit_code(), 2);
        }
    }
}

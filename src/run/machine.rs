//! The machine's health during a run: looked at every few seconds, recorded every minute, and when it gets too hot.

use std::time::{Duration, Instant};

use crate::camera::Counters;
use crate::device::{Sensors, power, thermal};
use crate::trace::{self, Health};

/// How often the machine is looked at.
pub const EVERY: Duration = Duration::from_secs(10);

/// How many looks make a record.
const LOOKS_A_RECORD: u32 = 6;

/// A zone counts as too hot this many degrees below the point where the kernel slows the machine down …
const MARGIN: f32 = 3.0;

/// … or above this temperature, where the kernel names no such point.
const HOT: f32 = 90.0;

/// It has cooled down when it is this much below the limit.
const COOLED: f32 = 5.0;

/// See the [module](self).
#[derive(Debug)]
pub struct Machine {
    sensors: Sensors,
    data: std::path::PathBuf,
    last_look: Option<Instant>,
    looks: u32,
    hot: bool,
}

/// What a look at the machine found.
#[derive(Clone, Debug)]
pub struct Look {
    /// How it is.
    pub health: Health,
    /// Whether that goes into the trace.
    pub record: bool,
    /// That it got too hot, or cooled down.
    pub temperature: Option<trace::Temperature>,
}

impl Machine {
    /// The machine with these sensors, and the disk of the folder `data`.
    pub fn new(sensors: Sensors, data: &std::path::Path) -> Self {
        Self { sensors, data: data.to_path_buf(), last_look: None, looks: 0, hot: false }
    }

    /// Whether it was too hot when it was looked at last.
    pub fn is_hot(&self) -> bool {
        self.hot
    }

    /// Looks at the machine if it is time to.
    pub fn look_if_due(&mut self, camera: &Counters) -> Option<Look> {
        if self.last_look.is_some_and(|last| last.elapsed() < EVERY) {
            return None;
        }
        self.last_look = Some(Instant::now());
        let readings = self.sensors.read();
        let hottest = thermal::hottest(&readings.zones);
        let free = rustix::fs::statvfs(&self.data).ok();
        let health = Health {
            camera_frames: camera.frames,
            camera_missed: camera.gaps,
            camera_corrupt: camera.corrupt,
            free_bytes: free.map(|disk| disk.f_bavail.saturating_mul(disk.f_frsize)),
            resident_bytes: readings.memory.resident,
            available_bytes: readings.memory.available,
            celsius: hottest.map(|zone| zone.celsius),
            watts: power::total_watts(&readings.rails),
            gpu_load: readings.gpu.as_ref().and_then(|gpu| gpu.load),
            gpu_megahertz: readings.gpu.as_ref().map(|gpu| gpu.megahertz),
        };
        let temperature = hottest.and_then(|zone| self.judge_heat(zone));
        let record = self.looks == 0;
        self.looks = (self.looks + 1) % LOOKS_A_RECORD;
        Some(Look { health, record, temperature })
    }

    fn judge_heat(&mut self, zone: &thermal::Zone) -> Option<trace::Temperature> {
        let limit = zone.slows_down_at.map_or(HOT, |slows| slows - MARGIN);
        let hot = zone.celsius > if self.hot { limit - COOLED } else { limit };
        if hot == self.hot {
            return None;
        }
        self.hot = hot;
        Some(trace::Temperature { hot, zone: zone.name.clone(), celsius: zone.celsius, limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_is_one_event_and_cooling_another() {
        let mut machine = Machine::new(Sensors::new("/nonexistent"), std::path::Path::new("/"));
        let mut at = |celsius: f32| {
            let zone = thermal::Zone {
                name: "tj".into(),
                celsius,
                slows_down_at: Some(99.0),
                switches_off_at: None,
            };
            machine.judge_heat(&zone).map(|event| event.hot)
        };
        let events: Vec<_> = [80.0, 97.0, 98.0, 95.0, 90.0, 91.0, 97.0].into_iter().map(&mut at).collect();
        assert_eq!(events, [None, Some(true), None, None, Some(false), None, Some(true)]);
    }
}

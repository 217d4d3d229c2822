//! Memory, disk, clock, heat, power.

use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use super::{Check, Machine};
use crate::device::clock::{Clock as _, OTHER, SystemClock, TIMESYNCD};
use crate::device::{board, memory, thermal};
use crate::storage::{Filesystem as _, OsFilesystem};
use crate::trace::DiskSettings;

/// What the live path and the learner hold at 224×224 with the usual budget, with something to spare.
const MEMORY: u64 = 2 << 30;

/// A sync that takes longer than this keeps the trace waiting often.
const SLOW_SYNC_MS: u128 = 1000;

/// So near to the point where the kernel slows the machine down it is as good as there.
const NEAR_DEGREES: f32 = 10.0;

pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    vec![
        memory(&machine.root),
        folder(&machine.data),
        room(&machine.data),
        clock(&machine.root),
        temperature(&machine.root),
        power(&machine.root),
    ]
}

fn memory(root: &Path) -> Check {
    let memory = memory::read(root);
    match memory.available {
        None => Check::ok("memory", "not readable"),
        Some(bytes) if bytes < MEMORY => Check::advice(
            "memory",
            format!("{} MiB available", bytes >> 20),
            "learning at full size takes up to 2 GiB: end other programs, or set a smaller --memory-budget",
        ),
        Some(bytes) => Check::ok("memory", format!("{} MiB available", bytes >> 20)),
    }
}

/// Whether the data folder can be written and synced.
fn folder(data: &Path) -> Check {
    let name = "data folder";
    let probe = data.join(".oupn-edge-doctor.tmp");
    let start = Instant::now();
    let written = crate::storage::create_private_folder(data).and_then(|()| {
        let mut file = std::fs::File::create(&probe)?;
        file.write_all(&[0; 4096])?;
        file.sync_all()
    });
    let took = start.elapsed().as_millis();
    // It may not even have been made.
    let _ = std::fs::remove_file(&probe);
    match written {
        Err(error) => Check::problem(
            name,
            format!("{} cannot be written: {error}", data.display()),
            "give --data a folder that this user owns",
        ),
        Ok(()) if took > SLOW_SYNC_MS => Check::advice(
            name,
            format!("{}: a sync took {took} ms", data.display()),
            "the disk is slow: use an SSD or a faster card, or end what else writes to it",
        ),
        Ok(()) => Check::ok(name, format!("{} can be written, a sync takes {took} ms", data.display())),
    }
}

fn room(data: &Path) -> Check {
    let limits = DiskSettings::default();
    match OsFilesystem.free_bytes(data) {
        Err(error) => {
            Check::problem("disk", format!("{}: {error}", data.display()), "give --data a folder that exists")
        }
        Ok(free) => {
            let found = format!("{} MiB free", free >> 20);
            if free < limits.critical_bytes + limits.reserve_bytes {
                Check::problem(
                    "disk",
                    found,
                    "make room: a recording would write nothing but the trace, and not for long",
                )
            } else if free < limits.low_bytes {
                Check::advice("disk", found, "make room: below 512 MiB only what must be kept is written")
            } else {
                Check::ok("disk", found)
            }
        }
    }
}

fn clock(root: &Path) -> Check {
    let now = SystemClock::with_root(root).now();
    let wall = now.wall.unwrap_or_default().strftime("%Y-%m-%d %H:%M UTC");
    if now.synced {
        return Check::ok("clock", format!("{wall}, set by a time source"));
    }
    Check::advice(
        "clock",
        format!("{wall}, and nothing says that it was set"),
        format!(
            "enable systemd-timesyncd (it makes /{TIMESYNCD}), or let whatever sets the clock touch /{OTHER}; else wall \
             times in the trace are marked as not synced"
        ),
    )
}

fn temperature(root: &Path) -> Check {
    let zones = thermal::read(root);
    let Some(hottest) = thermal::hottest(&zones) else {
        return Check::ok("temperature", "no sensors");
    };
    let found = format!("{} at {:.0} °C", hottest.name, hottest.celsius);
    match hottest.slows_down_at {
        Some(limit) if hottest.celsius > limit - NEAR_DEGREES => Check::advice(
            "temperature",
            format!("{found}, slowed down at {limit:.0} °C"),
            "cool the device before recording: learning will make it warmer",
        ),
        Some(limit) => Check::ok("temperature", format!("{found}, slowed down at {limit:.0} °C")),
        None => Check::ok("temperature", found),
    }
}

fn power(root: &Path) -> Check {
    let board = board::read(root);
    let Some(model) = board.model else {
        return Check::ok("board", "not a Jetson, as far as can be told");
    };
    let release = board.release.map(|release| format!(", {release}")).unwrap_or_default();
    match board.power_mode {
        None => Check::ok("board", format!("{model}{release}")),
        Some(mode) => {
            let found = format!("{model}{release}, power mode {mode}");
            let watts: Option<u32> = mode.strip_suffix('W').and_then(|watts| watts.parse().ok());
            if watts.is_some_and(|watts| watts < 15) {
                let advice = "learning is slow in this mode: `sudo nvpmodel -q` lists others, `-m` sets one";
                return Check::advice("board", found, advice);
            }
            Check::ok("board", found)
        }
    }
}

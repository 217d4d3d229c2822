//! Memory: what this process takes and what the machine has left, from `/proc`.
//!
//! On a Jetson the GPU's memory is the same memory: what is available here is available to both.

use std::path::Path;

use super::sysfs;

/// Memory figures in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Memory {
    /// What this process holds now (`VmRSS`).
    pub resident: Option<u64>,
    /// The most it has held (`VmHWM`).
    pub peak_resident: Option<u64>,
    /// What the machine has (`MemTotal`).
    pub total: Option<u64>,
    /// What can still be had without swapping (`MemAvailable`).
    pub available: Option<u64>,
}

/// The figures of this process and of the machine.
pub fn read(root: &Path) -> Memory {
    let status = sysfs::text(root.join("proc/self/status")).unwrap_or_default();
    let machine = sysfs::text(root.join("proc/meminfo")).unwrap_or_default();
    Memory {
        resident: bytes(&status, "VmRSS:"),
        peak_resident: bytes(&status, "VmHWM:"),
        total: bytes(&machine, "MemTotal:"),
        available: bytes(&machine, "MemAvailable:"),
    }
}

/// The value of a line `NAME   123 kB`, in bytes.
fn bytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_knows_its_own_size() {
        let memory = read(Path::new("/"));
        let (resident, peak) = (memory.resident.unwrap(), memory.peak_resident.unwrap());
        assert!(resident > 100_000 && peak >= resident / 2, "{memory:?}");
        assert!(memory.available.unwrap() <= memory.total.unwrap());
    }

    #[test]
    fn odd_lines_are_no_figures() {
        for text in ["", "VmRSS:", "VmRSS:\t12", "VmRSS: x kB", "VmRSS: 99999999999999999999 kB"] {
            assert_eq!(bytes(text, "VmRSS:"), None, "{text}");
        }
        assert_eq!(bytes("VmPeak:\t 9 kB\nVmRSS:\t    12 kB\n", "VmRSS:"), Some(12 * 1024));
    }
}

//! What time it is, on a computer whose wall clock cannot be trusted.
//!
//! A Jetson has no battery behind its clock: after boot the wall time may be in 1970 or at the last shutdown, and it
//! jumps when the network comes. Order and durations therefore come from the monotonic clock within a boot, named by
//! the kernel's boot id; wall time stands beside it with a flag that says whether somebody had set the clock by then.
//!
//! The flag is a file: systemd-timesyncd (JetPack's) touches [`TIMESYNCD`] at each synchronisation, and `/run` is empty
//! after boot. Who sets the clock otherwise (chrony, PTP, GPS, by hand) touches [`OTHER`]. The kernel's own answer
//! (`adjtimex`) is not asked: a hardened service may not make that call, and it turns to "no" after nine hours without
//! network although the clock is still right.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Touched by systemd-timesyncd when it has set the clock.
pub const TIMESYNCD: &str = "run/systemd/timesync/synchronized";

/// To be touched by whatever else sets the clock.
pub const OTHER: &str = "run/oupn-edge/clock-synchronized";

/// No clock that is right can show less: 2025-01-01T00:00:00Z in seconds.
const EARLIEST: i64 = 1_735_689_600;

/// A moment, as a device can know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Which boot of the machine this was in.
    pub boot: BootId,
    /// Nanoseconds of the kernel's monotonic clock since that boot: the clock of V4L2's frame times, too.
    pub mono_ns: u64,
    /// Wall time (UTC, whole microseconds), whatever it is worth. Of a recorded frame, when it was taken according to the
    /// recording; absent if that says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Timestamp>,
    /// Whether the wall clock had been set by a time source since boot; not so for a recording's own times.
    pub synced: bool,
}

/// The kernel's name for one boot of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct BootId([u8; 16]);

/// Somebody who knows the time.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The moment of the call.
    fn now(&self) -> Stamp;
}

/// This machine's clocks.
#[derive(Debug, Clone)]
pub struct SystemClock {
    boot: BootId,
    flags: [PathBuf; 2],
}

impl SystemClock {
    /// The clocks of this machine.
    pub fn new() -> Self {
        Self::with_root(Path::new("/"))
    }

    /// This machine's clocks with boot id and flags from the files under `root`.
    pub fn with_root(root: &Path) -> Self {
        let boot = std::fs::read_to_string(root.join("proc/sys/kernel/random/boot_id"));
        let boot = boot.ok().and_then(|text| text.trim().parse().ok());
        let boot = boot.unwrap_or_else(BootId::of_this_process);
        Self { boot, flags: [TIMESYNCD, OTHER].map(|flag| root.join(flag)) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Stamp {
        let monotonic = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let since_boot = Duration::try_from(monotonic).unwrap_or_default();
        let wall = Timestamp::try_from(SystemTime::now()).unwrap_or_default();
        let synced = wall.as_second() >= EARLIEST && self.flags.iter().any(|flag| flag.exists());
        Stamp {
            boot: self.boot,
            mono_ns: nanoseconds(since_boot),
            wall: Some(whole_microseconds(wall)),
            synced,
        }
    }
}

/// A clock that is set by hand: for tests, and for whatever is to be stamped with times of its own.
#[derive(Debug)]
pub struct ManualClock(Mutex<Stamp>);

impl ManualClock {
    /// A clock that stands at `stamp`.
    pub fn new(stamp: Stamp) -> Self {
        Self(Mutex::new(stamp))
    }

    /// Sets the clock.
    pub fn set(&self, stamp: Stamp) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = stamp;
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        let mut stamp = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *stamp = stamp.after(by);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Stamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Stamp {
    /// The moment so much later in the same boot, with the wall clock running evenly.
    pub fn after(self, by: Duration) -> Self {
        let by_us = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        let later = |wall: Timestamp| {
            let wall = Timestamp::from_microsecond(wall.as_microsecond().saturating_add(by_us));
            wall.unwrap_or(Timestamp::MAX)
        };
        Self { mono_ns: self.mono_ns.saturating_add(nanoseconds(by)), wall: self.wall.map(later), ..self }
    }

    /// The same moment with the wall time that a recording tells of its frame, or none.
    #[must_use]
    pub fn as_recorded(self, wall: Option<Timestamp>) -> Self {
        Self { wall: wall.map(whole_microseconds), synced: false, ..self }
    }
}

impl BootId {
    /// An id from its 16 bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Where the kernel tells no boot id, each process counts as a boot of its own: never wrong, at worst too careful.
    fn of_this_process() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self((now.as_nanos() << 32 | u128::from(std::process::id())).to_be_bytes())
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for BootId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex: String = text.chars().filter(|c| *c != '-').take(33).collect();
        let valid = hex.len() == 32 && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
        let value = u128::from_str_radix(&hex, 16).ok().filter(|_| valid);
        value.map(|value| Self(value.to_be_bytes())).ok_or("a boot id has 32 hexadecimal digits")
    }
}

impl From<BootId> for String {
    fn from(id: BootId) -> Self {
        id.to_string()
    }
}

impl TryFrom<String> for BootId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn whole_microseconds(wall: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(wall.as_microsecond()).unwrap_or(wall)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_id_is_written_as_the_kernel_writes_it() {
        let text = "0d2e2aef-3d8a-4a2b-9d2c-0123456789ab";
        let id: BootId = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(serde_json::to_string(&id).unwrap(), format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<BootId>(&format!("\"{text}\"")).unwrap(), id);
        for bad in ["", "0d2e", "+d2e2aef-3d8a-4a2b-9d2c-0123456789ab", "0d2e2aef3d8a4a2b9d2c0123456789ab0"] {
            assert!(bad.parse::<BootId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn monotonic_time_rises_and_the_flag_files_tell_of_synchronisation() {
        let root = tempfile::tempdir().unwrap();
        let clock = SystemClock::with_root(root.path());
        let (first, second) = (clock.now(), clock.now());
        assert!(second.mono_ns >= first.mono_ns && first.mono_ns > 0);
        assert_eq!(first.boot, second.boot);
        assert!(!first.synced);
        for flag in [TIMESYNCD, OTHER] {
            let flag = root.path().join(flag);
            std::fs::create_dir_all(flag.parent().unwrap()).unwrap();
            std::fs::write(&flag, "").unwrap();
            assert!(clock.now().synced, "{}", flag.display());
            std::fs::remove_file(flag).unwrap();
        }
    }

    #[test]
    fn a_stamp_reads_back_as_it_was_written() {
        let stamp = SystemClock::new().now();
        let text = serde_json::to_string(&stamp).unwrap();
        assert_eq!(serde_json::from_str::<Stamp>(&text).unwrap(), stamp, "{text}");
        let later = stamp.after(Duration::from_millis(1500));
        assert_eq!(later.mono_ns - stamp.mono_ns, 1_500_000_000);
        let microsecond = |stamp: Stamp| stamp.wall.unwrap().as_microsecond();
        assert_eq!(microsecond(later) - microsecond(stamp), 1_500_000);
        let unknown = stamp.as_recorded(None);
        let text = serde_json::to_string(&unknown).unwrap();
        assert!(!text.contains("wall"), "{text}");
        assert_eq!(serde_json::from_str::<Stamp>(&text).unwrap(), unknown);
    }
}

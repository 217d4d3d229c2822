//! How old a record is, on devices whose wall clock may be wrong and that may have been off for an unknown time.
//!
//! Within the boot of "now" the monotonic clock tells exactly. For a record from an earlier boot, what is certain is
//! the least age: the rest of its boot as far as records show it, and the boots since. The time between boots is known
//! only if the wall clock was set both times; if not, it counts as nothing. So the answer errs towards "young", and who
//! asks to forget ten minutes loses rather more than less.

use std::io;
use std::time::Duration;

use super::line::{Line, Lines, decode};
use super::record::Entry;
use super::segment::Segment;
use crate::clock::{BootId, Stamp};
use crate::storage::Filesystem;

/// A boot, seen from now backwards.
#[derive(Debug, Clone, Copy)]
struct Boot {
    id: BootId,
    /// The last moment of it that is known, on its monotonic clock.
    last_ns: u64,
    /// The least time since that moment.
    since_ns: u64,
}

impl Boot {
    fn of_now(now: &Stamp) -> Self {
        Self { id: now.boot, last_ns: now.mono_ns, since_ns: 0 }
    }

    /// The boot of a record that comes before this one in the trace and had reached `last_ns`.
    fn before(self, id: BootId, last_ns: u64) -> Self {
        if id == self.id {
            return self;
        }
        Self { id, last_ns, since_ns: self.since_ns.saturating_add(self.last_ns) }
    }

    fn age(&self, at: &Stamp, now: &Stamp) -> Duration {
        let certain = self.since_ns.saturating_add(self.last_ns.saturating_sub(at.mono_ns));
        let by_wall = match (at.wall, now.wall) {
            (Some(wall), Some(now_wall)) if at.synced && now.synced && at.boot != now.boot => {
                now_wall.as_microsecond().saturating_sub(wall.as_microsecond())
            }
            _ => 0,
        };
        Duration::from_nanos(certain).max(Duration::from_micros(u64::try_from(by_wall).unwrap_or(0)))
    }
}

/// The number of the first record that is younger than `last`; `None` if there is none.
///
/// Goes through the segments from the newest back, and no further than to the first that begins with an older record.
pub(super) fn first_younger(
    fs: &dyn Filesystem,
    segments: &[Segment],
    now: &Stamp,
    last: Duration,
) -> io::Result<Option<u64>> {
    let mut next_boot = Boot::of_now(now);
    let mut found = None;
    for segment in segments.iter().rev() {
        let mut boots: Vec<Boot> = Vec::new();
        each_entry(fs, segment, |entry| match boots.last_mut() {
            Some(boot) if boot.id == entry.at.boot => boot.last_ns = boot.last_ns.max(entry.at.mono_ns),
            _ => boots.push(Boot { id: entry.at.boot, last_ns: entry.at.mono_ns, since_ns: 0 }),
        })?;
        for boot in boots.iter_mut().rev() {
            next_boot = next_boot.before(boot.id, boot.last_ns);
            *boot = next_boot;
        }

        let (mut index, mut oldest_is_young, mut first_young) = (0, None, None);
        each_entry(fs, segment, |entry| {
            if boots.get(index).is_some_and(|boot| boot.id != entry.at.boot) {
                index += 1;
            }
            let young = boots.get(index).is_none_or(|boot| boot.age(&entry.at, now) < last);
            oldest_is_young.get_or_insert(young);
            if young {
                first_young = Some(first_young.map_or(entry.seq, |first: u64| first.min(entry.seq)));
            }
        })?;
        found = first_young.or(found);
        if oldest_is_young == Some(false) {
            break;
        }
    }
    Ok(found)
}

fn each_entry(fs: &dyn Filesystem, segment: &Segment, mut visit: impl FnMut(&Entry)) -> io::Result<()> {
    let mut lines = Lines::new(fs.read(&segment.path)?);
    while let Some(line) = lines.next()? {
        if let Line::Ended(bytes) = line
            && let Some(entry) = decode(bytes)
        {
            visit(&entry);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Simulated;
    use crate::trace::log::Log;
    use crate::trace::record::{Pause, Record};
    use crate::trace::segment;
    use jiff::Timestamp;
    use std::path::Path;
    use std::sync::Arc;

    const DIR: &str = "/trace";

    fn stamp(boot: u8, seconds: u64, wall: i64, synced: bool) -> Stamp {
        let wall = Timestamp::from_second(wall).ok();
        Stamp { boot: BootId::from_bytes([boot; 16]), mono_ns: seconds * 1_000_000_000, wall, synced }
    }

    /// A trace with one record at each stamp, in segments of a few records.
    fn first_younger_of(stamps: &[Stamp], now: Stamp, minutes: u64) -> Option<u64> {
        let fs = Simulated::with_dir("/");
        let (mut log, _) = Log::open(Arc::new(fs.clone()), Path::new(DIR), 400, now).unwrap();
        for &at in stamps {
            log.append(at, Record::Pause(Pause { by: "test".to_owned() }));
            log.sync().unwrap();
        }
        let segments = segment::list(&fs, Path::new(DIR)).unwrap();
        assert!(segments.len() > 1);
        first_younger(&fs, &segments, &now, Duration::from_secs(60 * minutes)).unwrap()
    }

    #[test]
    fn within_a_boot_the_monotonic_clock_decides_whatever_the_wall_clock_says() {
        let stamps: Vec<_> =
            (0..60).map(|n| stamp(1, 60 * n, if n < 30 { 0 } else { 2_000_000_000 }, n >= 30)).collect();
        let now = stamp(1, 60 * 60, 2_000_003_600, true);
        assert_eq!(
            first_younger_of(&stamps, now, 10),
            Some(52),
            "the record at exactly ten minutes is old enough"
        );
        assert_eq!(first_younger_of(&stamps, now, 0), None);
        assert_eq!(first_younger_of(&stamps, now, 1000), Some(1));
    }

    #[test]
    fn without_a_set_clock_the_time_between_boots_counts_as_nothing() {
        // Boot 1 ran for 20 minutes, boot 2 for 4, boot 3 has been running for 3.
        let mut stamps: Vec<_> = (0..=20).map(|n| stamp(1, 60 * n, 0, false)).collect();
        stamps.extend((0..=4).map(|n| stamp(2, 60 * n, 0, false)));
        let now = stamp(3, 3 * 60, 0, false);
        // 3 + 4 minutes since the end of boot 1, so 3 more minutes of it are younger than 10.
        assert_eq!(first_younger_of(&stamps, now, 10), Some(19));
        assert_eq!(first_younger_of(&stamps, now, 5), Some(25));
    }

    #[test]
    fn with_clocks_set_both_times_the_time_between_boots_is_known() {
        let stamps: Vec<_> =
            (0..=20).map(|n| stamp(1, 60 * n, 2_000_000_000 + 60 * n as i64, true)).collect();
        let now = stamp(2, 60, 2_000_000_000 + 3600, true);
        assert_eq!(first_younger_of(&stamps, now, 10), None, "it was off for 40 minutes");
        assert_eq!(first_younger_of(&stamps, now, 45), Some(17));
    }
}

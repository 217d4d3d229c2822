//! Disk room: the level by free bytes, and the reserve that goes with it.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::record::Disk;
use super::settings::DiskSettings;
use crate::storage::{Filesystem, Reserve};

/// How much room there is, by what may still be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskLevel {
    /// Enough for everything.
    Ample,
    /// Only what must be kept: no thumbnails, two checkpoints.
    Low,
    /// Nothing but the trace.
    Critical,
}

/// Watches the disk and holds the reserve.
#[derive(Debug)]
pub(super) struct DiskGuard {
    dir: PathBuf,
    settings: DiskSettings,
    reserve: Reserve,
    reserve_refused: bool,
    level: DiskLevel,
}

impl DiskGuard {
    /// Takes over the reserve of a former run in the folder `dir`. The level is "ample" until the first look.
    pub(super) fn new(fs: &dyn Filesystem, dir: &Path, settings: DiskSettings) -> Self {
        let reserve = Reserve::find(fs, &dir.join("reserve"), settings.reserve_bytes);
        Self { dir: dir.to_path_buf(), settings, reserve, reserve_refused: false, level: DiskLevel::Ample }
    }

    pub(super) fn level(&self) -> DiskLevel {
        self.level
    }

    /// Gives the reserve back if there is hardly any room: before the first write of a start, which may need it.
    pub(super) fn make_room(&mut self, fs: &dyn Filesystem) {
        // Of a folder that is not there yet, nobody knows: then there is no reserve either.
        let Ok(free) = fs.free_bytes(&self.dir) else { return };
        if free.saturating_sub(self.reserve.outstanding()) >= self.settings.critical_bytes {
            return;
        }
        match self.reserve.release(fs) {
            Ok(true) => log::warn!("the disk is nearly full: the reserve has been given back for the trace"),
            Ok(false) => {}
            Err(error) => log::warn!("the reserve could not be given back: {error}"),
        }
    }

    /// Looks at the free bytes, gives the reserve back or takes it again, and says so if the level changed.
    pub(super) fn look(&mut self, fs: &dyn Filesystem) -> io::Result<Option<Disk>> {
        // The reserve counts as taken whether it is or not: giving it back must not look like room.
        let free = fs.free_bytes(&self.dir)?.saturating_sub(self.reserve.outstanding());
        let level = self.settings.level(free, self.level);
        match level {
            DiskLevel::Ample => self.hold_reserve(fs),
            DiskLevel::Low => {}
            DiskLevel::Critical => drop(self.reserve.release(fs)?),
        }
        let changed = level != self.level;
        self.level = level;
        Ok(changed.then(|| self.record(fs)).flatten())
    }

    /// A write has found the disk full: gives the reserve back. `None` if there was none to give.
    pub(super) fn full(&mut self, fs: &dyn Filesystem) -> Option<Disk> {
        self.level = DiskLevel::Critical;
        self.reserve.release(fs).ok()?.then(|| self.record(fs))?
    }

    /// A disk that gives no reserve is no reason to stop watching it; once is enough to say so.
    fn hold_reserve(&mut self, fs: &dyn Filesystem) {
        let held = self.reserve.hold(fs);
        if let (Err(error), false) = (&held, self.reserve_refused) {
            log::warn!("no disk space could be set aside for the trace in {}: {error}", self.dir.display());
        }
        self.reserve_refused = held.is_err();
    }

    fn record(&self, fs: &dyn Filesystem) -> Option<Disk> {
        let free_bytes = fs.free_bytes(&self.dir).ok()?;
        Some(Disk { level: self.level, free_bytes, reserve_held: self.reserve.is_held() })
    }
}

impl DiskSettings {
    /// The level at so many free bytes. Going up takes a quarter more than the limit, so that it does not flutter.
    fn level(&self, free: u64, now: DiskLevel) -> DiskLevel {
        let below =
            |limit: u64, already: bool| free < if already { limit.saturating_add(limit / 4) } else { limit };
        if below(self.critical_bytes, now == DiskLevel::Critical) {
            DiskLevel::Critical
        } else if below(self.low_bytes, now >= DiskLevel::Low) {
            DiskLevel::Low
        } else {
            DiskLevel::Ample
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Simulated, write_atomically};
    use std::time::Duration;

    const DIR: &str = "/data";

    fn settings() -> DiskSettings {
        DiskSettings {
            low_bytes: 400,
            critical_bytes: 100,
            reserve_bytes: 200,
            check_interval: Duration::from_secs(5),
        }
    }

    fn fill(fs: &Simulated, bytes: usize) {
        write_atomically(fs, &Path::new(DIR).join("other"), &vec![0; bytes]).unwrap();
    }

    #[test]
    fn the_reserve_is_held_while_there_is_room_and_given_back_when_it_gets_tight() {
        let fs = Simulated::with_dir(DIR);
        fs.set_capacity(Some(1000));
        let mut guard = DiskGuard::new(&fs, Path::new(DIR), settings());
        assert_eq!(guard.look(&fs).unwrap(), None);
        assert_eq!((guard.level(), guard.reserve.is_held()), (DiskLevel::Ample, true));

        fill(&fs, 450);
        let low = guard.look(&fs).unwrap().unwrap();
        assert_eq!((low.level, low.reserve_held, low.free_bytes), (DiskLevel::Low, true, 350));

        fill(&fs, 10);
        fill(&fs, 0);
        fs.set_capacity(Some(290));
        let critical = guard.look(&fs).unwrap().unwrap();
        assert_eq!((critical.level, critical.reserve_held), (DiskLevel::Critical, false));
        assert_eq!(critical.free_bytes, 290, "what the reserve had is free");
        assert_eq!(guard.look(&fs).unwrap(), None, "the room it gave does not count as room");

        fs.set_capacity(Some(310));
        assert_eq!(
            guard.look(&fs).unwrap(),
            None,
            "110 bytes beside the reserve: not yet a quarter above the limit"
        );
        fs.set_capacity(Some(330));
        assert_eq!(guard.look(&fs).unwrap().unwrap().level, DiskLevel::Low);
        fs.set_capacity(Some(1000));
        assert_eq!(guard.look(&fs).unwrap().unwrap().level, DiskLevel::Ample);
        assert!(guard.reserve.is_held());
    }

    #[test]
    fn a_full_disk_gets_the_reserve_at_once_and_only_once() {
        let fs = Simulated::with_dir(DIR);
        fs.set_capacity(Some(1000));
        let mut guard = DiskGuard::new(&fs, Path::new(DIR), settings());
        guard.look(&fs).unwrap();
        let mut again = DiskGuard::new(&fs, Path::new(DIR), settings());
        assert!(again.reserve.is_held(), "a restart takes the reserve over");
        assert_eq!(
            again.full(&fs).map(|disk| (disk.level, disk.reserve_held)),
            Some((DiskLevel::Critical, false))
        );
        assert_eq!(again.full(&fs), None);
    }

    #[test]
    fn a_start_on_a_full_disk_gets_the_reserve_before_its_first_write() {
        let fs = Simulated::with_dir(DIR);
        fs.set_capacity(Some(1000));
        DiskGuard::new(&fs, Path::new(DIR), settings()).look(&fs).unwrap();
        let mut roomy = DiskGuard::new(&fs, Path::new(DIR), settings());
        roomy.make_room(&fs);
        assert!(roomy.reserve.is_held(), "there is room enough");
        fs.set_capacity(Some(200));
        let mut full = DiskGuard::new(&fs, Path::new(DIR), settings());
        full.make_room(&fs);
        assert_eq!((full.reserve.is_held(), fs.free_bytes(Path::new(DIR)).unwrap()), (false, 200));
        let told = full.look(&fs).unwrap().unwrap();
        assert_eq!((told.level, told.reserve_held), (DiskLevel::Critical, false));
    }

    #[test]
    fn a_disk_too_small_for_a_reserve_goes_without() {
        let fs = Simulated::with_dir(DIR);
        fs.set_capacity(Some(250));
        let mut guard = DiskGuard::new(&fs, Path::new(DIR), settings());
        assert_eq!(guard.look(&fs).unwrap().map(|disk| disk.level), Some(DiskLevel::Critical));
        assert!(!guard.reserve.is_held());
    }
}

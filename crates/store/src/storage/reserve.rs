//! Disk space held back for the trace.
//!
//! A file of zeros takes the space while there is plenty. When the disk is nearly full it is removed, and what it
//! took is there for the trace, which is small: 64 MiB are some 110,000 frames, five days at one every 4 s.

use std::io;
use std::path::{Path, PathBuf};

use super::Filesystem;
use super::atomic::folder_of;

/// A file that takes disk space until it is released.
#[derive(Debug)]
pub struct Reserve {
    path: PathBuf,
    bytes: u64,
    held: bool,
}

impl Reserve {
    /// The reserve file `path` of `bytes`, as a former run left it: held if it is there in full.
    pub fn find(fs: &dyn Filesystem, path: &Path, bytes: u64) -> Self {
        let held = bytes > 0 && fs.len(path).is_ok_and(|len| len >= bytes);
        Self { path: path.to_path_buf(), bytes, held }
    }

    /// Takes the space. On an error nothing is held.
    pub fn hold(&mut self, fs: &dyn Filesystem) -> io::Result<()> {
        if self.held || self.bytes == 0 {
            return Ok(());
        }
        let taken = (|| {
            let mut file = fs.create(&self.path)?;
            file.allocate(self.bytes)?;
            file.sync()?;
            fs.sync_dir(folder_of(&self.path))
        })();
        if taken.is_err() {
            let _ = fs.remove(&self.path);
        }
        self.held = taken.is_ok();
        taken
    }

    /// Gives the space back to the disk. Says whether there was any to give.
    pub fn release(&mut self, fs: &dyn Filesystem) -> io::Result<bool> {
        if !self.held {
            return Ok(false);
        }
        fs.remove(&self.path)?;
        self.held = false;
        // Should the removal not be durable, the next start finds a reserve, which is no harm.
        let _ = fs.sync_dir(folder_of(&self.path));
        Ok(true)
    }

    /// Whether the space is taken now.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// What the reserve does not hold of its size, in bytes: this much of the disk's free space is spoken for.
    pub fn outstanding(&self) -> u64 {
        if self.held { 0 } else { self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Fault, Simulated};
    use super::*;
    use std::io::Write as _;

    #[test]
    fn releasing_the_reserve_makes_room_on_a_full_disk() {
        let fs = Simulated::with_dir("/data");
        fs.set_capacity(Some(1000));
        let path = Path::new("/data/reserve");
        let mut reserve = Reserve::find(&fs, path, 300);
        assert!(!reserve.is_held());
        assert_eq!(reserve.outstanding(), 300);
        reserve.hold(&fs).unwrap();
        assert_eq!((fs.free_bytes(Path::new("/data")).unwrap(), reserve.outstanding()), (700, 0));

        let mut file = fs.append(Path::new("/data/trace")).unwrap();
        file.write_all(&[1; 700]).unwrap();
        assert_eq!(file.write_all(&[1; 10]).unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert!(Reserve::find(&fs, path, 300).is_held(), "a restart finds it");
        assert!(reserve.release(&fs).unwrap());
        file.write_all(&[1; 10]).unwrap();
        assert!(!reserve.release(&fs).unwrap());
        assert!(reserve.hold(&fs).is_err());
        assert_eq!(
            fs.list(Path::new("/data")).unwrap(),
            ["trace"],
            "a reserve that does not fit leaves nothing"
        );
    }

    #[test]
    fn a_failure_while_taking_the_space_leaves_it_free() {
        for step in 1..=4 {
            let fs = Simulated::with_dir("/data");
            let mut reserve = Reserve::find(&fs, Path::new("/data/reserve"), 300);
            fs.fail_at(step, Fault::Error);
            assert!(reserve.hold(&fs).is_err(), "step {step}");
            assert!(!reserve.is_held());
            assert_eq!(fs.list(Path::new("/data")).unwrap(), Vec::<String>::new(), "step {step}");
            reserve.hold(&fs).unwrap();
        }
    }
}

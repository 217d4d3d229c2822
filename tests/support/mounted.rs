//! A small file system of its own, to be filled to the last byte.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file system that goes with the value.
pub(crate) struct Mounted(PathBuf);

impl Mounted {
    /// Mounts one of this size on a folder, where this user may (root may). Says so where not.
    pub(crate) fn new(on: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(on).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(on).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(on.to_path_buf()));
        }
        super::skipped("this user may not mount a file system");
        None
    }

    /// Takes the last byte of it.
    pub(crate) fn fill(&self) -> PathBuf {
        let hog = self.0.join("hog");
        assert!(std::fs::write(&hog, vec![1; 64 << 20]).is_err());
        hog
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

//! The machine underneath: clock, heat, power, GPU, memory, board and service manager.
//!
//! Everything is read from the kernel's files without a library or a daemon. What a machine does not have
//! reads as `None` or as an empty list: a laptop has no power rails, and that is no error. Readers take the root
//! folder, `/` on a device, so that tests read trees of Orin boards (tests/fixtures). What is done about a reading is
//! decided elsewhere.

use std::path::{Path, PathBuf};

pub mod board;
pub use oupn_store::clock;
pub mod gpu;
pub mod memory;
pub mod power;
pub mod service;
mod sysfs;
pub mod thermal;

/// All sensors of a machine under one root.
#[derive(Debug, Clone)]
pub struct Sensors {
    root: PathBuf,
}

/// What the sensors say at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Readings {
    /// The thermal zones that answer.
    pub zones: Vec<thermal::Zone>,
    /// The power rails that answer.
    pub rails: Vec<power::Rail>,
    /// The integrated GPU.
    pub gpu: Option<gpu::Gpu>,
    /// This process's and the machine's memory.
    pub memory: memory::Memory,
}

impl Sensors {
    /// The sensors of the machine whose files are under `root`.
    pub fn new(root: impl AsRef<Path>) -> Self {
        Self { root: root.as_ref().to_path_buf() }
    }

    /// The sensors of this machine.
    pub fn system() -> Self {
        Self::new("/")
    }

    /// Reads them all. Takes some milliseconds on a board: the power monitor is behind an I²C bus.
    pub fn read(&self) -> Readings {
        Readings {
            zones: thermal::read(&self.root),
            rails: power::read(&self.root),
            gpu: gpu::read(&self.root),
            memory: memory::read(&self.root),
        }
    }
}

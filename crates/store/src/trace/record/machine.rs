//! The machine: regular readings, heat, what computes, disk, trouble with writing.

use serde::{Deserialize, Serialize};

use super::number;
use crate::trace::DiskLevel;

/// `health`: the regular look at the machine. What it does not have is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Health {
    /// Pictures that the camera delivered since the start.
    pub camera_frames: u64,
    /// Pictures that it lost, by its own numbers.
    pub camera_missed: u64,
    /// Pictures that could not be decoded.
    pub camera_corrupt: u64,
    /// Free bytes on the data folder's disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// Bytes that the process holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_bytes: Option<u64>,
    /// Bytes that the machine has left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_bytes: Option<u64>,
    /// The hottest zone's temperature in °C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub celsius: Option<f32>,
    /// What the module draws, in W.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watts: Option<f32>,
    /// The GPU's load, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_load: Option<f32>,
    /// The GPU's clock in MHz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_megahertz: Option<f32>,
}

/// `temperature`: the machine got too hot, or cooled down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Temperature {
    /// Whether it is too hot.
    pub hot: bool,
    /// The hottest zone.
    pub zone: String,
    /// Its temperature in °C.
    #[serde(with = "number")]
    pub celsius: f32,
    /// The limit that it passed.
    #[serde(with = "number")]
    pub limit: f32,
}

/// `compute`: something else trains from now on, as a GPU has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compute {
    /// What trained before.
    pub before: String,
    /// What trains now.
    pub compute: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `disk`: the disk's level changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// The level.
    pub level: DiskLevel,
    /// Free bytes on the disk.
    pub free_bytes: u64,
    /// Whether the reserve is still held.
    pub reserve_held: bool,
}

/// `write_trouble`: writing had failed for a while and works again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WriteTrouble {
    /// The first error.
    pub error: String,
    /// How often it failed.
    pub attempts: u64,
    /// For how long.
    #[serde(with = "number")]
    pub seconds: f32,
}

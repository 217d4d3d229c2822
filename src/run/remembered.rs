//! `run.toml`: the file in the data folder that remembers what a run was started with.
//!
//! `run.toml` is written when a data folder is first used and read when it is used again, so that `oupn-edge --data DIR`
//! alone goes on. Version 1: `version`, `camera`, `name`, `format`, `resolution`, `rate`,
//! `start_time` (where given), `realtime`, `period_s`, `calibrate`, `model` (its absolute path, or
//! `built-in`; random weights have none), `command_mark` (of a
//! `pipe:`, see `trust.rs`) and `settings`, a table as `oupn-edge config show` prints it. Fields may be added if they
//! have a default; unknown ones are passed over, so that an older program goes on with a newer file.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::plan::RunPlan;
use super::trust;
use crate::camera::{self, Camera, Options};
use crate::config::Settings;
use crate::encoder::weights::BUILT_IN;
use crate::frame::PixelFormat;
use crate::storage::{CheckpointStore, Filesystem, write_atomically};
use crate::{Error, Result};

/// The file's name in the data folder.
pub const NAME: &str = "run.toml";

const VERSION: u32 = 1;

/// No `run.toml` comes near this.
const LARGEST: u64 = 1 << 20;

/// What `run.toml` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    version: u32,
    /// Where frames come from.
    pub camera: String,
    /// Shows that the command of a `pipe:` was given by this user on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command_mark: Option<String>,
    /// The pixel format that the camera was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    format: Option<String>,
    /// The size that it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<(u32, u32)>,
    /// Its frames a second, or those at which images without times were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<f64>,
    /// When the first frame of a recorded source was taken, if the user said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Timestamp>,
    /// Whether a recorded source takes its time, and a pipe is a camera.
    #[serde(default = "usually")]
    pub realtime: bool,
    /// Seconds between samples.
    pub period_s: f64,
    /// Whether the live threshold is measured.
    pub calibrate: bool,
    /// Weights to start from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<PathBuf>,
    /// The name that was given to whoever or whatever is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is learned.
    #[serde(deserialize_with = "of_any_version")]
    pub settings: Settings,
}

/// Settings that an earlier version wrote lack the keys that have been added since.
fn of_any_version<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Settings, D::Error> {
    Settings::of_table(toml::Table::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// A file of weights by a name that holds wherever the program is called.
fn lasting(model: &Path) -> PathBuf {
    match std::path::absolute(model) {
        Ok(path) if model != Path::new(BUILT_IN) => path,
        _ => model.to_path_buf(),
    }
}

fn usually() -> bool {
    true
}

impl Remembered {
    /// What is worth remembering of a plan.
    pub fn of(plan: &RunPlan) -> Self {
        Self {
            version: VERSION,
            camera: plan.camera.clone(),
            command_mark: is_command(&plan.camera).then(|| trust::mark(&plan.camera)).flatten(),
            format: plan.camera_options.format.map(|format| format.to_string()),
            resolution: plan.camera_options.resolution,
            rate: plan.camera_options.rate,
            start_time: plan.camera_options.start_time,
            realtime: plan.realtime,
            period_s: plan.period.as_secs_f64(),
            calibrate: plan.calibrate,
            // It goes on from wherever it is called.
            model: plan.model.as_deref().map(lasting),
            name: plan.name.clone(),
            settings: plan.settings.clone(),
        }
    }

    /// Reads the file of a data folder; none if there is none.
    pub fn read(fs: &dyn Filesystem, data: &Path) -> Result<Option<Self>> {
        let path = data.join(NAME);
        let bytes = match crate::storage::read_bounded(fs, &path, LARGEST) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(&path, error)),
            Ok(bytes) => bytes,
        };
        let fault = |what: &dyn std::fmt::Display| {
            Error::input(format!("{}: {what}; remove it to start anew", path.display()))
        };
        let text = String::from_utf8(bytes).map_err(|_| fault(&"not a text"))?;
        let read: Self = toml::from_str(&text).map_err(|error| fault(&error.message().replace('\n', " ")))?;
        if read.version != VERSION {
            return Err(fault(&format!("version {}; this program reads {VERSION}", read.version)));
        }
        read.settings.validate().map_err(|error| fault(&error))?;
        if !(read.period_s > 0.0 && read.period_s < 1e6) {
            return Err(fault(&format!("period_s = {}", read.period_s)));
        }
        if !read.rate.is_none_or(|rate| Options::RATES.contains(&rate)) {
            return Err(fault(&format!("rate = {:?}", read.rate)));
        }
        read.pixel_format().map_err(|error| fault(&error))?;
        Ok(Some(read))
    }

    /// The pixel format that the camera was asked for.
    pub fn pixel_format(&self) -> Result<Option<PixelFormat>> {
        self.format.as_deref().map(str::parse).transpose()
    }

    /// Refuses a source or a name that is not this recording's own: two never become one unasked.
    ///
    /// # Errors
    ///
    /// The sentence names what differs, and both ways to go on.
    pub fn check_same(&self, data: &Path, camera: Option<&str>, name: Option<&str>) -> Result<()> {
        let ways = "record it into another folder with --data, or add --continue-with to go on with both in one memory";
        let data = data.display();
        if let Some(other) = camera.filter(|camera| !camera::same(camera, &self.camera)) {
            return Err(Error::input(format!(
                "{data} holds a recording of {}, and {} is another source: {ways}",
                self.camera.escape_debug(),
                other.escape_debug()
            )));
        }
        let own = match &self.name {
            Some(own) => format!("of \"{}\"", own.escape_debug()),
            None => "that was made without --name".to_owned(),
        };
        match name.filter(|name| self.name.as_deref() != Some(*name)) {
            Some(other) => Err(Error::input(format!(
                "{data} holds a recording {own}, and --name says \"{}\": {ways}",
                other.escape_debug()
            ))),
            None => Ok(()),
        }
    }

    /// The source to go on with when none is given. A command is run only if this user gave it on this machine.
    ///
    /// # Errors
    ///
    /// The file names a command, and may be somebody else's.
    pub fn own_camera(&self, data: &Path) -> Result<String> {
        let path = data.join(NAME);
        if !is_command(&self.camera) || trust::is_own(&path, &self.camera, self.command_mark.as_deref()) {
            return Ok(self.camera.clone());
        }
        Err(Error::input(format!(
            "{} says that frames come from the command \"{}\", but not that you gave it on this machine: it is not run; if \
             you want it to, give it again with --camera",
            path.display(),
            self.camera.escape_debug()
        )))
    }

    /// Writes the file, durably, if it does not say the same already: a start on a full disk needs no room for it.
    pub fn write(&self, fs: &dyn Filesystem, data: &Path) -> Result<()> {
        let path = data.join(NAME);
        let text = toml::to_string(self).map_err(|error| Error::input(format!("{NAME}: {error}")))?;
        let there = crate::storage::read_bounded(fs, &path, LARGEST);
        if there.as_ref().is_ok_and(|there| there == text.as_bytes()) {
            return Ok(());
        }
        match write_atomically(fs, &path, text.as_bytes()) {
            // The recording is worth more than the memory of a flag.
            Err(error) if there.is_ok() && is_full(&error) => {
                log::warn!("{}: {error}: what this start changes is not remembered", path.display());
                Ok(())
            }
            written => written.map_err(|error| Error::io(&path, error)),
        }
    }
}

/// What a data folder holds of earlier starts.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    /// What the last one was started with.
    pub remembered: Option<Remembered>,
    /// Whether there is a checkpoint: then there are weights to go on with.
    pub checkpoint: bool,
}

impl Earlier {
    /// Looks into a data folder, which need not be there yet.
    pub fn read(fs: &dyn Filesystem, data: &Path) -> Result<Self> {
        let remembered = Remembered::read(fs, data)?;
        let checkpoint = CheckpointStore::is_used(fs, &data.join("checkpoints"));
        Ok(Self { remembered, checkpoint })
    }
}

fn is_full(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

fn is_command(camera: &str) -> bool {
    matches!(camera.parse(), Ok(Camera::Pipe(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;
    use crate::storage::{OsFilesystem, Simulated};

    fn remembered() -> Remembered {
        Remembered {
            version: VERSION,
            camera: "rooms".into(),
            command_mark: None,
            format: Some("YUYV".into()),
            resolution: Some((640, 480)),
            rate: Some(29.97),
            start_time: "2026-03-05T10:00:00Z".parse().ok(),
            realtime: false,
            period_s: 4.0,
            calibrate: true,
            model: None,
            name: Some("p07".into()),
            settings: Preset::Saycam.settings(),
        }
    }

    #[test]
    fn a_full_disk_has_what_it_needs_for_another_start() {
        let fs = Simulated::with_dir("/data");
        let data = Path::new("/data");
        fs.set_capacity(Some(0));
        assert_eq!(remembered().write(&fs, data).unwrap_err().exit_code(), 1, "nothing is known yet");
        fs.set_capacity(None);
        remembered().write(&fs, data).unwrap();
        let operations = fs.operations();
        fs.set_capacity(Some(0));
        remembered().write(&fs, data).unwrap();
        assert_eq!(fs.operations(), operations, "the same again is not written");
        Remembered { realtime: true, ..remembered() }.write(&fs, data).unwrap();
        assert_eq!(Remembered::read(&fs, data).unwrap(), Some(remembered()));
    }

    #[test]
    fn what_was_started_is_remembered_and_damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let remembered = remembered();
        assert_eq!(Remembered::read(&OsFilesystem, folder.path()).unwrap(), None);
        remembered.write(&OsFilesystem, folder.path()).unwrap();
        assert_eq!(Remembered::read(&OsFilesystem, folder.path()).unwrap().as_ref(), Some(&remembered));

        let path = folder.path().join(NAME);
        let text = std::fs::read_to_string(&path).unwrap();
        // Another version of the program knew less, or more.
        let older: Vec<&str> = text.lines().filter(|line| !line.starts_with("reduction")).collect();
        std::fs::write(&path, older.join("\n")).unwrap();
        assert_eq!(Remembered::read(&OsFilesystem, folder.path()).unwrap(), Some(remembered));
        let newer = text
            .replace("version = 1", "version = 1\nmood = \"good\"")
            .replace("[settings]", "[settings]\nspin = 2");
        std::fs::write(&path, newer).unwrap();
        assert_eq!(Remembered::read(&OsFilesystem, folder.path()).unwrap().unwrap().camera, "rooms");
        for damaged in [
            "",
            "version = 1",
            &text.replace("version = 1", "version = 2"),
            &text.replace("window = 75", "window = 0"),
            &text.replace("YUYV", "YUYW"),
            &text.replace("rate = 29.97", "rate = -1.0"),
        ] {
            std::fs::write(&path, damaged).unwrap();
            let error = Remembered::read(&OsFilesystem, folder.path()).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(NAME), "{error}");
        }
    }
}

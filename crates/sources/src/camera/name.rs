//! How a source of frames is named on the command line.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::listing;
#[cfg(feature = "nokhwa")]
use super::nokhwa::Nokhwa;
use super::pictures::Pictures;
use super::pipe::Pipe;
use super::video::{self, Video};
use super::{Options, Source, rooms, v4l2};
use crate::{Error, Result};

/// A source of frames by its name; opening it may still fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Camera {
    /// The built-in world of this seed: `rooms` or `rooms:SEED`.
    Rooms(u64),
    /// A camera by its number in the system's list, through the `nokhwa` crate: `nokhwa:N`.
    Nokhwa(u32),
    /// A program that writes frames: `pipe:COMMAND`.
    Pipe(String),
    /// Standard input: `-`.
    StandardInput,
    /// A camera's device, a video, a folder of pictures or a zip archive of them.
    Path(PathBuf),
}

impl Camera {
    /// Opens the source.
    ///
    /// # Errors
    ///
    /// It is not there, is in use, is not what its name says, or offers nothing that fits the options.
    pub fn open(&self, options: &Options) -> Result<Box<dyn Source + Send>> {
        Ok(match self {
            Self::Rooms(seed) => Box::new(rooms::Walk::new(*seed)),
            #[cfg(feature = "nokhwa")]
            Self::Nokhwa(number) => Box::new(Nokhwa::open(*number, options)?),
            #[cfg(not(feature = "nokhwa"))]
            Self::Nokhwa(number) => {
                return Err(Error::input(format!(
                    "nokhwa:{number} needs a program built with `cargo build --release --features nokhwa`; on Linux \
                     /dev/video{number} needs nothing more"
                )));
            }
            Self::Pipe(command) => Box::new(Pipe::command(command, options)?),
            Self::StandardInput => Box::new(Pipe::standard_input(options)?),
            Self::Path(path) => return open_path(path, options),
        })
    }

    /// How to open the same camera again, although its device may have another number by then.
    pub(super) fn again(&self, source: &dyn Source) -> Self {
        match self {
            Self::Path(_) => Self::Path(PathBuf::from(source.identity())),
            other => other.clone(),
        }
    }
}

/// What a path leads to decides what it is.
fn open_path(path: &Path, options: &Options) -> Result<Box<dyn Source + Send>> {
    let about = match std::fs::metadata(path) {
        Err(_) if path.starts_with("/dev") => return Err(v4l2::missing(&path.display().to_string())),
        about => about.map_err(|error| Error::io(path, error))?,
    };
    let extension = path.extension().and_then(|extension| extension.to_str());
    if about.is_dir() {
        Ok(Box::new(Pictures::folder(path, options)?))
    } else if about.is_file() && extension.is_some_and(|extension| extension.eq_ignore_ascii_case("zip")) {
        Ok(Box::new(Pictures::zip(path, options)?))
    } else if v4l2::is_camera_node(path) {
        Ok(Box::new(v4l2::V4l2::open(path, options)?))
    } else if !about.is_file() {
        Err(v4l2::not_a_camera(path))
    } else if extension.is_some_and(video::is_video) {
        Ok(Box::new(Video::open(path, options)?))
    } else if path.to_str().is_some_and(listing::is_picture) {
        Err(Error::input(format!("{} is one picture; give the folder that it lies in", path.display())))
    } else {
        Err(Error::input(format!(
            "{} is not a source of frames; --camera takes a camera, a folder or .zip of pictures, or a video ({}, …)",
            path.display(),
            video::EXTENSIONS.iter().take(7).copied().collect::<Vec<_>>().join(", ")
        )))
    }
}

/// Whether two names mean the same source, as far as names can tell.
pub fn same(one: &str, other: &str) -> bool {
    let real = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    one == other
        || match (one.parse(), other.parse()) {
            (Ok(Camera::Path(one)), Ok(Camera::Path(other))) => {
                real(&one).is_some_and(|one| Some(one) == real(&other))
            }
            (Ok(one), Ok(other)) => one == other,
            _ => false,
        }
}

/// Whether the name means something that lies on the disk: a video, a folder or an archive of pictures.
pub fn is_file(name: &str) -> bool {
    match name.parse() {
        Ok(Camera::Path(path)) => path.is_file() || path.is_dir(),
        _ => false,
    }
}

/// The name under which a source is found from every working folder.
pub fn lasting(name: &str) -> String {
    match name.parse() {
        Ok(Camera::Path(path)) => std::path::absolute(&path).unwrap_or(path).display().to_string(),
        _ => name.to_owned(),
    }
}

impl FromStr for Camera {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name.split_once(':') {
            Some(("rooms", seed)) => seed.parse().map(Self::Rooms).map_err(|_| {
                Error::input(format!(
                    "\"{name}\": the built-in world's seed is a whole number, as in rooms:7"
                ))
            }),
            Some(("nokhwa", number)) => number.parse().map(Self::Nokhwa).map_err(|_| {
                Error::input(format!("\"{name}\": expected the camera's number, as in nokhwa:0"))
            }),
            Some(("pipe", command)) if command.trim().is_empty() => Err(Error::input(
                "pipe: needs a command that writes frames, as in 'pipe:gst-launch-1.0 -q … ! y4menc ! fdsink'",
            )),
            Some(("pipe", command)) => Ok(Self::Pipe(command.to_owned())),
            _ if name == "rooms" => Ok(Self::Rooms(0)),
            _ if name == "-" => Ok(Self::StandardInput),
            _ if name.is_empty() || name.contains('\0') => {
                Err(Error::input("the name of the camera is empty"))
            }
            _ => Ok(Self::Path(PathBuf::from(name))),
        }
    }
}

impl fmt::Display for Camera {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rooms(seed) => write!(f, "rooms:{seed}"),
            Self::Nokhwa(number) => write!(f, "nokhwa:{number}"),
            Self::Pipe(command) => write!(f, "pipe:{command}"),
            Self::StandardInput => f.write_str("-"),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

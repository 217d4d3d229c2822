//! How a source of frames is named on the command line.

use std::fmt;
use std::str::FromStr;

use super::{Options, Source, rooms};
use crate::{Error, Result};

/// A source of frames by its name; opening it may still fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Camera {
    /// The built-in world of this seed: `rooms` or `rooms:SEED`.
    Rooms(u64),
}

impl Camera {
    /// Opens the source.
    ///
    /// # Errors
    ///
    /// It is not there, is in use, is not what its name says, or offers nothing that fits the options.
    pub fn open(&self, _options: &Options) -> Result<Box<dyn Source + Send>> {
        match self {
            Self::Rooms(seed) => Ok(Box::new(rooms::Walk::new(*seed))),
        }
    }
}

impl FromStr for Camera {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        if name == "rooms" {
            return Ok(Self::Rooms(0));
        }
        if let Some(seed) = name.strip_prefix("rooms:") {
            let seed = seed.parse().map_err(|_| {
                Error::input(format!(
                    "\"{name}\": the seed of the built-in world must be a whole number, as in rooms:7"
                ))
            })?;
            return Ok(Self::Rooms(seed));
        }
        Err(Error::input(format!("\"{name}\" is no source of frames; use rooms or rooms:SEED")))
    }
}

impl fmt::Display for Camera {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rooms(seed) => write!(f, "rooms:{seed}"),
        }
    }
}

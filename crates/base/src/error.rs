//! The one error type of the crate, and the exit code that each kind of error becomes.
//!
//! A message is one sentence that names the thing at fault and, where there is something to be done, says what.
//! Errors are made where the fault is seen, passed up unchanged, and printed once, by `main`.

use std::path::{Path, PathBuf};

/// What a fallible call of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong, by who can mend it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is at fault (a file's content, a setting, a flag): the user can mend it. Exit code 2.
    #[error("{0}")]
    Input(String),
    /// The operating system refused to read or write something. Exit code 1, or 2 if the file is not there.
    #[error("{}: {}", path.display(), plain(source))]
    Io {
        /// The file or device concerned.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The device that computes (GPU, driver, library) failed. Exit code 1.
    #[error("{0}")]
    Device(String),
    /// Another machine could not be reached, or did not send what it should have. Exit code 1.
    #[error("{0}")]
    Network(String),
    /// The work is done with what was there, and something was not: a damaged trace was read. Exit code 3.
    #[error("{0}")]
    Incomplete(String),
}

impl Error {
    /// An error of the user's input, from anything that reads as a sentence.
    pub fn input(message: impl Into<String>) -> Self {
        Self::Input(message.into())
    }

    /// Wraps an error of the operating system with the path that it concerns.
    pub fn io(path: impl AsRef<Path>, source: std::io::Error) -> Self {
        Self::Io { path: path.as_ref().to_path_buf(), source }
    }

    /// Says what should have been there, if a file or folder was not.
    #[must_use]
    pub fn expecting(self, expected: &str) -> Self {
        use std::io::ErrorKind::{IsADirectory, NotADirectory, NotFound};
        match &self {
            Self::Io { path, source } if matches!(source.kind(), NotFound | IsADirectory | NotADirectory) => {
                Self::Input(format!("{}: {}; expected {expected}", path.display(), plain(source)))
            }
            _ => self,
        }
    }

    /// The process exit code of this error: 2 for bad input (as for bad usage), 3 for a job done
    /// with less than everything, 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            // A file that is not there is a slip of the command line, not a failure of the system.
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => 2,
            Self::Io { .. } | Self::Device(_) | Self::Network(_) => 1,
            Self::Incomplete(_) => 3,
        }
    }
}

/// What the system said, without its number.
fn plain(source: &std::io::Error) -> String {
    let text = source.to_string();
    let text = text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words);
    match source.kind() {
        std::io::ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        std::io::ErrorKind::IsADirectory => "this is a folder".to_owned(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_said_with_what_was_expected() {
        let missing = Error::io("walk-1", std::io::Error::from_raw_os_error(2));
        assert_eq!(missing.to_string(), "walk-1: there is no such file or folder");
        let missing = missing.expecting("a recording");
        assert_eq!(missing.to_string(), "walk-1: there is no such file or folder; expected a recording");
        assert_eq!(missing.exit_code(), 2);
        let denied = Error::io("walk-1", std::io::Error::from_raw_os_error(13)).expecting("a recording");
        assert_eq!((denied.to_string().as_str(), denied.exit_code()), ("walk-1: Permission denied", 1));
    }
}

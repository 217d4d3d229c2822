//! SHA-256 of files, and what a publisher says that it should be: all of it, or how it begins.

use std::fmt;
use std::io::{self, Read};

use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

/// Digits of a whole SHA-256.
const DIGITS: usize = 64;

/// The first digits, or all of them, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected(String);

impl Expected {
    /// All digits, as a user gives them.
    pub(super) fn whole(digits: &str) -> Result<Self> {
        let digits = digits.to_ascii_lowercase();
        if digits.len() != DIGITS || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(Error::input(format!("--sha256 {digits}: expected {DIGITS} hexadecimal digits")));
        }
        Ok(Self(digits))
    }

    /// How it begins.
    pub(super) fn beginning(digits: &str) -> Self {
        Self(digits.to_owned())
    }

    /// Out of a header that holds the SHA-256 in quotes; nothing if it holds something else, such as a file's version.
    pub(super) fn tag(header: &str) -> Option<Self> {
        let header = header.trim();
        Self::whole(header.strip_prefix("W/").unwrap_or(header).trim_matches('"')).ok()
    }

    /// Whether this is the SHA-256 that was meant.
    pub(super) fn is_met_by(&self, sha256: &str) -> bool {
        sha256.starts_with(&self.0)
    }
}

/// After "it should".
impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.0.len() == DIGITS { "be" } else { "begin with" };
        write!(f, "{verb} {}", self.0)
    }
}

/// The SHA-256 of all that can be read.
pub(super) fn sha256(mut from: impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            Ok(length) => hasher.update(&buffer[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2's examples.
    #[test]
    fn sums_are_the_standards() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&b"abc"[..]).unwrap(), abc);
        let million = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
        assert_eq!(sha256(&b"a".repeat(1_000_000)[..]).unwrap(), million);
        assert!(
            Expected::beginning("ba7816bf").is_met_by(abc) && Expected::whole(abc).unwrap().is_met_by(abc)
        );
        assert!(!Expected::beginning("ba7816be").is_met_by(abc));
        assert_eq!(Expected::tag(&format!("\"{abc}\"")), Some(Expected::whole(abc).unwrap()));
        assert_eq!(Expected::tag("\"5d41402abc4b2a76b9719d911017c592\""), None, "another kind of sum");
        assert!(Expected::whole("ba78").unwrap_err().to_string().contains("64 hexadecimal"));
    }
}

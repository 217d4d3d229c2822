//! The token that whoever is not on this machine must show.
//!
//! 128 random bits, in a file that only the recording's user can read: the one that the user names, where it stays, or
//! [`FILE`] in the data folder, where it is new with each start and goes with its end. It is given in the address
//! (`?token=…`), after which a cookie carries it, or in an `Authorization: Bearer` header.

use std::fmt;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::storage::{OsFilesystem, read_bounded, write_atomically};
use crate::{Error, Result};

/// Its file in the data folder, if no other was named.
const FILE: &str = "page-token";

/// Characters of a token: one that can be guessed protects nothing, and longer ones do not fit into an address.
const LENGTH: RangeInclusive<usize> = 16..=128;

/// The cookie's name.
pub(super) const COOKIE: &str = "oupn_edge_token";

/// A secret. Shown only by [`Token::reveal`].
#[derive(Clone)]
pub(super) struct Token(Arc<str>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// A new one.
    pub(super) fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()))
    }

    /// The one in a file; a new one, if there is no such file or nothing in it.
    fn kept_in(path: &Path) -> Result<Self> {
        let kept = match read_bounded(&OsFilesystem, path, 1024) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(Error::io(path, error)),
        };
        let text = kept.trim_ascii();
        if text.is_empty() {
            let token = Self::random().map_err(|error| Error::io("/dev/urandom", error))?;
            token.write(path)?;
            return Ok(token);
        }
        let mode = std::fs::metadata(path).map_or(0, |found| found.permissions().mode());
        if mode & 0o004 != 0 {
            log::warn!("{}: everybody on this machine can read the token: `chmod o-r` it", path.display());
        }
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        match std::str::from_utf8(text) {
            Ok(token) if LENGTH.contains(&token.len()) && text.iter().all(fits) => Ok(Self(token.into())),
            _ => Err(Error::input(format!(
                "{}: expected a token of 16 to 128 letters, digits, - and _; remove the file to have one made",
                path.display()
            ))),
        }
    }

    /// Writes it so that only this user can read it.
    fn write(&self, path: &Path) -> Result<()> {
        write_atomically(&OsFilesystem, path, format!("{}\n", self.0).as_bytes())
            .map_err(|error| Error::io(path, error))
    }

    /// The secret itself.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether `shown` is the token, in a time that does not depend on where they differ.
    pub(super) fn is(&self, shown: &str) -> bool {
        let (own, shown) = (self.0.as_bytes(), shown.as_bytes());
        // The length is no secret.
        if own.len() != shown.len() {
            return false;
        }
        let difference = own.iter().zip(shown).fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
        std::hint::black_box(difference) == 0
    }

    /// Whether a `Cookie` header has it.
    pub(super) fn is_in_cookies(&self, header: &str) -> bool {
        let value =
            |cookie: &str| cookie.trim().strip_prefix(COOKIE)?.strip_prefix('=').map(|value| self.is(value));
        header.split(';').filter_map(value).any(|is| is)
    }

    /// The `Set-Cookie` header: for this site alone, out of scripts' reach, for a day.
    pub(super) fn cookie(&self) -> String {
        format!("{COOKIE}={}; Path=/; HttpOnly; SameSite=Strict; Max-Age=86400", self.0)
    }
}

/// A token and where it can be read.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) token: Token,
    /// None if it could not be written.
    pub(super) file: Option<PathBuf>,
    /// Whether the file goes with the recording.
    passing: bool,
}

impl Kept {
    /// The token of a file that stays.
    pub(super) fn in_file(path: &Path) -> Result<Self> {
        Ok(Self { token: Token::kept_in(path)?, file: Some(path.to_path_buf()), passing: false })
    }

    /// A new token for as long as the recording into `data` runs.
    pub(super) fn for_now(data: &Path) -> Result<Self> {
        let token = Token::random().map_err(|error| Error::io("/dev/urandom", error))?;
        let path = data.join(FILE);
        let file = match token.write(&path) {
            Ok(()) => Some(path),
            // The recording is worth more: a disk may be full.
            Err(error) => {
                log::warn!("the page's token could not be written: {error}");
                None
            }
        };
        Ok(Self { token, file, passing: true })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(file) = self.file.take_if(|_| self.passing) {
            // A token that is left behind opens nothing.
            let _ = std::fs::remove_file(file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_token_in_a_file_stays_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let first = Kept::in_file(&path).unwrap().token.clone();
        assert_eq!(mode(&path), 0o600);
        assert!(Kept::in_file(&path).unwrap().token.is(first.reveal()));
        std::fs::write(&path, "my-own-token_0123456789\n").unwrap();
        assert_eq!(Kept::in_file(&path).unwrap().token.reveal(), "my-own-token_0123456789");
        for bad in
            ["short", "with spaces in the middle of it", "semi;colons;are;no;part;of;it", &"x".repeat(129)]
        {
            std::fs::write(&path, bad).unwrap();
            let error = Kept::in_file(&path).unwrap_err();
            assert!(error.exit_code() == 2 && !error.to_string().contains(bad), "{error}");
        }
        std::fs::write(&path, "\n").unwrap();
        assert_ne!(Kept::in_file(&path).unwrap().token.reveal(), "");
        assert!(Kept::in_file(&folder.path().join("no/such/folder")).is_err());
    }

    #[test]
    fn a_token_for_now_is_gone_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let kept = Kept::for_now(folder.path()).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().trim(), kept.token.reveal());
        assert_eq!(mode(&path), 0o600);
        drop(kept);
        assert!(!path.exists());
        assert!(Kept::for_now(&folder.path().join("none")).unwrap().file.is_none());
    }

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token::random().unwrap();
        let text = token.reveal().to_owned();
        assert_eq!(text.len(), 32);
        assert_ne!(text, Token::random().unwrap().reveal());
        assert!(token.is(&text));
        for wrong in [
            "",
            &text[1..],
            &format!("{text}0"),
            &text.to_uppercase().replace(|c: char| c.is_ascii_digit(), "x"),
        ] {
            assert!(!token.is(wrong), "{wrong}");
        }
        assert!(token.is_in_cookies(&format!("a=b; {COOKIE}={text}; c=d")));
        assert!(!token.is_in_cookies(&format!("{COOKIE}x={text}; {COOKIE}=no")));
        assert!(!format!("{token:?}").contains(&text));
    }
}

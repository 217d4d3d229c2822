//! The token that whoever is not on this machine must show.
//!
//! 128 random bits, new with each start, printed once. It is given in the address (`?token=…`), after which a cookie
//! carries it, or in an `Authorization: Bearer` header.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

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

#[cfg(test)]
mod tests {
    use super::*;

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

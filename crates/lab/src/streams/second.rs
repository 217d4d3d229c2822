//! What the second view of a frame shows, on a stream with the flow of time.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// What a frame is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecondView {
    /// The frame that came after it: what a camera gives.
    #[default]
    Next,
    /// Another picture of the same object, at most so many degrees away. It asks the labels, so it is no way to learn: it says
    /// what perfect second views would give.
    Label {
        /// 180 is any.
        degrees: u16,
    },
    /// A frame that a long memory found to show the same thing, without labels.
    Groups,
}

/// Half a turn: everything is within it.
const ANY: u16 = 180;

impl FromStr for SecondView {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "next" => return Ok(Self::Next),
            "groups" => return Ok(Self::Groups),
            "label:any" => return Ok(Self::Label { degrees: ANY }),
            _ => {}
        }
        let degrees = text.strip_prefix("label:").and_then(|degrees| degrees.parse().ok());
        match degrees.filter(|degrees| (5..=ANY).contains(degrees)) {
            Some(degrees) => Ok(Self::Label { degrees }),
            None => Err(Error::input(format!(
                "`{text}` is no second view: give next, groups, label:any, or label: with 5 to {ANY} degrees, as label:40"
            ))),
        }
    }
}

impl fmt::Display for SecondView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Next => f.write_str("next"),
            Self::Groups => f.write_str("groups"),
            Self::Label { degrees: ANY } => f.write_str("label:any"),
            Self::Label { degrees } => write!(f, "label:{degrees}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() {
        for name in ["next", "groups", "label:any", "label:40", "label:5"] {
            assert_eq!(name.parse::<SecondView>().unwrap().to_string(), name);
        }
        for wrong in ["", "label", "label:", "label:4", "label:181", "label:-40", "Next"] {
            let error = wrong.parse::<SecondView>().unwrap_err().to_string();
            assert!(error.contains("label:40"), "{error}");
        }
    }
}

//! What a key accepts, as a check and as words for a message.

use std::fmt;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::ops::RangeBounds;

use toml::Value;

/// The valid values of a key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limits {
    /// A whole number between two, both included.
    Whole(i64, i64),
    /// A finite number between two bounds.
    Real(Bound<f64>, Bound<f64>),
    /// true or false.
    Switch,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words, or a finite number between two bounds.
    OneOfOrReal(&'static [&'static str], Bound<f64>, Bound<f64>),
    /// Exactly so many whole numbers, each between two, both included.
    Wholes(usize, i64, i64),
    /// Any number of rising whole numbers, each between two, both included.
    Rising(i64, i64),
}

impl Limits {
    /// Whether a value may be taken.
    pub(super) fn admit(&self, value: &Value) -> bool {
        let whole = |value: &Value, low, high| value.as_integer().is_some_and(|n| (low..=high).contains(&n));
        let word = |words: &[&str]| value.as_str().is_some_and(|word| words.contains(&word));
        match *self {
            Self::Whole(low, high) => whole(value, low, high),
            Self::Real(low, high) => real(value, low, high),
            Self::Switch => value.is_bool(),
            Self::OneOf(words) => word(words),
            Self::OneOfOrReal(words, low, high) => word(words) || real(value, low, high),
            Self::Wholes(count, low, high) => value
                .as_array()
                .is_some_and(|list| list.len() == count && list.iter().all(|value| whole(value, low, high))),
            Self::Rising(low, high) => value.as_array().is_some_and(|list| {
                list.iter().all(|value| whole(value, low, high))
                    && list.windows(2).all(|pair| pair[0].as_integer() < pair[1].as_integer())
            }),
        }
    }
}

fn real(value: &Value, low: Bound<f64>, high: Bound<f64>) -> bool {
    let number = match *value {
        Value::Float(number) => number,
        Value::Integer(number) => number as f64,
        _ => return false,
    };
    number.is_finite() && (low, high).contains(&number)
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Whole(low, high) => write!(f, "a whole number in {low}..={high}"),
            Self::Real(low, high) => write!(f, "a number {}", Interval(low, high)),
            Self::Switch => f.write_str("true or false"),
            Self::OneOf(words) => write!(f, "one of {}", Words(words)),
            Self::OneOfOrReal(words, low, high) => {
                write!(f, "{} or a number {}", Words(words), Interval(low, high))
            }
            Self::Wholes(count, low, high) => {
                write!(f, "{count} whole numbers in {low}..={high}, as [1, 2, …]")
            }
            Self::Rising(low, high) => write!(f, "rising whole numbers in {low}..={high}, as [1, 2, …]"),
        }
    }
}

/// Words in quotes, with commas between them.
struct Words(&'static [&'static str]);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.0.iter().enumerate() {
            write!(f, "{}\"{word}\"", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// Two bounds in the notation of mathematics.
struct Interval(Bound<f64>, Bound<f64>);

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Included(low) => write!(f, "in [{low}, ")?,
            Excluded(low) => write!(f, "in ({low}, ")?,
            Unbounded => f.write_str("in (−∞, ")?,
        }
        match self.1 {
            Included(high) => write!(f, "{high}]"),
            Excluded(high) => write!(f, "{high})"),
            Unbounded => f.write_str("∞)"),
        }
    }
}

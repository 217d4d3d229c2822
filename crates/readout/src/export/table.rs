//! A table without a format: columns with types, rows of cells.

use jiff::Timestamp;
use serde_json::Value;

use super::Text;
use crate::Result;

/// The type of a column. Every column may have empty cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    /// Text in UTF-8.
    Text,
    /// A whole number of 64 bits.
    Whole,
    /// A number of 32 bits, as the trace has it.
    Real32,
    /// A number of 64 bits.
    Real64,
    /// Yes or no.
    Flag,
    /// Wall time in UTC, to the microsecond.
    Time,
    /// JSON: text where the format has no structure of its own.
    Json,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Type,
}

/// A value, of the type of its column.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Cell {
    Empty,
    Text(Text),
    Whole(u64),
    Real32(f32),
    Real64(f64),
    Flag(bool),
    Time(Timestamp),
    Json(Value),
}

/// Whatever takes rows.
pub(super) trait TableWriter {
    /// Takes a row; it has a cell for each column.
    fn row(&mut self, row: Vec<Cell>) -> Result<()>;
    /// Writes what is left.
    fn finish(&mut self) -> Result<()>;
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Empty, Into::into)
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        Self::Whole(u64::from(value))
    }
}

/// What is not a number is an empty cell, as it is `null` in the trace.
impl From<f32> for Cell {
    fn from(value: f32) -> Self {
        if value.is_finite() { Self::Real32(value) } else { Self::Empty }
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        if value.is_finite() { Self::Real64(value) } else { Self::Empty }
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Flag(value)
    }
}

impl From<&str> for Cell {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}

impl From<Timestamp> for Cell {
    fn from(value: Timestamp) -> Self {
        Self::Time(value)
    }
}

impl From<Value> for Cell {
    fn from(value: Value) -> Self {
        Self::Json(value)
    }
}

//! The paper's tables by command: rows as settings, each trained and scored by the same code, beside the published figures.
//!
//! A table is a list of [rows](tables); a row with a seed is a [cell](Cell). Cells are independent of each other and of the table:
//! a cell's folder is named by what it computes, so that two tables share a cell, a stopped table goes on, and folders of several
//! machines become one by copying. [`report`](report()) makes of whatever cells are done a page, a list and a curve.

mod cell;
mod curve;
mod outcome;
mod report;
mod tables;

pub use cell::{Cell, Means, Progress};
pub use outcome::Outcome;
pub use report::{Files, report};
pub use tables::{Learner, Row, Table};

use crate::streams::Split;

/// How much is spent on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Windows that each row learns from.
    pub windows: u64,
    /// Seeds of each row.
    pub seeds: u64,
    /// Episodes that are scored.
    pub episodes: usize,
    /// Part of the data that they are drawn from.
    pub split: Split,
}

impl Table {
    /// All cells, row by row, seed by seed.
    pub fn cells(self, effort: Effort) -> Vec<(usize, Cell)> {
        let rows = self.rows();
        let of_row = |(number, row): (usize, Row)| {
            (0..effort.seeds).map(move |seed| (number, Cell::new(self.stream(), &row, seed, effort)))
        };
        rows.into_iter().enumerate().flat_map(of_row).collect()
    }
}

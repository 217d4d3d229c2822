//! Tables as text: CSV and JSON lines. Both write numbers in full, so that reading gives the same ones back.

use std::io::Write;

use serde_json::Value;

use super::table::{Cell, Column, TableWriter};
use super::write_error;
use crate::Result;

/// Comma-separated values.
pub(super) struct Csv<'a> {
    out: &'a mut (dyn Write + Send),
    columns: Vec<Column>,
    begun: bool,
}

impl<'a> Csv<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), columns: Vec<Column>) -> Self {
        Self { out, columns, begun: false }
    }

    fn line(&mut self, fields: impl Iterator<Item = String>) -> Result<()> {
        let line = fields.map(|field| quoted(&field)).collect::<Vec<_>>().join(",");
        // RFC 4180 ends lines so; every reader takes it.
        self.out.write_all(line.as_bytes()).and_then(|()| self.out.write_all(b"\r\n")).map_err(write_error)
    }

    fn header(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let names: Vec<String> = self.columns.iter().map(|column| column.name.to_owned()).collect();
        self.line(names.into_iter())
    }
}

impl TableWriter for Csv<'_> {
    fn row(&mut self, row: Vec<Cell>) -> Result<()> {
        self.header()?;
        self.line(row.into_iter().map(|cell| match cell {
            Cell::Empty => String::new(),
            Cell::Text(text) => no_formula(&text),
            Cell::Whole(number) => number.to_string(),
            Cell::Real32(number) => number.to_string(),
            Cell::Real64(number) => number.to_string(),
            Cell::Flag(flag) => flag.to_string(),
            Cell::Time(time) => time.to_string(),
            Cell::Json(value) => value.to_string(),
        }))
    }

    fn finish(&mut self) -> Result<()> {
        self.header()?;
        self.out.flush().map_err(write_error)
    }
}

/// Text that a spreadsheet would take for a formula, and compute, gets an apostrophe before it; so does text that begins with
/// one, so that taking one away always gives the text back.
fn no_formula(text: &str) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\'']) {
        format!("'{text}")
    } else {
        text.to_owned()
    }
}

fn quoted(field: &str) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// One JSON object a line; empty cells are `null`.
pub(super) struct Jsonl<'a> {
    out: &'a mut (dyn Write + Send),
    columns: Vec<Column>,
}

impl<'a> Jsonl<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), columns: Vec<Column>) -> Self {
        Self { out, columns }
    }
}

impl TableWriter for Jsonl<'_> {
    fn row(&mut self, row: Vec<Cell>) -> Result<()> {
        let cells = self.columns.iter().zip(row).map(|(column, cell)| {
            let value = match cell {
                Cell::Empty => Value::Null,
                Cell::Text(text) => text.to_string().into(),
                Cell::Whole(number) => number.into(),
                // By way of its shortest text: 0.1 stays 0.1.
                Cell::Real32(number) => number.to_string().parse::<f64>().unwrap_or(f64::NAN).into(),
                Cell::Real64(number) => number.into(),
                Cell::Flag(flag) => flag.into(),
                Cell::Time(time) => time.to_string().into(),
                Cell::Json(value) => value,
            };
            // Names of columns need no escaping. An object of serde's would not keep their order.
            format!("\"{}\":{value}", column.name)
        });
        writeln!(self.out, "{{{}}}", cells.collect::<Vec<_>>().join(",")).map_err(write_error)
    }

    fn finish(&mut self) -> Result<()> {
        self.out.flush().map_err(write_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_no_formula_and_can_be_had_back() {
        for text in
            ["=HYPERLINK(\"http://evil.example\")", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'quoted'", "'=1"]
        {
            let safe = no_formula(text);
            assert!(safe.starts_with('\'') && safe.strip_prefix('\'') == Some(text), "{text}");
        }
        for text in ["", "head-camera-7", "1+1", " =1"] {
            assert_eq!(no_formula(text), text);
        }
    }
}

//! The report: one HTML file that shows how a recording went, and opens offline anywhere.
//!
//! No script, no font and no picture from elsewhere; its own policy forbids them. Light and dark by the reader's system, as
//! wide as a phone or a laptop, and printable. Every text that comes from the trace is escaped ([`words::Escaped`]).
//! Numbers are gathered by [`digest`] and drawn by [`chart`] and [`ribbon`]; the page is put together in [`page`].

use std::io::Write;

use crate::recording::{Categories, Missing, Recording};
use crate::{Error, Result};

mod chart;
mod digest;
mod joined;
mod page;
mod ribbon;
mod series;
mod tables;
mod thumbnails;
mod words;

/// Writes the report of a recording, with the categories as they ended up or as they were given. Returns what its trace
/// lacks.
pub fn report(recording: &Recording, categories: Categories, out: &mut dyn Write) -> Result<Missing> {
    let digest = digest::Digest::of(recording, categories)?;
    let page = page::page(recording, &digest);
    out.write_all(page.as_bytes()).and_then(|()| out.flush()).map_err(|error| Error::io("report", error))?;
    Ok(digest.missing)
}

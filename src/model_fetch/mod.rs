//! Published weights, downloaded once, when asked: `oupn-edge model fetch`.
//!
//! Nothing else in this program opens a connection to another machine. [`catalogue`] says what can be had and where, [`download`]
//! brings a file to the disk and goes on with half a one, [`convert`] checks it tensor by tensor and writes it as weights of this
//! program, and [`folder`] is where they are kept and found by name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::encoder::{ModelCard, Weights};
use crate::storage::{Filesystem as _, OsFilesystem};
use crate::words::bytes;
use crate::{Error, Result};

pub mod catalogue;
mod convert;
mod digest;
mod download;
pub mod folder;
mod partial;
mod web;

use catalogue::Entry;
use digest::Expected;
use download::Limits;
use partial::Partial;

/// What is to be fetched, and how.
#[derive(Debug)]
pub struct Request<'a> {
    /// Which model.
    pub entry: &'static Entry,
    /// Where it goes.
    pub folder: &'a Path,
    /// Another server's address, in the place of the official one.
    pub from: Option<&'a str>,
    /// A branch, tag or commit of the hub's repository, in the place of `main`.
    pub revision: Option<&'a str>,
    /// The file's SHA-256, if the caller knows it; otherwise what the publisher says of it.
    pub sha256: Option<&'a str>,
    /// How long a server may send nothing.
    pub timeout: Duration,
}

/// How a fetch ended.
#[derive(Debug)]
pub enum Fetched {
    /// The model was there already, and nothing was downloaded.
    Already(PathBuf),
    /// It is there now.
    New {
        /// The weights.
        path: PathBuf,
        /// Where they come from.
        url: String,
        /// Bytes of the published file.
        bytes: u64,
    },
}

/// Downloads a model, checks it and puts it into the folder. `progress` is told how many bytes are there, and of how many.
///
/// # Errors
/// If the server cannot be reached or sends something else, or if the folder cannot be written.
pub fn fetch(request: &Request<'_>, progress: &mut dyn FnMut(u64, Option<u64>)) -> Result<Fetched> {
    let Request { entry, folder, .. } = *request;
    let expected = request.sha256.map(Expected::whole).transpose()?.or_else(|| entry.expected());
    let url = entry.url(request.from, request.revision)?;
    let path = folder::file(folder, entry.name);
    if is_there(&path, entry)? {
        return Ok(Fetched::Already(path));
    }
    std::fs::create_dir_all(folder).map_err(|error| {
        Error::input(format!("{} cannot be made: {error}; name another folder with --to", folder.display()))
    })?;
    check_room(folder, entry)?;
    let mut partial = Partial::take(folder, entry)?;
    let limits = Limits { timeout: request.timeout, bytes: entry.ceiling() };
    let answer = download::download(&url, &mut partial, &limits, expected, progress);
    let answer = answer.inspect_err(|_| partial.discard_if_useless())?;
    let found = partial.sha256()?;
    if !answer.expected.is_met_by(&found) {
        partial.discard();
        return Err(Error::Network(format!(
            "{url} is not the published file: its SHA-256 is {found}, but should {}; it was not kept. Try again, or name another \
             server with --from",
            answer.expected
        )));
    }
    let written = convert::convert(&partial, entry, &found, &answer, &path);
    // Whether it fits or not: the next fetch should not go on with this file.
    partial.discard();
    written?;
    Ok(Fetched::New { path, url, bytes: answer.bytes })
}

/// Whether the model is in the folder, whole.
fn is_there(path: &Path, entry: &Entry) -> Result<bool> {
    if !path.exists() {
        return Ok(false);
    }
    let remove = |fault: String| {
        Err(Error::input(format!("{fault}; to fetch {} again, remove {}", entry.name, path.display())))
    };
    match Weights::read(path) {
        Ok(Weights { card: ModelCard { name, .. }, .. }) if name == entry.name => Ok(true),
        Ok(weights) => remove(format!("{} holds other weights, {}", path.display(), weights.card.name)),
        Err(error) => remove(error.to_string()),
    }
}

/// The file that is downloaded and the one that is made of it are on the disk at the same time.
fn check_room(folder: &Path, entry: &Entry) -> Result<()> {
    let needed = 2 * entry.bytes;
    match OsFilesystem.free_bytes(folder) {
        Ok(free) if free < needed => Err(Error::io(
            folder,
            std::io::Error::new(
                std::io::ErrorKind::StorageFull,
                format!(
                    "{} free, but {} takes {} while it is fetched; make room, or name another folder with --to",
                    bytes(free),
                    entry.name,
                    bytes(needed)
                ),
            ),
        )),
        // A disk that does not say how full it is says so when it is written to.
        _ => Ok(()),
    }
}

//! From a published file to weights of this program: every tensor checked against the card's network, the card written inside and
//! beside it, with the published file's SHA-256.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::catalogue::Entry;
use super::download::Downloaded;
use super::partial::Partial;
use crate::encoder::Weights;
use crate::storage::{OsFilesystem, write_atomically};
use crate::{Error, Result, tensors};

/// Writes the weights as `path`, last of all: where that file is, the model is whole.
pub(super) fn convert(
    partial: &Partial,
    entry: &Entry,
    sha256: &str,
    downloaded: &Downloaded,
    path: &Path,
) -> Result<()> {
    let mut weights = Weights::read_with_card(partial.path(), Some(entry.name)).map_err(|error| {
        Error::Network(format!("what came from {} cannot be used and was not kept: {error}", downloaded.url))
    })?;
    let commit = downloaded.commit.as_ref().map(|commit| format!(", commit {commit}")).unwrap_or_default();
    weights.card.sha256 = Some(sha256.to_owned());
    weights.card.source = format!("{}; fetched from {}{commit}", weights.card.source, downloaded.url);
    let (mut named, mut metadata) = (BTreeMap::new(), HashMap::new());
    weights.put(&mut named, &mut metadata)?;
    let card = weights.card.to_toml()?;
    let beside = path.with_file_name(format!("{}.toml", entry.name));
    let bytes = tensors::serialize(&named, metadata)?;
    write(&beside, card.as_bytes())?;
    write(path, &bytes)
}

/// Whole or not at all. Published weights are no secret: root may fetch them for a service that runs as somebody else.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomically(&OsFilesystem, path, bytes)
        .and_then(|()| fs::set_permissions(path, Permissions::from_mode(0o644)))
        .map_err(|error| Error::io(path, error))
}

//! Pictures of categories, where the recording was asked to keep them (`--keep-thumbnails`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::base64;
use crate::recording::Recording;
use crate::storage::{OsFilesystem, read_bounded};

/// The longest file that is taken in: a picture of 64×64 has less.
const LONGEST: u64 = 64 << 10;

/// Where the kept pictures lie, by category.
#[derive(Debug, Default)]
pub(super) struct Thumbnails(HashMap<u64, PathBuf>);

impl Thumbnails {
    /// Looks for pictures in the recording's data folder.
    pub(super) fn of(recording: &Recording) -> Self {
        let folder = recording.dir().parent().map(|data| data.join("thumbnails"));
        let entries =
            folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        Self(entries.filter_map(|entry| Some((category(&entry.path())?, entry.path()))).collect())
    }

    /// The picture of a category as an image element; empty without one.
    pub(super) fn image(&self, id: u64) -> String {
        let bytes = self.0.get(&id).and_then(|path| read_bounded(&OsFilesystem, path, LONGEST).ok());
        let png = bytes.filter(|bytes| bytes.starts_with(b"\x89PNG"));
        png.map(|png| {
            format!(
                "<img alt=\"\" width=\"64\" height=\"64\" src=\"data:image/png;base64,{}\">",
                base64(&png)
            )
        })
        .unwrap_or_default()
    }
}

/// The category of a file `category-NUMBER-….png`.
fn category(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?.strip_prefix("category-")?;
    name.split('-').next()?.parse().ok()
}

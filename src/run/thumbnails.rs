//! Pictures of categories on the disk: only with `--keep-thumbnails`.
//!
//! `thumbnails/category-NUMBER-BOOT-SECONDS.png` in the data folder: the picture that created a category, 64×64 pixels,
//! with the boot and the monotonic second of it in the name, by which `forget` finds those that it must remove. At most
//! [`MOST`] are kept; later categories get none.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::device::clock::Stamp;
use crate::storage::{Filesystem, OsFilesystem, create_private_folder, private_file};
use crate::trace::PendingForget;
use crate::{Error, Result};

/// The folder's name in the data folder.
const FOLDER: &str = "thumbnails";

/// The most pictures that are kept: some 100 MB.
const MOST: usize = 10_000;

/// See the [module](self).
#[derive(Debug)]
pub struct Thumbnails {
    dir: PathBuf,
    width: usize,
    height: usize,
    kept: usize,
}

impl Thumbnails {
    /// Keeps pictures of this size in `data/thumbnails`.
    pub fn open(data: &Path, width: usize, height: usize) -> Result<Self> {
        let dir = data.join(FOLDER);
        create_private_folder(&dir).map_err(|error| Error::io(&dir, error))?;
        let kept = std::fs::read_dir(&dir).map_err(|error| Error::io(&dir, error))?.count();
        Ok(Self { dir, width, height, kept })
    }

    /// Keeps the picture that created a category. A failure is logged: the recording is worth more.
    pub fn keep(&mut self, category: u64, at: Stamp, rgb: &[u8]) {
        if self.kept >= MOST {
            return;
        }
        self.kept += 1;
        let name = format!("category-{category:08}-{}-{}.png", at.boot, at.mono_ns / 1_000_000_000);
        if let Err(error) = self.write(&self.dir.join(name), rgb) {
            log::warn!("a thumbnail could not be kept: {error}");
        }
    }

    fn write(&self, path: &Path, rgb: &[u8]) -> Result<()> {
        use image::{ImageEncoder, codecs::png::PngEncoder};
        #[allow(clippy::cast_possible_truncation)]
        let (width, height) = (self.width as u32, self.height as u32);
        let fault = || Error::input("a picture of another size than its thumbnail's");
        let picture = image::RgbImage::from_raw(width, height, rgb.to_vec()).ok_or_else(fault)?;
        let small = image::imageops::thumbnail(&picture, 64, 64);
        let mut png = Vec::new();
        PngEncoder::new(&mut png)
            .write_image(&small, 64, 64, image::ExtendedColorType::Rgb8)
            .map_err(|error| Error::input(error.to_string()))?;
        // Whole or not there, but not synced: the live path does not wait for the disk, and a power cut may cost a picture.
        let unfinished = path.with_extension("tmp");
        private_file()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&unfinished)
            .and_then(|mut file| file.write_all(&png))
            .and_then(|()| std::fs::rename(&unfinished, path))
            .map_err(|error| Error::io(path, error))
    }
}

/// Removes the pictures that a `forget` concerns, whether pictures are still being kept or not. Of another boot nobody knows
/// the age: they go, too. On return without an error they are gone for good, whatever happens to the power.
///
/// # Errors
/// If something could not be removed; everything else was.
pub fn forget(data: &Path, request: &PendingForget) -> Result<()> {
    let dir = data.join(FOLDER);
    let entries = match std::fs::read_dir(&dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(&dir, error)),
    };
    let mut left = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| Error::io(&dir, error))?;
        if concerns(request, &entry.file_name().to_string_lossy())
            && let Err(error) = std::fs::remove_file(entry.path())
        {
            left.push((entry.path(), error));
        }
    }
    OsFilesystem.sync_dir(&dir).map_err(|error| Error::io(&dir, error))?;
    let Some((path, error)) = left.first() else { return Ok(()) };
    let others = match left.len() - 1 {
        0 => String::new(),
        others => format!(" and {others} more beside it"),
    };
    Err(Error::Device(format!(
        "{}{others} could not be removed ({error}): remove what is left there by hand",
        path.display()
    )))
}

/// Whether what has this name may show what is to be forgotten.
fn concerns(request: &PendingForget, name: &str) -> bool {
    // A second more: names hold whole seconds.
    let span =
        Duration::try_from_secs_f32(request.last_s).unwrap_or(Duration::MAX).as_secs().saturating_add(2);
    let oldest = (request.at.mono_ns / 1_000_000_000).saturating_sub(span);
    let boot = request.at.boot.to_string();
    let second = name
        .strip_suffix(".png")
        .and_then(|name| name.rsplit_once('-'))
        .filter(|(before, _)| before.ends_with(&boot))
        .and_then(|(_, second)| second.parse::<u64>().ok());
    second.is_none_or(|second| second >= oldest)
}

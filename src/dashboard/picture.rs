//! Pictures for pages: JPEG, made in memory and never written to the disk.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use image::ExtendedColorType;
use image::codecs::jpeg::JpegEncoder;

use crate::run::status::{Picture, Status};

const QUALITY: u8 = 80;

/// A picture as JPEG; `None` if its size does not fit its pixels.
pub(super) fn jpeg(picture: &Picture) -> Option<Vec<u8>> {
    let (width, height) = (u32::try_from(picture.width).ok()?, u32::try_from(picture.height).ok()?);
    let mut bytes = Vec::with_capacity(16 << 10);
    let mut encoder = JpegEncoder::new_with_quality(&mut bytes, QUALITY);
    encoder
        .encode(
            picture.rgb.get(..3 * picture.width * picture.height)?,
            width,
            height,
            ExtendedColorType::Rgb8,
        )
        .ok()?;
    Some(bytes)
}

/// The gallery's pictures as JPEG, each made once. Holds those of categories that live, and no others.
#[derive(Debug, Clone, Default)]
pub(super) struct Thumbnails(Arc<Mutex<HashMap<u64, Bytes>>>);

impl Thumbnails {
    /// The picture of a category that lives.
    pub(super) fn of(&self, status: &Status, category: u64) -> Option<Bytes> {
        let (picture, living) = status.look(|now| {
            let known = now.gallery.iter().find(|known| known.category == category);
            (
                known.map(|known| known.picture.clone()),
                now.gallery.iter().map(|known| known.category).collect::<Vec<_>>(),
            )
        });
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Also after `forget`: what is no longer in the gallery is not shown again.
        kept.retain(|id, _| living.contains(id));
        let picture = picture?;
        if let Some(jpeg) = kept.get(&category) {
            return Some(jpeg.clone());
        }
        let jpeg = Bytes::from(jpeg(&picture)?);
        kept.insert(category, jpeg.clone());
        Some(jpeg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jpeg_shows_the_picture_and_nonsense_makes_none() {
        let rgb: Vec<u8> = (0..32 * 32).flat_map(|_| [200, 40, 90]).collect();
        let picture = Picture { rgb: rgb.into(), width: 32, height: 32 };
        let decoded = image::load_from_memory(&jpeg(&picture).unwrap()).unwrap().to_rgb8();
        assert_eq!(decoded.dimensions(), (32, 32));
        let pixel = decoded.get_pixel(7, 9).0;
        for (found, meant) in pixel.into_iter().zip([200u8, 40, 90]) {
            assert!(found.abs_diff(meant) < 6, "{pixel:?}");
        }
        assert_eq!(jpeg(&Picture { rgb: Arc::from([1, 2, 3]), width: 32, height: 32 }), None);
    }
}

//! An encoder with a bar that shows how many pictures it has embedded.

use oupn_edge::Result;
use oupn_edge::eval::embed::Embed;
use oupn_edge::streams::ImageSet;

use super::progress::Bar;

/// An encoder that shows how many of the pictures it has embedded.
pub(super) struct Watched<'a> {
    encoder: &'a dyn Embed,
}

/// Pictures between two steps of the bar: enough work for all cores.
const PICTURES: usize = 512;

impl<'a> Watched<'a> {
    /// The same encoder, watched.
    pub(super) fn new(encoder: &'a dyn Embed) -> Self {
        Self { encoder }
    }
}

impl Embed for Watched<'_> {
    fn dimension(&self) -> usize {
        self.encoder.dimension()
    }

    fn embed(&self, set: &ImageSet, images: &[usize]) -> Result<Vec<f32>> {
        let bar = Bar::new(images.len() as u64, "embedding pictures");
        let mut embeddings = Vec::with_capacity(images.len() * self.dimension());
        for part in images.chunks(PICTURES) {
            embeddings.extend(self.encoder.embed(set, part)?);
            bar.advance(part.len() as u64);
        }
        Ok(embeddings)
    }
}

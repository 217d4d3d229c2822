//! Pictures to embeddings in bulk, each picture once, on all cores.

use std::sync::Arc;

use rayon::prelude::*;

use super::episodes::EmbeddedEpisode;
use crate::Result;
use crate::encoder::card::InputScaling;
use crate::encoder::inference::{Folded, Inference};
use crate::model::Model;
use crate::streams::{Episode, ImageSet};

/// Whatever turns a picture into numbers.
pub trait Embed: Sync {
    /// Numbers in an embedding.
    fn dimension(&self) -> usize;

    /// Embeds pictures of the set, by number, one after the other.
    fn embed(&self, set: &ImageSet, images: &[usize]) -> Result<Vec<f32>>;
}

/// One of this project's encoders, with its running statistics.
pub struct Encoder {
    /// The encoder.
    pub folded: Arc<Folded>,
    /// How pixels from 0 to 1 become what it reads.
    pub scaling: InputScaling,
}

impl Embed for Encoder {
    fn dimension(&self) -> usize {
        self.folded.plan().features
    }

    fn embed(&self, set: &ImageSet, images: &[usize]) -> Result<Vec<f32>> {
        self.embed_pictures(&images.iter().map(|&image| set.image(image)).collect::<Vec<_>>())
    }
}

impl Encoder {
    /// The model's encoder as it is now.
    ///
    /// # Errors
    /// If the weights are not of the plan.
    pub fn of(model: &Model) -> Result<Self> {
        Ok(Self { folded: model.fold()?, scaling: model.card.input.clone() })
    }

    /// Embeds pictures, given as bytes, one after the other.
    ///
    /// # Errors
    /// If a picture is not of the encoder's size.
    pub fn embed_pictures(&self, pictures: &[&[u8]]) -> Result<Vec<f32>> {
        let dimension = self.dimension();
        let mut embeddings = vec![0.0; pictures.len() * dimension];
        let share = pictures.len().div_ceil(rayon::current_num_threads()).max(1);
        let parts = embeddings.par_chunks_mut(share * dimension).zip(pictures.par_chunks(share));
        parts.try_for_each(|(embeddings, pictures)| {
            let mut inference = Inference::new(Arc::clone(&self.folded), 1)?;
            let mut pixels = Vec::new();
            for (embedding, picture) in embeddings.chunks_exact_mut(dimension).zip(pictures) {
                pixels.clear();
                pixels.extend(picture.iter().map(|byte| f32::from(*byte) / 255.0));
                self.scaling.apply(&mut pixels);
                inference.embed(&pixels, embedding)?;
            }
            Ok(())
        })?;
        Ok(embeddings)
    }
}

/// Embeds all pictures of the episodes, each once however often it is shown.
pub fn embed_episodes(
    encoder: &dyn Embed,
    set: &ImageSet,
    episodes: &[Episode],
) -> Result<Vec<EmbeddedEpisode>> {
    let mut place = vec![usize::MAX; set.len()];
    let mut images = Vec::new();
    for &image in episodes.iter().flat_map(|episode| &episode.images) {
        if place[image] == usize::MAX {
            place[image] = images.len();
            images.push(image);
        }
    }
    let embeddings = encoder.embed(set, &images)?;
    let dimension = encoder.dimension();
    let of = |image: &usize| &embeddings[place[*image] * dimension..][..dimension];
    let embedded = |episode: &Episode| EmbeddedEpisode {
        embeddings: episode.images.iter().flat_map(of).copied().collect(),
        labels: episode.labels.clone(),
    };
    Ok(episodes.iter().map(embedded).collect())
}

//! Another script: a change that all images of a window share, both views of every frame.
//!
//! Views teach what two drawings of one character have in common; they cannot teach what tells two characters apart that nobody
//! drew. Mirrored, turned, sheared and bent together, the characters of a window become others, and the learner meets more of them
//! than its data have.

use rayon::prelude::*;

use super::Pixels;
use super::recipe::Script;
use super::warp::Warp;
use crate::encoder::plan::Shape;
use crate::kernels::image::Pixel;
use crate::random::Random;

/// One window's change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) mirrored: bool,
    pub(super) warp: Option<Warp>,
}

impl Change {
    /// The change of a window, unless it stays as it is.
    pub(super) fn draw(script: &Script, random: &mut Random) -> Option<Self> {
        let mirrored = random.chance(script.mirrored);
        let warp = random.chance(script.warped).then(|| Warp::draw(&script.warping, random));
        (mirrored || warp.is_some()).then_some(Self { mirrored, warp })
    }

    /// The changed images, channels last.
    pub(super) fn apply(&self, images: &[Pixels<'_>], size: Shape) -> Vec<Vec<f32>> {
        let changed = |image: &Pixels<'_>| {
            let mut pixels: Vec<Pixel> = vec![[0.0; 4]; size.height * size.width];
            image.unpack(size.channels, &mut pixels);
            if self.mirrored {
                pixels.chunks_exact_mut(size.width).for_each(<[Pixel]>::reverse);
            }
            if let Some(warp) = &self.warp {
                let mut warped = pixels.clone();
                warp.apply(&pixels, &mut warped, size.width);
                pixels = warped;
            }
            pixels.iter().flat_map(|pixel| &pixel[..size.channels]).copied().collect()
        };
        images.par_iter().map(changed).collect()
    }
}

//! One augmented view: its random choices, drawn first, and the image that follows from them.
//!
//! Order: Gaussian blur, motion blur, rotation, change of shape, crop, mirror image, colour, clip to [0, 1]. All channels go through the
//! geometry; colour changes the first three. Only the pixels that the crop will show are rotated.

use super::Pixels;
use super::blur::{self, Kernel, Motion};
use super::colour::Changes;
use super::crop::Region;
use super::recipe::{Crop, Recipe};
use super::resample::{Stretch, rotate};
use super::warp::Warp;
use crate::encoder::plan::Shape;
use crate::kernels::image::{Pixel, clipped};
use crate::random::Random;

/// What is done to one image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choices {
    /// σ of the Gaussian blur, if there is one.
    pub(super) gaussian: Option<f32>,
    pub(super) motion: Option<Motion>,
    /// In radians.
    pub(super) rotation: f32,
    pub(super) warp: Option<Warp>,
    pub(super) crop: Region,
    pub(super) mirrored: bool,
    pub(super) colour: Changes,
}

impl Choices {
    /// The choices for an image, whose pixels tell where its object is.
    pub(super) fn draw(recipe: &Recipe, size: Shape, image: &[Pixel], random: &mut Random) -> Self {
        let Shape { height, width, .. } = size;
        let draw_crop = |crop: Crop, random: &mut Random| {
            crop.draw(height, width, &crop.object.find(height, width, image), random)
        };
        Self {
            gaussian: random.chance(recipe.gaussian_blur).then(|| blur::draw_sigma(random)),
            motion: random.chance(recipe.motion_blur).then(|| Motion::draw(height, random)).flatten(),
            rotation: random.between(-recipe.rotation, recipe.rotation).to_radians(),
            warp: recipe.warp.map(|warping| Warp::draw(&warping, random)),
            crop: recipe.crop.map_or(Region::whole(height, width), |crop| draw_crop(crop, random)),
            mirrored: random.chance(recipe.flip),
            colour: recipe.colour.map_or_else(Changes::default, |colour| Changes::draw(&colour, random)),
        }
    }
}

/// The buffers that making a view needs, for images of one size. They are filled anew for each image.
#[derive(Debug)]
pub(super) struct Scratch {
    size: Shape,
    image: Vec<Pixel>,
    other: Vec<Pixel>,
    /// Four planes, one a channel.
    planes: Vec<f32>,
    stretch: Stretch,
    kernel: Kernel,
}

impl Scratch {
    pub(super) fn new(size: Shape) -> Self {
        let pixels = size.height * size.width;
        Self {
            size,
            image: vec![[0.0; 4]; pixels],
            other: vec![[0.0; 4]; pixels],
            planes: vec![0.0; 4 * pixels],
            stretch: Stretch::default(),
            kernel: Kernel::new(),
        }
    }

    /// Draws a view of `source` by the recipe and writes it to `out`.
    pub(super) fn augment(
        &mut self,
        recipe: &Recipe,
        source: Pixels<'_>,
        random: &mut Random,
        out: &mut [f32],
    ) {
        self.load(source);
        let choices = Choices::draw(recipe, self.size, &self.image, random);
        self.apply(&choices, out);
    }

    pub(super) fn load(&mut self, source: Pixels<'_>) {
        source.unpack(self.size.channels, &mut self.image);
    }

    /// Makes of the image loaded what the choices say.
    pub(super) fn apply(&mut self, choices: &Choices, out: &mut [f32]) {
        let Shape { width, channels, .. } = self.size;
        let (image, other) = (&mut self.image, &mut self.other);
        if let Some(sigma) = choices.gaussian {
            blur::gaussian(image, other, width, sigma, &mut self.kernel);
        }
        if let Some(motion) = &choices.motion {
            blur::motion(image, other, width, motion, &mut self.kernel);
            std::mem::swap(image, other);
        }
        if choices.rotation != 0.0 {
            rotate(image, other, width, choices.rotation, &choices.crop);
            std::mem::swap(image, other);
        }
        if let Some(warp) = &choices.warp {
            warp.apply(image, other, width);
            std::mem::swap(image, other);
        }

        let planes = &mut self.planes;
        let plane_length = image.len();
        let split_row = |index: usize, row: &[Pixel]| {
            for (channel, plane) in planes.chunks_exact_mut(plane_length).enumerate() {
                let plane = &mut plane[index * width..][..width];
                for (value, pixel) in plane.iter_mut().zip(row) {
                    *value = pixel[channel];
                }
                if choices.mirrored {
                    plane.reverse();
                }
            }
        };
        self.stretch.rows(image, width, &choices.crop, split_row);

        let (red, rest) = planes.split_at_mut(plane_length);
        let (green, rest) = rest.split_at_mut(plane_length);
        let (blue, fourth) = rest.split_at_mut(plane_length);
        choices.colour.apply([&mut *red, &mut *green, &mut *blue]);
        let planes = [&*red, &*green, &*blue, &*fourth];
        for (index, pixel) in out.chunks_exact_mut(channels).enumerate() {
            for (value, plane) in pixel.iter_mut().zip(planes) {
                *value = clipped(plane[index]);
            }
        }
    }
}

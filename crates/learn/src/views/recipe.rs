//! Recipes: how strongly an augmented view may differ from its image, for each of the paper's datasets.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Which two images of a frame are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pairing {
    /// The frame as it is, and an augmented view of it.
    CleanAndAugmented,
    /// Two augmented views, drawn independently.
    TwoAugmented,
    /// An augmented view of the frame and one of the camera's next frame: the second look is a real one.
    NextFrame,
}

/// A named recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Augmentation {
    /// Crops that keep half of the object's mask, colour.
    Rooms,
    /// Blur, rotation, crops of at least half of the image, colour.
    Saycam,
    /// Crops; the whole window shifted by up to two pixels.
    Omniglot,
    /// Crops, mirror images, colour.
    Imagenet,
    /// Another hand's drawing of the same character: turned, sheared, stretched, moved and bent, line by line.
    Handwriting,
    /// The same, in most windows of another script: all of their characters are mirrored, or changed in shape, alike.
    Scripts,
    /// The same, but a drawing is changed in the resolution that it was drawn in, and reduced afterwards.
    Redrawn,
    /// Slight crops and colour, for two camera frames that differ by themselves.
    Mild,
}

impl Augmentation {
    /// Its numbers.
    pub fn recipe(self) -> Recipe {
        // In common: the shapes of the paper's crops, and as much of the image as SimCLR leaves.
        let crop = Crop { area: (0.08, 1.0), aspect: (0.75, 1.33), covered: 0.1, object: Object::Image };
        let simclr = Recipe {
            gaussian_blur: 0.0,
            motion_blur: 0.0,
            rotation: 0.0,
            warp: None,
            crop: Some(crop),
            flip: 0.0,
            colour: Some(Colour { strength: 0.5, jittered: 0.8, greyed: 0.2 }),
            script: None,
            redrawn: false,
            window_shift: 0,
        };
        // What is done to the ink of a drawing that was resampled.
        let still = Warping {
            rotation: 0.0,
            shear: 0.0,
            zoom: 0.0,
            scale: 0.0,
            shift: 0.0,
            bend: 0.0,
            jitter: 0.0,
            gain: 1.6,
            level: (0.4, 0.5),
        };
        match self {
            Self::Rooms => Recipe {
                crop: Some(Crop { area: (0.2, 1.0), covered: 0.5, object: Object::Mask, ..crop }),
                ..simclr
            },
            Self::Saycam => Recipe {
                gaussian_blur: 0.2,
                motion_blur: 0.3,
                rotation: 15.0,
                // An area below 0.5 never covers half of the image: the lower bound only lengthens the search.
                crop: Some(Crop { area: (0.1, 1.0), covered: 0.5, ..crop }),
                ..simclr
            },
            Self::Omniglot => Recipe { colour: None, window_shift: 2, ..simclr },
            Self::Handwriting => Recipe {
                warp: Some(Warping {
                    rotation: 15.0,
                    shear: 0.2,
                    zoom: 0.25,
                    scale: 0.3,
                    shift: 0.15,
                    bend: 0.05,
                    jitter: 0.05,
                    ..still
                }),
                crop: None,
                colour: None,
                window_shift: 2,
                ..simclr
            },
            Self::Scripts => Recipe {
                script: Some(Script {
                    mirrored: 0.5,
                    warped: 0.5,
                    warping: Warping {
                        rotation: 20.0,
                        shear: 0.25,
                        scale: 0.2,
                        bend: 0.08,
                        level: (0.45, 0.5),
                        ..still
                    },
                }),
                ..Self::Handwriting.recipe()
            },
            Self::Redrawn => Recipe { redrawn: true, ..Self::Scripts.recipe() },
            Self::Imagenet => Recipe { flip: 0.5, ..simclr },
            Self::Mild => Recipe {
                crop: Some(Crop { area: (0.7, 1.0), aspect: (0.9, 1.11), covered: 0.7, ..crop }),
                colour: Some(Colour { strength: 0.125, jittered: 0.8, greyed: 0.0 }),
                ..simclr
            },
        }
    }
}

/// The numbers of an augmentation. Probabilities are per view; 0 leaves a step out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recipe {
    /// Probability of a Gaussian blur.
    pub gaussian_blur: f32,
    /// Probability of a motion blur.
    pub motion_blur: f32,
    /// Largest rotation to either side, in degrees.
    pub rotation: f32,
    /// A change of shape, if any.
    pub warp: Option<Warping>,
    /// The crop, if any.
    pub crop: Option<Crop>,
    /// Probability of a mirror image.
    pub flip: f32,
    /// Changes of colour, if any.
    pub colour: Option<Colour>,
    /// A change of all images of a window together, if any.
    pub script: Option<Script>,
    /// Whether drawings are changed in their own resolution, where they are known.
    pub redrawn: bool,
    /// Largest shift in pixels, to every side, of all views of a window together.
    pub window_shift: usize,
}

/// How all images of a window may change alike, so that they show other things than were photographed or drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Script {
    /// Probability of mirror images.
    pub mirrored: f32,
    /// Probability of a change of shape.
    pub warped: f32,
    /// That change.
    pub warping: Warping,
}

/// How far the shape of a drawing may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Warping {
    /// Largest turn to either side, in degrees.
    pub rotation: f32,
    /// Largest shear: by how much of its height the picture leans.
    pub shear: f32,
    /// Largest logarithm of the enlargement as a whole.
    pub zoom: f32,
    /// Largest logarithm of the stretch along each axis, on top of it.
    pub scale: f32,
    /// Largest shift along each axis, as a share of the picture.
    pub shift: f32,
    /// Deviation of the shifts that bend the picture as a whole, as a share of it.
    pub bend: f32,
    /// Deviation of those that move neighbouring strokes by themselves.
    pub jitter: f32,
    /// Contrast that the ink is given afterwards; 1 leaves it as it is.
    pub gain: f32,
    /// Least and greatest grey that becomes one half in a picture of the same size; a lower one makes lines broader.
    pub level: (f32, f32),
}

/// A random part of the image, stretched to its whole size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crop {
    /// Least and greatest share of the image's area.
    pub area: (f32, f32),
    /// Least and greatest width over height.
    pub aspect: (f32, f32),
    /// Share of the object that the crop must cover.
    pub covered: f32,
    /// What counts as the object.
    pub object: Object,
}

/// What a crop must not lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// The image itself.
    Image,
    /// The bounding box of what is not 0 in the fourth channel; the image itself where all is 0.
    Mask,
}

/// Random changes of the first three channels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Colour {
    /// Brightness, contrast and saturation change by up to 0.8 of it, the hue by up to 0.2 of a turn of it.
    pub strength: f32,
    /// Probability of those changes.
    pub jittered: f32,
    /// Probability of losing all colour afterwards.
    pub greyed: f32,
}

impl Recipe {
    /// Refuses images that lack the channels this recipe works on.
    pub fn check(&self, channels: usize) -> Result<()> {
        if self.colour.is_some() && channels < 3 {
            return Err(Error::input(format!(
                "this augmentation changes colours, but the images have {channels} channel(s): it needs 3 or more"
            )));
        }
        if self.crop.is_some_and(|crop| crop.object == Object::Mask) && channels != 4 {
            return Err(Error::input(format!(
                "this augmentation keeps an object in view by its mask, the fourth channel, but the images have {channels}"
            )));
        }
        Ok(())
    }
}

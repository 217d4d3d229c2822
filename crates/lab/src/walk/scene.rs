//! What a look shows: an object, and what stands behind it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use image::codecs::jpeg::JpegEncoder;
use image::imageops::{self, FilterType};
use image::{GrayImage, Luma, RgbImage};

use super::plan::Look;
use crate::random::Random;
use crate::streams::coil;
use crate::{Error, Result};

/// Side of a picture, in pixels.
const SIDE: u32 = 160;

/// Side of an object in it when it is as near as it gets.
const OBJECT: f32 = 128.0;

/// How nearly as dark as the corner a pixel must be to belong to an object's own background.
const BACKGROUND: u8 = 28;

/// The share of a background's shorter side that is in view.
const IN_VIEW: f32 = 0.7;

/// Quality of the JPEG files.
const QUALITY: u8 = 92;

/// An object from one side, and where in the picture it is.
type Thing = (RgbImage, GrayImage);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Scene {
    objects: PathBuf,
    /// One for each room, or none at all.
    backgrounds: Vec<RgbImage>,
    known: HashMap<(usize, usize), Thing>,
    look: Option<(Look, Appearance)>,
}

/// How a thing appears in one look.
#[derive(Clone, Copy, Debug)]
struct Appearance {
    scale: f32,
    light: f32,
    place: (f32, f32),
    behind: (f32, f32),
}

impl Scene {
    /// A scene of these objects, with a background for each room if there is a folder of them.
    pub(super) fn new(
        objects: &Path,
        backgrounds: Option<&Path>,
        rooms: usize,
        random: &mut Random,
    ) -> Result<Self> {
        let backgrounds = match backgrounds {
            None => Vec::new(),
            Some(folder) => chosen(folder, rooms, random)?,
        };
        Ok(Self { objects: objects.to_path_buf(), backgrounds, known: HashMap::new(), look: None })
    }

    /// Sample number `turn` of a look, or what follows it a moment later.
    pub(super) fn picture(
        &mut self,
        look: &Look,
        turn: usize,
        later: bool,
        random: &mut Random,
    ) -> Result<RgbImage> {
        if turn == 0 && !later || self.look.is_none_or(|(known, _)| known != *look) {
            let mut between = |low, high| random.between(low, high);
            let appearance = Appearance {
                scale: between(0.8, 1.0),
                light: between(0.85, 1.15),
                place: (between(-8.0, 8.0), between(-8.0, 8.0)),
                behind: (between(0.1, 0.9), between(0.1, 0.9)),
            };
            self.look = Some((*look, appearance));
        }
        let Some((_, appearance)) = self.look else { return Err(Error::input("no look")) };
        // The thing turns on by one step in the moment after.
        let steps = look.turns * turn as isize + look.turns.signum() * isize::from(later);
        let angle = (look.angle as isize + steps).rem_euclid(72) as usize;
        let background = self.backgrounds.get(look.room).cloned();
        let thing = self.thing(look.object, angle)?;
        Ok(drawn(thing, background.as_ref(), appearance, random))
    }

    fn thing(&mut self, object: usize, angle: usize) -> Result<&Thing> {
        let key = (object, angle);
        if !self.known.contains_key(&key) {
            let path = coil::picture(&self.objects, object, angle)?;
            let picture = read(&path)?;
            let mask = cut_out(&picture);
            self.known.insert(key, (picture, mask));
        }
        self.known.get(&key).ok_or_else(|| Error::input("no such object"))
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn drawn(
    (picture, mask): &Thing,
    background: Option<&RgbImage>,
    look: Appearance,
    random: &mut Random,
) -> RgbImage {
    let side = (OBJECT * look.scale).round() as u32;
    let object = imageops::resize(picture, side, side, FilterType::Triangle);
    let mask = imageops::resize(mask, side, side, FilterType::Triangle);
    let mut canvas = match background {
        None => RgbImage::from_pixel(SIDE, SIDE, *picture.get_pixel(0, 0)),
        Some(background) => {
            let (width, height) = background.dimensions();
            let view = (IN_VIEW * width.min(height) as f32) as u32;
            let mut from = |room: u32, at: f32| {
                let moved = (at + random.between(-0.03, 0.03)).clamp(0.0, 1.0);
                (moved * (room - view) as f32) as u32
            };
            let (left, top) = (from(width, look.behind.0), from(height, look.behind.1));
            let crop = imageops::crop_imm(background, left, top, view, view).to_image();
            imageops::resize(&crop, SIDE, SIDE, FilterType::Triangle)
        }
    };
    let mut at = |place: f32| (SIDE as f32 - side as f32) / 2.0 + place + random.between(-2.0, 2.0);
    let (left, top) = (at(look.place.0).round() as i64, at(look.place.1).round() as i64);
    for (x, y, pixel) in object.enumerate_pixels() {
        let (to_x, to_y) = (left + i64::from(x), top + i64::from(y));
        if !(0..i64::from(SIDE)).contains(&to_x) || !(0..i64::from(SIDE)).contains(&to_y) {
            continue;
        }
        // Without a background the object brings its own.
        let share = if background.is_some() { f32::from(mask.get_pixel(x, y)[0]) / 255.0 } else { 1.0 };
        let below = canvas.get_pixel_mut(to_x as u32, to_y as u32);
        for (below, above) in below.0.iter_mut().zip(pixel.0) {
            *below = (share * f32::from(above) + (1.0 - share) * f32::from(*below)).round() as u8;
        }
    }
    let light = look.light * random.between(0.98, 1.02);
    canvas.iter_mut().for_each(|value| *value = (f32::from(*value) * light).round().clamp(0.0, 255.0) as u8);
    canvas
}

/// Where the object is: what cannot be reached from a corner over pixels about as dark as that corner, a pixel less all round.
fn cut_out(picture: &RgbImage) -> GrayImage {
    let (width, height) = picture.dimensions();
    // The brightest channel: deep green is not nearly black, though its grey is.
    let brightest = GrayImage::from_fn(width, height, |x, y| {
        Luma([picture.get_pixel(x, y).0.into_iter().max().unwrap_or(0)])
    });
    let brightest = imageops::blur(&brightest, 1.0);
    let mut mask = GrayImage::from_pixel(width, height, Luma([255]));
    for corner in [(0, 0), (width - 1, 0), (0, height - 1), (width - 1, height - 1)] {
        let dark = brightest.get_pixel(corner.0, corner.1)[0];
        let mut open = vec![corner];
        while let Some((x, y)) = open.pop() {
            if mask.get_pixel(x, y)[0] == 0 || brightest.get_pixel(x, y)[0].abs_diff(dark) > BACKGROUND {
                continue;
            }
            mask.put_pixel(x, y, Luma([0]));
            let near = [(x.wrapping_sub(1), y), (x + 1, y), (x, y.wrapping_sub(1)), (x, y + 1)];
            open.extend(near.into_iter().filter(|(x, y)| *x < width && *y < height));
        }
    }
    let whole = mask.clone();
    for (x, y, value) in mask.enumerate_pixels_mut() {
        let near = [
            (x.saturating_sub(1), y),
            ((x + 1).min(width - 1), y),
            (x, y.saturating_sub(1)),
            (x, (y + 1).min(height - 1)),
        ];
        if near.iter().any(|(x, y)| whole.get_pixel(*x, *y)[0] == 0) {
            *value = Luma([0]);
        }
    }
    mask
}

/// As many different pictures of a folder and its subfolders as there are rooms.
fn chosen(folder: &Path, rooms: usize, random: &mut Random) -> Result<Vec<RgbImage>> {
    let (mut folders, mut pictures) = (vec![folder.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).map_err(|error| Error::io(&folder, error))? {
            let path = entry.map_err(|error| Error::io(&folder, error))?.path();
            let ending =
                path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_lowercase();
            if path.is_dir() {
                folders.push(path);
            } else if ["jpg", "jpeg", "png"].contains(&&*ending) {
                pictures.push(path);
            }
        }
    }
    if pictures.len() < rooms {
        return Err(Error::input(format!(
            "{}: {} pictures (.jpg, .png) for {rooms} rooms; each needs one of its own",
            folder.display(),
            pictures.len()
        )));
    }
    pictures.sort();
    random.shuffle(&mut pictures);
    pictures[..rooms].iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Result<RgbImage> {
    let bytes = std::fs::read(path).map_err(|error| Error::io(path, error))?;
    let picture = image::load_from_memory(&bytes);
    picture
        .map(|picture| picture.to_rgb8())
        .map_err(|error| Error::input(format!("{}: {error}", path.display())))
}

/// Writes a picture as JPEG.
pub(super) fn save(picture: &RgbImage, path: &Path) -> Result<()> {
    let mut bytes = Vec::new();
    let encoded = picture.write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, QUALITY));
    encoded.map_err(|error| Error::input(format!("{}: {error}", path.display())))?;
    std::fs::write(path, bytes).map_err(|error| Error::io(path, error))
}

#[cfg(test)]
mod tests {
    use image::Rgb;

    use super::*;

    #[test]
    fn an_object_is_cut_out_of_its_dark_background() {
        // A bright disc with a dark spot in it, on a dark ground.
        let picture = RgbImage::from_fn(64, 64, |x, y| {
            let from = |a: u32, b: u32| (f64::from(x) - f64::from(a)).hypot(f64::from(y) - f64::from(b));
            let bright = from(32, 32) < 20.0 && from(32, 32) > 5.0;
            Rgb(if bright { [200, 120, 90] } else { [12, 14, 10] })
        });
        let mask = cut_out(&picture);
        let at = |x, y| mask.get_pixel(x, y)[0];
        assert_eq!((at(1, 1), at(63, 0), at(32, 5)), (0, 0, 0), "the ground");
        assert_eq!((at(32, 20), at(32, 32)), (255, 255), "the disc, and the dark spot in it");
    }
}

//! An Omniglot of a few characters, in the layout of the official archives.

use std::fs::{self, File};
use std::io::{Cursor, Write};
use std::path::Path;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Alphabet and characters; every split has all of them.
pub(crate) const CHARACTERS: [&str; 6] = [
    "Angelic/character01",
    "Angelic/character02",
    "Japanese_(hiragana)/character01",
    "Japanese_(katakana)/character01",
    "Tibetan/character01",
    "Tibetan/character02",
];

/// Writes both archives and the three lists.
pub(crate) fn write(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    for split in ["train", "val", "test"] {
        fs::write(folder.join(format!("split_{split}.txt")), CHARACTERS.join("\n")).unwrap();
    }
    for (archive, characters) in
        [("images_background", &CHARACTERS[..3]), ("images_evaluation", &CHARACTERS[3..])]
    {
        let mut zip = ZipWriter::new(File::create(folder.join(format!("{archive}.zip"))).unwrap());
        for (number, character) in characters.iter().enumerate() {
            for drawer in 1..=20u32 {
                let name = format!("{archive}/{character}/{number:04}_{drawer:02}.png");
                zip.start_file(name, SimpleFileOptions::default()).unwrap();
                zip.write_all(&png(&drawing(number as u32 + 3 * u32::from(archive.len() > 17), drawer)))
                    .unwrap();
            }
        }
        zip.finish().unwrap();
    }
}

/// A stroke that depends on the character, moved about by its drawer; ink is 0.
fn drawing(character: u32, drawer: u32) -> image::GrayImage {
    image::GrayImage::from_fn(105, 105, |x, y| {
        let (x, y) = (x as i32 - 30 - drawer as i32, y as i32 - 25 - (drawer as i32 * 7) % 13);
        let character = character as i32;
        let on = (0..50).contains(&x) && (y - x * (character - 2) / 2 - 5 * character).abs() < 3
            || (0..40).contains(&y) && (x - 8 * character).abs() < 3;
        image::Luma([if on { 0 } else { 255 }])
    })
}

/// A picture as the bytes of a PNG file.
pub(crate) fn png(image: &image::GrayImage) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
    bytes.into_inner()
}

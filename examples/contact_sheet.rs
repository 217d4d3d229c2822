//! Writes a sheet of frames of the built-in world, to see what the learner sees.
//!
//! ```text
//! cargo run --release --example contact_sheet -- sheet.png [SEED] [FIRST FRAME] [STRIDE]
//! ```

use oupn_edge::camera::{Frame, rooms::Rooms};

const COLUMNS: usize = 8;
const ROWS: usize = 6;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().unwrap_or_else(|| "sheet.png".to_owned());
    let mut number = |usual: u64| arguments.next().map_or(Ok(usual), |text| text.parse());
    let (seed, first, stride) = (number(0)?, number(0)?, number(40)?);

    let mut world = Rooms::new(seed);
    let mut frame = Frame::default();
    let mut sheet = image::RgbImage::new(0, 0);
    for place in 0..COLUMNS * ROWS {
        world.render(first + stride * place as u64, &mut frame);
        let (width, height) = (frame.width as u32, frame.height as u32);
        if sheet.width() == 0 {
            sheet = image::RgbImage::new(width * COLUMNS as u32, height * ROWS as u32);
        }
        let picture =
            image::RgbImage::from_raw(width, height, frame.rgb.clone()).ok_or("a frame of no size")?;
        let (column, row) = ((place % COLUMNS) as u32, (place / COLUMNS) as u32);
        image::imageops::replace(&mut sheet, &picture, i64::from(column * width), i64::from(row * height));
    }
    sheet.save(path)?;
    Ok(())
}

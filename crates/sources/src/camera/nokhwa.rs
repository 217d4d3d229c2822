//! Cameras through the `nokhwa` crate, `nokhwa:N`: the way in on systems that have no V4L2 (feature `nokhwa`).
//!
//! The crate opens the camera and hands out frames; which mode is taken and how its pixels are decoded is decided as for V4L2.
//! It gives no frame numbers, so frames are counted here and what the driver dropped stays unknown. It waits for a
//! frame without a limit.

use nokhwa::utils::{
    CameraFormat, CameraIndex, FrameFormat, RequestedFormat, RequestedFormatType, Resolution,
};

use super::{Counters, Frame, Kind, Next, Options, Source};
use crate::frame::{Layout, PixelFormat};
use crate::{Error, Result};

/// The encoder's side: smaller frames are taken only if there is nothing else.
const WANTED_SIDE: u32 = 224;

/// As for V4L2: a moment later must be a frame later.
const LEAST_RATE: u32 = 5;

/// What of the crate's formats this program reads.
const READ: [(FrameFormat, PixelFormat); 5] = [
    (FrameFormat::RAWRGB, PixelFormat::Rgb3),
    (FrameFormat::YUYV, PixelFormat::Yuyv),
    (FrameFormat::NV12, PixelFormat::Nv12),
    (FrameFormat::GRAY, PixelFormat::Grey),
    (FrameFormat::MJPEG, PixelFormat::Mjpg),
];

/// An open, running camera.
pub(super) struct Nokhwa {
    number: u32,
    name: String,
    camera: nokhwa::Camera,
    rate: f64,
    counters: Counters,
}

impl Nokhwa {
    /// Opens camera number `number` of the system's list and starts it.
    pub(super) fn open(number: u32, options: &Options) -> Result<Self> {
        let failed =
            |error: nokhwa::NokhwaError| Error::Device(format!("nokhwa:{number} cannot be used: {error}"));
        let known = READ.map(|(theirs, _)| theirs);
        let any = RequestedFormat::with_formats(RequestedFormatType::None, &known);
        let mut camera = nokhwa::Camera::new(CameraIndex::Index(number), any).map_err(failed)?;
        let offered = camera.compatible_camera_formats().map_err(failed)?;
        let chosen = choose(&offered, options).ok_or_else(|| {
            Error::input(format!(
                "nokhwa:{number} does not offer what was asked for; leave out --format, --resolution and --rate"
            ))
        })?;
        let exactly = RequestedFormat::with_formats(RequestedFormatType::Exact(chosen), &known);
        camera.set_camera_requset(exactly).map_err(failed)?;
        camera.open_stream().map_err(failed)?;
        let rate = f64::from(camera.frame_rate());
        Ok(Self { number, name: camera.info().human_name(), camera, rate, counters: Counters::default() })
    }
}

fn readable(format: FrameFormat) -> Option<PixelFormat> {
    READ.iter().find(|(theirs, _)| *theirs == format).map(|(_, ours)| *ours)
}

/// The smallest frames that are large and frequent enough, not compressed if possible.
fn choose(offered: &[CameraFormat], options: &Options) -> Option<CameraFormat> {
    let wanted_size = options.resolution.map(|(width, height)| Resolution::new(width, height));
    let wanted_rate = options.rate.map(|rate| rate.round() as u32);
    offered
        .iter()
        .filter_map(|offer| Some((offer, readable(offer.format())?)))
        .filter(|(_, format)| options.format.is_none_or(|wanted| wanted == *format))
        .filter(|(offer, _)| wanted_size.is_none_or(|wanted| wanted == offer.resolution()))
        .filter(|(offer, _)| wanted_rate.is_none_or(|wanted| wanted == offer.frame_rate()))
        .min_by_key(|(offer, format)| {
            let (width, height) = (offer.width(), offer.height());
            let small = width < WANTED_SIDE || height < WANTED_SIDE;
            let area = i64::from(width) * i64::from(height);
            let place = READ.iter().position(|(_, ours)| ours == format);
            let slow = offer.frame_rate() < LEAST_RATE;
            let compressed = *format == PixelFormat::Mjpg;
            (small, slow, compressed, if small { -area } else { area }, place, u32::MAX - offer.frame_rate())
        })
        .map(|(offer, _)| *offer)
}

impl Source for Nokhwa {
    fn kind(&self) -> Kind {
        Kind::Live
    }

    fn identity(&self) -> String {
        format!("nokhwa:{}", self.number)
    }

    fn describe(&self) -> String {
        let format = self.camera.camera_format();
        format!(
            "nokhwa:{}: {}, {} {}x{} at {:.1} frames a second",
            self.number,
            self.name,
            readable(format.format()).map_or("?", PixelFormat::code),
            format.width(),
            format.height(),
            self.rate
        )
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Next> {
        let buffer = self
            .camera
            .frame()
            .map_err(|error| Error::Device(format!("nokhwa:{}: the camera failed: {error}", self.number)))?;
        let size = buffer.resolution();
        let (width, height) = (size.width() as usize, size.height() as usize);
        let decoded = readable(buffer.source_frame_format()).map(|format| {
            Layout { format, width, height, stride: 0 }.decode(buffer.buffer(), &mut frame.rgb)
        });
        if !matches!(decoded, Some(Ok(()))) {
            self.counters.corrupt += 1;
            return Ok(Next::Nothing);
        }
        (frame.width, frame.height, frame.sequence) = (width, height, self.counters.frames);
        frame.monotonic_ns = super::now();
        (frame.recorded_ns, frame.truth, frame.mask) = (None, None, None);
        self.counters.frames += 1;
        Ok(Next::Frame)
    }

    fn seek(&mut self, _sequence: u64) -> Result<()> {
        Err(Error::input(format!("nokhwa:{} is live and cannot be wound back", self.number)))
    }

    fn rate(&self) -> Option<f64> {
        (self.rate > 0.0).then_some(self.rate)
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl std::fmt::Debug for Nokhwa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Nokhwa")
            .field("number", &self.number)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_chosen_as_for_other_cameras() {
        let offer =
            |format, width, height, rate| CameraFormat::new(Resolution::new(width, height), format, rate);
        let offered = [
            offer(FrameFormat::MJPEG, 320, 240, 60),
            offer(FrameFormat::YUYV, 1920, 1080, 30),
            offer(FrameFormat::YUYV, 320, 240, 30),
            offer(FrameFormat::YUYV, 160, 120, 30),
            offer(FrameFormat::RAWBGR, 256, 256, 30),
        ];
        assert_eq!(choose(&offered, &Options::default()), Some(offered[2]));
        let large = Options { resolution: Some((1920, 1080)), ..Options::default() };
        assert_eq!(choose(&offered, &large), Some(offered[1]));
        let jpeg = Options { format: Some(PixelFormat::Mjpg), ..Options::default() };
        assert_eq!(choose(&offered, &jpeg), Some(offered[0]));
        assert_eq!(choose(&offered, &Options { rate: Some(7.0), ..Options::default() }), None);
    }
}

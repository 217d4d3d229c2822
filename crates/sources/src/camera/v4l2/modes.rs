//! What a camera offers, and which of it is taken when the user does not say.

use serde::Serialize;

use super::kernel::{Node, Sizes};
use crate::camera::Options;
use crate::frame::PixelFormat;
use crate::{Error, Result};

/// The encoder sees 224 × 224 pixels: a larger frame costs time and is thrown away, a smaller one loses detail.
const WANTED_SIDE: u32 = 224;

/// Slower cameras are taken only if there is nothing else: a moment later must be a frame later.
const LEAST_RATE: f64 = 5.0;

/// More entries than this in any list of a driver are a fault of the driver.
const LONGEST_LIST: u32 = 128;

/// A format with the sizes that it comes in.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfferedFormat {
    /// The four characters of its V4L2 code.
    pub format: String,
    /// Whether this program reads it.
    pub readable: bool,
    /// Sizes with their rates.
    pub sizes: Vec<OfferedSize>,
}

/// A size, or a range of sizes, of a format.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfferedSize {
    /// Pixels in a row, at least.
    pub width: u32,
    /// Rows, at least.
    pub height: u32,
    /// Width, height at most and the steps between, if the driver gives a range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub up_to: Option<[u32; 4]>,
    /// Frames a second, the fastest first; empty if the driver does not tell.
    pub rates: Vec<f64>,
}

/// What was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) format: PixelFormat,
    pub(super) size: (u32, u32),
    /// Frames a second to ask for.
    pub(super) rate: Option<f64>,
}

/// Asks a driver for all that it offers.
pub(super) fn offered(node: &Node) -> Vec<OfferedFormat> {
    (0..LONGEST_LIST)
        .map_while(|index| node.format_at(index))
        .map(|code| OfferedFormat {
            format: String::from_utf8_lossy(&code).trim().to_owned(),
            readable: readable(&code).is_some(),
            sizes: (0..LONGEST_LIST)
                .map_while(|index| node.sizes_at(code, index))
                .map(|sizes| offered_size(node, code, sizes))
                .collect(),
        })
        .collect()
}

fn offered_size(node: &Node, code: [u8; 4], sizes: Sizes) -> OfferedSize {
    let Sizes { smallest, largest, step } = sizes;
    let mut rates: Vec<f64> = (0..LONGEST_LIST)
        .map_while(|index| node.interval_at(code, largest, index))
        .map(|(numerator, denominator)| f64::from(denominator) / f64::from(numerator))
        .filter(|rate| rate.is_finite() && *rate > 0.0)
        .collect();
    rates.sort_by(|a, b| b.total_cmp(a));
    let up_to = (smallest != largest).then_some([largest.0, largest.1, step.0, step.1]);
    OfferedSize { width: smallest.0, height: smallest.1, up_to, rates }
}

/// The format of a code, if this program reads it.
pub(super) fn readable(code: &[u8]) -> Option<PixelFormat> {
    PixelFormat::ALL.into_iter().find(|format| format.code().as_bytes() == code)
}

/// The smallest frames that are large and frequent enough, not compressed if possible; what the user asks for comes first.
///
/// # Errors
///
/// Nothing offered is readable, or nothing is what the user asks for; the message lists what is there.
pub(super) fn choose(name: &str, offered: &[OfferedFormat], options: &Options) -> Result<Choice> {
    let least_rate = options.rate.unwrap_or(LEAST_RATE);
    let best = offered
        .iter()
        .filter_map(|offer| Some((readable(offer.format.as_bytes())?, offer)))
        .filter(|(format, _)| options.format.is_none_or(|wanted| wanted == *format))
        .flat_map(|(format, offer)| offer.sizes.iter().map(move |size| (format, size)))
        .filter_map(|(format, sizes)| {
            let size = sizes.fitting(options.resolution)?;
            let fastest = sizes.rates.first().copied();
            let small = size.0 < WANTED_SIDE || size.1 < WANTED_SIDE;
            // Rates are compared with a little slack: 30000/1001 is 30 to everybody.
            let slow = fastest.is_some_and(|rate| rate < least_rate * 0.99);
            let area = i64::from(size.0) * i64::from(size.1);
            let place = PixelFormat::ALL.iter().position(|other| *other == format);
            let rank = (small, slow, format == PixelFormat::Mjpg, if small { -area } else { area }, place);
            let rate = options.rate.and_then(|wanted| sizes.nearest_rate(wanted));
            Some((rank, Choice { format, size, rate }))
        })
        .min_by_key(|(rank, _)| *rank);
    best.map(|(_, choice)| choice).ok_or_else(|| {
        let there: Vec<String> = offered.iter().map(OfferedFormat::describe).collect();
        let there = if there.is_empty() { "nothing".to_owned() } else { there.join("; ") };
        let wanted = match (options.format, options.resolution) {
            (None, None) => "a readable format".to_owned(),
            (format, resolution) => {
                let format = format.map(|format| format.to_string());
                let size = resolution.map(|(width, height)| format!("{width}x{height}"));
                format.into_iter().chain(size).collect::<Vec<_>>().join(" ")
            }
        };
        Error::input(format!("{name} does not offer {wanted}; it offers {there}"))
    })
}

impl OfferedFormat {
    /// One line for people.
    pub fn describe(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(OfferedSize::describe).collect();
        format!("{} {}", self.format, sizes.join(", "))
    }
}

impl OfferedSize {
    fn describe(&self) -> String {
        let rate =
            self.rates.first().map_or_else(String::new, |rate| format!("@{}", (rate * 10.0).round() / 10.0));
        match self.up_to {
            None => format!("{}x{}{rate}", self.width, self.height),
            Some([width, height, ..]) => format!("{}x{}-{width}x{height}{rate}", self.width, self.height),
        }
    }

    /// The wanted size if it is one of these, else (nothing wanted) the smallest that is large enough.
    fn fitting(&self, wanted: Option<(u32, u32)>) -> Option<(u32, u32)> {
        let [largest_width, largest_height, step_width, step_height] =
            self.up_to.unwrap_or([self.width, self.height, 1, 1]);
        let fit = |least: u32, most: u32, step: u32, aim: u32| {
            let steps = aim.saturating_sub(least).div_ceil(step.max(1));
            least.saturating_add(steps.saturating_mul(step.max(1))).min(most)
        };
        let aim = wanted.unwrap_or((WANTED_SIDE, WANTED_SIDE));
        let size = (
            fit(self.width, largest_width, step_width, aim.0),
            fit(self.height, largest_height, step_height, aim.1),
        );
        (wanted.is_none() || wanted == Some(size)).then_some(size)
    }

    fn nearest_rate(&self, wanted: f64) -> Option<f64> {
        self.rates
            .iter()
            .copied()
            .min_by(|a, b| (a - wanted).abs().total_cmp(&(b - wanted).abs()))
            .or(Some(wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(list: &[(u32, u32, f64)]) -> Vec<OfferedSize> {
        list.iter()
            .map(|&(width, height, rate)| OfferedSize { width, height, up_to: None, rates: vec![rate] })
            .collect()
    }

    fn offer(format: &str, sizes: Vec<OfferedSize>) -> OfferedFormat {
        OfferedFormat { format: format.to_owned(), readable: readable(format.as_bytes()).is_some(), sizes }
    }

    fn chosen(offered: &[OfferedFormat], options: &Options) -> (PixelFormat, (u32, u32)) {
        let choice = choose("/dev/video0", offered, options).unwrap();
        (choice.format, choice.size)
    }

    fn webcam() -> Vec<OfferedFormat> {
        vec![
            offer("MJPG", sizes(&[(1920, 1080, 30.0), (640, 480, 30.0), (320, 240, 30.0)])),
            offer("YUYV", sizes(&[(1920, 1080, 2.0), (160, 120, 30.0), (640, 480, 30.0), (320, 240, 30.0)])),
            offer("H264", sizes(&[(224, 224, 30.0)])),
        ]
    }

    #[test]
    fn the_smallest_large_enough_uncompressed_mode_is_taken() {
        let usual = Options::default();
        assert_eq!(chosen(&webcam(), &usual), (PixelFormat::Yuyv, (320, 240)));
        let slow = [offer("YUYV", sizes(&[(1280, 720, 3.0)])), offer("MJPG", sizes(&[(1280, 720, 30.0)]))];
        assert_eq!(chosen(&slow, &usual).0, PixelFormat::Mjpg);
        let small = [offer("GREY", sizes(&[(80, 60, 9.0), (160, 120, 9.0)]))];
        assert_eq!(
            chosen(&small, &usual),
            (PixelFormat::Grey, (160, 120)),
            "the largest of what is too small"
        );
    }

    #[test]
    fn what_is_asked_for_is_taken_or_refused_with_what_there_is() {
        let ask = |format, resolution| Options { format, resolution, ..Options::default() };
        assert_eq!(chosen(&webcam(), &ask(Some(PixelFormat::Mjpg), None)).1, (320, 240));
        assert_eq!(
            chosen(&webcam(), &ask(None, Some((1920, 1080)))),
            (PixelFormat::Mjpg, (1920, 1080)),
            "YUYV is too slow at this size"
        );
        let refused = choose("/dev/video0", &webcam(), &ask(Some(PixelFormat::Nv12), Some((640, 480))));
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("NV12 640x480") && text.contains("YUYV 1920x1080@2"), "{text}");
        let nothing =
            choose("x", &[offer("H264", sizes(&[(640, 480, 30.0)]))], &Options::default()).unwrap_err();
        assert!(nothing.to_string().contains("a readable format"), "{nothing}");
    }

    #[test]
    fn ranges_of_sizes_are_rounded_up_to_a_step() {
        let range = OfferedSize { width: 48, height: 32, up_to: Some([1920, 1080, 16, 2]), rates: vec![] };
        let offered = [offer("YUYV", vec![range])];
        assert_eq!(chosen(&offered, &Options::default()).1, (224, 224));
        let wanted = Options { resolution: Some((640, 480)), ..Options::default() };
        assert_eq!(chosen(&offered, &wanted).1, (640, 480));
        let off = Options { resolution: Some((641, 480)), ..Options::default() };
        assert!(choose("x", &offered, &off).is_err());
    }
}

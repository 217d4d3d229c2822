//! What can be asked of a recording: its flags, grouped as the help shows them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::Timestamp;

use super::super::choice::choice;
use crate::cli::bytes::parse_bytes;
use crate::cli::duration::parse_duration;
use crate::cli::named_model::model_file;
use crate::cli::threads::parse_threads;
use oupn_edge::camera;
use oupn_edge::config::Preset;
use oupn_edge::encoder::device::DeviceChoice;
use oupn_edge::frame::PixelFormat;
use oupn_edge::objective::Method;

/// Where a recording goes if nothing else is said.
pub(in crate::cli) const DEFAULT_DATA: &str = "oupn-edge-data";

// The headings of the help.
const SOURCE: &str = "Where frames come from";
const RECORDING: &str = "The recording";
const END: &str = "When it ends";
const LEARNING: &str = "Learning";
const PRIVACY: &str = "What is kept of pictures";
const MACHINE: &str = "The machine";
const WATCHING: &str = "Watching it";

#[derive(Debug, Args)]
pub(in crate::cli) struct RunArgs {
    /// Where frames come from: /dev/videoN, a video such as film.mp4, a folder or zip of images, `pipe:COMMAND`, `-`,
    /// `nokhwa:N`, or `rooms`, the built-in world
    #[arg(long, value_name = "SOURCE", help_heading = SOURCE)]
    pub(super) camera: Option<String>,
    /// Pixel format to ask the camera for, instead of the best one
    #[arg(long, value_name = "FORMAT", help_heading = SOURCE)]
    pub(super) format: Option<PixelFormat>,
    /// Size to ask the camera for, or of a raw pipe's frames, such as 640x480
    #[arg(long, value_name = "WxH", value_parser = parse_resolution, help_heading = SOURCE)]
    pub(super) resolution: Option<(u32, u32)>,
    /// Frames per second to ask the camera for, or at which images without times were taken
    #[arg(long, value_parser = parse_rate, help_heading = SOURCE)]
    pub(super) rate: Option<f64>,
    /// When the first frame of a recorded source was taken, such as 2026-03-05T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_start_time, help_heading = SOURCE)]
    pub(super) start_time: Option<Timestamp>,
    /// Off: recorded and built-in sources run as fast as they can, and learning is waited for [default: off for videos,
    /// folders and archives, else on]
    #[arg(long, value_enum, help_heading = SOURCE)]
    pub(super) realtime: Option<Switch>,

    /// Folder of the recording; one that was used before goes on
    #[arg(long, value_name = "DIR", default_value = DEFAULT_DATA, help_heading = RECORDING)]
    pub(super) data: PathBuf,
    /// Let another camera, file or name than the recording's own go on in its folder and its memory
    #[arg(long, help_heading = RECORDING)]
    pub(super) continue_with: bool,
    /// Who or what is recorded, such as a participant's code; reports and exports show it [default: the host's name]
    #[arg(long, visible_alias = "participant", value_name = "NAME", help_heading = RECORDING)]
    pub(super) name: Option<String>,
    /// Time between two samples, such as 4s [default: 4s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, help_heading = RECORDING)]
    pub(super) period: Option<Duration>,
    /// Time between two checkpoints
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "5m", help_heading = RECORDING)]
    pub(super) checkpoint_every: Duration,
    /// Disk that is held back for the trace; 0 for none
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = parse_reserve, help_heading = RECORDING)]
    pub(super) reserve: usize,

    /// Stop after so many minutes of the source's time
    #[arg(long, help_heading = END)]
    pub(super) minutes: Option<f64>,
    /// Stop after so many sampled frames
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), help_heading = END)]
    pub(super) frames: Option<u64>,

    /// Weights to start from: a file, the name of a model that `oupn-edge model fetch` has downloaded, `built-in` or `random`
    /// [default: built-in, unless --preset or --config asks for another network]
    #[arg(long, alias = "weights", value_name = "FILE|NAME", value_parser = model_file(), help_heading = LEARNING)]
    pub(super) model: Option<PathBuf>,
    /// The paper's settings for one of its datasets
    #[arg(long, value_parser = parse_preset, help_heading = LEARNING)]
    pub(super) preset: Option<Preset>,
    /// Settings file; `oupn-edge config show` prints one
    #[arg(long, value_name = "FILE", help_heading = LEARNING)]
    pub(super) config: Option<PathBuf>,
    /// Frames in a learning window
    #[arg(long, value_name = "FRAMES", value_parser = parse_frames, help_heading = LEARNING)]
    pub(super) window: Option<usize>,
    /// Frames between two updates
    #[arg(long, value_name = "FRAMES", value_parser = parse_frames, help_heading = LEARNING)]
    pub(super) stride: Option<usize>,
    /// The encoder's learning rate; 0 keeps it as it is
    #[arg(long, value_name = "RATE", help_heading = LEARNING)]
    pub(super) lr: Option<f64>,
    /// What is computed where paper and released code differ: reference or paper
    #[arg(long, help_heading = LEARNING)]
    pub(super) variant: Option<String>,
    /// What the second view of a frame is: `temporal` (the default with --model) is the camera's picture a moment later,
    /// `augmented` a second augmentation of the same picture
    #[arg(long, value_enum, help_heading = LEARNING)]
    pub(super) views: Option<ViewChoice>,
    /// What is asked of the two views of a frame [default: oupn]. The others have no memory to learn with; categories are found
    /// with the measured threshold
    #[arg(long, value_parser = choice::<Method>(), help_heading = LEARNING)]
    pub(super) objective: Option<Method>,
    /// Whether the threshold for a new category is measured on the frames [default: on]; off lets the learner's β decide, which
    /// starts at the paper's −12
    #[arg(long, value_enum, help_heading = LEARNING)]
    pub(super) calibrate: Option<Switch>,
    /// Start of every random sequence
    #[arg(long, help_heading = LEARNING)]
    pub(super) seed: Option<u64>,

    /// Keep a small picture of every new category on the disk; otherwise no pixel is written
    #[arg(long, help_heading = PRIVACY)]
    pub(super) keep_thumbnails: bool,
    /// Keep the window's pictures in checkpoints, so that learning with a camera goes on at once after a restart
    #[arg(long, help_heading = PRIVACY)]
    pub(super) keep_window: bool,

    /// Serve the live page here: a port of this machine such as 8077, or an address such as 0.0.0.0:8077. Any address
    /// but this machine's own needs a token
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen, help_heading = WATCHING)]
    pub(super) listen: Option<SocketAddr>,
    /// File that keeps the page's token over restarts; created if it does not exist [default: a new token at each start]
    #[arg(long, value_name = "FILE", requires = "listen", help_heading = WATCHING)]
    pub(super) token_file: Option<PathBuf>,
    /// Another name under which browsers find the page, such as cam07.lab.example.org; can be given several times
    #[arg(long = "host-name", value_name = "NAME", requires = "listen", help_heading = WATCHING)]
    pub(super) host_names: Vec<String>,
    /// Print the summary as one line of JSON
    #[arg(long, help_heading = WATCHING)]
    pub(super) json: bool,

    /// Where the encoder trains
    #[arg(long, value_parser = choice::<DeviceChoice>(), default_value = "auto", help_heading = MACHINE)]
    pub(super) device: DeviceChoice,
    /// Threads; 0 takes as many as the machine has
    #[arg(long, default_value_t = 0, value_parser = parse_threads, help_heading = MACHINE)]
    pub(super) threads: usize,
    /// What the encoder may hold at once while it learns, beside weights and images
    #[arg(long, value_name = "BYTES", default_value = "1400M", value_parser = parse_bytes, help_heading = MACHINE)]
    pub(super) memory_budget: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ViewChoice {
    Temporal,
    Augmented,
}

fn parse_preset(text: &str) -> std::result::Result<Preset, String> {
    let names = Preset::ALL.map(|preset| preset.to_string()).join(", ");
    Preset::named(text).ok_or_else(|| format!("expected one of {names}"))
}

fn parse_frames(text: &str) -> std::result::Result<usize, String> {
    let frames = text.parse().ok().filter(|frames| *frames > 0);
    frames.ok_or_else(|| "expected a number of frames, 1 or more".to_owned())
}

/// An address to listen on; a port alone, or one of `localhost`, is this machine's own.
fn parse_listen(text: &str) -> std::result::Result<SocketAddr, String> {
    let own = |port: &str| port.parse().ok().map(|port: u16| SocketAddr::from(([127, 0, 0, 1], port)));
    let address = own(text.strip_prefix("localhost:").unwrap_or(text)).or_else(|| text.parse().ok());
    address.ok_or_else(|| {
        "expected a port such as 8077, localhost:8077, or an address with its port such as 0.0.0.0:8077"
            .to_owned()
    })
}

fn parse_reserve(text: &str) -> std::result::Result<usize, String> {
    if text == "0" { Ok(0) } else { parse_bytes(text) }
}

fn parse_rate(text: &str) -> std::result::Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| camera::Options::RATES.contains(rate));
    rate.ok_or_else(|| "expected frames per second, from 0.001 to 10000".to_owned())
}

fn parse_start_time(text: &str) -> std::result::Result<Timestamp, String> {
    text.parse()
        .map_err(|_| "expected date, time and zone such as 2026-03-05T10:00:00Z or …+01:00".to_owned())
}

fn parse_resolution(text: &str) -> std::result::Result<(u32, u32), String> {
    let sides = text
        .split_once(['x', '×'])
        .and_then(|(width, height)| Some((width.parse::<u32>().ok()?, height.parse::<u32>().ok()?)));
    sides
        .filter(|sides| (16..=16_384).contains(&sides.0) && (16..=16_384).contains(&sides.1))
        .ok_or_else(|| "expected width and height such as 640x480, each from 16 to 16384".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_are_read_or_refused() {
        assert_eq!(parse_resolution("640x480"), Ok((640, 480)));
        for nonsense in ["", "640", "0x480", "640x99999", "ax b"] {
            assert!(parse_resolution(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn a_port_alone_is_this_machines_own() {
        for own in ["8077", "localhost:8077", "127.0.0.1:8077"] {
            assert_eq!(parse_listen(own), Ok(SocketAddr::from(([127, 0, 0, 1], 8077))), "{own}");
        }
        assert_eq!(parse_listen("[::1]:80").map(|address| address.is_ipv6()), Ok(true));
        for nonsense in ["", "localhost", "80770", "0.0.0.0", "cam07:8077", ":8077"] {
            assert!(parse_listen(nonsense).unwrap_err().contains("8077"), "{nonsense}");
        }
    }
}

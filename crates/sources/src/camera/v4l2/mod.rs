//! Cameras of Linux: a V4L2 device with its own queue of mapped buffers.
//!
//! The queue holds to four rules: wait with a timeout; give back only a buffer that was taken; believe `bytesused`, not
//! the buffer's size; take time and number of a frame from the kernel. Numbers left out are frames that the driver
//! dropped ([`Counters::gaps`]); frames that it marks as damaged, that are empty or that do not decode are counted and
//! skipped ([`Counters::corrupt`]).

mod devices;
mod kernel;
mod modes;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

pub use self::devices::{Device, list};
pub(super) use self::devices::{is_camera_node, stable_path};
use self::kernel::{Mapping, Node};
pub use self::modes::{OfferedFormat, OfferedSize};
use super::{Counters, Frame, Kind, Next, Options, Source};
use crate::frame::{Layout, PixelFormat};
use crate::{Error, Result};

/// Buffers asked for. Four let the camera go on while a frame is copied; the newest frame is what counts, not all of them.
const BUFFERS: u32 = 4;

/// How long a frame is waited for.
const TIMEOUT: Duration = Duration::from_secs(1);

/// So many reading errors in a row and the camera counts as lost.
const MOST_FAILURES: u32 = 20;

/// An open, running camera.
pub(super) struct V4l2 {
    path: PathBuf,
    stable: PathBuf,
    card: String,
    node: Node,
    buffers: Vec<Mapping>,
    layout: Layout,
    rate: Option<f64>,
    bytes: Vec<u8>,
    last_sequence: Option<u32>,
    failures: u32,
    counters: Counters,
}

impl V4l2 {
    /// Opens a device and starts it.
    pub(super) fn open(path: &Path, options: &Options) -> Result<Self> {
        let failed = |error: io::Error| refusal(path, &error);
        let node = Node::open(path).map_err(failed)?;
        let about =
            node.about().map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::NOTTY | Errno::INVAL) => not_a_camera(path),
                _ => refusal(path, &error),
            })?;
        if !about.captures || !about.streams {
            return Err(if about.planes {
                Error::input(format!(
                    "{} ({}) delivers frames in several planes, which is read through its own program; see \
                     docs/CAMERAS.md for a pipe",
                    path.display(),
                    about.card
                ))
            } else {
                not_a_camera(path)
            });
        }
        let choice = modes::choose(&path.display().to_string(), &modes::offered(&node), options)?;
        let mut code = [b' '; 4];
        code.copy_from_slice(choice.format.code().as_bytes());
        let agreed = node.set_format(code, choice.size).map_err(failed)?;
        let format = modes::readable(&agreed.code).filter(|format| {
            let as_asked = options.format.is_none_or(|wanted| wanted == *format);
            as_asked && options.resolution.is_none_or(|size| size == (agreed.width, agreed.height))
        });
        let Some(format) = format else {
            return Err(Error::input(format!(
                "{}: the driver gives {} {}x{} instead of what was asked for; choose another --format or --resolution",
                path.display(),
                String::from_utf8_lossy(&agreed.code),
                agreed.width,
                agreed.height
            )));
        };
        let interval = choice.rate.map(|rate| (1000, (rate * 1000.0) as u32)).filter(|(_, below)| *below > 0);
        let rate = node
            .set_interval(interval)
            .map(|(numerator, denominator)| f64::from(denominator) / f64::from(numerator))
            .filter(|rate| rate.is_finite() && *rate > 0.0);
        let layout = Layout {
            format,
            width: agreed.width as usize,
            height: agreed.height as usize,
            stride: if format == PixelFormat::Mjpg { 0 } else { agreed.stride as usize },
        };
        let mut camera = Self {
            path: path.to_path_buf(),
            stable: stable_path(path),
            card: about.card,
            node,
            buffers: Vec::new(),
            layout,
            rate,
            bytes: Vec::new(),
            last_sequence: None,
            failures: 0,
            counters: Counters::default(),
        };
        camera.start().map_err(failed)?;
        Ok(camera)
    }

    fn start(&mut self) -> io::Result<()> {
        let count = self.node.request_buffers(BUFFERS)?;
        for index in 0..count {
            self.buffers.push(self.node.map(index)?);
        }
        for index in 0..self.buffers.len() {
            self.node.queue(index)?;
        }
        self.node.stream(true)
    }

    /// Waits for a frame, and copies it out; `None` if none came, or a damaged one.
    fn take(&mut self) -> io::Result<Option<(u64, Option<u64>)>> {
        let mut waiting = [PollFd::from_borrowed_fd(self.node.fd(), PollFlags::IN)];
        let timeout = Timespec { tv_sec: TIMEOUT.as_secs() as i64, tv_nsec: 0 };
        match poll(&mut waiting, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let filled = match self.node.dequeue() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            filled => filled?,
        };
        if let Some(last) = self.last_sequence {
            // A smaller number means that the driver began to count again, not that four thousand million were dropped.
            let missing = filled.sequence.wrapping_sub(last).wrapping_sub(1);
            self.counters.gaps += u64::from(if missing < u32::MAX / 2 { missing } else { 0 });
        }
        self.last_sequence = Some(filled.sequence);
        self.bytes.clear();
        if let Some(buffer) = self.buffers.get(filled.index) {
            if !filled.damaged {
                buffer.copy(filled.used, &mut self.bytes);
            }
            self.node.queue(filled.index)?;
        }
        Ok(Some((u64::from(filled.sequence), filled.monotonic_ns)))
    }
}

impl Source for V4l2 {
    fn kind(&self) -> Kind {
        Kind::Live
    }

    fn identity(&self) -> String {
        self.stable.display().to_string()
    }

    fn describe(&self) -> String {
        let Layout { format, width, height, .. } = self.layout;
        let rate = self.rate.map_or_else(String::new, |rate| format!(" at {rate:.1} frames a second"));
        format!("{}: {}, {format} {width}x{height}{rate}", self.path.display(), self.card)
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Next> {
        let (sequence, time) = match self.take() {
            Ok(None) => return Ok(Next::Nothing),
            Ok(Some(taken)) => taken,
            Err(error) => {
                // The kernel reports a passing fault of the signal as an error of reading.
                let passing = error.raw_os_error() == Some(Errno::IO.raw_os_error());
                self.failures += 1;
                if !passing || self.failures > MOST_FAILURES {
                    return Err(refusal(&self.path, &error));
                }
                self.counters.corrupt += 1;
                std::thread::sleep(Duration::from_millis(20));
                return Ok(Next::Nothing);
            }
        };
        self.failures = 0;
        if let Err(error) = self.layout.decode(&self.bytes, &mut frame.rgb) {
            log::debug!("{}: frame {sequence}: {error}", self.path.display());
            self.counters.corrupt += 1;
            return Ok(Next::Nothing);
        }
        (frame.width, frame.height, frame.sequence) = (self.layout.width, self.layout.height, sequence);
        frame.monotonic_ns = time.unwrap_or_else(super::now);
        (frame.recorded_ns, frame.truth, frame.mask) = (None, None, None);
        self.counters.frames += 1;
        Ok(Next::Frame)
    }

    fn seek(&mut self, _sequence: u64) -> Result<()> {
        Err(Error::input(format!("{} is live and cannot be wound back", self.path.display())))
    }

    fn rate(&self) -> Option<f64> {
        self.rate
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl Drop for V4l2 {
    fn drop(&mut self) {
        // A camera that was unplugged refuses all of this, and is closed all the same.
        let _ = self.node.stream(false);
        self.buffers.clear();
        let _ = self.node.request_buffers(0);
    }
}

impl std::fmt::Debug for V4l2 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("V4l2").field("path", &self.path).field("layout", &self.layout).finish_non_exhaustive()
    }
}

/// What the system's refusal means for somebody with a camera in the hand.
fn refusal(path: &Path, error: &io::Error) -> Error {
    let path = path.display();
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT) => missing(&path.to_string()),
        Some(Errno::ACCESS | Errno::PERM) => Error::input(format!(
            "no permission to use {path}; add the user to group `video` (sudo usermod -aG video $USER) and log in again"
        )),
        Some(Errno::BUSY) => Error::Device(format!(
            "{path} is in use by another program; end it (`fuser -v {path}` names it) and try again"
        )),
        Some(Errno::NODEV | Errno::NXIO) => {
            Error::Device(format!("the camera behind {path} is gone; check its cable"))
        }
        _ => Error::Device(format!("{path}: the camera failed: {error}")),
    }
}

/// The answer to a device name behind which there is nothing.
pub(super) fn missing(path: &str) -> Error {
    Error::input(format!(
        "{path} is not there; plug the camera in, and see `oupn-edge cameras` for those that are"
    ))
}

/// The answer to a device that is something else.
pub(super) fn not_a_camera(path: &Path) -> Error {
    Error::input(format!("{} is not a camera; `oupn-edge cameras` lists those that are", path.display()))
}

//! The seam with the kernel: V4L2's calls, and the memory that it shares with us. All `unsafe` of the cameras is here.
//!
//! The device is opened and closed by the `v4l` crate, and the structures and call numbers are its bindings. Its own calls are not
//! used: they panic on names that are not UTF-8 and on colour spaces that they do not know, and both come from real
//! cameras.

#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use v4l::v4l_sys as sys;
use v4l::v4l2::{self, vidioc};

/// The kind of buffers that a camera fills.
const CAPTURE: u32 = sys::v4l2_buf_type_V4L2_BUF_TYPE_VIDEO_CAPTURE;
const MAPPED: u32 = sys::v4l2_memory_V4L2_MEMORY_MMAP;

/// Structures of V4L2 that are plain numbers: all bytes zero is a value, and so is whatever the kernel writes.
///
/// # Safety
///
/// Only for types of which this holds. A union that has a pointer among its members qualifies as long as nobody follows it.
unsafe trait Plain {}

// SAFETY: integers, arrays of integers and unions of these; of v4l2_buffer and v4l2_format, pointers that are never followed.
unsafe impl Plain for sys::v4l2_capability {}
// SAFETY: as above.
unsafe impl Plain for sys::v4l2_fmtdesc {}
// SAFETY: as above.
unsafe impl Plain for sys::v4l2_frmsizeenum {}
// SAFETY: as above.
unsafe impl Plain for sys::v4l2_frmivalenum {}
// SAFETY: as above.
unsafe impl Plain for sys::v4l2_format {}
// SAFETY: as above.
unsafe impl Plain for sys::v4l2_streamparm {}
// SAFETY: as above.
unsafe impl Plain for sys::v4l2_requestbuffers {}
// SAFETY: as above.
unsafe impl Plain for sys::v4l2_buffer {}

fn zeroed<T: Plain>() -> T {
    // SAFETY: all bytes zero is a value of every plain type.
    unsafe { mem::zeroed() }
}

/// An open device node.
pub(super) struct Node(v4l::Device);

/// What a device says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct About {
    pub(super) card: String,
    pub(super) bus: String,
    pub(super) captures: bool,
    pub(super) streams: bool,
    /// It captures, but into several planes a frame, as memory-to-memory devices and some boards' pipelines do.
    pub(super) planes: bool,
}

/// Sizes as a driver lists them: single ones (smallest and largest are the same), or a range of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) smallest: (u32, u32),
    pub(super) largest: (u32, u32),
    pub(super) step: (u32, u32),
}

/// The format that a driver agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) code: [u8; 4],
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) stride: u32,
}

/// A buffer that the kernel has filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filled {
    pub(super) index: usize,
    pub(super) used: usize,
    pub(super) sequence: u32,
    pub(super) damaged: bool,
    /// By the monotonic clock, if the driver says that it is that.
    pub(super) monotonic_ns: Option<u64>,
}

impl Node {
    pub(super) fn open(path: &std::path::Path) -> io::Result<Self> {
        v4l::Device::with_path(path).map(Self)
    }

    /// A call that reads and writes `argument`.
    fn call<T: Plain>(&self, request: vidioc::_IOC_TYPE, argument: &mut T) -> io::Result<()> {
        loop {
            // SAFETY: each request below carries the size of the type that it is called with (the two for streaming take an
            // integer and are called elsewhere), so the kernel reads and writes within `argument`, which outlives the call.
            let done =
                unsafe { v4l2::ioctl(self.0.handle().fd(), request, std::ptr::from_mut(argument).cast()) };
            match done {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }

    pub(super) fn about(&self) -> io::Result<About> {
        let mut capability: sys::v4l2_capability = zeroed();
        self.call(vidioc::VIDIOC_QUERYCAP, &mut capability)?;
        // What the node can do, where the driver tells it apart from what the whole device can.
        let can = if capability.capabilities & sys::V4L2_CAP_DEVICE_CAPS != 0 {
            capability.device_caps
        } else {
            capability.capabilities
        };
        Ok(About {
            card: text(&capability.card),
            bus: text(&capability.bus_info),
            captures: can & sys::V4L2_CAP_VIDEO_CAPTURE != 0,
            streams: can & sys::V4L2_CAP_STREAMING != 0,
            planes: can & sys::V4L2_CAP_VIDEO_CAPTURE_MPLANE != 0,
        })
    }

    /// Format number `index` of the driver's list; `None` behind its end.
    pub(super) fn format_at(&self, index: u32) -> Option<[u8; 4]> {
        let mut description: sys::v4l2_fmtdesc = zeroed();
        (description.index, description.type_) = (index, CAPTURE);
        self.call(vidioc::VIDIOC_ENUM_FMT, &mut description).ok()?;
        Some(description.pixelformat.to_le_bytes())
    }

    /// Sizes number `index` of a format; `None` behind the end of the list.
    pub(super) fn sizes_at(&self, code: [u8; 4], index: u32) -> Option<Sizes> {
        let mut sizes: sys::v4l2_frmsizeenum = zeroed();
        (sizes.index, sizes.pixel_format) = (index, u32::from_le_bytes(code));
        self.call(vidioc::VIDIOC_ENUM_FRAMESIZES, &mut sizes).ok()?;
        if sizes.type_ == sys::v4l2_frmsizetypes_V4L2_FRMSIZE_TYPE_DISCRETE {
            // SAFETY: integers whichever member was written; `type_` says that it was this one.
            let size = unsafe { sizes.__bindgen_anon_1.discrete };
            let size = (size.width, size.height);
            return Some(Sizes { smallest: size, largest: size, step: (1, 1) });
        }
        // SAFETY: as above, for the other member.
        let range = unsafe { sizes.__bindgen_anon_1.stepwise };
        Some(Sizes {
            smallest: (range.min_width, range.min_height),
            largest: (range.max_width, range.max_height),
            step: (range.step_width.max(1), range.step_height.max(1)),
        })
    }

    /// Seconds between frames, numerator and denominator, number `index` of a format and size; of a range, the shortest.
    pub(super) fn interval_at(&self, code: [u8; 4], size: (u32, u32), index: u32) -> Option<(u32, u32)> {
        let mut interval: sys::v4l2_frmivalenum = zeroed();
        (interval.index, interval.pixel_format) = (index, u32::from_le_bytes(code));
        (interval.width, interval.height) = size;
        self.call(vidioc::VIDIOC_ENUM_FRAMEINTERVALS, &mut interval).ok()?;
        let discrete = interval.type_ == sys::v4l2_frmivaltypes_V4L2_FRMIVAL_TYPE_DISCRETE;
        // SAFETY: integers whichever member was written; `type_` says which.
        let fraction = unsafe {
            if discrete { interval.__bindgen_anon_1.discrete } else { interval.__bindgen_anon_1.stepwise.min }
        };
        // A range has one entry only: whatever index is asked for, some drivers answer with it again.
        (discrete || index == 0).then_some((fraction.numerator, fraction.denominator))
    }

    /// Asks for a format and size, and returns what the driver makes of it.
    pub(super) fn set_format(&self, code: [u8; 4], size: (u32, u32)) -> io::Result<Agreed> {
        let mut format: sys::v4l2_format = zeroed();
        format.type_ = CAPTURE;
        let mut pixels = sys::v4l2_pix_format { pixelformat: u32::from_le_bytes(code), ..zeroed_pixels() };
        (pixels.width, pixels.height, pixels.field) = (size.0, size.1, sys::v4l2_field_V4L2_FIELD_ANY);
        format.fmt.pix = pixels;
        self.call(vidioc::VIDIOC_S_FMT, &mut format)?;
        // SAFETY: for capture buffers the member is `pix`, and it is integers in any case.
        let pixels = unsafe { format.fmt.pix };
        Ok(Agreed {
            code: pixels.pixelformat.to_le_bytes(),
            width: pixels.width,
            height: pixels.height,
            stride: pixels.bytesperline,
        })
    }

    /// Asks for seconds between frames if any are given; returns what the driver then uses, if it tells.
    pub(super) fn set_interval(&self, wanted: Option<(u32, u32)>) -> Option<(u32, u32)> {
        let mut parameters: sys::v4l2_streamparm = zeroed();
        parameters.type_ = CAPTURE;
        self.call(vidioc::VIDIOC_G_PARM, &mut parameters).ok()?;
        // SAFETY: for capture the member is `capture`, and it is integers in any case.
        let mut capture = unsafe { parameters.parm.capture };
        if let Some((numerator, denominator)) = wanted
            && capture.capability & sys::V4L2_CAP_TIMEPERFRAME != 0
        {
            capture.timeperframe = sys::v4l2_fract { numerator, denominator };
            parameters.parm.capture = capture;
            self.call(vidioc::VIDIOC_S_PARM, &mut parameters).ok()?;
            // SAFETY: as above.
            capture = unsafe { parameters.parm.capture };
        }
        Some((capture.timeperframe.numerator, capture.timeperframe.denominator))
    }

    /// Asks for buffers of the kernel's (0 gives them back); returns how many there are.
    pub(super) fn request_buffers(&self, count: u32) -> io::Result<u32> {
        let mut request: sys::v4l2_requestbuffers = zeroed();
        (request.count, request.type_, request.memory) = (count, CAPTURE, MAPPED);
        self.call(vidioc::VIDIOC_REQBUFS, &mut request)?;
        Ok(request.count)
    }

    /// Maps a buffer into our memory.
    pub(super) fn map(&self, index: u32) -> io::Result<Mapping> {
        let mut buffer = empty_buffer(index);
        self.call(vidioc::VIDIOC_QUERYBUF, &mut buffer)?;
        // SAFETY: for mapped buffers the member is `offset`, and it is an integer in any case.
        let offset = unsafe { buffer.m.offset };
        Mapping::new(self.fd(), buffer.length as usize, u64::from(offset))
    }

    /// Hands a buffer to the kernel to be filled.
    pub(super) fn queue(&self, index: usize) -> io::Result<()> {
        let index = u32::try_from(index).map_err(io::Error::other)?;
        self.call(vidioc::VIDIOC_QBUF, &mut empty_buffer(index))
    }

    /// Takes back a filled buffer; `WouldBlock` if there is none.
    pub(super) fn dequeue(&self) -> io::Result<Filled> {
        let mut buffer = empty_buffer(0);
        self.call(vidioc::VIDIOC_DQBUF, &mut buffer)?;
        let monotonic =
            buffer.flags & sys::V4L2_BUF_FLAG_TIMESTAMP_MASK == sys::V4L2_BUF_FLAG_TIMESTAMP_MONOTONIC;
        let seconds = u64::try_from(buffer.timestamp.tv_sec).unwrap_or(0);
        let microseconds = u64::try_from(buffer.timestamp.tv_usec).unwrap_or(0);
        let time = seconds.saturating_mul(1_000_000_000).saturating_add(microseconds.saturating_mul(1000));
        Ok(Filled {
            index: buffer.index as usize,
            used: buffer.bytesused as usize,
            sequence: buffer.sequence,
            damaged: buffer.flags & sys::V4L2_BUF_FLAG_ERROR != 0,
            monotonic_ns: Some(time).filter(|&time| monotonic && time > 0),
        })
    }

    /// Starts or stops the camera; stopping takes all buffers back.
    pub(super) fn stream(&self, on: bool) -> io::Result<()> {
        let request = if on { vidioc::VIDIOC_STREAMON } else { vidioc::VIDIOC_STREAMOFF };
        let mut kind = CAPTURE as std::os::raw::c_int;
        // SAFETY: these two requests read one integer.
        unsafe { v4l2::ioctl(self.0.handle().fd(), request, std::ptr::from_mut(&mut kind).cast()) }
    }

    /// The open file, for polling.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the device keeps its file open for as long as it lives, and the result lives no longer than `self`.
        unsafe { BorrowedFd::borrow_raw(self.0.handle().fd()) }
    }
}

fn zeroed_pixels() -> sys::v4l2_pix_format {
    // SAFETY: the structure is integers and a union of integers.
    unsafe { mem::zeroed() }
}

fn empty_buffer(index: u32) -> sys::v4l2_buffer {
    let mut buffer: sys::v4l2_buffer = zeroed();
    (buffer.index, buffer.type_, buffer.memory) = (index, CAPTURE, MAPPED);
    buffer
}

/// A driver's text: up to the first zero byte, whatever the bytes.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).trim().to_owned()
}

/// A buffer of the kernel's in our memory, for reading.
pub(super) struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; it is only read, through a reference to its owner.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(file: BorrowedFd<'_>, length: usize, offset: u64) -> io::Result<Self> {
        use rustix::mm::{MapFlags, ProtFlags, mmap};
        // SAFETY: a new mapping at a place of the kernel's choosing disturbs nothing that exists.
        let start =
            unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, offset)? };
        let start =
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("the buffer was mapped to nowhere"))?;
        Ok(Self { start, length })
    }

    /// Copies the first bytes, at most so many, to the end of `to`.
    ///
    /// A copy, not a slice: a broken driver may go on writing into a buffer that it handed over, and no reference may see
    /// that.
    pub(super) fn copy(&self, bytes: usize, to: &mut Vec<u8>) {
        let bytes = bytes.min(self.length);
        to.reserve(bytes);
        // SAFETY: `bytes` lie within the mapping, which lives as long as `self`; `to` has room for them behind its length,
        // its memory is elsewhere, and they are initialised by the copy before the length says so.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.as_ptr(), to.as_mut_ptr().add(to.len()), bytes);
            to.set_len(to.len() + bytes);
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; no reference into it is ever given out. A failure leaves it mapped.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

//! Frames from a program: `pipe:COMMAND`, or `-` for whatever writes to standard input.
//!
//! The stream is Y4M, known by its first bytes, or raw red-green-blue pixels of the size given by `--resolution`. It is
//! the way in for CSI cameras (GStreamer) and network cameras (ffmpeg). A command runs in a process group of its own, which
//! is ended with the source; what it says on standard error goes to the log, and its last line into the message if it
//! fails. Reading never waits longer than a moment: a program that falls silent is noticed, and can be ended.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};

use super::{Counters, Frame, Kind, Next, Options, Source, y4m};
use crate::frame::LARGEST_SIDE;
use crate::{Error, Result};

#[cfg(test)]
mod tests;

/// The longest that one attempt to read waits.
const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// How long the first bytes may take: a camera's program has a sensor to start.
const BEGINNING: Duration = Duration::from_secs(20);

/// How often an ending program is looked at, 20 ms apart.
const TIMEOUT: usize = 100;

/// A program's output, frame by frame.
pub(super) struct Pipe {
    name: String,
    reader: BufReader<Box<dyn Read + Send>>,
    program: Option<Program>,
    pixels: Pixels,
    rate: Option<f64>,
    live: bool,
    next: u64,
    counters: Counters,
    /// The line before a Y4M frame, as far as it has come.
    line: Vec<u8>,
    /// The frame's bytes, and how many of them have come; none before it has begun.
    bytes: Vec<u8>,
    filled: Option<usize>,
}

/// How the frames are written.
#[derive(Clone, Copy, Debug)]
enum Pixels {
    Rgb {
        width: usize,
        height: usize,
    },
    Y4m(y4m::Header),
    /// Y4M whose header has not come yet.
    Awaited,
}

/// What reading one frame's bytes came to.
enum Bytes {
    Whole,
    /// The rest has not come yet.
    NotYet,
    /// The stream ended before this frame began.
    End,
    /// The stream ended within this frame.
    Torn,
}

impl Pipe {
    /// Starts a command of the shell.
    pub(super) fn command(command: &str, options: &Options) -> Result<Self> {
        let name = format!("pipe:{command}");
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", command]);
        let (program, output) = Program::start(shell, &name, |line| log::debug!("pipe: {line}"))?;
        Self::new(name, Box::new(Patient(output)), Some(program), options)
    }

    /// Starts a program that writes Y4M, without waiting for its first byte; `hear` gets each line of its standard error.
    pub(super) fn decoder(
        name: &str,
        command: Command,
        hear: impl FnMut(&str) + Send + 'static,
    ) -> Result<Self> {
        let (program, output) = Program::start(command, name, hear)?;
        let input: Box<dyn Read + Send> = Box::new(Patient(output));
        let reader = BufReader::with_capacity(1 << 16, input);
        Ok(Self::of(name.to_owned(), reader, Some(program), Pixels::Awaited, None, false))
    }

    /// Reads standard input.
    pub(super) fn standard_input(options: &Options) -> Result<Self> {
        // Not the standard library's: its own buffer would hide from `poll` what has come.
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(|error| Error::io("-", error))?;
        Self::new("-".to_owned(), Box::new(Patient(File::from(input))), None, options)
    }

    pub(super) fn new(
        name: String,
        input: Box<dyn Read + Send>,
        mut program: Option<Program>,
        options: &Options,
    ) -> Result<Self> {
        let mut input = input;
        let mut start = Vec::new();
        let magic_length = y4m::MAGIC.len() as u64;
        begin(&name, || {
            let missing = magic_length - start.len() as u64;
            (&mut input).take(missing).read_to_end(&mut start)
        })?;
        let (empty, magic) = (start.is_empty(), start == y4m::MAGIC);
        let input: Box<dyn Read + Send> = Box::new(io::Cursor::new(start).chain(input));
        let mut reader = BufReader::with_capacity(1 << 16, input);
        let pixels = match options.resolution {
            _ if magic => Pixels::Y4m(y4m::parse(&line(&mut reader, &name)?)?),
            _ if empty => {
                program.as_mut().map_or(Ok(()), |program| program.ended(&name))?;
                return Err(Error::input(format!("{name}: no frame came; the program wrote nothing")));
            }
            Some((width, height)) => {
                let (width, height) = (width as usize, height as usize);
                if !(1..=LARGEST_SIDE).contains(&width) || !(1..=LARGEST_SIDE).contains(&height) {
                    return Err(Error::input(format!("{name}: frames cannot have {width}x{height} pixels")));
                }
                Pixels::Rgb { width, height }
            }
            None => {
                return Err(Error::input(format!(
                    "{name}: the stream is not Y4M; write Y4M, or raw RGB24 and say its size with --resolution 640x480"
                )));
            }
        };
        let rate = match pixels {
            Pixels::Y4m(header) => header.rate.or(options.rate),
            Pixels::Rgb { .. } | Pixels::Awaited => options.rate,
        };
        Ok(Self::of(name, reader, program, pixels, rate, options.live_pipe))
    }

    fn of(
        name: String,
        reader: BufReader<Box<dyn Read + Send>>,
        program: Option<Program>,
        pixels: Pixels,
        rate: Option<f64>,
        live: bool,
    ) -> Self {
        Self {
            name,
            reader,
            program,
            pixels,
            rate,
            live,
            next: 0,
            counters: Counters::default(),
            line: Vec::new(),
            bytes: Vec::new(),
            filled: None,
        }
    }

    fn size(&self) -> (usize, usize) {
        match self.pixels {
            Pixels::Rgb { width, height } => (width, height),
            Pixels::Y4m(header) => (header.planes.width, header.planes.height),
            Pixels::Awaited => (0, 0),
        }
    }

    /// Reads on in the next frame, into `self.bytes`.
    fn read(&mut self) -> io::Result<Bytes> {
        match self.read_on() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Bytes::NotYet),
            outcome => outcome,
        }
    }

    fn read_on(&mut self) -> io::Result<Bytes> {
        if matches!(self.pixels, Pixels::Awaited) && !self.read_header()? {
            return Ok(Bytes::End);
        }
        let mut filled = match self.filled {
            Some(filled) => filled,
            None => {
                let Some(length) = self.begin_frame()? else { return Ok(Bytes::End) };
                self.bytes.resize(length, 0);
                0
            }
        };
        while filled < self.bytes.len() {
            self.filled = Some(filled);
            match self.reader.read(&mut self.bytes[filled..]) {
                Ok(0) => return Ok(Bytes::Torn),
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.filled = None;
        Ok(Bytes::Whole)
    }

    /// Reads a header that was not there when the stream was opened; false if the stream ends without one.
    fn read_header(&mut self) -> io::Result<bool> {
        let room = y4m::LONGEST_LINE.saturating_sub(self.line.len());
        (&mut self.reader).take(room as u64).read_until(b'\n', &mut self.line)?;
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return Ok(false);
        }
        let invalid = |text: String| io::Error::new(ErrorKind::InvalidData, text);
        if !line.starts_with(y4m::MAGIC) {
            return Err(invalid("the stream is not Y4M".to_owned()));
        }
        let header =
            y4m::parse(&String::from_utf8_lossy(&line)).map_err(|error| invalid(error.to_string()))?;
        self.pixels = Pixels::Y4m(header);
        Ok(true)
    }

    /// The length of the frame that follows; none at the stream's end.
    fn begin_frame(&mut self) -> io::Result<Option<usize>> {
        match self.pixels {
            Pixels::Rgb { width, height } => {
                let ended = self.reader.fill_buf()?.is_empty();
                Ok((!ended).then_some(width * height * 3))
            }
            Pixels::Y4m(header) => {
                let room = y4m::LONGEST_LINE.saturating_sub(self.line.len());
                (&mut self.reader).take(room as u64).read_until(b'\n', &mut self.line)?;
                if self.line.is_empty() {
                    return Ok(None);
                }
                let line = std::mem::take(&mut self.line);
                if !line.starts_with(b"FRAME") || !line.ends_with(b"\n") {
                    let text = format!("after frame {} no other follows, but something else", self.next);
                    return Err(io::Error::new(ErrorKind::InvalidData, text));
                }
                Ok(Some(header.planes.bytes().unwrap_or(0)))
            }
            Pixels::Awaited => Ok(None),
        }
    }

    fn end(&mut self) -> Result<Next> {
        if let Some(program) = &mut self.program {
            program.ended(&self.name)?;
        }
        Ok(Next::End)
    }
}

impl Source for Pipe {
    fn kind(&self) -> Kind {
        if self.live { Kind::Live } else { Kind::Recorded }
    }

    fn identity(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> String {
        let (width, height) = self.size();
        let format = match self.pixels {
            Pixels::Rgb { .. } => "raw RGB",
            Pixels::Y4m(_) | Pixels::Awaited => "Y4M",
        };
        format!("{}: {format} frames of {width}x{height}", self.name)
    }

    fn next(&mut self, frame: &mut Frame) -> Result<Next> {
        match self.read().map_err(|error| Error::io(&self.name, error))? {
            Bytes::NotYet => return Ok(Next::Nothing),
            Bytes::End => return self.end(),
            Bytes::Torn => {
                self.counters.corrupt += 1;
                return self.end();
            }
            Bytes::Whole => {}
        }
        let sequence = self.next;
        self.next += 1;
        match self.pixels {
            Pixels::Rgb { .. } => std::mem::swap(&mut frame.rgb, &mut self.bytes),
            Pixels::Y4m(header) => {
                if header.planes.rgb(&self.bytes, &mut frame.rgb).is_none() {
                    self.counters.corrupt += 1;
                    return Ok(Next::Nothing);
                }
            }
            Pixels::Awaited => return Ok(Next::Nothing),
        }
        (frame.width, frame.height) = self.size();
        frame.sequence = sequence;
        frame.monotonic_ns = super::now();
        frame.recorded_ns =
            self.rate.filter(|_| !self.live).map(|rate| (sequence as f64 / rate * 1e9).round() as u64);
        (frame.truth, frame.mask) = (None, None);
        self.counters.frames += 1;
        Ok(Next::Frame)
    }

    /// A pipe only goes forward: what lies before is read and dropped.
    fn seek(&mut self, sequence: u64) -> Result<()> {
        if self.live || sequence < self.next {
            return Err(Error::input(format!("{} cannot go back to frame {sequence}", self.name)));
        }
        while self.next < sequence {
            match self.read().map_err(|error| Error::io(&self.name, error))? {
                Bytes::Whole => self.next += 1,
                Bytes::NotYet => {}
                Bytes::End | Bytes::Torn => {
                    return Err(Error::input(format!(
                        "{} ends after {} frames and cannot go on at frame {sequence}; was it the recording of this run?",
                        self.name, self.next
                    )));
                }
            }
        }
        Ok(())
    }

    fn goes_back(&self) -> bool {
        false
    }

    fn rate(&self) -> Option<f64> {
        self.rate
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipe").field("name", &self.name).field("pixels", &self.pixels).finish_non_exhaustive()
    }
}

fn line(reader: &mut impl BufRead, name: &str) -> Result<String> {
    let mut line = Vec::new();
    begin(name, || {
        let room = y4m::LONGEST_LINE.saturating_sub(line.len());
        reader.take(room as u64).read_until(b'\n', &mut line)
    })?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// Repeats what reads a stream's beginning until it is there, but not for ever. What has come meanwhile is kept by `read`.
fn begin<T>(name: &str, mut read: impl FnMut() -> io::Result<T>) -> Result<T> {
    let until = Instant::now() + BEGINNING;
    loop {
        match read() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if Instant::now() >= until {
                    let seconds = BEGINNING.as_secs();
                    return Err(Error::Device(format!("{name}: nothing came within {seconds} seconds")));
                }
            }
            outcome => return outcome.map_err(|error| Error::io(name, error)),
        }
    }
}

/// Reads what there is, and does not wait longer than a moment for it.
struct Patient<R>(R);

impl<R: Read + AsFd> Read for Patient<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&MOMENT)) {
            // A signal, such as one that pauses the recording, is no fault of the program's.
            Ok(0) | Err(Errno::INTR) => Err(ErrorKind::WouldBlock.into()),
            // An end of the stream is something to read, too.
            Ok(_) => self.0.read(buffer),
            Err(error) => Err(error.into()),
        }
    }
}

/// A running command and the last thing that it said.
pub(super) struct Program {
    child: Child,
    last_words: Arc<Mutex<String>>,
    listener: JoinHandle<()>,
}

impl Program {
    fn start(
        mut command: Command,
        name: &str,
        mut hear: impl FnMut(&str) + Send + 'static,
    ) -> Result<(Self, std::process::ChildStdout)> {
        let failed = |error| Error::io(name, error);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let (Some(output), Some(errors)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(Error::Device("the command's output could not be taken".to_owned()));
        };
        let last_words = Arc::new(Mutex::new(String::new()));
        let words = Arc::clone(&last_words);
        let listen = move || {
            let mut errors = BufReader::new(errors);
            let mut line = Vec::new();
            // A program may write megabytes without ever ending a line.
            while (&mut errors).take(1024).read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                let text = String::from_utf8_lossy(&line).trim().to_owned();
                if !text.is_empty() {
                    hear(&text);
                    *words.lock().unwrap_or_else(PoisonError::into_inner) = text;
                }
                line.clear();
            }
        };
        let listener =
            std::thread::Builder::new().name("pipe-errors".to_owned()).spawn(listen).map_err(failed)?;
        Ok((Self { child, last_words, listener }, output))
    }

    /// Waits for the program after its output has ended, and says so if it failed.
    fn ended(&mut self, name: &str) -> Result<()> {
        let mut status = None;
        // A program that closes its output and goes on, or leaves others behind, is not waited for without end.
        for _ in 0..TIMEOUT {
            status = self.child.try_wait().map_err(|error| Error::io(name, error))?;
            if status.is_some() && self.listener.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let Some(status) = status.filter(|status| !status.success()) else { return Ok(()) };
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        let words =
            if words.is_empty() { "it said nothing".to_owned() } else { format!("its last words: {words}") };
        Err(Error::Device(format!("{name}: the command {}; {words}", told(status))))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A group that is gone already is no failure.
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let (Some(group), Ok(None)) = (group, self.child.try_wait()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn told(status: ExitStatus) -> String {
    match status.code() {
        Some(127) => "was not found (exit status 127)".to_owned(),
        Some(code) => format!("ended with exit status {code}"),
        None => format!("was ended by {status}"),
    }
}

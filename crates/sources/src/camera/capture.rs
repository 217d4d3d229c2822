//! A live camera on a thread of its own that always takes what comes and keeps only the newest frame.
//!
//! Whoever asks gets the newest frame or waits for one; a slow reader costs frames, never age. When the camera is lost
//! (unplugged, its program died, no frame for [`SILENCE`]) or its picture stands still, the thread says so, opens it again
//! by the name that survives a replug, with growing pauses, and goes on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Camera, Counters, Frame, Kind, Next, Options, Source};
use crate::{Error, Result};

/// Events that wait for a reader; of more the oldest stay.
const MOST_EVENTS: usize = 64;

/// First and longest pause before the camera is opened again.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Without a frame for so long, the camera is lost, whatever the driver says.
const SILENCE: Duration = Duration::from_secs(10);

/// The same picture, bit for bit, for so long is a frozen camera: a sensor's noise never repeats.
const FREEZE: Duration = Duration::from_secs(10);

/// How long the end of a capture waits for its thread, which may hang in a driver.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the thread of a capture still runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs.
    Running,
    /// It has ended as it should: the source has no more frames.
    Ended,
    /// It has ended by a fault of the program. There will be no more frames, and nobody else says so.
    Died,
}

/// What happened to the camera.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// No more frames; it is being opened again.
    Lost {
        /// A sentence for people.
        reason: String,
    },
    /// Frames come again.
    Back,
    /// Frames come, but all the same; the camera is opened anew.
    Frozen {
        /// How long the picture has not changed.
        seconds: f64,
    },
    /// After a frozen picture, one that differs.
    Moves,
    /// The source has come to its end; there will be no more frames.
    Ended,
}

/// A running camera.
#[derive(Debug)]
pub struct Capture {
    shared: Arc<Shared>,
    events: Receiver<Event>,
    thread: Option<JoinHandle<()>>,
    description: String,
    identity: String,
    rate: Option<f64>,
}

#[derive(Debug, Default)]
struct Shared {
    newest: Mutex<Newest>,
    arrived: Condvar,
    stop: AtomicBool,
    /// Set by the thread when it ends as it should.
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Newest {
    frame: Frame,
    fresh: bool,
    counters: Counters,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Newest> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Capture {
    /// Opens a live camera and starts its thread.
    ///
    /// # Errors
    ///
    /// The camera cannot be opened: at the start that is told, not waited for. Or the source is not live.
    pub fn start(camera: &Camera, options: &Options) -> Result<Self> {
        Self::of(camera.open(options)?, camera, options)
    }

    /// Starts the thread of a live camera that is open already.
    ///
    /// # Errors
    ///
    /// The source is not live.
    pub fn of(source: Box<dyn Source + Send>, camera: &Camera, options: &Options) -> Result<Self> {
        if source.kind() != Kind::Live {
            return Err(Error::input(format!("{camera} is no live camera")));
        }
        let reopen = {
            let (camera, options) = (camera.again(&*source), options.clone());
            move || camera.open(&options)
        };
        Self::with(source, Box::new(reopen))
    }

    /// Starts with an open source and a way to open it again.
    pub fn with(source: Box<dyn Source + Send>, reopen: Reopen) -> Result<Self> {
        let (sender, events) = sync_channel(MOST_EVENTS);
        let shared = Arc::new(Shared::default());
        let (description, identity, rate) = (source.describe(), source.identity(), source.rate());
        let worker = Worker {
            shared: Arc::clone(&shared),
            events: sender,
            reopen,
            before: Counters::default(),
            lost: false,
        };
        let thread = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || {
                let shared = Arc::clone(&worker.shared);
                worker.run(source);
                shared.ended.store(true, Ordering::Release);
            })
            .map_err(|error| Error::Device(format!("cannot start the camera's thread: {error}")))?;
        Ok(Self { shared, events, thread: Some(thread), description, identity, rate })
    }

    /// Exchanges `frame` for the newest one that was not taken yet; false if none came in time.
    pub fn newest(&mut self, frame: &mut Frame, timeout: Duration) -> bool {
        let newest = self.shared.lock();
        let waited = self.shared.arrived.wait_timeout_while(newest, timeout, |newest| !newest.fresh);
        let (mut newest, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let fresh = std::mem::take(&mut newest.fresh);
        if fresh {
            std::mem::swap(frame, &mut newest.frame);
        }
        fresh
    }

    /// What happened to the camera since it was last asked.
    pub fn events(&self) -> &Receiver<Event> {
        &self.events
    }

    /// Whether the thread still runs. What happened before its end is among the events.
    pub fn life(&self) -> Life {
        match &self.thread {
            Some(thread) if !thread.is_finished() => Life::Running,
            _ if self.shared.ended.load(Ordering::Acquire) => Life::Ended,
            _ => Life::Died,
        }
    }

    /// Frames delivered and not delivered since the start, over all reopenings.
    pub fn counters(&self) -> Counters {
        self.shared.lock().counters
    }

    /// What the camera is, in a line for people, as it was at the start.
    pub fn describe(&self) -> &str {
        &self.description
    }

    /// The name under which the camera is found again.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Frames a second, if known.
    pub fn rate(&self) -> Option<f64> {
        self.rate
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return };
        // It looks at the flag at least once a second, unless it hangs in a driver: then it is left behind.
        let deadline = Instant::now() + STOP_TIMEOUT;
        while !thread.is_finished() {
            if Instant::now() >= deadline {
                return log::warn!("the camera does not let go; it is left to end with the program");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // A panic there has been reported by the panic hook.
        let _ = thread.join();
    }
}

/// Opens the camera again.
pub(crate) type Reopen = Box<dyn FnMut() -> Result<Box<dyn Source + Send>> + Send>;

struct Worker {
    shared: Arc<Shared>,
    events: SyncSender<Event>,
    reopen: Reopen,
    /// Counters of the sources before this one.
    before: Counters,
    /// Whether it was told that the camera is lost, and not yet that it is back.
    lost: bool,
}

/// Why a source was given up.
enum Given {
    Stopped,
    Ended,
    Lost(String),
    Frozen,
}

impl Worker {
    fn run(mut self, mut source: Box<dyn Source + Send>) {
        let mut freeze = Freeze::default();
        loop {
            let given = self.drain(&mut *source, &mut freeze);
            let last = source.counters();
            self.before = sum(self.before, last);
            drop(source);
            match given {
                Given::Stopped => return,
                Given::Ended => return self.tell(Event::Ended),
                Given::Lost(reason) => {
                    self.lost = true;
                    self.tell(Event::Lost { reason });
                }
                Given::Frozen => {}
            }
            match self.open_again() {
                Some(again) => source = again,
                None => return,
            }
        }
    }

    /// Takes frames until there are no more.
    fn drain(&mut self, source: &mut dyn Source, freeze: &mut Freeze) -> Given {
        let mut frame = Frame::default();
        let mut last = Instant::now();
        while !self.shared.stopped() {
            match source.next(&mut frame) {
                Ok(Next::Frame) => last = Instant::now(),
                Ok(Next::Nothing) if last.elapsed() > SILENCE => {
                    return Given::Lost(format!("no frame for {} seconds", SILENCE.as_secs()));
                }
                Ok(Next::Nothing) => {
                    self.shared.lock().counters = sum(self.before, source.counters());
                    continue;
                }
                Ok(Next::End) => return Given::Ended,
                Err(error) => return Given::Lost(error.to_string()),
            }
            if std::mem::take(&mut self.lost) {
                self.tell(Event::Back);
            }
            let seen = freeze.see(&frame.rgb, last);
            {
                let mut newest = self.shared.lock();
                std::mem::swap(&mut newest.frame, &mut frame);
                newest.fresh = true;
                newest.counters = sum(self.before, source.counters());
            }
            self.shared.arrived.notify_one();
            match seen {
                Seen::Moves => self.tell(Event::Moves),
                Seen::Frozen(duration) => {
                    self.tell(Event::Frozen { seconds: duration.as_secs_f64() });
                    return Given::Frozen;
                }
                Seen::Usual => {}
            }
        }
        Given::Stopped
    }

    /// Tries until the camera is back; `None` if the capture was stopped meanwhile.
    fn open_again(&mut self) -> Option<Box<dyn Source + Send>> {
        let mut pause = SHORTEST_PAUSE;
        loop {
            let until = Instant::now() + pause;
            while Instant::now() < until {
                if self.shared.stopped() {
                    return None;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            match (self.reopen)() {
                Ok(source) => return Some(source),
                Err(error) => {
                    log::debug!("the camera is not back yet: {error}");
                    // It was opened anew because its picture stood still, and now it is gone.
                    if !std::mem::replace(&mut self.lost, true) {
                        self.tell(Event::Lost { reason: error.to_string() });
                    }
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn tell(&self, event: Event) {
        if let Err(TrySendError::Full(event)) = self.events.try_send(event) {
            log::warn!("nobody reads what happens to the camera; not reported: {event:?}");
        }
    }
}

fn sum(a: Counters, b: Counters) -> Counters {
    Counters { frames: a.frames + b.frames, gaps: a.gaps + b.gaps, corrupt: a.corrupt + b.corrupt }
}

/// Watches for a picture that stands still.
#[derive(Debug, Default)]
struct Freeze {
    /// Check sum of the picture, since when it is the same, and when it is to be reported next.
    still: Option<(u32, Instant, Duration)>,
    reported: bool,
}

enum Seen {
    Usual,
    Frozen(Duration),
    Moves,
}

impl Freeze {
    fn see(&mut self, rgb: &[u8], now: Instant) -> Seen {
        let sum = crc32fast::hash(rgb);
        match &mut self.still {
            Some((same, since, timeout)) if *same == sum => {
                let duration = now.saturating_duration_since(*since);
                if duration < *timeout {
                    return Seen::Usual;
                }
                // A covered lens can look like this too: the camera is opened anew ever more rarely.
                *timeout *= 2;
                self.reported = true;
                Seen::Frozen(duration)
            }
            still => {
                *still = Some((sum, now, FREEZE));
                if std::mem::take(&mut self.reported) { Seen::Moves } else { Seen::Usual }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A camera that does what it is told, a step a frame.
    #[derive(Debug)]
    struct Scripted {
        steps: VecDeque<Step>,
        frames: u64,
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Picture(u8),
        Fail,
        End,
        /// Goes on with pictures that all differ, for good.
        Run,
        /// A fault of the program.
        Panic,
    }

    impl Source for Scripted {
        fn kind(&self) -> Kind {
            Kind::Live
        }
        fn identity(&self) -> String {
            "scripted".to_owned()
        }
        fn describe(&self) -> String {
            "a scripted camera".to_owned()
        }
        fn next(&mut self, frame: &mut Frame) -> Result<Next> {
            std::thread::sleep(Duration::from_millis(1));
            match self.steps.front().copied() {
                Some(Step::Fail) => return Err(Error::Device("unplugged".to_owned())),
                Some(Step::End) | None => return Ok(Next::End),
                Some(Step::Panic) => panic!("this camera is broken on purpose"),
                Some(Step::Picture(value)) => frame.rgb = vec![value; 3],
                Some(Step::Run) => frame.rgb = self.frames.to_le_bytes()[..3].to_vec(),
            }
            if !matches!(self.steps.front(), Some(Step::Run)) {
                self.steps.pop_front();
            }
            (frame.width, frame.height, frame.sequence) = (1, 1, self.frames);
            self.frames += 1;
            Ok(Next::Frame)
        }
        fn seek(&mut self, _: u64) -> Result<()> {
            Ok(())
        }
        fn rate(&self) -> Option<f64> {
            None
        }
        fn counters(&self) -> Counters {
            Counters { frames: self.frames, ..Counters::default() }
        }
    }

    fn scripted(steps: &[Step]) -> Box<dyn Source + Send> {
        Box::new(Scripted { steps: steps.iter().copied().collect(), frames: 0 })
    }

    /// The first script is played at once, each other at a reopening, in turn; an empty one is a failure to open.
    fn capture(scripts: &[&[Step]]) -> Capture {
        let mut later: VecDeque<Vec<Step>> = scripts[1..].iter().map(|script| script.to_vec()).collect();
        let reopen = move || match later.pop_front() {
            Some(script) if !script.is_empty() => Ok(scripted(&script)),
            _ => Err(Error::Device("not there".to_owned())),
        };
        Capture::with(scripted(scripts[0]), Box::new(reopen)).unwrap()
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn the_newest_frame_is_given_once() {
        let mut capture = capture(&[&[Step::Run]]);
        let mut frame = Frame::default();
        assert!(capture.newest(&mut frame, LONG));
        let first = frame.sequence;
        // While the reader sleeps the camera goes on; what was missed is gone.
        while capture.counters().frames < first + 50 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(capture.newest(&mut frame, LONG));
        assert!(frame.sequence >= first + 49, "{} after {first}", frame.sequence);
        assert_eq!(capture.describe(), "a scripted camera");
    }

    #[test]
    fn a_lost_camera_comes_back() {
        let mut capture = capture(&[&[Step::Picture(1), Step::Fail], &[], &[Step::Picture(2), Step::Run]]);
        let lost = capture.events().recv_timeout(LONG).unwrap();
        assert_eq!(lost, Event::Lost { reason: "unplugged".to_owned() });
        assert_eq!(capture.events().recv_timeout(LONG).unwrap(), Event::Back);
        let mut frame = Frame::default();
        // The first picture may still be waiting when the camera is back.
        while capture.counters().frames < 2 {
            assert!(capture.newest(&mut frame, LONG), "frames are counted over the reopening");
        }
    }

    #[test]
    fn one_that_is_lost_before_its_first_frame_comes_back_too() {
        let capture = capture(&[&[Step::Fail], &[Step::Run]]);
        assert!(matches!(capture.events().recv_timeout(LONG).unwrap(), Event::Lost { .. }));
        assert_eq!(capture.events().recv_timeout(LONG).unwrap(), Event::Back);
    }

    #[test]
    fn a_thread_that_died_is_told_from_one_that_ended() {
        let until = |capture: &Capture| {
            while capture.life() == Life::Running {
                std::thread::sleep(Duration::from_millis(2));
            }
            capture.life()
        };
        assert_eq!(until(&capture(&[&[Step::Picture(1), Step::Panic]])), Life::Died);
        assert_eq!(until(&capture(&[&[Step::Picture(1), Step::End]])), Life::Ended);
        assert_eq!(capture(&[&[Step::Run]]).life(), Life::Running);
    }

    #[test]
    fn a_frozen_camera_that_cannot_be_opened_again_is_lost() {
        let (sender, events) = sync_channel(MOST_EVENTS);
        let mut attempts = 0;
        let reopen = move || {
            attempts += 1;
            if attempts < 2 { Err(Error::Device("not there".to_owned())) } else { Ok(scripted(&[Step::Run])) }
        };
        let mut worker = Worker {
            shared: Arc::default(),
            events: sender,
            reopen: Box::new(reopen),
            before: Counters::default(),
            lost: false,
        };
        assert!(worker.open_again().is_some());
        assert_eq!(events.try_recv(), Ok(Event::Lost { reason: "not there".to_owned() }));
        assert!(worker.lost, "the next picture says that it is back");
    }

    #[test]
    fn an_end_is_told_and_stopping_does_not_hang() {
        let mut ended = capture(&[&[Step::Picture(9), Step::End]]);
        assert_eq!(ended.events().recv_timeout(LONG).unwrap(), Event::Ended);
        let mut frame = Frame::default();
        assert!(ended.newest(&mut frame, LONG), "the last frame is still there");
        assert!(!ended.newest(&mut frame, Duration::from_millis(10)));
        // Dropped while it waits to open a camera that never comes back.
        let lost = capture(&[&[Step::Fail]]);
        lost.events().recv_timeout(LONG).unwrap();
        drop(lost);
    }

    #[test]
    fn a_picture_that_stands_still_is_noticed_ever_more_rarely() {
        let mut freeze = Freeze::default();
        let start = Instant::now();
        let mut see =
            |picture: u8, seconds: u64| freeze.see(&[picture; 3], start + Duration::from_secs(seconds));
        assert!(matches!(see(1, 0), Seen::Usual));
        assert!(matches!(see(1, 9), Seen::Usual));
        assert!(matches!(see(1, 10), Seen::Frozen(_)));
        assert!(matches!(see(1, 19), Seen::Usual));
        assert!(matches!(see(1, 20), Seen::Frozen(duration) if duration == Duration::from_secs(20)));
        assert!(matches!(see(2, 21), Seen::Moves));
        assert!(matches!(see(3, 22), Seen::Usual));
    }
}

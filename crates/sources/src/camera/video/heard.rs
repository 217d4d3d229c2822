//! What ffmpeg says on standard error: the times of its pictures, and its troubles.
//!
//! The filter `showinfo` says `config in time_base: 1/15360, …` once and then `n:   0 pts:      0 pts_time:0 …` for each
//! picture. `pts_time` has six digits only, so the time is made of the other two.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What was heard so far.
pub(super) struct Heard {
    times: Receiver<u64>,
    trouble: Arc<Mutex<Option<String>>>,
}

impl Heard {
    /// The ear, and what it is to be told line by line. After a jump into the middle, a decoder complains until it has found
    /// its first picture: that is not heard.
    pub(super) fn new(jumped: bool) -> (Self, impl FnMut(&str) + Send + 'static) {
        let (sender, times) = channel();
        let trouble = Arc::new(Mutex::new(None));
        let mut ear = Ear { sender, trouble: Arc::clone(&trouble), base: None, deaf: jumped };
        (Self { times, trouble }, move |line: &str| ear.hear(line))
    }

    /// The time of the next picture, in nanoseconds.
    pub(super) fn time(&self, timeout: Duration) -> Option<u64> {
        self.times.recv_timeout(timeout).ok()
    }

    /// The first thing that went wrong.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Ear {
    sender: Sender<u64>,
    trouble: Arc<Mutex<Option<String>>>,
    /// Seconds of one unit of time, as a fraction.
    base: Option<(i128, i128)>,
    deaf: bool,
}

impl Ear {
    fn hear(&mut self, line: &str) {
        if line.contains("showinfo") {
            if let Some((_, base)) = line.split_once("config in time_base:") {
                self.base = fraction(base);
            } else if let Some(time) = self.base.and_then(|base| time(line, base)) {
                self.deaf = false;
                // Whoever asked may have gone.
                let _ = self.sender.send(time);
            }
            return;
        }
        let wrong = ["[error] ", "[fatal] "].iter().find_map(|level| line.split_once(level));
        let Some((_, text)) = wrong.filter(|_| !self.deaf) else { return };
        log::debug!("ffmpeg: {text}");
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        trouble.get_or_insert_with(|| text.trim().to_owned());
    }
}

/// `1/15360, frame_rate: …`
fn fraction(text: &str) -> Option<(i128, i128)> {
    let (above, below) = text.split(',').next()?.trim().split_once('/')?;
    let (above, below): (u32, u32) = (above.parse().ok()?, below.parse().ok()?);
    (above > 0 && below > 0).then_some((above.into(), below.into()))
}

/// A picture's time in nanoseconds; one from before the beginning counts as that.
fn time(line: &str, (above, below): (i128, i128)) -> Option<u64> {
    let (_, rest) = line.split_once(" pts:")?;
    let units: i64 = rest.split_ascii_whitespace().next()?.parse().ok()?;
    let nanoseconds = (i128::from(units) * above * 1_000_000_000 + below / 2) / below;
    u64::try_from(nanoseconds.max(0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(5);

    #[test]
    fn times_are_exact_and_the_first_trouble_is_kept() {
        let (heard, mut tell) = Heard::new(false);
        for line in [
            "[Parsed_showinfo_1 @ 0x55] [info] config in time_base: 1/15360, frame_rate: 30/1",
            "[Parsed_showinfo_1 @ 0x55] [info] config out time_base: 0/0, frame_rate: 0/0",
            "[Parsed_showinfo_1 @ 0x55] [info] n:   0 pts:      0 pts_time:0       pos:       48 fmt:yuv420p",
            "[Parsed_showinfo_1 @ 0x55] [info] n:   1 pts:55297536 pts_time:3600.1  pos:  2 fmt:yuv420p",
            "[Parsed_showinfo_1 @ 0x55] [info] n:   2 pts:   NOPTS pts_time:NOPTS  pos:  2 fmt:yuv420p",
            "[h264 @ 0x56] [error] Invalid NAL unit size (7581 > 2772).",
            "[h264 @ 0x56] [error] something else",
            "[info] an error of no account",
        ] {
            tell(line);
        }
        assert_eq!(heard.time(NOW), Some(0));
        assert_eq!(heard.time(NOW), Some(3_600_100_000_000));
        assert_eq!(heard.time(Duration::ZERO), None);
        assert_eq!(heard.trouble().as_deref(), Some("Invalid NAL unit size (7581 > 2772)."));
    }

    #[test]
    fn what_a_decoder_says_before_its_first_picture_after_a_jump_is_not_heard() {
        let (heard, mut tell) = Heard::new(true);
        tell("[h264 @ 0x56] [error] no frame!");
        assert_eq!(heard.trouble(), None);
        tell("[Parsed_showinfo_1 @ 0x55] [info] config in time_base: 1/1000, frame_rate: 30/1");
        tell("[Parsed_showinfo_1 @ 0x55] [info] n:   0 pts:     -7 pts_time:-0.007");
        tell("[h264 @ 0x56] [error] no frame!");
        assert_eq!((heard.time(NOW), heard.trouble().is_some()), (Some(0), true));
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line in "(\\[x\\] )?(\\[error\\] )?(showinfo )?(config in time_base: ?)?[0-9/, ]{0,12}( pts: ?-?[0-9]{0,20})?.{0,10}") {
            let (_heard, mut tell) = Heard::new(false);
            tell("showinfo config in time_base: 4294967295/1");
            tell(&line);
        }
    }
}

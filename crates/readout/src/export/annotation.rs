//! Annotations for ELAN and BORIS, as their import wants them.
//!
//! **ELAN** ("Import CSV / Tab-delimited Text"): a header line, then tier, begin, end (seconds with three decimals) and
//! annotation. Annotations of a tier must not overlap and must have a length, so an event takes [`EVENT`].
//!
//! **BORIS** ("Paste events" of a media observation): time, subject, behaviour, modifier, comment and frame index, without
//! a header. A state has two lines, its begin and its end. BORIS counts the columns of every line, so there is no newline
//! at the very end, and it leaves out a line that it has already, so begin and end differ in their comments.

use std::io::Write;

use super::{Annotations, write_error};
use crate::Result;
use crate::recording::segments::Segment;
use crate::recording::{Recording, Seen};

/// How long an event is in ELAN, in seconds, unless the next one comes sooner.
const EVENT: f64 = 0.5;

/// Whose annotations these are, where several recordings share a file.
struct Owner {
    several: bool,
}

impl Owner {
    fn of(recordings: &[Recording]) -> Self {
        Self { several: recordings.len() > 1 }
    }

    fn tier(&self, what: &str, recording: &Recording) -> String {
        if self.several {
            clean(&format!("{what} {} {}", recording.device, recording.run))
        } else {
            what.to_owned()
        }
    }

    fn subject(&self, recording: &Recording, session: usize) -> String {
        let device = recording.device_in(session);
        if self.several { clean(&format!("{device} {}", recording.run)) } else { clean(device) }
    }
}

/// Tabs and line ends would make another column or line.
fn clean(text: &str) -> String {
    text.split(char::is_control).collect::<Vec<_>>().join(" ")
}

/// Tab text for ELAN.
pub(super) struct Elan<'a> {
    out: &'a mut (dyn Write + Send),
    owner: Owner,
    begun: bool,
    /// An event whose end depends on the next one.
    event: Option<(String, f64, String)>,
}

impl<'a> Elan<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), recordings: &[Recording]) -> Self {
        Self { out, owner: Owner::of(recordings), begun: false, event: None }
    }

    fn line(&mut self, tier: &str, begin: f64, end: f64, annotation: &str) -> Result<()> {
        if !std::mem::replace(&mut self.begun, true) {
            writeln!(self.out, "Tier\tBegin Time - ss.msec\tEnd Time - ss.msec\tAnnotation")
                .map_err(write_error)?;
        }
        let (begin, end) = (milliseconds(begin), milliseconds(end));
        // Rounded to nothing it would be refused, and it may not reach into the next one.
        if end > begin {
            let (begin, end) = (seconds(begin), seconds(end));
            writeln!(self.out, "{tier}\t{begin}\t{end}\t{annotation}").map_err(write_error)?;
        }
        Ok(())
    }

    fn settle_event(&mut self, next: f64) -> Result<()> {
        match self.event.take() {
            Some((tier, begin, text)) => self.line(&tier, begin, (begin + EVENT).min(next), &text),
            None => Ok(()),
        }
    }
}

impl Annotations for Elan<'_> {
    fn segment(&mut self, recording: &Recording, segment: &Segment) -> Result<()> {
        let tier = self.owner.tier("category", recording);
        self.line(&tier, segment.begin, segment.end, &segment.category.to_string())
    }

    fn event(&mut self, recording: &Recording, seen: &Seen, text: &str) -> Result<()> {
        let tier = self.owner.tier("events", recording);
        let (mut at, mut text) = (seen.seconds.max(0.0), clean(text));
        match &mut self.event {
            Some((same, begin, before)) if *same == tier => {
                // Several in one millisecond are one annotation.
                if milliseconds(at) <= milliseconds(*begin) {
                    at = *begin;
                    text = format!("{before}; {text}");
                } else {
                    self.settle_event(at)?;
                }
            }
            _ => self.settle_event(f64::INFINITY)?,
        }
        self.event = Some((tier, at, text));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.settle_event(f64::INFINITY)?;
        self.out.flush().map_err(write_error)
    }
}

/// Tab text for BORIS.
pub(super) struct Boris<'a> {
    out: &'a mut (dyn Write + Send),
    owner: Owner,
    begun: bool,
}

impl<'a> Boris<'a> {
    pub(super) fn new(out: &'a mut (dyn Write + Send), recordings: &[Recording]) -> Self {
        Self { out, owner: Owner::of(recordings), begun: false }
    }

    fn line(&mut self, time: f64, subject: &str, behaviour: &str, comment: &str) -> Result<()> {
        let newline = if std::mem::replace(&mut self.begun, true) { "\n" } else { "" };
        let time = seconds(milliseconds(time));
        write!(self.out, "{newline}{time}\t{subject}\t{behaviour}\t\t{comment}\tNA").map_err(write_error)
    }
}

impl Annotations for Boris<'_> {
    fn segment(&mut self, recording: &Recording, segment: &Segment) -> Result<()> {
        let subject = self.owner.subject(recording, segment.session);
        let behaviour = format!("category {}", segment.category);
        let comment = format!("begin, certainty {:.2}, {} frames", segment.mean_certainty(), segment.frames);
        self.line(segment.begin, &subject, &behaviour, &comment)?;
        self.line(segment.end, &subject, &behaviour, "end")
    }

    fn event(&mut self, recording: &Recording, seen: &Seen, text: &str) -> Result<()> {
        let subject = self.owner.subject(recording, seen.session);
        self.line(seen.seconds.max(0.0), &subject, "event", &clean(text))
    }

    fn finish(&mut self) -> Result<()> {
        self.out.flush().map_err(write_error)
    }
}

/// Both programs count in milliseconds.
fn milliseconds(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e3).round() as u64
}

fn seconds(milliseconds: u64) -> String {
    format!("{}.{:03}", milliseconds / 1000, milliseconds % 1000)
}

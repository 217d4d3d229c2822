//! What has to be known of a recording before its first row can be written: sessions, names, the usual interval, merges.

use std::ops::RangeInclusive;

use super::merges::Merges;
use super::quantiles::Quantiles;
use crate::clock::Stamp;
use crate::trace::{Entry, Record, Start};

/// From one start of the recording to the next.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Seconds since the recording began.
    pub begin: f64,
    /// The last record's seconds.
    pub end: f64,
    /// When it began.
    pub at: Stamp,
    /// The numbers of its frames; empty without any.
    pub frames: RangeInclusive<u64>,
    /// The numbers of its updates; empty without any.
    pub updates: RangeInclusive<u64>,
    /// Whether it ended in an orderly way.
    pub stopped: bool,
    /// The name of the device or participant.
    pub device: String,
    /// Where its frames came from.
    pub source: String,
}

/// What is not known because the trace's beginning is gone.
pub(super) const UNKNOWN: &str = "unknown";

/// An empty range.
#[expect(clippy::reversed_empty_ranges, reason = "a range without members is what is meant")]
const NONE: RangeInclusive<u64> = 1..=0;

/// Tells which session a record belongs to.
#[derive(Debug, Default)]
pub(super) struct Counter(usize);

impl Counter {
    /// From 1. What comes before the first start belongs to the first session, unless frames show that the trace's
    /// beginning is gone: then they are a session of their own.
    pub(super) fn of(&mut self, record: &Record) -> usize {
        match record {
            Record::Start(_) => self.0 += 1,
            Record::Frame(_) | Record::Merge(_) | Record::Update(_) => self.0 = self.0.max(1),
            _ => {}
        }
        self.0.max(1)
    }
}

/// Gathers it from one pass over the trace.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub(super) run: Option<String>,
    pub(super) start: Option<Start>,
    pub(super) sessions: Vec<Session>,
    pub(super) intervals: Quantiles,
    merges: Merges,
    counter: Counter,
    last_frame: Option<(usize, f64)>,
}

impl Survey {
    pub(super) fn add(&mut self, entry: &Entry, seconds: f64, at: Stamp) {
        self.run.get_or_insert_with(|| name(&entry.at));
        let number = self.counter.of(&entry.record);
        if self.sessions.len() < number {
            self.sessions.push(Session {
                begin: seconds,
                end: seconds,
                at,
                frames: NONE,
                updates: NONE,
                stopped: false,
                device: UNKNOWN.to_owned(),
                source: UNKNOWN.to_owned(),
            });
        }
        self.merges.note(&entry.record, number);
        let Some(session) = self.sessions.last_mut() else { return };
        session.end = session.end.max(seconds);
        session.stopped = matches!(entry.record, Record::Stop(_));
        match &entry.record {
            Record::Start(start) => {
                session.device.clone_from(&start.device);
                session.source.clone_from(&start.source);
                self.start = Some((**start).clone());
            }
            Record::Frame(frame) => {
                extend(&mut session.frames, frame.frame);
                if let Some((last, before)) = self.last_frame.replace((number, seconds))
                    && last == number
                {
                    self.intervals.add(seconds - before);
                }
            }
            Record::Update(update) => extend(&mut session.updates, update.update),
            _ => {}
        }
    }

    /// The merges that count, once the whole trace is known.
    pub(super) fn settled_merges(&mut self) -> Merges {
        let mut merges = std::mem::take(&mut self.merges);
        merges.settle(&self.sessions);
        merges
    }
}

fn extend(range: &mut RangeInclusive<u64>, number: u64) {
    *range = if range.is_empty() {
        number..=number
    } else {
        *range.start().min(&number)..=*range.end().max(&number)
    };
}

/// The recording's name: when its first record was made, and in which boot.
fn name(first: &Stamp) -> String {
    let boot = first.boot.to_string();
    let boot = boot.split('-').next().unwrap_or_default();
    match first.wall {
        Some(wall) => format!("{}-{boot}", wall.strftime("%Y%m%dT%H%M%SZ")),
        None => format!("{}-{boot}", first.mono_ns),
    }
}

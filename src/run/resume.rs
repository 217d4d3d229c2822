//! Where a run goes on: the numbers it gives next, its place in the source, and the samples that learning can still reach.

use std::time::Duration;

use super::checkpoint::{LiveHeader, NumbersUsed};
use super::feed::{Feed, Playback};
use super::live::LivePath;
use super::pace::StridePace;
use super::plan::RunPlan;
use super::sampler::Sampler;
use crate::camera::{self, Frame};
use crate::trace::Place;
use crate::views::Pairing;
use crate::windows::{Kept, Ring, Sample, WindowSource};
use crate::{Error, Result};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Position {
    /// The number of the next frame.
    pub next_frame: u64,
    /// When to look.
    pub sampler: Sampler,
    /// The samples in reach of learning.
    pub windows: Box<dyn WindowSource>,
    /// Frames between updates.
    pub pace: StridePace,
    /// The numbers that the trace has used.
    pub used: NumbersUsed,
    /// Time that the program had run on this folder before.
    pub ran_before: Duration,
    /// Updates since weights were published.
    pub unpublished: u64,
}

/// What is known of the start before.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// What the checkpoint says, if there is one.
    pub header: Option<LiveHeader>,
    /// The numbers that it knows to be used, and those that the trace has used after it.
    pub used: NumbersUsed,
    /// The samples whose pixels it holds.
    pub samples: Vec<Sample>,
    /// Where the recording was when it was asked to forget, if that is not finished.
    pub forgot_at: Option<Place>,
    /// Whether the source is the one of before: the place in a recording is a place in that recording alone.
    pub same_source: bool,
}

impl Before {
    /// Whether this is the source that the folder's last start and its checkpoint read from.
    pub(super) fn is_same_source(
        plan: &RunPlan,
        remembered: Option<&str>,
        header: Option<&LiveHeader>,
    ) -> bool {
        let same = |camera: &str| camera::same(camera, &plan.camera);
        remembered.is_none_or(same) && header.is_none_or(|header| same(&header.camera))
    }

    /// The picture that a recorded source goes on with.
    pub(super) fn next_sequence(&self) -> u64 {
        if !self.same_source {
            return 0;
        }
        let checkpoint = self.header.as_ref().map_or(0, |header| header.next_sequence);
        // What was forgotten is not seen again.
        self.forgot_at.map_or(checkpoint, |forgot| checkpoint.max(forgot.sequence))
    }
}

impl Position {
    /// Goes on from where the start before was. The live path has its memory already; it gets numbers that nobody has.
    pub(super) fn restore(
        plan: &RunPlan,
        before: Before,
        feed: &mut Feed,
        live: &mut LivePath,
    ) -> Result<Self> {
        let settings = &plan.settings;
        let companions = settings.views == Pairing::NextFrame;
        let reads_on = before.same_source && feed.playback().is_some();
        let mut position = Self {
            next_frame: 0,
            sampler: Sampler::new(plan.period, companions),
            windows: Box::new(Ring::new(settings.window, 0)),
            pace: StridePace::new(settings.stride, settings.window, settings.stride),
            used: before.used,
            ran_before: Duration::ZERO,
            unpublished: 0,
        };
        let mut window = before.samples;
        if let Some(header) = before.header {
            position.next_frame = header.frame;
            position.ran_before = Duration::from_secs(header.running_s);
            position.unpublished = header.unpublished;
            position.pace = StridePace::new(settings.stride, settings.window, header.stride);
            position.windows.forget(header.window_start);
            if let Some(playback) = feed.playback()
                && reads_on
            {
                position.sampler = header.sampler.with(plan.period, companions);
                if playback.goes_back() {
                    if window.is_empty() {
                        window = read_again(playback, live, &header.samples)?;
                    }
                    let mut picture = Frame::default();
                    live.read_again(&header.kept, |live, sequence| {
                        picture_of(playback, sequence, &mut picture).and_then(|()| live.prepare(&picture))
                    })?;
                }
            }
        }
        if let Some(forgot) = before.forgot_at {
            position.next_frame = position.next_frame.max(forgot.frame);
            live.memory = live.memory.clone().with_next_id(forgot.category);
            live.kept.forget();
            position.sampler.restart();
            window.clear();
        }
        if !reads_on {
            // Neither a camera nor another source goes back: numbers that the trace has seen are not given again.
            position.next_frame = position.next_frame.max(position.used.frames);
            live.memory = live.memory.clone().with_next_id(position.used.categories);
        }
        if window.last().is_some_and(|last| last.frame + 1 == position.next_frame) {
            let next_start = position.windows.kept().next_start;
            position.windows.restore(Kept { samples: window, next_start });
        } else {
            position.windows.forget(position.next_frame);
        }
        Ok(position)
    }
}

/// The samples that learning can still reach, from a source that can be read again.
fn read_again(
    playback: &mut Playback,
    live: &mut LivePath,
    samples: &[(u64, u64, Option<u64>)],
) -> Result<Vec<Sample>> {
    let mut picture = Frame::default();
    let mut read = |sequence: u64| {
        picture_of(playback, sequence, &mut picture)?;
        live.prepare(&picture)
    };
    samples
        .iter()
        .map(|&(frame, sequence, companion)| {
            let pixels = read(sequence)?;
            let companion =
                companion.map(|sequence| Ok::<_, Error>((sequence, read(sequence)?))).transpose()?;
            Ok(Sample { frame, sequence, pixels, companion })
        })
        .collect()
}

/// Reads a picture of the source again.
fn picture_of(playback: &mut Playback, sequence: u64, picture: &mut Frame) -> Result<()> {
    if playback.read_again(sequence, picture)? {
        return Ok(());
    }
    Err(Error::input(format!(
        "frame {sequence} of the source is no longer there: the recording goes on only with the source it began with"
    )))
}

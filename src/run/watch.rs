//! What the loop looks after beside frames: threads that end, a camera that is silent, the disk, the data folder, numbers
//! that are not finite.

use std::time::Instant;

use super::checkpoint;
use super::feed::Feed;
use super::journal::Event;
use super::liveness::Health;
use super::saving::END_TIMEOUT;
use super::session::Session;
use crate::camera::Life;
use crate::storage::Faulty;
use crate::trace;
use crate::{Error, Result};

/// Frames in a row whose embedding is not finite, before the weights that make them are given up.
const MOST_NOT_FINITE: u32 = 10;

impl Session {
    /// Feeds the watchdog while pictures come, or are known not to.
    ///
    /// # Errors
    /// If a thread has ended that the recording cannot do without.
    pub(super) fn watch_threads(&mut self) -> Result<()> {
        if self.journal.recorder.has_died() {
            return Err(Error::Device(
                "the thread that writes the trace has ended by a fault of the program: nothing would be recorded any more"
                    .into(),
            ));
        }
        match self.feed.life() {
            Life::Running | Life::Ended => {}
            Life::Died => {
                return Err(Error::Device(
                    "the camera's thread has ended by a fault of the program: no more pictures would come"
                        .into(),
                ));
            }
        }
        let excused = self.is_paused()
            || self.state.camera_away_since.is_some()
            || matches!(self.feed, Feed::Playback(_));
        match self.liveness.judge(self.feed.counters(), excused, Instant::now()) {
            Health::Alive => self.journal.alive(),
            Health::Doubtful => {}
            Health::Gone => {
                return Err(Error::Device(
                    "the camera's thread has brought nothing for a minute and does not say why".into(),
                ));
            }
        }
        Ok(())
    }

    /// Whether the data folder is still the one that the recording began with.
    pub(super) fn watch_folder(&self) -> Result<()> {
        let Some(lost) = self.anchors.iter().find_map(|anchor| anchor.lost()) else { return Ok(()) };
        Err(Error::Device(format!(
            "{} was removed or replaced while it was recorded into: what was in it is lost. Start again to record anew",
            lost.display()
        )))
    }

    /// Tells everybody when the disk gets into trouble or out of it.
    pub(super) fn watch_disk(&mut self) {
        let trouble = self.journal.recorder.trouble().or_else(|| self.state.checkpoint_trouble.clone());
        if self.status.look(|now| now.disk_trouble == trouble) {
            return;
        }
        self.journal.tell(Event::Disk(trouble));
    }

    /// A frame of which nothing can be said. That is not the picture's fault: after a few in a row the state is given up that
    /// the embeddings come from.
    pub(super) fn note_not_finite(&mut self, error: &Error) -> Result<()> {
        self.state.corrupt += 1;
        self.state.not_finite += 1;
        if self.state.not_finite == 1 {
            log::warn!("frame {}: {error}; more in a row are only counted", self.next_frame);
        }
        if self.state.not_finite < MOST_NOT_FINITE {
            return Ok(());
        }
        self.state.not_finite = 0;
        self.go_back_further(error)
    }

    /// Puts the newest checkpoint aside, which led here, and goes on from the one before it, or from the beginning.
    fn go_back_further(&mut self, error: &Error) -> Result<()> {
        self.settle(END_TIMEOUT);
        let settings = &self.plan.settings;
        let newest = checkpoint::newest(&self.store, Faulty::Leave, &settings.plan()?, settings)?;
        let Some((newest, _)) = newest else {
            return Err(Error::Device(format!(
                "{MOST_NOT_FINITE} frames in a row: {error}; there is no checkpoint to go back to: start anew in another \
                 --data folder, or with other weights"
            )));
        };
        self.store.put_aside(&newest);
        let name = newest.path.file_name().map(|name| name.to_string_lossy().into_owned());
        let restored = self.return_to_checkpoint()?;
        self.windows.forget(self.next_frame);
        log::error!(
            "{MOST_NOT_FINITE} frames in a row: {error}; checkpoint {} is put aside, going on from {restored}",
            newest.number
        );
        self.journal.tell(Event::Checkpoint(trace::Checkpoint {
            frame: self.next_frame.saturating_sub(1),
            file: name,
            bytes: 0,
            seconds: 0.0,
            error: Some(format!(
                "it gave embeddings that are not finite and was put aside: went on from {restored}"
            )),
        }));
        Ok(())
    }
}

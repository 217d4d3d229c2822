//! The one place where a run says what happens: every [`Event`] goes to all who are to know of it.
//!
//! | reader | gets |
//! |---|---|
//! | the trace | what a study needs later: a record |
//! | the status | what watchers show now: a change of the [snapshot](super::status::Snapshot) |
//! | the log | what whoever looks after the device must act upon |
//! | the service manager | the line of `systemctl status`, and that the run starts and stops |

use std::sync::Arc;
use std::time::Instant;

use super::status::{Seen, Status};
use crate::camera::Counters;
use crate::device::clock::Stamp;
use crate::device::service::ServiceManager;
use crate::trace::{self, CameraState, DiskLevel, DiskTrouble, PublicationOutcome, Record, Recorder};
use crate::words;

/// Something that happened.
#[derive(Debug)]
pub enum Event {
    /// The program has opened everything.
    Started(Box<trace::Start>),
    /// The loop begins.
    Ready,
    /// Nothing is looked at from now on.
    Paused {
        /// Who asked: `signal`, `socket`, `page`, or `restart` for a pause that outlived one.
        by: &'static str,
    },
    /// Frames are looked at again.
    Resumed {
        /// Who asked.
        by: &'static str,
        /// Seconds of the pause.
        paused_s: f32,
    },
    /// A frame got its category.
    Frame(Box<FrameEvent>),
    /// Two categories turned out to be one.
    Merged(trace::Merge),
    /// The threshold was measured, and the memory may have been made anew with it.
    Calibrated {
        /// What it was and is.
        record: trace::Calibration,
        /// Categories that live.
        categories: u64,
        /// Categories created over all restarts.
        created: u64,
    },
    /// The source came or went.
    Camera(trace::Camera),
    /// The machine was looked at.
    Health {
        /// What was found.
        health: trace::Health,
        /// Whether it goes into the trace.
        record: bool,
        /// What the source has delivered.
        counters: Counters,
        /// Pictures a second since the last look.
        rate: f32,
        /// The disk's room.
        disk: DiskLevel,
    },
    /// The machine got too hot, or cooled down.
    Temperature(trace::Temperature),
    /// Something else trains from now on.
    Compute(trace::Compute),
    /// Updates come more or less often.
    Stride(trace::Stride),
    /// An update began, or none is under way any more.
    Learning {
        /// Since when.
        since: Option<Instant>,
        /// Frames from one update to the next.
        stride: usize,
    },
    /// An update was applied.
    Update(trace::Update),
    /// An update was thrown away.
    Skipped(trace::UpdateSkipped),
    /// New weights were compared with those in use.
    Compared(trace::Publication),
    /// All frames look alike to the encoder, or no longer.
    Collapse(trace::Collapse),
    /// A checkpoint was written, or could not be.
    Checkpoint(trace::Checkpoint),
    /// The disk got into trouble or out of it.
    Disk(Option<DiskTrouble>),
    /// What was seen up to now must not be shown any more.
    Forgotten,
    /// The loop has ended; the last checkpoint is still to be written.
    Stopping,
    /// The run is over.
    Stopped(trace::Stop),
}

/// A frame, and what watchers see beside its record.
#[derive(Debug)]
pub struct FrameEvent {
    /// The record, its moment and its picture.
    pub seen: Seen,
    /// Categories that live.
    pub categories: u64,
    /// Categories created over all restarts.
    pub created: u64,
    /// Pictures of categories that are kept in RAM, and their bytes.
    pub kept: (u64, u64),
    /// The share of the recording that is done.
    pub progress: Option<f32>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Journal {
    /// The trace.
    pub recorder: Recorder,
    /// What watchers see.
    pub status: Arc<Status>,
    /// The service manager.
    pub manager: ServiceManager,
}

impl Journal {
    /// Tells everybody who is to know.
    pub fn tell(&self, event: Event) {
        match event {
            Event::Started(start) => self.record(Record::Start(start)),
            Event::Ready => self.manager.ready(),
            Event::Paused { by } => {
                self.record(Record::Pause(trace::Pause { by: by.to_owned() }));
                self.status.change(|now| now.paused = true);
                match by {
                    "restart" => log::warn!(
                        "the recording is still paused: nothing is looked at until `oupn-edge resume --data {}`",
                        self.status.look(|now| now.data.display().to_string())
                    ),
                    _ => log::info!("paused by {by}: nothing is looked at"),
                }
                self.tell_manager();
            }
            Event::Resumed { by, paused_s } => {
                self.record(Record::Resume(trace::Resume { by: by.to_owned(), paused_s }));
                self.status.change(|now| now.paused = false);
                log::info!("resumed by {by}");
                self.tell_manager();
            }
            Event::Frame(frame) => self.tell_frame(*frame),
            Event::Merged(merge) => {
                let trace::Merge { from, into, similarity, .. } = merge;
                log::info!("category {from} joined category {into}, similarity {similarity:.2}");
                self.record(Record::Merge(merge));
                self.status.change(|now| now.note_merge(merge));
            }
            Event::Calibrated { record, categories, created } => {
                self.record(Record::Calibration(record));
                self.status.change(|now| (now.categories, now.created) = (categories, created));
            }
            Event::Camera(camera) => self.tell_camera(camera),
            Event::Health { health, record, counters, rate, disk } => {
                if record {
                    self.record(Record::Health(health.clone()));
                }
                self.status.change(|now| {
                    now.feed.rate = rate;
                    now.feed.frames = counters.frames;
                    now.feed.missed = counters.gaps;
                    now.feed.corrupt = counters.corrupt;
                    now.health = health;
                    now.disk = Some(disk);
                });
                self.tell_manager();
            }
            Event::Temperature(temperature) => {
                if temperature.hot {
                    let (zone, celsius) = (&temperature.zone, temperature.celsius);
                    log::warn!("{zone} is at {celsius:.0} °C: learning is slowed down");
                }
                self.record(Record::Temperature(temperature));
            }
            // The log knows already: who noticed it has said so.
            Event::Compute(change) => {
                let reason = change.reason.as_ref().map(|reason| format!(" ({reason})"));
                let words = format!("{}{}", change.compute, reason.unwrap_or_default());
                self.record(Record::Compute(change));
                self.status.change(|now| now.compute = words);
            }
            Event::Stride(change) => self.record(Record::Stride(change)),
            Event::Learning { since, stride } => self.status.change(|now| {
                now.learning_since = since;
                now.stride = stride;
            }),
            Event::Update(update) => {
                self.record(Record::Update(update.clone()));
                self.status.change(|now| now.note_update(update));
            }
            Event::Skipped(skipped) => {
                self.record(Record::UpdateSkipped(skipped));
                self.status.change(|now| now.skipped_updates += 1);
            }
            Event::Compared(publication) => {
                let trace::Publication { outcome, before, after, error, .. } = publication;
                let scores = format!("score {after:.4}, before {before:.4} ± {error:.4}");
                match outcome {
                    PublicationOutcome::Published => log::info!("what was learned is taken up: {scores}"),
                    PublicationOutcome::WentBack => log::info!("learning goes back: {scores}"),
                    _ => log::info!("what was learned waits: {scores}"),
                }
                self.record(Record::Publication(publication));
                self.status.change(|now| now.note_publication(publication));
            }
            Event::Collapse(collapse) => {
                let (collapsed, level) = (collapse.collapsed, collapse.level);
                if collapsed {
                    log::warn!(
                        "all frames look alike to the encoder (spread {level:.3}): learning has collapsed"
                    );
                }
                self.record(Record::Collapse(collapse));
                self.status.change(|now| now.collapsed = collapsed);
            }
            Event::Checkpoint(checkpoint) => self.record(Record::Checkpoint(checkpoint)),
            Event::Disk(trouble) => {
                self.status.change(|now| now.disk_trouble = trouble);
                self.tell_manager();
            }
            Event::Forgotten => self.status.change(|now| now.forget_what_was_seen()),
            Event::Stopping => self.manager.stopping(),
            Event::Stopped(stop) => self.record(Record::Stop(stop)),
        }
    }

    /// Feeds the watchdog.
    pub fn alive(&self) {
        self.manager.alive();
    }

    fn record(&self, record: Record) {
        // A queue that is full, or a thread that is gone, is noticed by the loop.
        let _ = self.recorder.record(record);
    }

    fn tell_frame(&self, event: FrameEvent) {
        let FrameEvent { seen, categories, created, kept, progress } = event;
        let at: Stamp = seen.at;
        let _ = self.recorder.record_at(at, Record::Frame(seen.record.clone()));
        let durable = self.recorder.durable_seq();
        self.status.change(|now| {
            now.note_frame(seen);
            now.categories = categories;
            now.created = created;
            (now.kept_frames, now.kept_bytes) = kept;
            now.durable_seq = durable;
            now.progress = progress;
        });
    }

    fn tell_camera(&self, camera: trace::Camera) {
        match camera.state {
            CameraState::Lost => log::warn!(
                "camera lost: {}; it is tried again until it is back",
                camera.detail.as_deref().unwrap_or("for no known reason")
            ),
            CameraState::Back => log::info!("camera back"),
            CameraState::Frozen => log::warn!(
                "the camera has sent the same picture for {:.0} s",
                camera.away_s.unwrap_or_default()
            ),
            _ => {}
        }
        let present = camera.state != CameraState::Lost;
        self.record(Record::Camera(camera));
        self.status.change(|now| now.feed.present = present);
    }

    /// The line that the service manager shows.
    fn tell_manager(&self) {
        let line = self.status.look(|now| {
            let trouble = now.disk_trouble.as_ref().map_or_else(String::new, |trouble| {
                format!("disk trouble for {} s: {}; ", trouble.since.elapsed().as_secs(), trouble.what)
            });
            let paused = if now.paused { "paused; " } else { "" };
            format!(
                "{trouble}{paused}{}, {}, {}",
                words::frames(now.frames),
                words::categories(now.categories),
                words::updates(now.updates)
            )
        });
        self.manager.status(&line);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::UnixDatagram;
    use std::path::Path;
    use std::time::Duration;

    use super::*;
    use crate::device::clock::SystemClock;
    use crate::storage::Simulated;
    use crate::trace::{Reader, TraceSettings, TraceWriter};

    fn journal(fs: &Simulated, manager: ServiceManager) -> (Journal, TraceWriter) {
        let clock = Arc::new(SystemClock::new());
        let mut settings = TraceSettings::default();
        settings.disk.reserve_bytes = 0;
        let fs = Arc::new(fs.clone());
        let (writer, _) = TraceWriter::open(fs, Path::new("/trace"), settings, clock).unwrap();
        (Journal { recorder: writer.recorder(), status: Arc::default(), manager }, writer)
    }

    #[test]
    fn a_pause_reaches_trace_status_and_service_manager() {
        let folder = tempfile::tempdir().unwrap();
        let address = folder.path().join("notify");
        let heard = UnixDatagram::bind(&address).unwrap();
        heard.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let manager = ServiceManager::connect(address.as_os_str().as_bytes(), None).unwrap();
        let fs = Simulated::with_dir("/trace");
        let (journal, writer) = journal(&fs, manager);
        journal.tell(Event::Paused { by: "page" });
        assert!(journal.status.look(|now| now.paused));
        let mut line = [0; 200];
        let len = heard.recv(&mut line).unwrap();
        assert_eq!(&line[..len], b"STATUS=paused; 0 frames, 0 categories, 0 updates");
        journal.tell(Event::Resumed { by: "page", paused_s: 1.5 });
        assert!(!journal.status.look(|now| now.paused));
        writer.close(Duration::from_secs(60)).unwrap();
        let records: Vec<_> = Reader::open(Arc::new(fs), Path::new("/trace"))
            .unwrap()
            .map(|entry| entry.unwrap().record)
            .collect();
        assert!(
            matches!(&records[..], [Record::Pause(pause), Record::Resume(_)] if pause.by == "page"),
            "{records:?}"
        );
    }

    #[test]
    fn a_merge_is_recorded_counted_and_told_to_watchers() {
        let fs = Simulated::with_dir("/trace");
        let (journal, writer) = journal(&fs, ServiceManager::default());
        journal.status.change(|now| now.categories = 18);
        let merge = trace::Merge { from: 17, into: 3, frame: 812, similarity: 0.93 };
        journal.tell(Event::Merged(merge));
        let (merges, categories, newest) =
            journal.status.look(|now| (now.merges, now.categories, now.joined.back().copied()));
        assert_eq!((merges, categories, newest), (1, 17, Some(merge)));
        writer.close(Duration::from_secs(60)).unwrap();
        let reader = Reader::open(Arc::new(fs), Path::new("/trace")).unwrap();
        let records: Vec<_> = reader.map(|entry| entry.unwrap().record).collect();
        assert_eq!(records, [Record::Merge(merge)]);
    }

    #[test]
    fn a_comparison_is_recorded_and_counted() {
        let fs = Simulated::with_dir("/trace");
        let (journal, writer) = journal(&fs, ServiceManager::default());
        let compared = |outcome| trace::Publication {
            update: 12,
            frame: 254,
            outcome,
            before: 0.91,
            after: 0.93,
            error: 0.005,
            questions: 140,
        };
        let both = [PublicationOutcome::Waits, PublicationOutcome::Published].map(compared);
        both.into_iter().for_each(|one| journal.tell(Event::Compared(one)));
        let counted = journal.status.look(|now| (now.comparisons, now.publications, now.compared));
        assert_eq!(counted, (2, 1, Some(both[1])));
        writer.close(Duration::from_secs(60)).unwrap();
        let reader = Reader::open(Arc::new(fs), Path::new("/trace")).unwrap();
        let records: Vec<_> = reader.map(|entry| entry.unwrap().record).collect();
        assert_eq!(records, both.map(Record::Publication));
    }

    #[test]
    fn an_update_that_is_thrown_away_is_counted_and_recorded() {
        let fs = Simulated::with_dir("/trace");
        let (journal, writer) = journal(&fs, ServiceManager::default());
        journal.tell(Event::Skipped(trace::UpdateSkipped {
            frame: 5,
            reason: trace::SkipReason::LossNotFinite,
            loss: f32::NAN,
            gradient_norm: f32::NAN,
        }));
        let lost = trace::Camera { state: CameraState::Lost, detail: None, away_s: None };
        journal.tell(Event::Camera(lost));
        assert_eq!(journal.status.look(|now| (now.skipped_updates, now.feed.present)), (1, false));
        writer.close(Duration::from_secs(60)).unwrap();
        assert_eq!(Reader::open(Arc::new(fs), Path::new("/trace")).unwrap().count(), 2);
    }
}

//! Events in words, one line each, for people who read a table or a report.

use crate::trace::{
    Calibration, CameraState, DropReason, PublicationOutcome, Record, SkipReason, StopReason,
};
use crate::words;

/// What a record says; empty for frames, updates and regular readings, which are numbers rather than events.
pub fn describe(record: &Record) -> String {
    let detail = |text: &Option<String>| text.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
    match record {
        Record::Frame(_) | Record::Update(_) | Record::Health(_) => String::new(),
        Record::Merge(merge) => {
            let similarity = merge.similarity;
            format!(
                "category {} was joined into category {}, similarity {similarity:.2}",
                merge.from, merge.into
            )
        }
        Record::UpdateSkipped(skipped) => {
            let reason = match skipped.reason {
                SkipReason::LossNotFinite => "the loss was not finite",
                SkipReason::GradientNotFinite => "the gradient was not finite",
                SkipReason::GradientTooLong => "the gradient was much too long",
                SkipReason::Failed => "it could not be computed",
                SkipReason::Unknown => "a reason of a later version",
            };
            format!("an update was thrown away: {reason}")
        }
        Record::Publication(publication) => {
            let outcome = match publication.outcome {
                PublicationOutcome::Published => {
                    "what was learned is better: the live categories go on with it"
                }
                PublicationOutcome::Waits => "what was learned is not clearly better yet, and waits",
                PublicationOutcome::WentBack => "what was learned is worse: learning goes back",
                PublicationOutcome::Unknown => {
                    "what was learned was compared, with an outcome of a later version"
                }
            };
            let (before, after) = (percent(publication.before), percent(publication.after));
            format!("{outcome} (tells frames apart {after}, before {before})")
        }
        Record::Collapse(collapse) if collapse.collapsed => {
            format!("the embeddings have shrunk together: {:.3}, limit {:.3}", collapse.level, collapse.limit)
        }
        Record::Collapse(collapse) => format!("the embeddings differ again: {:.3}", collapse.level),
        Record::Calibration(Calibration { similarity: Some(similarity), .. }) => {
            format!("a frame belongs to a category from a similarity of {similarity:.2} on")
        }
        Record::Calibration(set) => {
            format!(
                "β set from {:.2} to {:.2} by the first {}",
                set.from,
                set.to,
                words::frames(u64::from(set.frames))
            )
        }
        Record::Stride(stride) => {
            let frames = words::frames(u64::from(stride.to));
            format!("an update every {frames} instead of {}: {}", stride.from, stride.reason)
        }
        Record::Start(start) => match &start.resumed_from {
            None => format!("recording begins: {}, {}", start.source, start.compute),
            Some(checkpoint) => {
                format!("recording goes on from {checkpoint}: {}, {}", start.source, start.compute)
            }
        },
        Record::Stop(stop) => {
            let reason = match stop.reason {
                StopReason::Signal => "asked to",
                StopReason::Frames => "as many frames as asked for were seen",
                StopReason::Time => "the time asked for was over",
                StopReason::EndOfSource => "the source had no more",
                StopReason::Error => "something failed",
                StopReason::Unknown => "a reason of a later version",
            };
            format!("recording ends, {reason}{}", detail(&stop.detail))
        }
        Record::Pause(pause) if pause.by == "restart" => "still paused after the restart".to_owned(),
        Record::Pause(pause) => format!("paused by {}", pause.by),
        Record::Resume(resume) => format!("resumed by {} after {:.0} s", resume.by, resume.paused_s),
        Record::Camera(camera) => {
            let state = match camera.state {
                CameraState::Opened => "camera opened",
                CameraState::Lost => "camera lost",
                CameraState::Back => "camera back",
                CameraState::Frozen => "camera shows the same picture again and again",
                CameraState::Moving => "camera's picture moves again",
                CameraState::Unknown => "camera: a state of a later version",
            };
            let away = camera.away_s.map(|seconds| format!(" after {seconds:.0} s")).unwrap_or_default();
            format!("{state}{away}{}", detail(&camera.detail))
        }
        Record::Temperature(heat) => {
            let what = if heat.hot { "too hot" } else { "cooled down" };
            format!("{what}: {} at {:.0} °C, limit {:.0} °C", heat.zone, heat.celsius, heat.limit)
        }
        Record::Compute(change) => {
            format!("learns on {} instead of {}{}", change.compute, change.before, detail(&change.reason))
        }
        Record::Disk(disk) => {
            let level = serde_json::to_value(disk.level).ok();
            let level = level.as_ref().and_then(|level| level.as_str()).unwrap_or("unknown").to_owned();
            format!("disk room {level}: {} MiB free", disk.free_bytes >> 20)
        }
        Record::Checkpoint(checkpoint) => match &checkpoint.error {
            Some(error) => format!("no checkpoint could be written: {error}"),
            None => format!("checkpoint of {} MiB after frame {}", checkpoint.bytes >> 20, checkpoint.frame),
        },
        Record::Forget(forget) => {
            let last = words::duration(f64::from(forget.last_s));
            format!("the last {last} were forgotten: {}", records(forget.removed))
        }
        Record::Forgotten(forgotten) => format!("{} forgotten here", records(forgotten.removed)),
        Record::Dropped(dropped) => match dropped.reason {
            DropReason::QueueFull => "records dropped: the disk was too slow".to_owned(),
            DropReason::TooLong => "a record was too long to be kept".to_owned(),
            DropReason::Unknown => "records dropped".to_owned(),
        },
        Record::Recovered(recovered) => {
            format!("{} cut off that a crash had damaged", words::bytes(recovered.cut_bytes))
        }
        Record::WriteTrouble(trouble) => {
            format!("writing failed for {:.0} s: {}", trouble.seconds, trouble.error)
        }
        Record::Unknown => "a record of a later version".to_owned(),
    }
}

fn records(number: u64) -> String {
    words::counted(number, "record", "records")
}
/// A share in percent; a dash if it is not known.
fn percent(share: f32) -> String {
    if share.is_finite() { format!("{:.1} %", 100.0 * share) } else { "–".to_owned() }
}

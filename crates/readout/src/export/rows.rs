//! The five tables: their columns, and a record's row in them.

use super::What;
use super::table::Type::{Flag, Json, Real32, Real64, Text, Time, Whole};
use super::table::{Cell, Column, Type};
use crate::recording::segments::{Segment, certainty};
use crate::recording::{Merges, Recording, Seen, describe};
use crate::trace::{Frame, Merge, Record, Update};

/// Columns that every table begins with.
const COMMON: [(&str, Type); 7] = [
    ("device", Text),
    ("run", Text),
    ("session", Whole),
    ("seconds", Real64),
    ("mono_ns", Whole),
    ("wall", Time),
    ("synced", Flag),
];

/// What came later stands at the end, so that those who count columns still find the others.
const FRAMES: [(&str, Type); 15] = [
    ("seq", Whole),
    ("boot", Text),
    ("frame", Whole),
    ("category", Whole),
    ("created", Flag),
    ("evicted", Whole),
    ("certainty", Real64),
    ("u_hat", Real32),
    ("similarity", Real32),
    ("share", Real32),
    ("runners_up", Json),
    ("camera_sequence", Whole),
    ("latency_ms", Real32),
    ("truth", Whole),
    ("category_final", Whole),
];

const SEGMENTS: [(&str, Type); 9] = [
    ("category", Whole),
    ("end_seconds", Real64),
    ("duration", Real64),
    ("first_frame", Whole),
    ("last_frame", Whole),
    ("frames", Whole),
    ("created", Flag),
    ("mean_certainty", Real64),
    ("mean_similarity", Real64),
];

/// `from` and `into`, as the trace has them, are words of SQL.
const MERGES: [(&str, Type); 7] = [
    ("seq", Whole),
    ("boot", Text),
    ("frame", Whole),
    ("category", Whole),
    ("joined_into", Whole),
    ("similarity", Real32),
    ("category_final", Whole),
];

const UPDATES: [(&str, Type); 19] = [
    ("seq", Whole),
    ("boot", Text),
    ("update", Whole),
    ("frame", Whole),
    ("window", Whole),
    ("stride", Whole),
    ("loss", Real32),
    ("loss_self", Real32),
    ("loss_entropy", Real32),
    ("loss_new", Real32),
    ("mean_u_hat", Real32),
    ("categories", Whole),
    ("collapse", Real32),
    ("gradient_norm", Real32),
    ("inv_tau", Real32),
    ("beta", Real32),
    ("gamma", Real32),
    ("learning_rate", Real32),
    ("update_seconds", Real32),
];

const EVENTS: [(&str, Type); 5] =
    [("seq", Whole), ("boot", Text), ("kind", Text), ("text", Text), ("fields", Json)];

/// The columns of a table.
pub(super) fn columns(what: What) -> Vec<Column> {
    let own: &[(&str, Type)] = match what {
        What::Frames => &FRAMES,
        What::Segments => &SEGMENTS,
        What::Merges => &MERGES,
        What::Updates => &UPDATES,
        What::Events => &EVENTS,
    };
    COMMON.iter().chain(own).map(|&(name, kind)| Column { name, kind }).collect()
}

/// The row of a record in the table `what`, if it belongs there. Segments are not made of single records.
pub(super) fn row(what: What, recording: &Recording, seen: &Seen) -> Option<Vec<Cell>> {
    let own = match (what, &seen.record) {
        (What::Frames, Record::Frame(frame)) => frame_cells(frame, &recording.merges),
        (What::Merges, Record::Merge(merge)) => merge_cells(merge, &recording.merges),
        (What::Updates, Record::Update(update)) => update_cells(update),
        (What::Events, Record::Frame(_) | Record::Update(_)) => return None,
        (What::Events, record) => event_cells(record),
        _ => return None,
    };
    let mut row = common(recording, seen.session, seen.seconds, &seen.at);
    row.extend([seen.seq.into(), seen.at.boot.to_string().as_str().into()]);
    row.extend(own);
    Some(row)
}

/// The row of a segment.
pub(super) fn segment(recording: &Recording, segment: &Segment) -> Vec<Cell> {
    let mut row = common(recording, segment.session, segment.begin, &segment.at);
    row.extend([
        segment.category.into(),
        segment.end.into(),
        segment.duration().into(),
        segment.first_frame.into(),
        segment.last_frame.into(),
        segment.frames.into(),
        segment.created.into(),
        segment.mean_certainty().into(),
        segment.mean_similarity().into(),
    ]);
    row
}

fn common(recording: &Recording, session: usize, seconds: f64, at: &crate::clock::Stamp) -> Vec<Cell> {
    vec![
        recording.device_in(session).into(),
        recording.run.as_str().into(),
        (session as u64).into(),
        seconds.into(),
        at.mono_ns.into(),
        at.wall.into(),
        at.synced.into(),
    ]
}

fn frame_cells(frame: &Frame, merges: &Merges) -> Vec<Cell> {
    vec![
        frame.frame.into(),
        frame.category.into(),
        frame.created.into(),
        frame.evicted.into(),
        certainty(frame).into(),
        frame.u_hat.into(),
        frame.similarity.into(),
        frame.share.into(),
        json(&frame.runners_up).into(),
        frame.camera_sequence.into(),
        frame.latency_ms.into(),
        frame.truth.into(),
        merges.ended(frame.category).into(),
    ]
}

fn merge_cells(merge: &Merge, merges: &Merges) -> Vec<Cell> {
    vec![
        merge.frame.into(),
        merge.from.into(),
        merge.into.into(),
        merge.similarity.into(),
        merges.ended(merge.from).into(),
    ]
}

fn update_cells(update: &Update) -> Vec<Cell> {
    vec![
        update.update.into(),
        update.frame.into(),
        update.window.into(),
        update.stride.into(),
        update.losses.total.into(),
        update.losses.self_supervised.into(),
        update.losses.entropy.into(),
        update.losses.creation.into(),
        update.mean_u_hat.into(),
        update.categories.into(),
        update.collapse.into(),
        update.gradient_norm.into(),
        update.inv_tau.into(),
        update.beta.into(),
        update.gamma.into(),
        update.learning_rate.into(),
        update.seconds.into(),
    ]
}

/// By way of text, in which 0.1 stays 0.1: a value made of an `f32` would show all digits of its `f64`.
fn json(value: &impl serde::Serialize) -> Option<serde_json::Value> {
    serde_json::from_str(&serde_json::to_string(value).ok()?).ok()
}

fn event_cells(record: &Record) -> Vec<Cell> {
    let mut fields = json(record).unwrap_or_default();
    let kind = fields.as_object_mut().and_then(|fields| fields.remove("kind"));
    let kind = kind.as_ref().and_then(|kind| kind.as_str()).unwrap_or("unknown").to_owned();
    vec![kind.as_str().into(), describe(record).as_str().into(), fields.into()]
}

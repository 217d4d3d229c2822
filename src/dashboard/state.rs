//! The recording's state as JSON: whole for a page that opens, and as news for those that are open. `docs/API.md` lists
//! the fields.

use std::time::Duration;

use serde_json::{Value, json};

use crate::run::status::{Moment, Snapshot};
use crate::trace::Update;

/// What every answer begins with: the numbers of now.
pub(super) fn now(snapshot: &Snapshot) -> Value {
    let newest = snapshot.newest.as_ref().map(|seen| {
        let record = &seen.record;
        json!({
            "frame": record.frame,
            "category": record.category,
            "created": record.created,
            "evicted": record.evicted,
            "u_hat": finite(record.u_hat),
            "similarity": finite(record.similarity),
            "share": record.share.and_then(finite),
            "runners_up": record.runners_up,
            "latency_ms": record.latency_ms,
            "mono_ns": seen.at.mono_ns,
            "wall": seen.at.wall,
            "synced": seen.at.synced,
        })
    });
    json!({
        "version": snapshot.version,
        "program": concat!("oupn-edge ", env!("CARGO_PKG_VERSION")),
        "device": snapshot.device,
        "state": state(snapshot),
        "paused": snapshot.paused,
        "started": snapshot.started.map(|at| json!({"mono_ns": at.mono_ns, "wall": at.wall, "synced": at.synced})),
        "period_s": snapshot.period_s,
        "camera": {
            "description": snapshot.feed.description,
            "present": snapshot.feed.present,
            "frames": snapshot.feed.frames,
            "missed": snapshot.feed.missed,
            "corrupt": snapshot.feed.corrupt,
            "rate": finite(snapshot.feed.rate),
        },
        "newest": newest,
        "frames": snapshot.frames,
        "categories": snapshot.categories,
        "founded": snapshot.founded,
        "updates": snapshot.updates,
        "skipped_updates": snapshot.skipped_updates,
        "learning_s": snapshot.learning_since.map(|since| since.elapsed().as_secs_f64()),
        "stride": snapshot.stride,
        "collapsed": snapshot.collapsed,
        "health": snapshot.health,
        "disk": snapshot.disk,
        "disk_trouble": trouble(snapshot),
        "durable_seq": snapshot.durable_seq,
        "latency_p95_ms": latency_quantile(snapshot, 0.95),
        "gallery": snapshot.gallery.iter().map(|k| json!([k.category, k.frames, k.last_frame])).collect::<Vec<_>>(),
    })
}

/// The state in one word.
pub(super) fn state(snapshot: &Snapshot) -> &'static str {
    match (snapshot.paused, snapshot.feed.present) {
        (true, _) => "paused",
        (false, true) => "recording",
        (false, false) => "no_camera",
    }
}

/// What is wrong with the disk, and for how long it has been.
pub(super) fn trouble(snapshot: &Snapshot) -> Option<Value> {
    let trouble = snapshot.disk_trouble.as_ref()?;
    Some(json!({ "what": trouble.what, "seconds": trouble.since.elapsed().as_secs() }))
}

/// Everything: the numbers of now, the ribbon and the learning curves.
pub(super) fn whole(snapshot: &Snapshot) -> Value {
    let mut value = now(snapshot);
    value["ribbon"] = snapshot.ribbon.iter().map(moment).collect();
    value["lessons"] = snapshot.lessons.iter().map(lesson).collect();
    value
}

/// A frame of the ribbon: its number, monotonic milliseconds, category, whether it founded it, û.
pub(super) fn moment(moment: &Moment) -> Value {
    let milliseconds = Duration::from_nanos(moment.mono_ns).as_millis() as u64;
    json!([moment.frame, milliseconds, moment.category, moment.created, finite(moment.u_hat)])
}

/// An update as the learning curves need it.
pub(super) fn lesson(update: &Update) -> Value {
    json!({
        "update": update.update,
        "frame": update.frame,
        "loss": finite(update.losses.total),
        "self": finite(update.losses.self_supervised),
        "entropy": finite(update.losses.entropy),
        "new": finite(update.losses.creation),
        "mean_u_hat": finite(update.mean_u_hat),
        "categories": update.categories,
        "collapse": finite(update.collapse),
        "beta": finite(update.beta),
        "seconds": finite(update.seconds),
    })
}

/// The upper bound of the histogram's cell that a part of all latencies does not exceed, in ms.
fn latency_quantile(snapshot: &Snapshot, part: f64) -> Option<f32> {
    let total: u64 = snapshot.latency_counts.iter().sum();
    let wanted = (total as f64 * part).ceil() as u64;
    let mut below = 0;
    let cell = snapshot.latency_counts.iter().position(|count| {
        below += count;
        total > 0 && below >= wanted
    })?;
    crate::run::status::LATENCY_BOUNDS_MS.get(cell).copied()
}

/// JSON has no word for what is not a number.
fn finite(value: f32) -> Option<f32> {
    value.is_finite().then_some(value)
}

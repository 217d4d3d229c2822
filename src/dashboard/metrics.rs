//! `GET /metrics`: the recording in Prometheus' text format.

use std::fmt::{Display, Write as _};

use crate::run::status::{BOUNDS_MS, Snapshot};

/// The metrics of now. Counts begin with the start of the program, as Prometheus wants them.
pub(super) fn metrics(now: &Snapshot, watchers: usize) -> String {
    let mut text = Text(String::new());
    text.labelled(
        "build_info",
        "gauge",
        "The program.",
        &format!("version=\"{}\"", env!("CARGO_PKG_VERSION")),
        1,
    );
    text.plain("recording", "gauge", "1 while frames are looked at.", u8::from(now.state() == "recording"));
    text.plain("paused", "gauge", "1 while paused.", u8::from(now.paused));
    text.plain("camera_present", "gauge", "1 while the camera delivers.", u8::from(now.feed.present));
    text.plain("camera_frames_total", "counter", "Pictures that the camera delivered.", now.feed.frames);
    text.plain(
        "camera_gaps_total",
        "counter",
        "Pictures that the camera lost, by its own numbers.",
        now.feed.missed,
    );
    text.plain("camera_corrupt_total", "counter", "Pictures that could not be decoded.", now.feed.corrupt);
    text.plain("camera_rate_hertz", "gauge", "Pictures a second.", now.feed.rate);
    text.plain("frames_total", "counter", "Sampled frames that got a category.", now.frames);
    text.plain("categories", "gauge", "Categories in the memory.", now.categories);
    text.plain("categories_founded", "gauge", "Categories created over all restarts.", now.created);
    text.plain(
        "categories_joined_total",
        "counter",
        "Categories that were joined into older ones.",
        now.merges,
    );
    text.plain("updates_total", "counter", "Steps of learning.", now.updates);
    text.plain(
        "updates_skipped_total",
        "counter",
        "Steps of learning that were thrown away.",
        now.skipped_updates,
    );
    text.plain(
        "comparisons_total",
        "counter",
        "Comparisons of new weights with those in use.",
        now.comparisons,
    );
    text.plain(
        "publications_total",
        "counter",
        "New weights that were better, and taken up.",
        now.publications,
    );
    if let Some(compared) = now.compared.filter(|compared| compared.before.is_finite()) {
        text.head(
            "score",
            "gauge",
            "How well weights tell frames apart without labels: 1 always, 0.5 chance.",
        );
        text.sample("score", "weights=\"in_use\"", compared.before);
        text.sample("score", "weights=\"newest\"", compared.after);
    }
    let device = now.compute.replace(['\\', '"', '\n'], " ");
    text.labelled("compute_info", "gauge", "What trains.", &format!("device=\"{device}\""), 1);
    text.plain("collapsed", "gauge", "1 while the embeddings have shrunk together.", u8::from(now.collapsed));
    if let Some(update) = now.curves.back() {
        let losses = &update.losses;
        text.head("loss", "gauge", "Of the last step of learning.");
        for (term, value) in [
            ("total", losses.total),
            ("self", losses.self_supervised),
            ("entropy", losses.entropy),
            ("new", losses.creation),
        ] {
            text.sample("loss", &format!("term=\"{term}\""), value);
        }
        text.plain("update_seconds", "gauge", "How long the last step took.", update.seconds);
        text.plain("collapse_level", "gauge", "Spread of the embeddings.", update.collapse);
        text.plain("mean_u_hat", "gauge", "Mean of û over the last window.", update.mean_u_hat);
    }
    latencies(now, &mut text);
    let health = &now.health;
    text.maybe("temperature_celsius", "The hottest zone.", health.celsius);
    text.maybe("power_watts", "What the module draws.", health.watts);
    text.maybe("disk_free_bytes", "Free on the data folder's disk.", health.free_bytes);
    text.maybe("resident_bytes", "What the process holds.", health.resident_bytes);
    text.maybe("memory_available_bytes", "What the machine has left.", health.available_bytes);
    text.maybe("gpu_load_ratio", "The GPU's load.", health.gpu_load);
    text.plain(
        "disk_trouble",
        "gauge",
        "1 while the trace or checkpoints cannot be written.",
        u8::from(now.disk_trouble.is_some()),
    );
    text.plain(
        "disk_trouble_seconds",
        "gauge",
        "For how long that has been so; 0 if all is well.",
        now.disk_trouble.as_ref().map_or(0, |trouble| trouble.since.elapsed().as_secs()),
    );
    text.plain("trace_durable_seq", "gauge", "Everything up to this record is on the disk.", now.durable_seq);
    text.plain("pages", "gauge", "Pages that are open.", watchers);
    text.0
}

fn latencies(now: &Snapshot, text: &mut Text) {
    text.head("latency_seconds", "histogram", "From the picture to its category.");
    let mut below = 0;
    for (bound, count) in BOUNDS_MS.iter().zip(&now.latency.counts) {
        below += count;
        text.sample("latency_seconds_bucket", &format!("le=\"{}\"", bound / 1000.0), below);
    }
    let total: u64 = now.latency.counts.iter().sum();
    text.sample("latency_seconds_bucket", "le=\"+Inf\"", total);
    text.sample("latency_seconds_sum", "", now.latency.sum_ms / 1000.0);
    text.sample("latency_seconds_count", "", total);
}

/// Lines of the exposition format.
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP oupn_edge_{name} {help}\n# TYPE oupn_edge_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let braces = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(self.0, "oupn_edge_{name}{braces} {value}");
    }

    fn plain(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.labelled(name, kind, help, "", value);
    }

    fn labelled(&mut self, name: &str, kind: &str, help: &str, labels: &str, value: impl Display) {
        self.head(name, kind, help);
        self.sample(name, labels, value);
    }

    fn maybe(&mut self, name: &str, help: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.plain(name, "gauge", help, value);
        }
    }
}

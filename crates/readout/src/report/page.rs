//! The page: what stands where, and the sentences around it.

use std::fmt::Write as _;

use super::chart::{self, Curve, Frame};
use super::digest::{BARS, Digest};
use super::joined;
use super::ribbon::{self, LANES};
use super::series::Series;
use super::tables;
use super::thumbnails::Thumbnails;
use super::words::{Escaped, clock, count, duration, percent};
use crate::recording::Recording;

/// Categories that have a card.
const CARDS: usize = 24;

/// Bars of the rate of new categories.
const RATE_BARS: usize = 40;

/// The whole document.
pub(super) fn page(recording: &Recording, digest: &Digest) -> String {
    let title = format!("{} · {}", recording.device, recording.run);
    let style = include_str!("style.css");
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">\
         <meta name=\"color-scheme\" content=\"light dark\">\
         <meta name=\"generator\" content=\"oupn-edge {}\"><title>{}</title><style>{style}</style></head><body>\
         <main>{}{}{}{}{}{}{}{}{}</main></body></html>\n",
        env!("CARGO_PKG_VERSION"),
        Escaped(&title),
        header(recording, digest),
        missing(digest),
        section(
            "When what was seen",
            &format!(
                "Each lane is a category, the most seen first; empty stretches had no frames.{}",
                joined::note(recording, digest)
            ),
            &ribbon::ribbon(digest)
        ),
        section("Categories", &card_note(digest), &cards(recording, digest)),
        section("Learning", "", &learning(recording, digest)),
        section(
            "From one category to the next",
            "Rows: from; columns: to. Counts of changes between the most seen categories.",
            &tables::transitions(digest)
        ),
        section("Camera and machine", "", &machine(digest)),
        section("What happened", "", &tables::events(digest)),
        tables::settings(recording),
    )
}

fn section(title: &str, note: &str, content: &str) -> String {
    let note = if note.is_empty() { String::new() } else { format!("<p class=\"note\">{note}</p>") };
    format!("<section><h2>{title}</h2>{note}{content}</section>")
}

fn header(recording: &Recording, digest: &Digest) -> String {
    let start = recording.start.as_ref();
    let stopped = recording.sessions.last().is_some_and(|session| session.stopped);
    let mut facts = String::new();
    let mut fact = |value: &str, name: &str| {
        let _ = write!(facts, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    };
    fact(&duration(digest.end), "in all");
    fact(&count(digest.frames), "frames");
    fact(&count(digest.categories.len() as u64), "categories seen");
    if !recording.merges.is_empty() {
        fact(&count(recording.merges.len() as u64), "joined into others");
    }
    fact(&count(digest.updates), "steps of learning");
    fact(&percent(digest.seen_seconds / digest.end.max(1e-9)), "of the time seen");
    let latency = |part: f64| digest.latency_ms.quantile(part).map(|ms| format!("{ms:.0} ms"));
    fact(&latency(0.95).unwrap_or_else(|| "–".to_owned()), "latency, 95 % within");
    let line = |name: &str, value: &str| {
        if value.is_empty() { String::new() } else { format!("<li><b>{name}</b> {}</li>", Escaped(value)) }
    };
    let clock = match start.and_then(|start| start.recorded) {
        Some(true) => ", as the recording tells",
        _ if digest.synced => "",
        _ => " (clock not set: may be wrong)",
    };
    let when = match (&digest.began, &digest.ended) {
        (Some(began), Some(ended)) => format!("{began} to {ended} UTC{clock}"),
        _ => "not known: the source does not tell (--start-time says it)".to_owned(),
    };
    let sessions = match recording.sessions.len() {
        1 => "one session".to_owned(),
        number => format!("{number} sessions"),
    };
    let ended = if stopped { "ended in an orderly way" } else { "running, or ended without a stop" };
    format!(
        "<header><p class=\"kind\">Recording</p><h1>{}</h1><ul class=\"about\">{}{}{}{}{}</ul><dl class=\"facts\">{facts}</dl></header>",
        Escaped(&recording.device),
        line("when", &when),
        line("run", &format!("{}, {sessions}, {ended}", recording.run)),
        line("camera", &recording.sources().join("; ")),
        line("computed on", start.map_or("", |start| &start.compute)),
        line("board", start.map_or("", |start| &start.board)),
    )
}

fn missing(digest: &Digest) -> String {
    let lines =
        |lines: &[String]| lines.iter().map(|line| format!("<li>{}</li>", Escaped(line))).collect::<String>();
    let mut html = String::new();
    if !digest.missing.faults.is_empty() {
        let _ = write!(
            html,
            "<aside class=\"fault\"><h2>The trace is damaged</h2><ul>{}</ul></aside>",
            lines(&digest.missing.faults)
        );
    }
    if !digest.missing.notes.is_empty() {
        let _ = write!(
            html,
            "<aside><h2>Not in this report</h2><ul>{}</ul></aside>",
            lines(&digest.missing.notes)
        );
    }
    html
}

fn card_note(digest: &Digest) -> String {
    let all = digest.categories.len();
    if all > CARDS {
        format!("The {CARDS} that took the most time, of {all}. The bar shows when each was seen.")
    } else {
        "By the time they took. The bar shows when each was seen.".to_owned()
    }
}

fn cards(recording: &Recording, digest: &Digest) -> String {
    let thumbnails = Thumbnails::of(recording);
    let parts = recording.merges.by_survivor();
    let mut html = "<ol class=\"cards\">".to_owned();
    for (rank, (id, category)) in digest.favourites(CARDS).into_iter().enumerate() {
        let class = if rank < LANES { format!("c{rank}") } else { "other".to_owned() };
        let frames = category.frames.max(1) as f64;
        let gone = match (recording.merges.ended(id), category.evicted) {
            (into, _) if into != id => format!("<em>joined into category {into}</em>"),
            (_, true) => "<em>given up</em>".to_owned(),
            (_, false) => String::new(),
        };
        let _ = write!(
            html,
            "<li><h3><i class=\"{class}\"></i>{id}{gone}</h3>{}<div class=\"presence\">{}</div>{}<dl>\
             <div><dt>time</dt><dd>{}</dd></div><div><dt>visits</dt><dd>{}</dd></div>\
             <div><dt>first seen</dt><dd>{}</dd></div><div><dt>last seen</dt><dd>{}</dd></div>\
             <div><dt>similarity</dt><dd>{:.2}</dd></div><div><dt>certainty</dt><dd>{}</dd></div></dl></li>",
            thumbnails.image(id),
            ribbon::presence(digest, id, &class),
            joined::parts(parts.get(&id)),
            duration(category.seconds),
            count(category.visits),
            clock(category.first),
            clock(category.last),
            category.similarity / frames,
            percent(category.certainty / frames),
        );
    }
    html.push_str("</ol>");
    html
}

fn learning(recording: &Recording, digest: &Digest) -> String {
    let learning = &digest.learning;
    let frame = |title, note| Frame { title, note, end: digest.end, from_zero: true, level: None };
    let created = digest.creations.iter().enumerate().map(|(index, &seconds)| (seconds, (index + 1) as f64));
    let created: Vec<_> = thinned(created.collect());
    let growth = chart::curves(
        &frame("How many categories", "Created since the beginning, and in memory."),
        &[Curve::new("created", created).steps(), Curve::new("in memory", digest.living.points()).steps()],
    );
    let width = digest.end / RATE_BARS as f64;
    let rate = (0..RATE_BARS).map(|bar| {
        let (begin, end) = (bar as f64 * width, (bar + 1) as f64 * width);
        let created = digest.creations.iter().filter(|seconds| (begin..end).contains(*seconds)).count();
        (begin, end, created as f64)
    });
    let note = format!("One bar for every {}. {}", duration(width), novelty(digest));
    let rate = chart::bars(&frame("New categories", &note), &rate.collect::<Vec<_>>());
    let losses = chart::curves(
        &frame("Losses", "Of each window: their weighted sum and its terms."),
        &[
            Curve::new("total", learning.total.points()),
            Curve::new("self", learning.self_supervised.points()),
            Curve::new("entropy", learning.entropy.points()),
            Curve::new("new", learning.creation.points()),
        ],
    );
    let collapse = chart::curves(
        &Frame {
            level: learning.collapse_limit.map(|limit| (limit, "collapsed below")),
            ..frame("Spread of the embeddings", "Near 0 all frames look alike to the encoder.")
        },
        &[Curve::new("standard deviation", learning.collapse.points())],
    );
    let beta = chart::curves(
        &Frame {
            from_zero: false,
            ..frame("β, the threshold of the new", "Greater: fewer categories are created.")
        },
        &[Curve::new("β", learning.beta.points()).steps()],
    );
    format!(
        "<div class=\"charts\">{growth}{rate}{}{losses}{collapse}{}{beta}</div>",
        comparisons(digest),
        calibration(recording, digest)
    )
}

/// Whether learning helps, by a score that needs no labels; nothing of a recording that was not asked.
fn comparisons(digest: &Digest) -> String {
    let learning = &digest.learning;
    if learning.comparisons == 0 {
        return String::new();
    }
    let note = format!(
        "How often a kept frame is more similar to one of the same thing than to others (50 %: chance). New weights were better, \
         and taken up, {} of {} times.",
        count(learning.publications),
        count(learning.comparisons)
    );
    let frame =
        Frame { title: "Does learning help?", note: &note, end: digest.end, from_zero: false, level: None };
    let percent =
        |series: &Series| series.points().into_iter().map(|(at, share)| (at, 100.0 * share)).collect();
    chart::curves(
        &frame,
        &[
            Curve::new("weights in use", percent(&learning.in_use)),
            Curve::new("newest weights", percent(&learning.newest)),
        ],
    )
}

/// How much was new at the beginning and at the end, in numbers: what they mean is for the reader to say.
fn novelty(digest: &Digest) -> String {
    /// Frames of a third that make a share worth telling.
    const ENOUGH: u64 = 10;
    let third = digest.frames / 3;
    if third < ENOUGH {
        return "Too few frames to say whether new things become rarer.".to_owned();
    }
    let share = |frames: std::ops::Range<u64>| {
        let created = digest.created_at.iter().filter(|frame| frames.contains(frame)).count();
        percent(created as f64 / third as f64)
    };
    format!(
        "Of the first third of the frames {} were new, of the last third {}.",
        share(0..third),
        share(digest.frames - third..digest.frames)
    )
}

/// At most some hundreds of points of a curve of steps, the last one among them.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let every = points.len() / 600 + 1;
    let last = points.len().saturating_sub(1);
    points
        .into_iter()
        .enumerate()
        .filter(|(index, _)| index % every == 0 || *index == last)
        .map(|(_, point)| point)
        .collect()
}

fn calibration(recording: &Recording, digest: &Digest) -> String {
    let threshold = recording.start.as_ref().and_then(|start| start.settings.get("threshold")?.as_f64());
    let stacks: Vec<(u64, u64)> = digest.u_hat.iter().map(|bar| (bar.known, bar.created)).collect();
    let dots = digest.u_hat.iter().enumerate().filter(|(_, bar)| bar.with_truth > 0);
    let dots: Vec<(f64, f64)> = dots
        .map(|(index, bar)| {
            ((index as f64 + 0.5) / BARS as f64, bar.truly_new as f64 / bar.with_truth as f64)
        })
        .collect();
    let truth = if dots.is_empty() {
        ""
    } else {
        "<li><span class=\"swatch dot\"></span>share truly new, bottom 0 %, top 100 %</li>"
    };
    let legend = format!(
        "<li><span class=\"swatch\"></span>known category</li><li><span class=\"swatch striped\"></span>created one</li>{truth}"
    );
    let frame = Frame {
        title: "û, the probability of something new",
        note: "Frames by û. The fewer lie near α, the clearer the decisions.",
        end: 1.0,
        from_zero: true,
        level: threshold.map(|threshold| (threshold, "α")),
    };
    chart::histogram(&frame, &stacks, &dots, &legend)
}

fn machine(digest: &Digest) -> String {
    let machine = &digest.machine;
    let frame = |title, note| Frame { title, note, end: digest.end, from_zero: true, level: None };
    let mut charts = chart::curves(
        &Frame { from_zero: false, ..frame("Temperature in °C", "The hottest zone.") },
        &[Curve::new("°C", machine.celsius.points())],
    );
    if !machine.watts.points().is_empty() {
        charts.push_str(&chart::curves(
            &frame("Power in W", "What the module draws."),
            &[Curve::new("W", machine.watts.points())],
        ));
    }
    charts.push_str(&chart::curves(
        &frame("Free disk in GiB", "Of the data folder's disk."),
        &[Curve::new("GiB", machine.free_gib.points())],
    ));
    format!("<div class=\"charts\">{charts}</div>{}", tables::gaps(digest))
}

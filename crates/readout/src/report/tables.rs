//! What is told in rows: transitions, gaps, events, settings.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::digest::Digest;
use super::words::{Escaped, clock, count, duration, percent};
use crate::recording::Recording;

/// Categories of the matrix of transitions.
const SIDE: usize = 10;

/// Stretches that end and begin within this many seconds of each other follow each other.
const FOLLOWS: f64 = 1.0;

/// How often one of the most seen categories followed another.
pub(super) fn transitions(digest: &Digest) -> String {
    let favourites: Vec<u64> = digest.favourites(SIDE).into_iter().map(|(id, _)| id).collect();
    let mut counts: HashMap<(u64, u64), u64> = HashMap::new();
    for (from, to) in digest.stretches.iter().zip(digest.stretches.iter().skip(1)) {
        if (to.begin - from.end).abs() < FOLLOWS && from.category != to.category {
            *counts.entry((from.category, to.category)).or_default() += 1;
        }
    }
    let of = |from: u64, to: u64| counts.get(&(from, to)).copied().unwrap_or(0);
    let most = favourites.iter().flat_map(|&from| favourites.iter().map(move |&to| (from, to)));
    let most = most.map(|(from, to)| of(from, to)).max().unwrap_or(0);
    if most == 0 {
        return "<p class=\"none\">No category followed another.</p>".to_owned();
    }
    let mut html = "<div class=\"scroll\"><table class=\"matrix\"><thead><tr><td></td>".to_owned();
    for (rank, id) in favourites.iter().enumerate() {
        let _ = write!(html, "<th scope=\"col\"><i class=\"c{rank}\"></i>{id}</th>");
    }
    html.push_str("</tr></thead><tbody>");
    for (rank, &from) in favourites.iter().enumerate() {
        let _ = write!(html, "<tr><th scope=\"row\"><i class=\"c{rank}\"></i>{from}</th>");
        for &to in &favourites {
            match of(from, to) {
                _ if from == to => html.push_str("<td class=\"self\"></td>"),
                0 => html.push_str("<td>·</td>"),
                times => {
                    let part = (times as f64 / most as f64).sqrt();
                    let _ = write!(html, "<td style=\"--v:{part:.2}\">{times}</td>");
                }
            }
        }
        html.push_str("</tr>");
    }
    html.push_str("</tbody></table></div>");
    html
}

/// Times without frames, the longest first, and what the camera lost.
pub(super) fn gaps(digest: &Digest) -> String {
    let machine = &digest.machine;
    let lost = machine.camera_missed as f64 / (machine.camera_frames + machine.camera_missed).max(1) as f64;
    let mut html = format!(
        "<h3 class=\"sub\">Frame gaps</h3><p class=\"note\">{} in all, {} together. Of the camera's {} pictures {} were missed ({}) and {} could not be read.</p>",
        count(digest.gap_count),
        duration(digest.gap_seconds),
        count(machine.camera_frames),
        count(machine.camera_missed),
        percent(lost),
        count(machine.camera_corrupt)
    );
    if digest.gaps.is_empty() {
        return html;
    }
    html.push_str("<div class=\"scroll\"><table><thead><tr><th>after</th><th>length</th><th>why</th></tr></thead><tbody>");
    for gap in &digest.gaps {
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            clock(gap.begin),
            duration(gap.seconds),
            gap.why
        );
    }
    html.push_str("</tbody></table></div>");
    html
}

/// Events in their order.
pub(super) fn events(digest: &Digest) -> String {
    let mut html =
        "<div class=\"scroll\"><table><thead><tr><th>after</th><th>time (UTC)</th><th>event</th></tr></thead><tbody>".to_owned();
    for event in &digest.events {
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
            clock(event.seconds),
            event.wall,
            Escaped(&event.text)
        );
    }
    html.push_str("</tbody></table></div>");
    if digest.more_events > 0 {
        let _ = write!(
            html,
            "<p class=\"note\">And {} more: <code>oupn-edge export --what events</code>.</p>",
            count(digest.more_events)
        );
    }
    html
}

/// The settings of the last start.
pub(super) fn settings(recording: &Recording) -> String {
    let Some(start) = &recording.start else { return String::new() };
    let mut rows = String::new();
    if let Some(settings) = start.settings.as_object() {
        for (key, value) in settings {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let _ =
                write!(rows, "<tr><th scope=\"row\">{}</th><td>{}</td></tr>", Escaped(key), Escaped(&value));
        }
    }
    format!(
        "<section><h2>Settings</h2><p class=\"note\">{}, trace version {}</p><details><summary>All settings of the last start</summary>\
         <div class=\"scroll\"><table class=\"settings\"><tbody>{rows}</tbody></table></div></details></section>",
        Escaped(&start.program),
        start.trace_version
    )
}

//! A table with an axis as a picture: AMI over the value that its rows differ in, a curve for each series, with deviations.

use std::fmt::Write;

use crate::eval::picture::{HEIGHT, MARGIN, WIDTH, dot, label, line, open};

/// A point: where, mean and deviation over seeds, in percent.
type Point = (f64, f64, f64);

/// A curve by its name.
pub(super) type Series = (String, Vec<Point>);

const COLOURS: [&str; 6] = ["#1b6ca8", "#d1495b", "#3a7d44", "#8f5db7", "#c97b1a", "#555555"];

/// Curves by name; points are placed evenly, since the paper's grids are not.
pub(super) fn curves(series: &[Series], axis: &str) -> String {
    let mut places: Vec<f64> =
        series.iter().flat_map(|(_, points)| points.iter().map(|point| point.0)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let steps = places.len().saturating_sub(1).max(1) as f64;
    let x = |value: f64| {
        let place = places.iter().position(|place| *place == value).unwrap_or(0) as f64;
        MARGIN + (WIDTH - 2.0 * MARGIN) * place / steps
    };
    let y = |percent: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * (percent / 100.0).clamp(0.0, 1.0);
    let mut svg = open();
    for tick in 0..=5 {
        let percent = 20.0 * f64::from(tick);
        line(&mut svg, (MARGIN, y(percent)), (WIDTH - MARGIN, y(percent)));
        label(&mut svg, (MARGIN - 8.0, y(percent) + 4.0), "end", &format!("{percent:.0}"));
    }
    for place in &places {
        label(&mut svg, (x(*place), HEIGHT - MARGIN + 20.0), "middle", &rounded(*place).to_string());
    }
    label(&mut svg, (WIDTH / 2.0, HEIGHT - 12.0), "middle", axis);
    label(&mut svg, (MARGIN, MARGIN - 16.0), "start", "AMI %");
    for (number, (name, points)) in series.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let path: Vec<String> =
            points.iter().map(|(at, mean, _)| format!("{:.1},{:.1}", x(*at), y(*mean))).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for (at, mean, deviation) in points {
            let _ = writeln!(
                svg,
                "<line x1=\"{0:.1}\" y1=\"{1:.1}\" x2=\"{0:.1}\" y2=\"{2:.1}\" stroke=\"{colour}\"/>",
                x(*at),
                y(mean - deviation),
                y(mean + deviation)
            );
            dot(&mut svg, (x(*at), y(*mean)), 3.0, colour);
        }
        // Below the curves: scores of nearly nothing are rare.
        let at = HEIGHT - MARGIN - 12.0 - 20.0 * (series.len() - 1 - number) as f64;
        dot(&mut svg, (MARGIN + 14.0, at - 4.0), 4.0, colour);
        label(&mut svg, (MARGIN + 24.0, at), "start", name);
    }
    svg + "</svg>\n"
}

/// A share that was a number of 32 bits, as it was written.
fn rounded(place: f64) -> f64 {
    (10_000.0 * place).round() / 10_000.0
}

//! Charts as SVG: curves and bars against the recording's time.
//!
//! A chart is as wide as a phone, so that its text is readable on one; a laptop shows several side by side. Curves differ
//! by dash as well as by colour, and the legend gives each one's last value.

use std::fmt::Write as _;

use super::words::{Escaped, clock, duration, short};

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;

/// A curve and its name.
pub(super) struct Curve<'a> {
    pub(super) name: &'a str,
    pub(super) points: Vec<(f64, f64)>,
    /// Whether it stays level up to the next point.
    pub(super) steps: bool,
}

impl<'a> Curve<'a> {
    pub(super) fn new(name: &'a str, points: Vec<(f64, f64)>) -> Self {
        Self { name, points, steps: false }
    }

    pub(super) fn steps(self) -> Self {
        Self { steps: true, ..self }
    }
}

/// What a chart says beside its curves.
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    /// One sentence: what is to be seen here.
    pub(super) note: &'a str,
    /// The end of the time axis, in seconds.
    pub(super) end: f64,
    pub(super) from_zero: bool,
    /// A level with its name.
    pub(super) level: Option<(f64, &'a str)>,
}

/// A chart of curves.
pub(super) fn curves(frame: &Frame<'_>, curves: &[Curve<'_>]) -> String {
    let values = curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
    let values = values.chain(frame.level.map(|level| level.0));
    let range = values.fold(None, |range: Option<(f64, f64)>, value| {
        Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
    });
    let Some((low, high)) = range.filter(|_| curves.iter().any(|curve| !curve.points.is_empty())) else {
        return figure(frame, "<p class=\"none\">Nothing was recorded of this.</p>", "");
    };
    let axis = Axis::new(if frame.from_zero { low.min(0.0) } else { low }, high);
    let mut svg = axis.grid(frame.end);
    if let Some((level, name)) = frame.level {
        let y = axis.y(level);
        let _ = write!(
            svg,
            "<path class=\"level\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            WIDTH - RIGHT,
            y - 4.0,
            Escaped(name)
        );
    }
    let mut legend = String::new();
    for (index, curve) in curves.iter().enumerate() {
        let Some(last) = curve.points.last() else { continue };
        let mut path = String::new();
        let mut before = None;
        for &(seconds, value) in &curve.points {
            let (x, y) = (x(seconds, frame.end), axis.y(value));
            match before {
                None => _ = write!(path, "M{x:.1} {y:.1}"),
                Some(_) if !curve.steps => _ = write!(path, "L{x:.1} {y:.1}"),
                Some(_) => _ = write!(path, "H{x:.1}V{y:.1}"),
            }
            before = Some(y);
        }
        let _ = write!(svg, "<path class=\"curve k{index}\" d=\"{path}\"/>");
        if let [(seconds, value)] = curve.points[..] {
            // A path of one point draws nothing.
            let (x, y) = (x(seconds, frame.end), axis.y(value));
            let _ = write!(svg, "<circle class=\"point k{index}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
        }
        let _ = write!(
            legend,
            "<li><svg class=\"key\" viewBox=\"0 0 28 8\" aria-hidden=\"true\"><path class=\"curve k{index}\" d=\"M0 4H28\"/></svg>{} <b>{}</b></li>",
            Escaped(curve.name),
            short(last.1)
        );
    }
    figure(frame, &drawing(frame.title, &svg), &format!("<ul class=\"legend\">{legend}</ul>"))
}

/// A chart of bars over time: each is (begin, end, value).
pub(super) fn bars(frame: &Frame<'_>, bars: &[(f64, f64, f64)]) -> String {
    let high = bars.iter().map(|bar| bar.2).fold(0.0, f64::max);
    if high <= 0.0 {
        return figure(frame, "<p class=\"none\">Nothing was recorded of this.</p>", "");
    }
    let axis = Axis::new(0.0, high);
    let mut svg = axis.grid(frame.end);
    for &(begin, end, value) in bars.iter().filter(|bar| bar.2 > 0.0) {
        let (left, right, y) = (x(begin, frame.end), x(end, frame.end), axis.y(value));
        let _ = write!(
            svg,
            "<rect class=\"bar\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{} to {}: {}</title></rect>",
            (right - left - 0.6).max(0.4),
            (axis.y(0.0) - y).max(0.5),
            clock(begin),
            clock(end),
            short(value)
        );
    }
    figure(frame, &drawing(frame.title, &svg), "")
}

/// A histogram of û from 0 to 1: bars of (below, above) stacked, dots of a share on a second scale from 0 to 1.
pub(super) fn histogram(
    frame: &Frame<'_>,
    stacks: &[(u64, u64)],
    dots: &[(f64, f64)],
    legend: &str,
) -> String {
    let high = stacks.iter().map(|stack| stack.0 + stack.1).max().unwrap_or(0);
    if high == 0 {
        return figure(frame, "<p class=\"none\">Nothing was recorded of this.</p>", "");
    }
    let axis = Axis::new(0.0, high as f64);
    let mut svg = axis.lines();
    let place = |part: f64| LEFT + part * (WIDTH - LEFT - RIGHT);
    for tick in 0..=4 {
        let part = f64::from(tick) / 4.0;
        let _ = write!(
            svg,
            "<text class=\"mid\" x=\"{:.1}\" y=\"{:.1}\">{part}</text>",
            place(part),
            HEIGHT - 8.0
        );
    }
    let width = 1.0 / stacks.len().max(1) as f64;
    for (index, &(below, above)) in stacks.iter().enumerate() {
        let begin = index as f64 * width;
        let (left, right) = (place(begin), place(begin + width));
        let mut rect = |from: u64, to: u64, class: &str| {
            if to > from {
                let (bottom, top) = (axis.y(from as f64), axis.y(to as f64));
                let _ = write!(
                    svg,
                    "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"><title>{} frames</title></rect>",
                    right - left - 1.0,
                    (bottom - top).max(0.5),
                    to - from
                );
            }
        };
        rect(0, below, "bar");
        rect(below, below + above, "bar striped");
    }
    if let Some((level, name)) = frame.level {
        let x = place(level);
        let _ = write!(
            svg,
            "<path class=\"level\" d=\"M{x:.1} {TOP}V{:.1}\"/><text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            HEIGHT - BOTTOM,
            x - 4.0,
            TOP + 9.0,
            Escaped(name)
        );
    }
    for &(part, share) in dots {
        let y = TOP + (1.0 - share) * (HEIGHT - TOP - BOTTOM);
        let _ = write!(
            svg,
            "<circle class=\"dot\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"3.5\"><title>{:.0} % truly new</title></circle>",
            place(part),
            100.0 * share
        );
    }
    figure(frame, &drawing(frame.title, &svg), &format!("<ul class=\"legend\">{legend}</ul>"))
}

fn drawing(title: &str, content: &str) -> String {
    format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">{content}</svg>",
        Escaped(title)
    )
}

fn figure(frame: &Frame<'_>, drawing: &str, legend: &str) -> String {
    format!(
        "<figure><figcaption><h3>{}</h3><p>{}</p></figcaption>{drawing}{legend}</figure>",
        Escaped(frame.title),
        Escaped(frame.note)
    )
}

fn x(seconds: f64, end: f64) -> f64 {
    LEFT + (seconds / end.max(1e-9)).clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
}

/// The upright axis: a round step, and where values lie.
struct Axis {
    low: f64,
    high: f64,
    step: f64,
}

impl Axis {
    fn new(low: f64, high: f64) -> Self {
        let spread = if high - low > 1e-12 { high - low } else { high.abs().max(1.0) * 0.1 };
        let step = round_step(spread / 3.0);
        Self { low: (low / step).floor() * step, high: ((high / step).ceil() * step).max(low + step), step }
    }

    fn y(&self, value: f64) -> f64 {
        TOP + (1.0 - (value - self.low) / (self.high - self.low)) * (HEIGHT - TOP - BOTTOM)
    }

    fn lines(&self) -> String {
        let mut svg = String::new();
        // A dozen at most, whatever rounding does.
        for tick in 0..12 {
            let value = self.low + f64::from(tick) * self.step;
            if value > self.high + 1e-9 * self.step {
                break;
            }
            let y = self.y(value);
            let _ = write!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 6.0,
                y + 4.0,
                tick_label(value, self.step)
            );
        }
        svg
    }

    fn grid(&self, end: f64) -> String {
        let mut svg = self.lines();
        let mut ticks = time_ticks(end, 4.0);
        // The axis says where it ends, unless the last round place is close to that.
        if ticks.last().is_some_and(|last| end - last.0 > 0.25 * end) {
            ticks.push((end, duration(end)));
        }
        for (seconds, label) in ticks {
            let at = x(seconds, end);
            let side = if at > WIDTH - 40.0 { "end" } else { "mid" };
            let at = if side == "end" { WIDTH - RIGHT } else { at };
            let _ =
                write!(svg, "<text class=\"{side}\" x=\"{at:.1}\" y=\"{:.1}\">{label}</text>", HEIGHT - 8.0);
        }
        svg
    }
}

fn tick_label(value: f64, step: f64) -> String {
    let decimals = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.trim_start_matches(['-', '0', '.']).is_empty() { "0".to_owned() } else { text }
}

/// 1, 2 or 5 times a power of ten, at least as great.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|round| *round >= step * 0.999)
        .unwrap_or(step)
}

/// Round places on the time axis, about so many.
pub(super) fn time_ticks(end: f64, wanted: f64) -> Vec<(f64, String)> {
    const STEPS: [f64; 16] = [
        1.0,
        5.0,
        10.0,
        30.0,
        60.0,
        120.0,
        300.0,
        600.0,
        1800.0,
        3600.0,
        7200.0,
        14_400.0,
        28_800.0,
        86_400.0,
        604_800.0,
        2_592_000.0,
    ];
    let step = STEPS.into_iter().find(|step| end / step <= wanted).unwrap_or(7_776_000.0);
    let label = |seconds: f64| match seconds {
        0.0 => "0".to_owned(),
        s if step >= 86_400.0 => format!("{:.0} d", s / 86_400.0),
        s if step >= 3600.0 => format!("{:.0} h", s / 3600.0),
        s if step >= 60.0 && s < 3600.0 => format!("{:.0} min", s / 60.0),
        s if step >= 60.0 => format!("{:.0}:{:02.0} h", (s / 3600.0).floor(), s % 3600.0 / 60.0),
        s => format!("{s:.0} s"),
    };
    (0..64)
        .map(|n| f64::from(n) * step)
        .take_while(|seconds| *seconds <= end)
        .map(|s| (s, label(s)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_steps_that_hold_the_values() {
        for (low, high) in
            [(0.0, 3.7), (0.0213, 0.0279), (-9.1, -8.2), (5.0, 5.0), (0.0, 75.0), (1e6, 1e6 + 1.0)]
        {
            let axis = Axis::new(low, high);
            assert!(axis.low <= low && axis.high >= high, "{low} {high}");
            assert!(axis.y(low) <= HEIGHT - BOTTOM + 0.01 && axis.y(high) >= TOP - 0.01);
            let ticks = (axis.high - axis.low) / axis.step;
            assert!((1.0..=6.0).contains(&ticks), "{low} {high}: {ticks} steps");
        }
    }

    #[test]
    fn times_are_marked_at_round_places() {
        let labels = |end: f64| time_ticks(end, 4.0).into_iter().map(|tick| tick.1).collect::<Vec<_>>();
        assert_eq!(labels(7000.0), ["0", "30 min", "1:00 h", "1:30 h"]);
        assert_eq!(labels(20.0), ["0", "5 s", "10 s", "15 s", "20 s"]);
        assert_eq!(labels(300_000.0), ["0", "1 d", "2 d", "3 d"]);
    }

    #[test]
    fn a_curve_of_one_point_is_drawn_as_a_point() {
        let frame = Frame { title: "t", note: "n", end: 10.0, from_zero: true, level: None };
        let points = |count: u8| (0..count).map(|at| (f64::from(at), 1.0)).collect();
        assert!(curves(&frame, &[Curve::new("a", points(1))]).contains("<circle class=\"point k0\""));
        assert!(!curves(&frame, &[Curve::new("a", points(2))]).contains("<circle"));
    }

    #[test]
    fn a_chart_of_nothing_says_so() {
        let frame = Frame { title: "t", note: "n", end: 1.0, from_zero: true, level: Some((1.0, "l")) };
        assert!(curves(&frame, &[Curve::new("a", Vec::new())]).contains("Nothing was recorded"));
        assert!(bars(&frame, &[]).contains("Nothing was recorded"));
    }
}

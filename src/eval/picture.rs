//! Pictures of results as SVG: a learning curve, and a map of embeddings.
//!
//! The map is a principal component analysis of the embeddings at unit length: the two directions in which they vary most,
//! found by power iteration. It keeps distances as far as a plane can, adds nothing, and is the same every time.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 480.0;
const MARGIN: f64 = 56.0;
const STYLE: &str = "font-family=\"sans-serif\" font-size=\"13\" fill=\"#333\"";

/// One evaluation of a run; scores as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Windows learned from.
    pub window: f64,
    /// Its AMI.
    pub ami: f64,
    /// Its AP.
    pub ap: f64,
}

/// AMI and AP over windows.
pub fn curve(points: &[CurvePoint]) -> String {
    let last = points.iter().map(|point| point.window).fold(1.0, f64::max);
    let x = |window: f64| MARGIN + (WIDTH - 2.0 * MARGIN) * window / last;
    let y = |score: f64| HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * score.clamp(0.0, 1.0);
    let mut svg = open();
    for tick in 0..=5 {
        let score = f64::from(tick) / 5.0;
        line(&mut svg, (MARGIN, y(score)), (WIDTH - MARGIN, y(score)));
        label(&mut svg, (MARGIN - 8.0, y(score) + 4.0), "end", &format!("{:.0}", 100.0 * score));
        let window = last * score;
        label(&mut svg, (x(window), HEIGHT - MARGIN + 20.0), "middle", &format!("{window:.0}"));
    }
    label(&mut svg, (WIDTH / 2.0, HEIGHT - 12.0), "middle", "windows");
    type Score = fn(&CurvePoint) -> f64;
    let curves: [(&str, &str, Score); 2] =
        [("AMI %", "#1b6ca8", |point| point.ami), ("AP %", "#d1495b", |point| point.ap)];
    for (place, (name, colour, score)) in curves.into_iter().enumerate() {
        let path: Vec<String> =
            points.iter().map(|point| format!("{:.1},{:.1}", x(point.window), y(score(point)))).collect();
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            path.join(" ")
        );
        for point in points {
            dot(&mut svg, (x(point.window), y(score(point))), 3.0, colour);
        }
        let at = HEIGHT - MARGIN - 40.0 + 20.0 * place as f64;
        dot(&mut svg, (WIDTH - MARGIN - 70.0, at - 4.0), 4.0, colour);
        label(&mut svg, (WIDTH - MARGIN - 60.0, at), "start", name);
    }
    svg + "</svg>\n"
}

/// Embeddings in their two main directions, coloured by class.
pub fn map(embeddings: &[f32], dimension: usize, labels: &[usize], title: &str) -> String {
    let places = principal_plane(embeddings, dimension);
    let bounds = |axis: usize| {
        let values = || places.iter().map(|place| place[axis]);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let (columns, rows) = (bounds(0), bounds(1));
    let share = |value: f64, (low, high): (f64, f64)| (value - low) / (high - low).max(1e-12);
    let classes = labels.iter().max().map_or(1, |last| last + 1);
    let mut svg = open();
    label(&mut svg, (MARGIN, 28.0), "start", &escaped(title));
    for (place, &class) in places.iter().zip(labels) {
        let x = MARGIN + (WIDTH - 2.0 * MARGIN) * share(place[0], columns);
        let y = MARGIN + (HEIGHT - 2.0 * MARGIN) * share(place[1], rows);
        // Golden steps around the colour circle keep neighbouring numbers apart.
        let hue = (class as f64 * 360.0 * 0.618_034) % 360.0;
        let light = if class % 2 == 0 { 40 } else { 60 };
        dot(&mut svg, (x, y), 5.0, &format!("hsl({hue:.0} 70% {light}%)"));
    }
    label(
        &mut svg,
        (MARGIN, HEIGHT - 16.0),
        "start",
        &format!("{} frames, {classes} classes; two main directions of the embeddings", labels.len()),
    );
    svg + "</svg>\n"
}

/// Coordinates of unit-length rows along their two main directions.
fn principal_plane(embeddings: &[f32], dimension: usize) -> Vec<[f64; 2]> {
    let mut rows: Vec<Vec<f64>> = embeddings
        .chunks_exact(dimension.max(1))
        .map(|row| {
            let norm = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt().max(1e-12);
            row.iter().map(|x| f64::from(*x) / norm).collect()
        })
        .collect();
    let count = rows.len().max(1) as f64;
    let mean: Vec<f64> = (0..dimension).map(|d| rows.iter().map(|row| row[d]).sum::<f64>() / count).collect();
    rows.iter_mut().for_each(|row| row.iter_mut().zip(&mean).for_each(|(x, mean)| *x -= mean));
    let mut places = vec![[0.0; 2]; rows.len()];
    for axis in 0..2 {
        let direction = main_direction(&rows, dimension);
        for (row, place) in rows.iter_mut().zip(&mut places) {
            let along: f64 = row.iter().zip(&direction).map(|(x, d)| x * d).sum();
            place[axis] = along;
            // What is left varies in other directions only.
            row.iter_mut().zip(&direction).for_each(|(x, d)| *x -= along * d);
        }
    }
    places
}

/// The direction in which centred rows vary most.
fn main_direction(rows: &[Vec<f64>], dimension: usize) -> Vec<f64> {
    const ROUNDS: usize = 200;
    // Any start that is not orthogonal to the answer will do; this one has no symmetry.
    let mut direction: Vec<f64> = (0..dimension).map(|d| 1.0 + (d as f64 * 0.7).sin()).collect();
    for _ in 0..ROUNDS {
        let mut next = vec![0.0; dimension];
        for row in rows {
            let along: f64 = row.iter().zip(&direction).map(|(x, d)| x * d).sum();
            next.iter_mut().zip(row).for_each(|(next, x)| *next += along * x);
        }
        let norm = next.iter().map(|x| x * x).sum::<f64>().sqrt();
        if norm < 1e-12 {
            break;
        }
        direction = next.into_iter().map(|x| x / norm).collect();
    }
    direction
}

fn open() -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    )
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn dot(svg: &mut String, at: (f64, f64), radius: f64, colour: &str) {
    let _ = writeln!(
        svg,
        "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\" fill=\"{colour}\" fill-opacity=\"0.85\"/>",
        at.0, at.1
    );
}

fn label(svg: &mut String, at: (f64, f64), anchor: &str, text: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\" {STYLE}>{text}</text>",
        at.0, at.1
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points along a line in space: the first coordinate keeps their order and spacing, the second is nothing.
    #[test]
    fn the_plane_holds_what_varies() {
        let angles = [0.1f32, 0.2, 0.3, 0.5, 0.8];
        let rows: Vec<f32> = angles.iter().flat_map(|a| [3.0 * a.cos(), 0.0, 3.0 * a.sin()]).collect();
        let places = principal_plane(&rows, 3);
        let rising = places.windows(2).all(|pair| pair[0][0] < pair[1][0]);
        let falling = places.windows(2).all(|pair| pair[0][0] > pair[1][0]);
        assert!(rising || falling, "{places:?}");
        let spread = |axis: usize| places.iter().map(|place| place[axis].powi(2)).sum::<f64>();
        assert!(spread(0) > 20.0 * spread(1), "{places:?}");
    }

    #[test]
    fn pictures_are_whole_and_escape_their_title() {
        let svg = map(&[1.0, 0.0, 0.0, 1.0], 2, &[0, 1], "a<b & c");
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a&lt;b &amp; c"));
        assert_eq!(svg.matches("<circle").count(), 2);
        let point = |window, ami| CurvePoint { window, ami, ap: 0.5 };
        let svg = curve(&[point(0.0, 0.0), point(100.0, 1.0)]);
        assert!(svg.contains("points=\"56.0,424.0 664.0,56.0\""), "{svg}");
    }
}

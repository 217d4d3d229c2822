//! Pictures of results as SVG: a learning curve, and a map of embeddings.
//!
//! The map shows the embeddings at unit length. It starts from their principal plane, the two directions in which they vary
//! most, found by power iteration; of forty classes in 64 dimensions that shows little, so [t-SNE](super::tsne) goes on from there.
//! It is the same every time.

use std::fmt::Write;

use super::tsne;

pub(crate) const WIDTH: f64 = 720.0;
pub(crate) const HEIGHT: f64 = 480.0;
pub(crate) const MARGIN: f64 = 56.0;
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
    // From the ten per cent below the lowest score up, so that a curve near the top can be read.
    let lowest = points.iter().map(|point| point.ami.min(point.ap)).fold(1.0, f64::min);
    let floor = ((10.0 * lowest).floor() / 10.0).clamp(0.0, 0.9);
    let y = |score: f64| {
        HEIGHT - MARGIN - (HEIGHT - 2.0 * MARGIN) * ((score - floor) / (1.0 - floor)).clamp(0.0, 1.0)
    };
    let mut svg = open();
    for tick in 0..=5 {
        let share = f64::from(tick) / 5.0;
        let score = floor + (1.0 - floor) * share;
        line(&mut svg, (MARGIN, y(score)), (WIDTH - MARGIN, y(score)));
        label(&mut svg, (MARGIN - 8.0, y(score) + 4.0), "end", &format!("{:.0}", 100.0 * score));
        let window = last * share;
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

/// Embeddings in a plane, neighbours beside each other, coloured by class.
pub fn map(embeddings: &[f32], dimension: usize, labels: &[usize], title: &str) -> String {
    let rows = unit_rows(embeddings, dimension);
    let mut places = principal_plane(rows.clone(), dimension);
    tsne::settle(&rows, &mut places);
    let bounds = |axis: usize| {
        let values = || places.iter().map(|place| place[axis]);
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
    };
    let (across, down) = (bounds(0), bounds(1));
    let share = |value: f64, (low, high): (f64, f64)| (value - low) / (high - low).max(1e-12);
    let classes = labels.iter().max().map_or(1, |last| last + 1);
    let mut svg = open();
    label(&mut svg, (MARGIN, 28.0), "start", &escaped(title));
    for (place, &class) in places.iter().zip(labels) {
        let x = MARGIN + (WIDTH - 2.0 * MARGIN) * share(place[0], across);
        let y = MARGIN + (HEIGHT - 2.0 * MARGIN) * share(place[1], down);
        dot(&mut svg, (x, y), 5.0, &class_colour(class));
    }
    label(
        &mut svg,
        (MARGIN, HEIGHT - 16.0),
        "start",
        &format!("{} frames, {classes} classes; t-SNE of the embeddings", labels.len()),
    );
    svg + "</svg>\n"
}

/// The colour of a class, as red, green and blue: programs that draw for print do not know the circle's notation.
fn class_colour(class: usize) -> String {
    // Golden steps around the colour circle keep neighbouring numbers apart.
    let hue = (class as f64 * 360.0 * 0.618_034) % 360.0;
    let light: f64 = if class.is_multiple_of(2) { 0.4 } else { 0.6 };
    let saturation = 0.7 * light.min(1.0 - light);
    // Each primary is full on its own third of the circle, absent on the opposite one and fades in between.
    let [red, green, blue] = [0.0, 8.0, 4.0].map(|start| {
        let place = (start + hue / 30.0) % 12.0;
        let absent = (place - 3.0).min(9.0 - place).clamp(-1.0, 1.0);
        (255.0 * (light - saturation * absent)).round() as u8
    });
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Embeddings at unit length.
fn unit_rows(embeddings: &[f32], dimension: usize) -> Vec<Vec<f64>> {
    let unit = |row: &[f32]| {
        let norm = row.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt().max(1e-12);
        row.iter().map(|x| f64::from(*x) / norm).collect()
    };
    embeddings.chunks_exact(dimension.max(1)).map(unit).collect()
}

/// Coordinates of rows along their two main directions.
fn principal_plane(mut rows: Vec<Vec<f64>>, dimension: usize) -> Vec<[f64; 2]> {
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

pub(crate) fn open() -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    )
}

pub(crate) fn line(svg: &mut String, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>",
        from.0, from.1, to.0, to.1
    );
}

pub(crate) fn dot(svg: &mut String, at: (f64, f64), radius: f64, colour: &str) {
    let _ = writeln!(
        svg,
        "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\" fill=\"{colour}\" fill-opacity=\"0.85\"/>",
        at.0, at.1
    );
}

pub(crate) fn label(svg: &mut String, at: (f64, f64), anchor: &str, text: &str) {
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

    /// hsl(0 70% 40%), hsl(222.5 70% 60%) and hsl(85 70% 40%) by the definition of CSS.
    #[test]
    fn classes_have_colours_of_their_own() {
        assert_eq!([0, 1, 2].map(class_colour), ["#ad1f1f", "#527be0", "#72ad1f"]);
    }

    /// Points along a line in space: the first coordinate keeps their order and spacing, the second is nothing.
    #[test]
    fn the_plane_holds_what_varies() {
        let angles = [0.1f32, 0.2, 0.3, 0.5, 0.8];
        let rows: Vec<f32> = angles.iter().flat_map(|a| [3.0 * a.cos(), 0.0, 3.0 * a.sin()]).collect();
        let places = principal_plane(unit_rows(&rows, 3), 3);
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
        let svg = curve(&[point(0.0, 0.8), point(100.0, 1.0)].map(|p| CurvePoint { ap: 0.95, ..p }));
        assert!(svg.contains("points=\"56.0,424.0 664.0,56.0\"") && svg.contains(">84</text>"), "{svg}");
    }
}

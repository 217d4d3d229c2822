//! The time ribbon: which category was seen when, one lane for each of the most seen, so that place tells as much as colour.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::chart::time_ticks;
use super::digest::{Digest, Stretch};
use super::words::{clock, duration};

/// Columns of the ribbon: about one a pixel of a laptop.
const COLUMNS: usize = 1000;

/// Categories that have a colour and a lane of their own.
pub(super) const LANES: usize = 12;

/// The ribbon of the whole recording with its lanes.
pub(super) fn ribbon(digest: &Digest) -> String {
    let favourites: Vec<u64> = digest.favourites(LANES).into_iter().map(|(id, _)| id).collect();
    let columns = columns(&digest.stretches, digest.end);
    let rank: HashMap<u64, usize> = favourites.iter().enumerate().map(|(rank, &id)| (id, rank)).collect();
    let mut all = String::new();
    for rank_wanted in 0..=LANES {
        let path = path(&columns, |id| rank.get(&id).copied().unwrap_or(LANES) == rank_wanted);
        if !path.is_empty() {
            let class = if rank_wanted < LANES { format!("c{rank_wanted}") } else { "other".to_owned() };
            let _ = write!(all, "<path class=\"{class}\" d=\"{path}\"/>");
        }
    }
    let mut html =
        format!("<div class=\"ribbon\"><div class=\"lane whole\"><span>all</span>{}</div>", lane(&all));
    for (rank, &id) in favourites.iter().enumerate() {
        let seconds = digest.categories.get(&id).map_or(0.0, |category| category.seconds);
        let path = path(&columns, |found| found == id);
        let _ = write!(
            html,
            "<div class=\"lane\" title=\"category {id}: {}\"><span><i class=\"c{rank}\"></i>{id}</span>{}</div>",
            duration(seconds),
            lane(&format!("<path class=\"c{rank}\" d=\"{path}\"/>"))
        );
    }
    let others = digest.categories.len().saturating_sub(favourites.len());
    if others > 0 {
        let path = path(&columns, |id| !rank.contains_key(&id));
        let _ = write!(
            html,
            "<div class=\"lane\" title=\"{others} other categories\"><span><i class=\"other\"></i>others</span>{}</div>",
            lane(&format!("<path class=\"other\" d=\"{path}\"/>"))
        );
    }
    html.push_str(&axis(digest.end));
    html.push_str("</div>");
    html
}

/// When one category was seen, as a small lane.
pub(super) fn presence(digest: &Digest, id: u64, class: &str) -> String {
    let own: Vec<Stretch> =
        digest.stretches.iter().filter(|stretch| stretch.category == id).copied().collect();
    let path = path(&columns(&own, digest.end), |found| found == id);
    lane(&format!("<path class=\"{class}\" d=\"{path}\"/>"))
}

fn lane(content: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {COLUMNS} 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{content}</svg>"
    )
}

fn axis(end: f64) -> String {
    let mut html = "<div class=\"lane time\"><span></span><div>".to_owned();
    for (seconds, label) in time_ticks(end, 6.0) {
        let part = 100.0 * seconds / end.max(1e-9);
        if part < 97.0 {
            let _ = write!(html, "<b style=\"left:{part:.2}%\" title=\"{}\">{label}</b>", clock(seconds));
        }
    }
    html.push_str("</div></div>");
    html
}

/// The category that takes the most of each column's time.
fn columns(stretches: &[Stretch], end: f64) -> Vec<Option<u64>> {
    let scale = COLUMNS as f64 / end.max(1e-9);
    let mut columns: Vec<(Option<u64>, f64)> = vec![(None, 0.0); COLUMNS];
    for stretch in stretches {
        let (begin, end) = (stretch.begin * scale, stretch.end * scale);
        for (index, column) in
            columns.iter_mut().enumerate().take(end.ceil().max(0.0) as usize).skip(begin.max(0.0) as usize)
        {
            let overlap = end.min(index as f64 + 1.0) - begin.max(index as f64);
            if overlap > column.1 {
                *column = (Some(stretch.category), overlap);
            }
        }
    }
    columns.into_iter().map(|column| column.0).collect()
}

/// One rectangle for each run of columns whose category is wanted.
fn path(columns: &[Option<u64>], wanted: impl Fn(u64) -> bool) -> String {
    let mut path = String::new();
    let mut begin = None;
    for (index, column) in columns.iter().chain([&None]).enumerate() {
        match (begin, column.is_some_and(&wanted)) {
            (None, true) => begin = Some(index),
            (Some(from), false) => {
                let _ = write!(path, "M{from} 0h{}v10h-{}z", index - from, index - from);
                begin = None;
            }
            _ => {}
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_belongs_to_whoever_takes_most_of_it() {
        let stretch = |category, begin, end| Stretch { category, begin, end };
        // One column is 10 s.
        let stretches = [stretch(1, 0.0, 16.0), stretch(2, 16.0, 20.0), stretch(3, 9_990.0, 10_000.0)];
        let columns = columns(&stretches, 10_000.0);
        assert_eq!((columns[0], columns[1], columns[2], columns[999]), (Some(1), Some(1), None, Some(3)));
        assert_eq!(path(&columns, |id| id == 1), "M0 0h2v10h-2z");
        assert_eq!(path(&columns, |id| id == 3), "M999 0h1v10h-1z");
        assert_eq!(path(&columns, |id| id == 2), "");
    }
}

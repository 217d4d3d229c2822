//! What the cells of a table came to, beside the paper: Markdown, CSV, and a curve where the table has an axis.
//!
//! The CSV has a line for each row: `row`, `seeds` (done), `windows`, `ami`, `ami_deviation`, `ap`, `ap_deviation`, `ami_first_ten`,
//! `ami_first_ten_deviation`, `ami_paper`, `ap_paper`, `kept`, `seconds` (of learning, all seeds). Scores are in percent; deviations are
//! standard deviations over seeds; what is not known is empty.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::curve::{Series, curves};
use super::outcome::Outcome;
use super::tables::{Learner, Row, Table};
use super::{Cell, Effort};
use crate::storage::{OsFilesystem, write_atomically};
use crate::{Error, Result};

/// What was written.
#[derive(Clone, Debug)]
pub struct Files {
    /// The page's text.
    pub markdown: String,
    /// The files, page first.
    pub paths: Vec<PathBuf>,
    /// Cells that are done, and all.
    pub done: (usize, usize),
}

/// Mean and standard deviation over seeds, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    mean: f64,
    /// None with fewer than two seeds.
    deviation: Option<f64>,
}

impl Spread {
    fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let deviation = (values.len() > 1).then(|| 100.0 * (squares / (count - 1.0)).sqrt());
        (!values.is_empty()).then_some(Self { mean: 100.0 * mean, deviation })
    }

    fn said(spread: Option<Self>) -> String {
        match spread {
            None => "–".to_owned(),
            Some(Self { mean, deviation: None }) => format!("{mean:.2}"),
            Some(Self { mean, deviation: Some(deviation) }) => format!("{mean:.2} ± {deviation:.2}"),
        }
    }
}

/// A row with what is known of it.
struct Known {
    row: Row,
    /// Windows that it learns from.
    windows: u64,
    outcomes: Vec<Outcome>,
    /// Share of the gain over random weights that is left beside the digits, in percent.
    kept: Option<f64>,
}

impl Known {
    fn spread(&self, score: fn(&Outcome) -> f64) -> Option<Spread> {
        Spread::of(&self.outcomes.iter().map(score).collect::<Vec<_>>())
    }
}

/// Writes what is known of a table into `TABLE.md`, `TABLE.csv` and, where it has an axis, `TABLE.svg`.
///
/// # Errors
/// If a result is damaged, or a file cannot be written.
pub fn report(table: Table, effort: Effort, out: &Path) -> Result<Files> {
    let cells = table.cells(effort);
    let mut rows: Vec<Known> = table
        .rows()
        .into_iter()
        .map(|row| Known { row, windows: 0, outcomes: Vec::new(), kept: None })
        .collect();
    for (row, cell) in &cells {
        rows[*row].windows = cell.windows();
        rows[*row].outcomes.extend(Cell::outcome(cell, out)?);
    }
    let done = rows.iter().map(|known| known.outcomes.len()).sum();
    compare_with_random(&mut rows);
    let markdown = page(table, effort, &rows);
    let mut files = vec![(format!("{table}.md"), markdown.clone()), (format!("{table}.csv"), list(&rows))];
    let series = series(&rows);
    if !series.is_empty() {
        files.push((format!("{table}.svg"), curves(&series, table.heading())));
    }
    let mut paths = Vec::new();
    for (name, text) in files {
        let path = out.join(name);
        write_atomically(&OsFilesystem, &path, text.as_bytes()).map_err(|error| Error::io(&path, error))?;
        paths.push(path);
    }
    Ok(Files { markdown, paths, done: (done, cells.len()) })
}

/// How much of what a method gains over random weights is left when digits crowd the characters out.
fn compare_with_random(rows: &mut [Known]) {
    let ami = |known: &Known| known.spread(|outcome| outcome.ami).map(|spread| spread.mean);
    let random = rows.iter().find(|known| known.row.learner == Learner::Nothing).and_then(ami);
    let undisturbed = |of: &Row| {
        rows.iter().find(|known| {
            known.row.settings == of.settings && known.row.digits.share == 0.0 && !known.row.points.is_empty()
        })
    };
    let kept: Vec<Option<f64>> = rows
        .iter()
        .map(|known| {
            if known.row.digits.share == 0.0 {
                return None;
            }
            let (random, own) = (random?, ami(known)?);
            let original = undisturbed(&known.row).and_then(ami)?;
            (original > random).then(|| 100.0 * (own - random) / (original - random))
        })
        .collect();
    rows.iter_mut().zip(kept).for_each(|(known, kept)| known.kept = kept);
}

fn page(table: Table, effort: Effort, rows: &[Known]) -> String {
    let kept = rows.iter().any(|known| known.row.digits.share > 0.0);
    let mut text = format!(
        "# {table}: {} on the stream {}\n\n\
         Each row learns from {} windows{}, for {} {}; the paper's runs are longer. Scored on {} episodes of `{}`, as frozen features \
         that the memory clusters. AMI: the threshold is the best of 100 similarities on the first ten episodes, for every row alike; \
         beside it AMI by the paper's sweep over 100 thresholds. In percent, mean ± standard deviation over seeds.\n\n\
         | {} | AMI | AP | AMI, paper's sweep | paper: AMI | paper: AP |{}\n|---|---|---|---|---|---|{}\n",
        table.heading(),
        table.stream(),
        effort.windows,
        if rows.iter().any(|known| known.row.batches.is_some()) {
            " of an episode, or as many frames"
        } else {
            ""
        },
        effort.seeds,
        if effort.seeds == 1 { "seed" } else { "seeds" },
        effort.episodes,
        effort.split,
        table.heading(),
        if kept { " kept |" } else { "" },
        if kept { "---|" } else { "" },
    );
    for known in rows {
        let published =
            |at: usize| known.row.published[at].map_or("–".to_owned(), |value| format!("{value:.2}"));
        let missing = match effort.seeds as usize - known.outcomes.len().min(effort.seeds as usize) {
            0 => String::new(),
            missing => format!(" ({missing} to do)"),
        };
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "| {}{missing} | {} | {} | {} | {} | {} |",
            known.row.name,
            Spread::said(known.spread(|outcome| outcome.ami)),
            Spread::said(known.spread(|outcome| outcome.ap)),
            Spread::said(known.spread(|outcome| outcome.ami_first_ten)),
            published(0),
            published(1),
        );
        let _ = match known.kept {
            Some(share) => writeln!(text, " {share:.0} |"),
            None if kept => writeln!(text, " – |"),
            None => writeln!(text),
        };
    }
    if kept {
        text.push_str(
            "\n`kept`: (AMI − random) / (AMI without digits − random), the share of the gain that is left among the digits.\n",
        );
    }
    text
}

fn list(rows: &[Known]) -> String {
    let mut text = "row,seeds,windows,ami,ami_deviation,ap,ap_deviation,ami_first_ten,ami_first_ten_deviation,ami_paper,ap_paper,\
                    kept,seconds\n"
        .to_owned();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    for known in rows {
        let scores: [fn(&Outcome) -> f64; 3] =
            [|outcome| outcome.ami, |outcome| outcome.ap, |outcome| outcome.ami_first_ten];
        let spreads = scores.map(|score| {
            let spread = known.spread(score);
            let deviation = spread.and_then(|spread| spread.deviation);
            format!("{},{}", number(spread.map(|spread| spread.mean)), number(deviation))
        });
        let seconds: f64 = known.outcomes.iter().map(|outcome| outcome.seconds).sum();
        let _ = writeln!(
            text,
            "\"{}\",{},{},{},{},{},{},{seconds:.1}",
            known.row.name,
            known.outcomes.len(),
            known.windows,
            spreads.join(","),
            number(known.row.published[0]),
            number(known.row.published[1]),
            number(known.kept),
        );
    }
    text
}

/// The curves of what is done, and the paper's.
fn series(rows: &[Known]) -> Vec<Series> {
    let mut series: Vec<Series> = Vec::new();
    let published =
        rows.iter().filter_map(|known| Some((known.row.points.first()?.1, known.row.published[0]?, 0.0)));
    let published: Vec<_> = published.collect();
    for known in rows {
        let Some(spread) = known.spread(|outcome| outcome.ami) else { continue };
        for (name, place) in &known.row.points {
            let point = (*place, spread.mean, spread.deviation.unwrap_or(0.0));
            match series.iter_mut().find(|(known, _)| known == name) {
                Some((_, points)) => points.push(point),
                None => series.push((name.clone(), vec![point])),
            }
        }
    }
    if !series.is_empty() && !published.is_empty() {
        series.push(("paper".to_owned(), published));
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::Split;
    use serde_json::json;

    const EFFORT: Effort = Effort { windows: 10, seeds: 2, episodes: 5, split: Split::Test };

    fn put(out: &Path, cell: &Cell, ami: f64) {
        let folder = cell.folder(out);
        std::fs::create_dir_all(&folder).unwrap();
        let outcome = Outcome {
            ami,
            ami_error: 0.0,
            ami_first_ten: ami / 2.0,
            ap: 0.5,
            ap_error: 0.0,
            categories: 1.0,
            classes: 1.0,
            seconds: 1.5,
        };
        outcome.write(&folder.join("result.json"), &json!({})).unwrap();
    }

    /// Means and deviations over the seeds that are done; what is missing is said.
    #[test]
    fn what_is_done_is_told_beside_the_paper() {
        let out = tempfile::tempdir().unwrap();
        let cells = Table::Slots.cells(EFFORT);
        put(out.path(), &cells[0].1, 0.5);
        put(out.path(), &cells[1].1, 0.7);
        put(out.path(), &cells[2].1, 0.25);
        let files = report(Table::Slots, EFFORT, out.path()).unwrap();
        assert_eq!(files.done, (3, 10));
        // √(0.1² + 0.1²) = 0.1414
        assert!(
            files
                .markdown
                .contains("| K = 50 | 60.00 ± 14.14 | 50.00 ± 0.00 | 30.00 ± 7.07 | 89.19 | 95.12 |"),
            "{}",
            files.markdown
        );
        assert!(
            files.markdown.contains("| K = 100 (1 to do) | 25.00 | 50.00 | 12.50 |"),
            "{}",
            files.markdown
        );
        assert!(
            files.markdown.contains("| K = 250 (2 to do) | – | – | – | 89.87 | 95.69 |"),
            "{}",
            files.markdown
        );
        let csv = std::fs::read_to_string(out.path().join("K.csv")).unwrap();
        let line = csv.lines().nth(1).unwrap();
        assert_eq!(
            line,
            "\"K = 50\",2,10,60.0000,14.1421,50.0000,0.0000,30.0000,7.0711,89.1900,95.1200,,3.0"
        );
        let fields = csv.lines().map(|line| line.split(',').count());
        assert!(fields.clone().all(|count| count == 13), "{:?}", fields.collect::<Vec<_>>());
        let svg = std::fs::read_to_string(out.path().join("K.svg")).unwrap();
        assert_eq!(svg.matches("<circle").count(), 2 + 5 + 2, "two points, the paper's five, and the legend");
    }

    #[test]
    fn what_digits_leave_is_measured_from_random_weights() {
        let out = tempfile::tempdir().unwrap();
        for (row, cell) in Table::Imbalance.cells(EFFORT) {
            let known = &Table::Imbalance.rows()[row];
            let ami = match (known.learner, known.digits.share) {
                (Learner::Nothing, _) => 0.2,
                (_, 0.0) => 0.6,
                _ => 0.3,
            };
            put(out.path(), &cell, ami);
        }
        let page = report(Table::Imbalance, EFFORT, out.path()).unwrap().markdown;
        let line = page.lines().find(|line| line.contains("SwAV, 90 % digit 1")).unwrap();
        assert!(line.ends_with("| 25 |"), "{line}");
        let plain = page.lines().find(|line| line.starts_with("| SwAV |")).unwrap();
        assert!(plain.ends_with("| – |"), "{plain}");
        let svg = std::fs::read_to_string(out.path().join("imbalance.svg")).unwrap();
        assert_eq!(svg.matches("<polyline").count(), 6);
        assert!(svg.contains(">0.9<"), "a share as it was written");
        assert_eq!(svg.matches("<circle").count(), 6 * (3 + 1), "three points a curve, and the legend");
    }
}

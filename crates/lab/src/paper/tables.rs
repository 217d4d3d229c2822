//! The tables: their rows as settings over the preset, with the published figures in percent.

use crate::choices;
use crate::config::{Preset, Settings};
use crate::memory::PseudoLabel;
use crate::objective::Method;
use crate::streams::{Digits, Order, Roaming, StreamKind};
use crate::taught::Teaching;

choices! {
    /// A table or figure of the paper.
    pub enum Table {
        Omniglot = "omniglot": "RoamingOmniglot: OUPN, what it is compared with, and what labels give",
        Rooms = "rooms": "The same without labels on the built-in world, in place of RoamingRooms",
        Slots = "K": "Prototypes of the memory, 50 to 250, on RoamingOmniglot",
        Decay = "rho": "Decay of the prototypes' counts, 0.9 to 0.999",
        NewWeight = "lambda-new": "Weight of the new-category loss, 0 to 2",
        Threshold = "alpha": "Threshold of a new category, 0.3 to 0.7",
        Temperature = "tau": "Sharpness of the pseudo-label, 0.05 to 1",
        EntropyWeight = "lambda-ent": "Weight of the entropy loss, 0 to 1",
        PriorMean = "mu": "Mean of the prior on new categories, 0.3 to 0.7",
        BatchSize = "batch-size": "Windows of 50 to 400 frames, for OUPN and what it is compared with, on as many frames",
        Iid = "iid": "The same methods on frames as they come, and on shuffled ones",
        Imbalance = "imbalance": "RoamingOmniglot with 0, 50 and 90 % of MNIST's digits in between; DIR holds `omniglot/` and `mnist/`",
    }
}

/// What a row learns by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Learner {
    /// Nothing: random weights.
    Nothing,
    /// The objective of its settings.
    Objective,
    /// Labels.
    Taught(Teaching),
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct Row {
    /// What stands in its first column.
    pub name: String,
    /// What it learns by.
    pub learner: Learner,
    /// Its settings, for the paper's length of a run.
    pub settings: Settings,
    /// Digits between the characters.
    pub digits: Digits,
    /// Windows of so many frames, in this order, instead of whole episodes.
    pub batches: Option<(usize, Order)>,
    /// Published AMI and AP in percent.
    pub published: [Option<f64>; 2],
    /// The curves that it is a point of, and where, if the table is one.
    pub points: Vec<(String, f64)>,
}

impl Row {
    fn new(name: &str, learner: Learner, settings: Settings, published: Option<[f64; 2]>) -> Self {
        Self {
            name: name.to_owned(),
            learner,
            settings,
            digits: Digits { share: 0.0, only: None },
            batches: None,
            published: published.map_or([None; 2], |published| published.map(Some)),
            points: Vec::new(),
        }
    }
}

impl Table {
    /// What is learned from and measured on.
    pub fn stream(self) -> StreamKind {
        match self {
            Self::Rooms => StreamKind::Rooms,
            Self::Imbalance => StreamKind::Imbalance,
            _ => StreamKind::Omniglot,
        }
    }

    /// What its rows or its horizontal axis are.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Omniglot | Self::Rooms | Self::Iid => "method",
            Self::BatchSize => "frames of a window",
            Self::Slots => "K",
            Self::Decay => "ρ",
            Self::NewWeight => "λ_new",
            Self::Threshold => "α",
            Self::Temperature => "τ̃/τ",
            Self::EntropyWeight => "λ_ent",
            Self::PriorMean => "μ",
            Self::Imbalance => "share of digits",
        }
    }

    /// Its rows, in the paper's order.
    pub fn rows(self) -> Vec<Row> {
        let values = |grid: &[(f64, [f64; 2])], set: fn(&mut Settings, f64)| {
            grid.iter().map(|&(value, published)| self.value(value, published, set)).collect()
        };
        match self {
            Self::Omniglot => {
                let figures = [
                    Some([17.66, 17.01]),
                    Some([59.06, 73.50]),
                    Some([62.09, 75.93]),
                    Some([67.25, 81.96]),
                    Some([45.57, 56.12]),
                    Some([84.42, 92.84]),
                ];
                let taught = |name, teaching, published| {
                    Row::new(name, Learner::Taught(teaching), Preset::Omniglot.settings(), Some(published))
                };
                let mut rows = vec![
                    taught("Pretrain-Supervised", Teaching::CrossEntropy, [84.48, 93.83]),
                    taught("Online ProtoNet", Teaching::Prototypes, [89.64, 92.58]),
                ];
                rows.extend(methods(Preset::Omniglot, figures));
                rows
            }
            // The published figures are of another world: they would say nothing beside these.
            Self::Rooms => methods(Preset::Rooms, [None; 6]),
            Self::Slots => values(
                &[
                    (50.0, [89.19, 95.12]),
                    (100.0, [90.54, 95.83]),
                    (150.0, [90.24, 95.92]),
                    (200.0, [90.36, 95.68]),
                    (250.0, [89.87, 95.69]),
                ],
                |settings, value| settings.slots = value as usize,
            ),
            Self::Decay => values(
                &[
                    (0.9, [51.12, 64.19]),
                    (0.95, [79.78, 89.30]),
                    (0.99, [89.43, 95.54]),
                    (0.995, [90.80, 95.90]),
                    (0.999, [86.27, 93.69]),
                ],
                |settings, value| settings.decay = value,
            ),
            Self::NewWeight => values(
                &[
                    (0.0, [38.26, 93.40]),
                    (0.1, [86.60, 93.50]),
                    (0.5, [89.89, 95.28]),
                    (1.0, [90.06, 95.81]),
                    (2.0, [88.74, 95.73]),
                ],
                |settings, value| settings.creation_weight = value,
            ),
            Self::Threshold => values(
                &[
                    (0.3, [82.75, 90.57]),
                    (0.4, [81.59, 90.94]),
                    (0.5, [89.65, 95.22]),
                    (0.6, [87.01, 93.87]),
                    (0.7, [86.08, 92.94]),
                ],
                |settings, value| settings.threshold = value,
            ),
            Self::Temperature => values(
                &[
                    (0.05, [89.23, 95.01]),
                    (0.1, [89.71, 95.21]),
                    (0.2, [89.78, 95.31]),
                    (0.5, [89.40, 95.13]),
                    (1.0, [89.62, 95.16]),
                ],
                |settings, ratio| settings.pseudo_label = PseudoLabel::Soft { ratio },
            ),
            Self::EntropyWeight => values(
                &[
                    (0.0, [82.45, 90.66]),
                    (0.25, [87.31, 93.85]),
                    (0.5, [87.98, 94.21]),
                    (0.75, [88.77, 94.74]),
                    (1.0, [89.70, 95.14]),
                ],
                |settings, value| settings.entropy_weight = value,
            ),
            Self::PriorMean => values(
                &[
                    (0.3, [84.14, 93.19]),
                    (0.4, [86.59, 93.10]),
                    (0.5, [89.89, 95.24]),
                    (0.6, [85.93, 93.81]),
                    (0.7, [26.22, 92.08]),
                ],
                |settings, value| settings.prior_mean = value,
            ),
            Self::BatchSize => batch_size(),
            Self::Iid => iid(),
            Self::Imbalance => imbalance(),
        }
    }

    /// A row of an ablation: one setting over the preset.
    fn value(self, value: f64, published: [f64; 2], set: fn(&mut Settings, f64)) -> Row {
        let mut settings = Preset::Omniglot.settings();
        set(&mut settings, value);
        let name = format!("{} = {value}", self.heading());
        let row = Row::new(&name, Learner::Objective, settings, Some(published));
        Row { points: vec![("OUPN".to_owned(), value)], ..row }
    }
}

/// The settings of a preset with another objective.
fn learning_by(preset: Preset, method: Method) -> Settings {
    let mut settings = preset.settings();
    settings.learn_by(method);
    settings
}

/// What learns without labels, and nothing learned.
fn methods(preset: Preset, published: [Option<[f64; 2]>; 6]) -> Vec<Row> {
    let rows = [
        ("Random network", Learner::Nothing, Method::Oupn),
        ("SimCLR", Learner::Objective, Method::SimClr),
        ("SwAV", Learner::Objective, Method::SwAv),
        ("SwAV + queue", Learner::Objective, Method::SwAvQueue),
        ("SimSiam", Learner::Objective, Method::SimSiam),
        ("OUPN", Learner::Objective, Method::Oupn),
    ];
    let row = |((name, learner, method), published)| {
        Row::new(name, learner, learning_by(preset, method), published)
    };
    rows.into_iter().zip(published).map(row).collect()
}

/// The methods that the figures compare.
const COMPARED: [(Method, &str); 4] = [
    (Method::Oupn, "OUPN"),
    (Method::SimClr, "SimCLR"),
    (Method::SwAv, "SwAV"),
    (Method::SimSiam, "SimSiam"),
];

/// A row with windows of so many frames.
fn batched(name: &str, method: Method, frames: usize, order: Order) -> Row {
    let mut settings = learning_by(Preset::Omniglot, method);
    (settings.window, settings.stride) = (frames, frames);
    Row { batches: Some((frames, order)), ..Row::new(name, Learner::Objective, settings, None) }
}

/// The figure of the batch size: its values are not printed in the paper.
fn batch_size() -> Vec<Row> {
    let mut rows = Vec::new();
    for (method, name) in COMPARED {
        for frames in [50, 100, 200, 400] {
            let row = batched(&format!("{name}, {frames}"), method, frames, Order::Online);
            rows.push(Row { points: vec![(name.to_owned(), frames as f64)], ..row });
        }
    }
    rows
}

/// The figure of shuffled streams: its values are not printed in the paper.
fn iid() -> Vec<Row> {
    let frames = Roaming::OMNIGLOT.frames();
    let rows = COMPARED.into_iter().flat_map(|(method, name)| {
        let online = Row::new(name, Learner::Objective, learning_by(Preset::Omniglot, method), None);
        [online, batched(&format!("{name}, iid"), method, frames, Order::Iid)]
    });
    rows.collect()
}

/// The two kinds of digits, in words.
const TEN: &str = "digits 0–9";
const ONE: &str = "digit 1";

/// The figure of the imbalance: its values are not printed in the paper.
fn imbalance() -> Vec<Row> {
    let random = Row::new("Random network", Learner::Nothing, Preset::Omniglot.settings(), None);
    let mut rows = vec![random];
    let digits = [(0.0, None), (0.5, None), (0.9, None), (0.5, Some(1)), (0.9, Some(1))];
    for (method, name) in [(Method::Oupn, "OUPN"), (Method::SimClr, "SimCLR"), (Method::SwAv, "SwAV")] {
        for (share, only) in digits {
            let which = if only.is_some() { ONE } else { TEN };
            let called =
                if share > 0.0 { format!("{name}, {:.0} % {which}", 100.0 * share) } else { name.to_owned() };
            let row = Row::new(&called, Learner::Objective, learning_by(Preset::Omniglot, method), None);
            let curve = |which: &str| (format!("{name}, {which}"), f64::from(share));
            // Without any digits both curves begin.
            let points = if share > 0.0 { vec![curve(which)] } else { vec![curve(TEN), curve(ONE)] };
            rows.push(Row { digits: Digits { share, only }, points, ..row });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Choice;

    /// Every row can be trained: its settings are valid, and no two rows of a table are the same.
    #[test]
    fn rows_are_valid_and_differ() {
        for (table, _, _) in Table::ALL {
            let rows = table.rows();
            assert!(rows.len() >= 5, "{table}");
            for (number, row) in rows.iter().enumerate() {
                row.settings.validate().unwrap();
                for other in &rows[..number] {
                    assert_ne!(row.name, other.name, "{table}");
                    let same = row.settings == other.settings
                        && row.learner == other.learner
                        && row.digits == other.digits
                        && row.batches == other.batches;
                    assert!(!same, "{table}: {} and {}", row.name, other.name);
                }
            }
        }
    }

    /// Around the preset: every ablation's grid holds the preset's own value, so the grids share that cell.
    #[test]
    fn every_grid_holds_the_preset() {
        for (table, _, _) in Table::ALL {
            let own =
                |row: &Row| row.settings == Preset::Omniglot.settings() && row.learner == Learner::Objective;
            assert!(
                matches!(table, Table::Rooms | Table::BatchSize) || table.rows().iter().any(own),
                "{table}"
            );
        }
    }
}

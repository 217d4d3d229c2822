//! The learning window in its plainest form: every prototype a vector, every quantity computed where it is needed, in
//! `f64`. Slow and short: the oracle of the library's window.
//!
//! Stop-gradients cannot be seen by finite differences, so a run records every value that the algorithm detaches
//! ([`Frozen`]), and a second run at neighbouring parameters may be given those values to use instead of its own.

use oupn_edge::memory::{Control, EntropyOf, PseudoLabel, Rules, Variant};

/// Everything a loss value depends on.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) views: [Vec<Vec<f64>>; 2],
    pub(crate) prototypes: Vec<Vec<f64>>,
    pub(crate) counts: Vec<f64>,
    pub(crate) control: Control,
    pub(crate) rules: Rules,
    pub(crate) kappa: f64,
    pub(crate) creation_noise: [Vec<f64>; 2],
    pub(crate) assignment_noise: [Vec<Vec<f64>>; 2],
}

/// Values that carry no gradient, in the order in which a run meets them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frozen {
    values: Vec<f64>,
    next: usize,
    recording: bool,
}

impl Frozen {
    fn pass(&mut self, value: f64) -> f64 {
        if self.recording {
            self.values.push(value);
            return value;
        }
        self.next += 1;
        self.values[self.next - 1]
    }
}

/// The result of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) loss: f64,
    pub(crate) created: Vec<bool>,
    pub(crate) prototypes: Vec<Vec<f64>>,
    pub(crate) counts: Vec<f64>,
    /// The smallest distance of any decision from tipping over.
    pub(crate) margin: f64,
}

/// Runs and records.
pub(crate) fn record(problem: &Problem) -> (Outcome, Frozen) {
    let mut frozen = Frozen { recording: true, ..Frozen::default() };
    let outcome = run(problem, &mut frozen);
    frozen.recording = false;
    (outcome, frozen)
}

/// The loss with all detached values taken from `frozen`.
pub(crate) fn loss(problem: &Problem, frozen: &Frozen) -> f64 {
    run(problem, &mut frozen.clone()).loss
}

struct State {
    prototypes: Vec<Vec<f64>>,
    counts: Vec<f64>,
}

fn run(problem: &Problem, frozen: &mut Frozen) -> Outcome {
    let rules = &problem.rules;
    let frames = problem.views[0].len();
    let mut state = State { prototypes: problem.prototypes.clone(), counts: problem.counts.clone() };
    let mut outcome = Outcome { margin: f64::INFINITY, ..Outcome::default() };
    let (mut own, mut entropy, mut creation) = (0.0, 0.0, 0.0);
    for t in 0..frames {
        let directions = if rules.symmetric { 2 } else { 1 };
        let mut kept = None;
        for view in 0..directions {
            let branch = branch(problem, &state, t, view, frozen, &mut outcome.margin);
            own += branch.cross_entropy / directions as f64;
            if view == 0 {
                outcome.created.push(branch.created);
                // Which frames count is a decision: it has no slope.
                if rules.entropy_of == EntropyOf::All || !outcome.created.last().unwrap() {
                    entropy += branch.entropy;
                }
                creation += branch.creation;
                kept = Some(branch.state);
            }
        }
        state = kept.unwrap();
    }
    let n = frames as f64;
    let mean = creation / n;
    // The clip passes the gradient: its offset is a constant.
    let mean = mean + frozen.pass(mean.clamp(1e-3, 1.0 - 1e-3) - mean);
    let (a, b) = (4.0 * rules.prior_mean, 4.0 - 4.0 * rules.prior_mean);
    let normaliser = log_gamma(a) + log_gamma(b) - log_gamma(a + b);
    let new = -((a - 1.0) * mean.ln() + (b - 1.0) * (1.0 - mean).ln() - normaliser);
    outcome.loss = own / n + rules.entropy_weight * entropy / n + rules.creation_weight * new;
    outcome.prototypes = state.prototypes;
    outcome.counts = state.counts;
    outcome
}

struct BranchResult {
    state: State,
    cross_entropy: f64,
    entropy: f64,
    creation: f64,
    created: bool,
}

fn branch(
    p: &Problem,
    state: &State,
    t: usize,
    view: usize,
    frozen: &mut Frozen,
    margin: &mut f64,
) -> BranchResult {
    let (rules, control) = (&p.rules, &p.control);
    let (z, other) = (&p.views[view][t], &p.views[1 - view][t]);
    let slots = state.counts.len();
    let logits = logits(control, state, z, frozen);
    let y = softmax(&logits);
    let top = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let top = if rules.variant == Variant::Reference { frozen.pass(top) } else { top };
    let new_logit = (-top - control.beta) / control.gamma;
    let u = sigmoid(new_logit);
    let noise = p.creation_noise[view][t];

    // The creation variable: straight-through samples have the value of the sample and the slope of the relaxation.
    let relaxed = match rules.variant {
        Variant::Reference => sigmoid((new_logit + noise) / p.kappa),
        Variant::Paper => u,
    };
    let created = match (rules.straight_through, rules.variant) {
        (false, _) => u > rules.threshold,
        (true, Variant::Reference) => relaxed > rules.threshold,
        (true, Variant::Paper) => new_logit + noise > 0.0,
    };
    *margin = margin.min(match (rules.straight_through, rules.variant) {
        (false, _) => (u - rules.threshold).abs(),
        (true, Variant::Reference) => (relaxed - rules.threshold).abs(),
        (true, Variant::Paper) => (new_logit + noise).abs(),
    });
    let hard = frozen.pass(f64::from(u8::from(created)));
    let new = if rules.straight_through { relaxed + frozen.pass(hard - relaxed) } else { hard };
    let samples_assignment = rules.straight_through && rules.variant == Variant::Paper;
    let share: Vec<f64> = if samples_assignment {
        let noisy: Vec<f64> = logits.iter().zip(&p.assignment_noise[view][t]).map(|(v, n)| v + n).collect();
        *margin = margin.min(runner_up_gap(&noisy));
        let best = frozen.pass(arg_max(&noisy) as f64) as usize;
        (0..slots).map(|k| y[k] + frozen.pass(f64::from(u8::from(k == best)) - y[k])).collect()
    } else {
        y.clone()
    };
    let gate = match (rules.straight_through, rules.variant) {
        (false, _) => 1.0 - u,
        (true, Variant::Reference) => frozen.pass(1.0 - u),
        (true, Variant::Paper) => 1.0 - new,
    };

    let mut weakest = 0;
    for k in 1..slots {
        if state.counts[k] < state.counts[weakest] {
            weakest = k;
        }
    }
    let weakest = frozen.pass(weakest as f64) as usize;
    let mut next = State { prototypes: Vec::new(), counts: Vec::new() };
    for (k, share) in share.iter().enumerate() {
        let creating = f64::from(u8::from(k == weakest)) * new;
        let count = state.counts[k] * (1.0 - creating);
        let amount = creating + share * gate * (1.0 - new);
        let (keep, gain) = match rules.variant {
            Variant::Reference => {
                let weight = (count + amount).max(1e-6);
                (count / weight, amount / weight)
            }
            Variant::Paper => (1.0 - amount / (count + 1.0), amount / (count + 1.0)),
        };
        let old = state.prototypes[k].iter().map(|p| p * (1.0 - creating));
        next.prototypes.push(old.zip(z).map(|(p, z)| keep * p + gain * z).collect());
        next.counts.push(rules.decay * (count + amount));
    }

    let label_logits = self::logits(control, &next, z, frozen);
    let label: Vec<f64> = match rules.pseudo_label {
        PseudoLabel::OneHot => {
            *margin = margin.min(runner_up_gap(&label_logits));
            let best = arg_max(&label_logits);
            (0..slots).map(|k| f64::from(u8::from(k == best))).collect()
        }
        PseudoLabel::Soft { ratio } => softmax(&label_logits.iter().map(|v| v / ratio).collect::<Vec<_>>()),
    };
    let student = softmax(&self::logits(control, &next, other, frozen));
    let mut cross_entropy = 0.0;
    for k in 0..slots {
        let label = frozen.pass(label[k]);
        if label > 0.0 && student[k] > 0.0 {
            cross_entropy -= label * student[k].ln();
        }
    }
    let entropy = -y.iter().filter(|y| **y > 0.0).map(|y| y * y.ln()).sum::<f64>();
    let creation = if rules.straight_through { new } else { u };
    BranchResult { state: next, cross_entropy, entropy, creation, created }
}

/// Which slots are in use is a decision too: a straight-through slope must not bring an empty one to life.
fn logits(control: &Control, state: &State, z: &[f64], frozen: &mut Frozen) -> Vec<f64> {
    let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt() + 1e-5;
    state
        .prototypes
        .iter()
        .zip(&state.counts)
        .map(|(p, count)| {
            let inner: f64 = p.iter().zip(z).map(|(p, z)| p * z).sum();
            if frozen.pass(*count) > 0.0 { control.inv_tau * inner / (norm(p) * norm(z)) } else { -1e6 }
        })
        .collect()
}

fn softmax(v: &[f64]) -> Vec<f64> {
    let top = v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = v.iter().map(|v| (v - top).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|e| e / sum).collect()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn arg_max(v: &[f64]) -> usize {
    (0..v.len()).fold(0, |best, k| if v[k] > v[best] { k } else { best })
}

fn runner_up_gap(v: &[f64]) -> f64 {
    let best = arg_max(v);
    (0..v.len()).filter(|k| *k != best).map(|k| v[best] - v[k]).fold(f64::INFINITY, f64::min)
}

/// log Γ by Stirling's series, shifted to where it is exact to f64; independent of the library's.
fn log_gamma(x: f64) -> f64 {
    let shift: f64 = (0..20).map(|i| (x + f64::from(i)).ln()).sum();
    let x = x + 20.0;
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + series - shift
}

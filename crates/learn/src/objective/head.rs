//! Small networks on top of the embeddings: their layers, their weights, and what moves these.
//!
//! The weights lie in one flat buffer, as the encoder's do, so that a checkpoint holds them and both of Adam's moments bit for
//! bit. A window binds them to candle variables, which automatic differentiation follows.

use std::collections::BTreeMap;
use std::ops::Range;

use candle_core::{D, Device, Result as Computed, Tensor as Values, Var};

use crate::learner::adam::Moments;
use crate::random::{Purpose, Random};
use crate::tensors::Tensor;
use crate::{Error, Result};

/// Added to a variance before its root is taken.
const NORM_EPSILON: f64 = 1e-5;

/// Added to a square length before its root is taken: the direction of nothing is nothing.
const LENGTH_EPSILON: f64 = 1e-12;

/// Numbers of the tensors' random streams; those of the encoder begin with 0.
const FIRST_STREAM: u64 = 1 << 32;

/// What a tensor starts with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    Zeros,
    Ones,
    /// Normal with the variance 2/`fan_out`, without what is beyond two standard deviations.
    Normal {
        fan_out: usize,
    },
}

/// A tensor of weights.
#[derive(Clone, Debug)]
struct Spec {
    name: String,
    shape: Vec<usize>,
    range: Range<usize>,
    start: Start,
}

/// The tensors of a head, in the order in which they lie in the buffer.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    specs: Vec<Spec>,
}

/// A tensor of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(usize);

impl Layout {
    /// Adds a matrix of `rows` x `columns`, with PyTorch's meaning: a row for each output.
    pub fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Slot {
        self.add(name, vec![rows, columns], Start::Normal { fan_out: rows })
    }

    /// Adds numbers that all start at 1, or at 0.
    pub fn vector(&mut self, name: &str, numbers: usize, ones: bool) -> Slot {
        self.add(name, vec![numbers], if ones { Start::Ones } else { Start::Zeros })
    }

    fn add(&mut self, name: &str, shape: Vec<usize>, start: Start) -> Slot {
        let from = self.numbers();
        let range = from..from + shape.iter().product::<usize>();
        self.specs.push(Spec { name: name.to_owned(), shape, range, start });
        Slot(self.specs.len() - 1)
    }

    fn numbers(&self) -> usize {
        self.specs.last().map_or(0, |spec| spec.range.end)
    }
}

/// The weights of a head, and how they are moving.
#[derive(Clone, Debug)]
pub struct Weights {
    layout: Layout,
    values: Vec<f32>,
    moments: Moments,
}

/// The weights as automatic differentiation sees them during one window.
pub struct Bound(Vec<Var>);

impl Bound {
    /// A tensor of the head.
    pub fn get(&self, slot: Slot) -> &Values {
        &self.0[slot.0]
    }

    pub(super) fn variables(&self) -> &[Var] {
        &self.0
    }
}

impl Weights {
    /// Random weights: a function of the seed alone.
    pub fn new(layout: Layout, seed: u64) -> Self {
        let mut values = vec![0.0; layout.numbers()];
        for (number, spec) in layout.specs.iter().enumerate() {
            let values = &mut values[spec.range.clone()];
            match spec.start {
                Start::Zeros => {}
                Start::Ones => values.fill(1.0),
                Start::Normal { fan_out } => {
                    let mut random = Random::new(seed, Purpose::Weights, FIRST_STREAM + number as u64);
                    let deviation = (2.0 / fan_out.max(1) as f64).sqrt();
                    values.fill_with(|| (deviation * within_two(&mut random)) as f32);
                }
            }
        }
        Self { moments: Moments::new(values.len()), layout, values }
    }

    /// Numbers of all tensors together.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// A tensor's numbers.
    pub fn values_mut(&mut self, slot: Slot) -> &mut [f32] {
        let range = self.layout.specs[slot.0].range.clone();
        &mut self.values[range]
    }

    /// Variables with these weights.
    pub(super) fn bind(&self) -> Computed<Bound> {
        let bound = self.layout.specs.iter().map(|spec| {
            Var::from_slice(&self.values[spec.range.clone()], spec.shape.as_slice(), &Device::Cpu)
        });
        bound.collect::<Computed<Vec<_>>>().map(Bound)
    }

    /// One update; `step` counts those before it.
    pub(super) fn update(&mut self, gradient: &[f32], step: u64, rate: f64) {
        self.moments.update(&mut self.values, gradient, step + 1, rate);
    }

    /// All of it by name, for a checkpoint.
    pub(super) fn carried(&self, method: &str) -> BTreeMap<String, Tensor> {
        let parts = [
            ("weights", &self.values),
            ("adam_first", &self.moments.first),
            ("adam_second", &self.moments.second),
        ];
        let tensor = |values: &Vec<f32>| Tensor { shape: vec![values.len()], values: values.clone() };
        parts.map(|(part, values)| (carried_name(method, part), tensor(values))).into()
    }

    /// Goes on from what [`carried`](Self::carried) gave.
    pub(super) fn carry(&mut self, method: &str, from: &BTreeMap<String, Tensor>) -> Result<()> {
        let part = |part: &str| carried_part(from, method, part, &[self.len()]);
        let (values, first, second) = (part("weights")?, part("adam_first")?, part("adam_second")?);
        if second.iter().any(|second| *second < 0.0) {
            return Err(Error::input("the optimiser's moments are damaged: a second one is negative"));
        }
        self.values = values;
        self.moments = Moments { first, second };
        Ok(())
    }

    /// The tensors' names, as PyTorch would have them, with where they lie among all weights and in their gradient.
    pub fn ranges(&self) -> impl Iterator<Item = (&str, Range<usize>)> {
        self.layout.specs.iter().map(|spec| (spec.name.as_str(), spec.range.clone()))
    }

    #[cfg(test)]
    pub(super) fn all_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }
}

/// How a part of an objective is called in a checkpoint.
pub fn carried_name(method: &str, part: &str) -> String {
    format!("objective.{method}.{part}")
}

/// A part of what an objective carries, of this shape and finite.
///
/// # Errors
/// If it is missing, of another shape, or not finite.
pub fn carried_part(
    from: &BTreeMap<String, Tensor>,
    method: &str,
    part: &str,
    shape: &[usize],
) -> Result<Vec<f32>> {
    let name = carried_name(method, part);
    let Some(tensor) = from.get(&name) else {
        return Err(super::other_objective(from, method));
    };
    if tensor.shape != shape {
        return Err(Error::input(format!(
            "tensor `{name}` has the shape {:?}; these settings need {shape:?}",
            tensor.shape
        )));
    }
    match tensor.values.iter().all(|value| value.is_finite()) {
        true => Ok(tensor.values.clone()),
        false => Err(Error::input(format!("tensor `{name}` holds a value that is not finite"))),
    }
}

/// A standard normal number within two standard deviations.
fn within_two(random: &mut Random) -> f64 {
    loop {
        let number = random.normal();
        if number.abs() <= 2.0 {
            return number;
        }
    }
}

/// What a network ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its last linear layer.
    Linear,
    /// A batch norm after it.
    Norm,
}

#[derive(Clone, Debug)]
struct Layer {
    weight: Slot,
    bias: Slot,
    norm: Option<(Slot, Slot)>,
    relu: bool,
}

/// Linear layers; all but the last are followed by batch norm with the window's statistics, and a ReLU.
#[derive(Clone, Debug)]
pub struct Mlp {
    layers: Vec<Layer>,
}

impl Mlp {
    /// Adds the tensors of a network with these widths, input first.
    pub fn new(layout: &mut Layout, name: &str, widths: &[usize], end: End) -> Self {
        let count = widths.len().saturating_sub(1);
        let layers = widths.windows(2).enumerate().map(|(number, pair)| {
            let last = number + 1 == count;
            let called = |part: &str| format!("{name}.{number}.{part}");
            let (weight, bias) = (called("weight"), called("bias"));
            let (scale, shift) = (called("norm.weight"), called("norm.bias"));
            Layer {
                weight: layout.matrix(&weight, pair[1], pair[0]),
                bias: layout.vector(&bias, pair[1], false),
                norm: (!last || end == End::Norm)
                    .then(|| (layout.vector(&scale, pair[1], true), layout.vector(&shift, pair[1], false))),
                relu: !last,
            }
        });
        Self { layers: layers.collect() }
    }

    /// Its output for these rows.
    pub fn forward(&self, weights: &Bound, rows: &Values) -> Computed<Values> {
        let mut rows = rows.clone();
        for Layer { weight, bias, norm, relu } in &self.layers {
            rows = rows.matmul(&weights.get(*weight).t()?)?.broadcast_add(weights.get(*bias))?;
            if let Some((scale, shift)) = norm {
                rows =
                    normed(&rows)?.broadcast_mul(weights.get(*scale))?.broadcast_add(weights.get(*shift))?;
            }
            if *relu {
                rows = rows.relu()?;
            }
        }
        Ok(rows)
    }
}

/// Each column with mean 0 and variance 1 over the rows.
fn normed(rows: &Values) -> Computed<Values> {
    let centred = rows.broadcast_sub(&rows.mean_keepdim(0)?)?;
    let variance = centred.sqr()?.mean_keepdim(0)?;
    centred.broadcast_div(&(variance + NORM_EPSILON)?.sqrt()?)
}

/// Each row with the length 1.
pub fn directions(rows: &Values) -> Computed<Values> {
    let square = rows.sqr()?.sum_keepdim(D::Minus1)?;
    rows.broadcast_div(&(square + LENGTH_EPSILON)?.sqrt()?)
}

/// The logarithm of each row's softmax.
pub fn log_softmax(rows: &Values) -> Computed<Values> {
    let shifted = rows.broadcast_sub(&rows.max_keepdim(D::Minus1)?.detach())?;
    shifted.broadcast_sub(&shifted.exp()?.sum_keepdim(D::Minus1)?.log()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_a_function_of_the_seed() {
        let weights = |seed| {
            let mut layout = Layout::default();
            Mlp::new(&mut layout, "head", &[64, 32, 16], End::Linear);
            Weights::new(layout, seed)
        };
        assert_eq!(weights(1).values, weights(1).values);
        assert_ne!(weights(1).values, weights(2).values);
        let first = weights(1);
        let names: Vec<&str> = first.ranges().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                "head.0.weight",
                "head.0.bias",
                "head.0.norm.weight",
                "head.0.norm.bias",
                "head.1.weight",
                "head.1.bias"
            ]
        );
        let matrix = &first.values[..64 * 32];
        let variance =
            matrix.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>() / matrix.len() as f64;
        // Cutting at two deviations leaves 0.774 of a normal's variance; five standard errors of 2048 draws are 0.1.
        assert!((variance * 32.0 / 2.0 - 0.774).abs() < 0.1, "{variance}");
        assert!(matrix.iter().all(|value| value.abs() <= 2.0 * (2.0f32 / 32.0).sqrt()));
    }

    #[test]
    fn damaged_or_foreign_weights_are_refused_and_change_nothing() {
        let mut layout = Layout::default();
        layout.vector("only", 3, true);
        let mut weights = Weights::new(layout, 0);
        let good = weights.carried("mine");
        let broken = |name: &str, change: &dyn Fn(&mut Tensor)| {
            let mut parts = good.clone();
            change(parts.get_mut(&carried_name("mine", name)).unwrap());
            parts
        };
        let mut refused = |parts: &BTreeMap<String, Tensor>, why: &str| {
            let error = weights.carry("mine", parts).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert_eq!(weights.carried("mine"), good);
        };
        refused(&broken("weights", &|tensor| tensor.values[0] = f32::NAN), "not finite");
        refused(&broken("weights", &|tensor| tensor.shape = vec![1, 3]), "shape");
        refused(&broken("adam_second", &|tensor| tensor.values[1] = -1.0), "negative");
        refused(&BTreeMap::new(), "mine");
    }
}

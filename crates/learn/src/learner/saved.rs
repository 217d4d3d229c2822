//! The learner's state as named tensors and header entries of one file, and back, bit for bit.
//!
//! Weights and running statistics keep the names of the model, so that a file with them and the model's card is also a
//! weight file for every other command. Beside them stand `control.*` (rounded, for other tools to read; the header
//! has them exactly), `adam.*`, `memory.*`, and `anchor.weights` where weights are pulled back to an anchor.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::adam::Adam;
use super::update::LearnerState;
use crate::encoder::parameters::FlatTensors;
use crate::encoder::weights::put;
use crate::encoder::{Parameters, Plan, Statistics};
use crate::memory::{Control, Prototypes};
use crate::tensors::{Tensor, TensorFile};
use crate::{Error, Result};

/// How the names of what an objective carries begin.
pub const CARRIED: [&str; 2] = ["memory.", "objective."];

/// How the name of the anchor begins.
pub const ANCHOR: &str = "anchor.";

/// The anchor: all weights in one row.
const ANCHOR_WEIGHTS: &str = "anchor.weights";

/// Header entry of 1/τ, β, γ.
pub const CONTROL: &str = "control";

/// Adds what learning has changed to what a file will hold, but for what the objective carries.
pub(super) fn put_learned(
    parameters: &Parameters,
    statistics: &Statistics,
    control: &Control,
    adam: &Adam,
    tensors: &mut BTreeMap<String, Tensor>,
    header: &mut HashMap<String, String>,
) {
    put(parameters, tensors);
    put(statistics, tensors);
    put_control(control, tensors, header);
    for (name, values) in adam.tensors() {
        tensors.insert(name.to_owned(), Tensor { shape: vec![values.len()], values: values.to_vec() });
    }
    header.extend(adam.header().map(|(name, value)| (name.to_owned(), value)));
}

/// Adds the anchor, if there is one.
pub(super) fn put_anchor(anchor: Option<&[f32]>, tensors: &mut BTreeMap<String, Tensor>) {
    if let Some(anchor) = anchor {
        let tensor = Tensor { shape: vec![anchor.len()], values: anchor.to_vec() };
        tensors.insert(ANCHOR_WEIGHTS.to_owned(), tensor);
    }
}

/// Adds the whole state to what a file will hold.
pub fn save(
    state: &LearnerState,
    tensors: &mut BTreeMap<String, Tensor>,
    header: &mut HashMap<String, String>,
) {
    let LearnerState { parameters, statistics, control, adam, anchor, carried } = state;
    put_learned(parameters, statistics, control, adam, tensors, header);
    put_anchor(anchor.as_deref(), tensors);
    tensors.extend(carried.clone());
}

/// The state that [`save`] wrote, for the network of `plan`.
///
/// # Errors
/// If anything is missing, of another shape, or not a possible value.
pub fn load(file: &TensorFile, plan: &Plan) -> Result<LearnerState> {
    let mut parameters = plan.zero_parameters();
    let mut statistics = plan.fresh_statistics();
    take_named(file, &mut parameters)?;
    take_named(file, &mut statistics)?;
    let weights = parameters.values.len();
    let moments = |name: &str| file.finite(name, &[weights]).map(<[f32]>::to_vec);
    let adam = Adam::restore(moments("adam.first")?, moments("adam.second")?, file.metadata())
        .map_err(|error| file.fault(error))?;
    // Runs without one, and those of earlier versions, have none.
    let anchor = file.get(ANCHOR_WEIGHTS).map(|_| moments(ANCHOR_WEIGHTS)).transpose()?;
    let carried: BTreeMap<_, _> = (file.tensors().iter())
        .filter(|(name, _)| CARRIED.iter().any(|prefix| name.starts_with(prefix)))
        .map(|(name, tensor)| (name.clone(), tensor.clone()))
        .collect();
    if carried.contains_key("memory.counts") {
        take_prototypes(&carried, "memory", plan.features).map_err(|error| file.fault(error))?;
    }
    Ok(LearnerState { control: take_control(file)?, carried, parameters, statistics, adam, anchor })
}

/// Adds 1/τ, β, γ: as three tensors of one number for other tools, and exactly in the header.
pub fn put_control(
    control: &Control,
    tensors: &mut BTreeMap<String, Tensor>,
    header: &mut HashMap<String, String>,
) {
    let values = [("inv_tau", control.inv_tau), ("beta", control.beta), ("gamma", control.gamma)];
    for (name, value) in values {
        #[allow(clippy::cast_possible_truncation)]
        let values = vec![value as f32];
        tensors.insert(format!("control.{name}"), Tensor { shape: vec![1], values });
    }
    // The shortest decimals that read back as the same numbers.
    header.insert(CONTROL.to_owned(), values.map(|(_, value)| format!("{value:?}")).join(" "));
}

/// 1/τ, β, γ from the header, or from the tensors of a file that another tool wrote.
pub fn take_control(file: &TensorFile) -> Result<Control> {
    let [inv_tau, beta, gamma] = match file.metadata().get(CONTROL) {
        Some(text) => {
            let values: Vec<f64> = text.split(' ').map_while(|value| value.parse().ok()).collect();
            <[f64; 3]>::try_from(values)
                .map_err(|_| file.fault(format!("header entry `{CONTROL}` = {text} is not three numbers")))?
        }
        None => {
            let one = |name: &str| Ok(f64::from(file.finite(&format!("control.{name}"), &[1])?[0]));
            let read: Result<[f64; 3]> = (|| Ok([one("inv_tau")?, one("beta")?, one("gamma")?]))();
            read?
        }
    };
    let control = Control { inv_tau, beta, gamma };
    // γ divides; nothing else is bounded by the method.
    if ![inv_tau, beta, gamma].iter().all(|value| value.is_finite()) || gamma == 0.0 {
        return Err(file.fault(format!("1/τ, β, γ = {inv_tau}, {beta}, {gamma} cannot be")));
    }
    Ok(control)
}

/// 1/τ, β, γ of a weight file, if they were learned with the weights: a safetensors file of this program's. Weights of others
/// have none.
pub fn learned_control(path: &Path) -> Result<Option<Control>> {
    if path.extension().is_none_or(|extension| extension != "safetensors") {
        return Ok(None);
    }
    let file = TensorFile::read(path)?;
    file.get("control.beta").map(|_| take_control(&file)).transpose()
}

/// Adds a memory as `NAME.prototypes` and `NAME.counts`.
pub fn put_prototypes(name: &str, memory: &Prototypes<f32>, tensors: &mut BTreeMap<String, Tensor>) {
    let (slots, dimension) = (memory.slots(), memory.dimension());
    let vectors = Tensor { shape: vec![slots, dimension], values: memory.vectors().to_vec() };
    tensors.insert(format!("{name}.prototypes"), vectors);
    let counts = Tensor { shape: vec![slots], values: memory.counts().to_vec() };
    tensors.insert(format!("{name}.counts"), counts);
}

/// The memory that [`put_prototypes`] wrote under this name.
pub fn take_prototypes(
    from: &BTreeMap<String, Tensor>,
    name: &str,
    dimension: usize,
) -> Result<Prototypes<f32>> {
    let tensor = |part: &str| {
        let name = format!("{name}.{part}");
        from.get(&name).ok_or_else(|| Error::input(format!("there is no tensor `{name}`")))
    };
    let (counts, vectors) = (tensor("counts")?, tensor("prototypes")?);
    if vectors.shape != [counts.values.len(), dimension] {
        return Err(Error::input(format!(
            "tensor `{name}.prototypes` has the shape {:?}; expected {} x {dimension}",
            vectors.shape,
            counts.values.len()
        )));
    }
    Prototypes::from_parts(dimension, vectors.values.clone(), counts.values.clone())
}

fn take_named<Role>(file: &TensorFile, to: &mut FlatTensors<Role>) -> Result<()> {
    for index in 0..to.specs().len() {
        let spec = to.specs()[index].clone();
        to.tensor_mut(index).copy_from_slice(file.finite(&spec.name, &spec.shape)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Preset;
    use crate::encoder::init::random_parameters;
    use crate::tensors::serialize;

    fn state() -> (LearnerState, Plan) {
        let settings = Preset::Omniglot.settings();
        let plan = settings.plan().unwrap();
        let parameters = random_parameters(settings.architecture(), &plan, 3);
        let mut adam = Adam::new(parameters.values.len());
        adam.step = 12_345;
        adam.first.iter_mut().enumerate().for_each(|(at, value)| *value = at as f32 * 1e-9);
        adam.control_second = [0.1, 1.0 / 3.0, 7e-300];
        let counts = (0..150).map(|slot| slot as f32 / 7.0).collect();
        let vectors = (0..150 * plan.features).map(|at| (at as f32).sin()).collect();
        let mut carried = BTreeMap::new();
        put_prototypes(
            "memory",
            &Prototypes::from_parts(plan.features, vectors, counts).unwrap(),
            &mut carried,
        );
        let state = LearnerState {
            control: Control { inv_tau: 10.1, beta: -9.0 - 1.0 / 3.0, gamma: 1.0 },
            carried,
            statistics: plan.fresh_statistics(),
            parameters,
            adam,
            anchor: None,
        };
        (state, plan)
    }

    fn file(state: &LearnerState) -> TensorFile {
        let (mut tensors, mut header) = (BTreeMap::new(), HashMap::new());
        save(state, &mut tensors, &mut header);
        TensorFile::parse(Path::new("saved"), &serialize(&tensors, header).unwrap()).unwrap()
    }

    #[test]
    fn a_state_comes_back_bit_for_bit() {
        let (mut state, plan) = state();
        assert_eq!(load(&file(&state), &plan).unwrap(), state);
        state.anchor = Some(state.parameters.values.iter().map(|value| value / 3.0).collect());
        assert_eq!(load(&file(&state), &plan).unwrap(), state);
    }

    #[test]
    fn control_is_found_in_tensors_where_there_is_no_header() {
        let (state, _) = state();
        let (mut tensors, mut header) = (BTreeMap::new(), HashMap::new());
        put_control(&state.control, &mut tensors, &mut header);
        let bytes = serialize(&tensors, HashMap::new()).unwrap();
        let control = take_control(&TensorFile::parse(Path::new("x"), &bytes).unwrap()).unwrap();
        assert!((control.beta - state.control.beta).abs() < 1e-6);
    }

    #[test]
    fn a_checkpoint_of_another_network_is_refused_by_name() {
        let (state, _) = state();
        let other = Preset::Imagenet.settings().plan().unwrap();
        let error = load(&file(&state), &other).unwrap_err().to_string();
        assert!(error.starts_with("saved: tensor `"), "{error}");
    }
}

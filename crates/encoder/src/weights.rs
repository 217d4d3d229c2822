//! Weights in files: read, checked name by name against the network they are for, and written.
//!
//! A weight file is a safetensors file with PyTorch's parameter names and, in its metadata, the [card](super::card) of the
//! model. Files without a card get one from beside them, or from those that come with the program, by their name. Those of
//! timm get torchvision's names on reading.
//! One file is part of the program itself, under the name [`BUILT_IN`].
//! Classifiers, counters of batches and what a checkpoint holds beside the encoder are left out on reading.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use super::card::ModelCard;
use super::parameters::{FlatTensors, TensorSpec};
use super::{Parameters, Statistics, pth, timm};
use crate::tensors::{Tensor, TensorFile};
use crate::{Error, Result};

/// Metadata entry that holds the card.
const CARD: &str = "card";

/// The name of the weights that are part of the program, in the place of a file's.
pub const BUILT_IN: &str = "built-in";

/// The weights of that name.
const BUILT_IN_FILE: &[u8] = include_bytes!("../../../models/mobilenet_v2_0.35_things.safetensors");

/// How many names an error lists.
const LISTED: usize = 5;

/// A trained encoder: what it is, and its numbers.
#[derive(Clone, Debug)]
pub struct Weights {
    /// What the numbers are for.
    pub card: ModelCard,
    /// What is trained.
    pub parameters: Parameters,
    /// The running statistics of its batch norms.
    pub statistics: Statistics,
}

impl Weights {
    /// Reads a safetensors or `.pth` file with the card that belongs to it; [`BUILT_IN`] names the program's own.
    pub fn read(path: &Path) -> Result<Self> {
        Self::read_with_card(path, None)
    }

    /// Reads a file with the card `choice` instead: a name known to the program, or a card's file.
    pub fn read_with_card(path: &Path, choice: Option<&str>) -> Result<Self> {
        let (tensors, embedded) = read_tensors(path).map_err(|error| {
            error.expecting(
                "a file of weights (.safetensors or .pth), or the name of a model that `oupn-edge model fetch` has downloaded \
                 (`oupn-edge model list` shows them)",
            )
        })?;
        let card = match choice {
            Some(choice) => chosen_card(choice)?,
            None => own_card(path, embedded.as_deref())?,
        };
        let fitted = timm::renamed(tensors).and_then(|tensors| Self::check(card, &tensors));
        fitted.map_err(|error| Error::input(format!("{}: {error}", path.display())))
    }

    /// Takes the tensors that the card's network has, and refuses what does not fit.
    pub(super) fn check(card: ModelCard, tensors: &BTreeMap<String, Tensor>) -> Result<Self> {
        let plan = card.plan(card.input.size, card.input.size, 0.1)?;
        let mut parameters = plan.zero_parameters();
        let mut statistics = plan.fresh_statistics();
        let mut faults = Faults::default();
        take(tensors, &mut parameters, &mut faults);
        take(tensors, &mut statistics, &mut faults);
        for unit in &plan.units {
            if statistics.tensor(unit.variance).iter().any(|&variance| variance < 0.0) {
                let name = &statistics.specs()[unit.variance].name;
                faults.invalid.push(format!("`{name}` (a negative variance)"));
            }
        }
        let known = |name: &str| parameters.position(name).or(statistics.position(name)).is_some();
        faults.unknown = tensors.keys().filter(|name| !known(name) && !left_out(name)).map(quoted).collect();
        faults.report(&card)?;
        Ok(Self { card, parameters, statistics })
    }

    /// Adds them to what a file will hold, card included.
    pub fn put(
        &self,
        tensors: &mut BTreeMap<String, Tensor>,
        metadata: &mut HashMap<String, String>,
    ) -> Result<()> {
        put(&self.parameters, tensors);
        put(&self.statistics, tensors);
        metadata.insert(CARD.to_owned(), self.card.to_toml()?);
        Ok(())
    }
}

/// Tensors of a file that are no part of an encoder: PyTorch's, and what a checkpoint holds beside the encoder.
fn left_out(name: &str) -> bool {
    let beside =
        ["classifier.", "control.", "adam.", "anchor.", "memory.", "live.", "ring.", "long.", "in_use."];
    beside.iter().any(|prefix| name.starts_with(prefix)) || name.ends_with(".num_batches_tracked")
}

fn read_tensors(path: &Path) -> Result<(BTreeMap<String, Tensor>, Option<String>)> {
    let pytorch = path.extension().is_some_and(|extension| extension == "pth" || extension == "pt");
    if pytorch {
        return Ok((pth::read(path)?, None));
    }
    let file = match path == Path::new(BUILT_IN) {
        true => TensorFile::parse(path, BUILT_IN_FILE)?,
        false => TensorFile::read(path)?,
    };
    let card = file.metadata().get(CARD).cloned();
    Ok((file.into_tensors(), card))
}

/// The card that a file carries, that lies beside it, or that comes with the program.
fn own_card(path: &Path, embedded: Option<&str>) -> Result<ModelCard> {
    if let Some(text) = embedded {
        return ModelCard::parse(text, &format!("in {}", path.display()));
    }
    let beside = path.with_extension("toml");
    if beside.is_file() {
        return read_card(&beside);
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let known = ModelCard::known()?.into_iter().find(|card| card.files.contains(&name));
    known.ok_or_else(|| {
        Error::input(format!(
            "{}: no model card says what these weights are for; name one with --card, or put it beside them as {}",
            path.display(),
            beside.display()
        ))
    })
}

fn chosen_card(choice: &str) -> Result<ModelCard> {
    let mut known = ModelCard::known()?;
    if let Some(at) = known.iter().position(|card| card.name == choice) {
        return Ok(known.swap_remove(at));
    }
    if Path::new(choice).is_file() {
        return read_card(Path::new(choice));
    }
    let names: Vec<&str> = known.iter().map(|card| card.name.as_str()).collect();
    Err(Error::input(format!("{choice} is neither a model card's file nor one of {}", names.join(", "))))
}

fn read_card(path: &Path) -> Result<ModelCard> {
    let text = fs::read_to_string(path).map_err(|error| Error::io(path, error))?;
    ModelCard::parse(&text, &path.display().to_string())
}

/// What is wrong with a file's tensors, by kind.
#[derive(Debug, Default)]
struct Faults {
    missing: Vec<String>,
    misshaped: Vec<String>,
    invalid: Vec<String>,
    unknown: Vec<String>,
}

impl Faults {
    fn report(&self, card: &ModelCard) -> Result<()> {
        let kinds = [
            ("missing", &self.missing),
            ("of the wrong shape", &self.misshaped),
            ("invalid", &self.invalid),
            ("not known", &self.unknown),
        ];
        let kinds: Vec<String> = kinds
            .into_iter()
            .filter(|(_, names)| !names.is_empty())
            .map(|(kind, names)| {
                let listed = names[..names.len().min(LISTED)].join(", ");
                let more = names.len().saturating_sub(LISTED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                format!("{} {kind}: {listed}{more}", names.len())
            })
            .collect();
        if kinds.is_empty() {
            return Ok(());
        }
        Err(Error::input(format!(
            "does not fit {} ({}): tensors {}",
            card.name,
            card.encoder,
            kinds.join("; ")
        )))
    }
}

fn quoted(name: &String) -> String {
    format!("`{name}`")
}

/// Copies the tensors that are there and as they should be.
fn take<Role>(tensors: &BTreeMap<String, Tensor>, to: &mut FlatTensors<Role>, faults: &mut Faults) {
    for index in 0..to.specs().len() {
        let TensorSpec { name, shape, .. } = &to.specs()[index];
        match tensors.get(name) {
            None => faults.missing.push(quoted(name)),
            Some(tensor) if tensor.shape != *shape => {
                faults.misshaped.push(format!("`{name}` {:?} instead of {shape:?}", tensor.shape));
            }
            Some(tensor) => {
                if let Some(at) = tensor.values.iter().position(|value| !value.is_finite()) {
                    faults.invalid.push(format!("`{name}` ({} at element {at})", tensor.values[at]));
                }
                to.tensor_mut(index).copy_from_slice(&tensor.values);
            }
        }
    }
}

/// Adds every tensor under its own name to what a file will hold.
pub fn put<Role>(from: &FlatTensors<Role>, to: &mut BTreeMap<String, Tensor>) {
    for (index, TensorSpec { name, shape, .. }) in from.specs().iter().enumerate() {
        let tensor = Tensor { shape: shape.clone(), values: from.tensor(index).to_vec() };
        to.insert(name.clone(), tensor);
    }
}

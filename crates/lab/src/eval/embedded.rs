//! Embeddings that another program made, so that its method is scored by the same code.
//!
//! The file is safetensors with three tensors, a row for each frame: `embeddings` (rows x numbers, any float type), `labels` and
//! `episodes` (rows each, whole numbers from 0 on). The rows of an episode stand in the order in which they were seen; without
//! `episodes` all rows are one. In Python:
//!
//! ```python
//! from safetensors.numpy import save_file
//! save_file({"embeddings": z, "labels": y.astype("int64"), "episodes": e.astype("int64")}, "z.safetensors")
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use super::episodes::EmbeddedEpisode;
use crate::Result;
use crate::tensors::TensorFile;

/// Beyond this not every whole number is one of 32 bits.
const LARGEST: f32 = 16_777_216.0;

/// The episodes of a file, in the order of their numbers, and the numbers of an embedding.
///
/// # Errors
/// If a tensor is missing, of another shape, not finite, or not of whole numbers.
pub fn read(path: &Path) -> Result<(Vec<EmbeddedEpisode>, usize)> {
    let file = TensorFile::read(path)?;
    let shape = file.require("embeddings")?.shape.clone();
    let &[rows, dimension] = &shape[..] else {
        return Err(file.fault(format!("tensor `embeddings` has shape {shape:?}; expected rows x numbers")));
    };
    if rows == 0 || dimension == 0 {
        return Err(file.fault("tensor `embeddings` is empty"));
    }
    let embeddings = file.finite("embeddings", &shape)?;
    let whole = |name: &str| {
        let values = file.finite(name, &[rows])?;
        match values.iter().find(|value| value.fract() != 0.0 || !(0.0..=LARGEST).contains(*value)) {
            Some(value) => {
                Err(file.fault(format!("tensor `{name}` holds {value}; expected whole numbers from 0 on")))
            }
            None => Ok(values.iter().map(|value| *value as usize).collect::<Vec<_>>()),
        }
    };
    let labels = whole("labels")?;
    let numbers = match file.get("episodes") {
        Some(_) => whole("episodes")?,
        None => vec![0; rows],
    };
    let mut episodes: BTreeMap<usize, (Vec<usize>, EmbeddedEpisode)> = BTreeMap::new();
    for ((row, label), number) in embeddings.chunks_exact(dimension).zip(labels).zip(numbers) {
        let nothing = || (Vec::new(), EmbeddedEpisode { embeddings: Vec::new(), labels: Vec::new() });
        let (names, episode) = episodes.entry(number).or_insert_with(nothing);
        let known = names.iter().position(|name| *name == label);
        episode.labels.push(known.unwrap_or(names.len()));
        if known.is_none() {
            names.push(label);
        }
        episode.embeddings.extend_from_slice(row);
    }
    Ok((episodes.into_values().map(|(_, episode)| episode).collect(), dimension))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::tensors::{Tensor, write};

    fn file(change: impl Fn(&mut BTreeMap<String, Tensor>)) -> Result<(Vec<EmbeddedEpisode>, usize)> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("z.safetensors");
        let mut tensors: BTreeMap<String, Tensor> = [
            ("embeddings", vec![4, 2], vec![1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0, 0.0]),
            ("labels", vec![4], vec![7.0, 9.0, 9.0, 7.0]),
            ("episodes", vec![4], vec![1.0, 0.0, 1.0, 1.0]),
        ]
        .map(|(name, shape, values)| (name.to_owned(), Tensor { shape, values }))
        .into();
        change(&mut tensors);
        write(&path, &tensors, HashMap::new()).unwrap();
        read(&path)
    }

    #[test]
    fn rows_are_put_into_their_episodes_with_classes_by_first_appearance() {
        let (episodes, dimension) = file(|_| {}).unwrap();
        assert_eq!((episodes.len(), dimension), (2, 2));
        assert_eq!((&episodes[0].labels[..], &episodes[0].embeddings[..]), (&[0][..], &[2.0, 0.0][..]));
        assert_eq!(episodes[1].labels, [0, 1, 0]);
        assert_eq!(episodes[1].embeddings, [1.0, 0.0, 3.0, 0.0, 4.0, 0.0]);
        let (one, _) = file(|tensors| _ = tensors.remove("episodes")).unwrap();
        assert_eq!(one.len(), 1);
        assert_eq!(one[0].labels, [0, 1, 1, 0]);
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let refused = |change: &dyn Fn(&mut BTreeMap<String, Tensor>), why: &str| {
            let error = file(change).unwrap_err().to_string();
            assert!(error.contains("z.safetensors") && error.contains(why), "{error}");
        };
        refused(&|tensors| _ = tensors.remove("labels"), "`labels` is missing");
        refused(&|tensors| tensors.get_mut("labels").unwrap().values[1] = 0.5, "holds 0.5");
        refused(&|tensors| tensors.get_mut("episodes").unwrap().values[1] = -1.0, "holds -1");
        refused(&|tensors| tensors.get_mut("embeddings").unwrap().values[1] = f32::NAN, "NaN");
        refused(&|tensors| tensors.get_mut("embeddings").unwrap().shape = vec![8], "rows x numbers");
        refused(
            &|tensors| tensors.get_mut("embeddings").unwrap().shape = vec![2, 4],
            "`labels` has shape [4]",
        );
    }
}

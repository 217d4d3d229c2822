//! Named tensors in safetensors files: the exchange format with other people's tools.
//!
//! Reading gives `f32` values whatever float type (or bytes, or 64-bit integers) the file holds, and refuses what later code must not meet:
//! a truncated file, a missing or mis-shaped tensor, a NaN or infinity. Every refusal names the file and the tensor.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

use crate::{Error, Result};

/// One tensor, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its dimensions, outermost first.
    pub shape: Vec<usize>,
    /// Its values; as many as the shape says.
    pub values: Vec<f32>,
}

/// The content of one file: tensors by name, and the file's text metadata.
#[derive(Clone, Debug)]
pub struct TensorFile {
    path: PathBuf,
    metadata: HashMap<String, String>,
    tensors: BTreeMap<String, Tensor>,
}

impl TensorFile {
    /// Reads a whole file.
    pub fn read(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::parse(path, &read_file(path)?)
    }

    /// Reads the bytes of a file; `path` is only used in messages.
    pub fn parse(path: &Path, bytes: &[u8]) -> Result<Self> {
        let damaged = |error: safetensors::SafeTensorError| {
            Error::input(format!("{}: not a whole safetensors file ({error})", path.display()))
        };
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(damaged)?;
        let file = SafeTensors::deserialize(bytes).map_err(damaged)?;
        let mut tensors = BTreeMap::new();
        for (name, view) in file.iter() {
            let values = to_f32(&view).ok_or_else(|| {
                Error::input(format!(
                    "{}: tensor `{name}` has type {:?}; expected a float type, U8 or I64",
                    path.display(),
                    view.dtype()
                ))
            })?;
            tensors.insert(name.to_owned(), Tensor { shape: view.shape().to_vec(), values });
        }
        Ok(Self {
            path: path.to_path_buf(),
            metadata: header.metadata().clone().unwrap_or_default(),
            tensors,
        })
    }

    /// The file's text metadata.
    pub fn metadata(&self) -> &HashMap<String, String> {
        &self.metadata
    }

    /// All tensors, by name.
    pub fn tensors(&self) -> &BTreeMap<String, Tensor> {
        &self.tensors
    }

    /// All tensors, by name, without the rest.
    pub fn into_tensors(self) -> BTreeMap<String, Tensor> {
        self.tensors
    }

    /// The tensor `name`, if the file has it.
    pub fn get(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The tensor `name`, with any shape.
    pub fn require(&self, name: &str) -> Result<&Tensor> {
        self.get(name).ok_or_else(|| self.fault(format!("tensor `{name}` is missing")))
    }

    /// The values of tensor `name`, which must have exactly this shape and finite values only.
    pub fn finite(&self, name: &str, shape: &[usize]) -> Result<&[f32]> {
        let tensor = self.require(name)?;
        if tensor.shape != shape {
            return Err(
                self.fault(format!("tensor `{name}` has shape {:?}; expected {shape:?}", tensor.shape))
            );
        }
        if let Some(at) = tensor.values.iter().position(|value| !value.is_finite()) {
            let value = tensor.values[at];
            return Err(
                self.fault(format!("tensor `{name}` holds {value} at element {at}; expected finite values"))
            );
        }
        Ok(&tensor.values)
    }

    /// The metadata entry `key`, read as JSON.
    pub fn setting<T: serde::de::DeserializeOwned>(&self, key: &str) -> Result<T> {
        let text =
            self.metadata.get(key).ok_or_else(|| self.fault(format!("metadata entry `{key}` is missing")))?;
        serde_json::from_str(text)
            .map_err(|error| self.fault(format!("metadata entry `{key}` = {text} cannot be read: {error}")))
    }

    /// An error of the input that names this file.
    pub fn fault(&self, message: impl std::fmt::Display) -> Error {
        Error::input(format!("{}: {message}", self.path.display()))
    }
}

/// The longest file of tensors that is read, in bytes: many times the largest encoder with all that training adds to it.
const LONGEST_FILE: u64 = 2 << 30;

/// Reads the whole of a plain file of at most 2 GiB. What else has a name (a device, a pipe, a folder) may have no end.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>> {
    let fault = |error| Error::io(path, error);
    let found = fs::metadata(path).map_err(fault)?;
    if !found.is_file() {
        return Err(Error::input(format!("{}: expected a plain file of weights", path.display())));
    }
    let mut bytes = Vec::new();
    if found.len() <= LONGEST_FILE {
        bytes.reserve(found.len() as usize + 1);
        // One byte more tells a file that grows from one that just fits.
        let file = fs::File::open(path).map_err(fault)?;
        file.take(LONGEST_FILE + 1).read_to_end(&mut bytes).map_err(fault)?;
    }
    if found.len().max(bytes.len() as u64) > LONGEST_FILE {
        return Err(Error::input(format!("{}: longer than 2 GiB; no encoder's file is", path.display())));
    }
    Ok(bytes)
}

/// Writes tensors and metadata as one safetensors file, all `f32`.
pub fn write(
    path: impl AsRef<Path>,
    tensors: &BTreeMap<String, Tensor>,
    metadata: HashMap<String, String>,
) -> Result<()> {
    let path = path.as_ref();
    let bytes = serialize(tensors, metadata)?;
    fs::write(path, bytes).map_err(|error| Error::io(path, error))
}

/// The bytes of such a file.
pub fn serialize(tensors: &BTreeMap<String, Tensor>, metadata: HashMap<String, String>) -> Result<Vec<u8>> {
    serialize_with_pixels(tensors, &BTreeMap::new(), metadata)
}

/// The bytes of a file that also holds pixels, one byte each.
pub fn serialize_with_pixels(
    tensors: &BTreeMap<String, Tensor>,
    pixels: &BTreeMap<String, (Vec<usize>, Vec<u8>)>,
    metadata: HashMap<String, String>,
) -> Result<Vec<u8>> {
    let invalid =
        |error: safetensors::SafeTensorError| Error::input(format!("cannot store tensors: {error}"));
    let bytes: Vec<Vec<u8>> = tensors
        .values()
        .map(|tensor| tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    let mut views = Vec::with_capacity(bytes.len());
    for ((name, tensor), bytes) in tensors.iter().zip(&bytes) {
        let view = TensorView::new(Dtype::F32, tensor.shape.clone(), bytes).map_err(invalid)?;
        views.push((name.as_str(), view));
    }
    for (name, (shape, pixels)) in pixels {
        views.push((name.as_str(), TensorView::new(Dtype::U8, shape.clone(), pixels).map_err(invalid)?));
    }
    with_ordered_header(safetensors::serialize(views, Some(metadata)).map_err(invalid)?)
}

/// The same file with its header in alphabetical order: equal content is equal bytes, and checksums can be compared.
fn with_ordered_header(mut file: Vec<u8>) -> Result<Vec<u8>> {
    let unreadable = || Error::input("cannot store tensors: their header cannot be read back");
    let (length, rest) = file.split_first_chunk::<8>().ok_or_else(unreadable)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| unreadable())?;
    let header = rest.get(..length).ok_or_else(unreadable)?;
    let header: BTreeMap<String, BTreeMap<String, serde_json::Value>> =
        serde_json::from_slice(header).map_err(|_| unreadable())?;
    let mut ordered = serde_json::to_vec(&header).map_err(|_| unreadable())?;
    // The format wants the tensors to begin at a multiple of eight.
    ordered.resize(ordered.len().next_multiple_of(8), b' ');
    let bytes = (ordered.len() as u64).to_le_bytes().into_iter().chain(ordered);
    file.splice(..8 + length, bytes);
    Ok(file)
}

fn to_f32(view: &TensorView<'_>) -> Option<Vec<f32>> {
    let bytes = view.data();
    Some(match view.dtype() {
        Dtype::F32 => bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        #[allow(clippy::cast_possible_truncation)]
        Dtype::F64 => bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b) as f32).collect(),
        Dtype::F16 => {
            bytes.as_chunks::<2>().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32()).collect()
        }
        Dtype::BF16 => {
            bytes.as_chunks::<2>().0.iter().map(|b| half::bf16::from_le_bytes(*b).to_f32()).collect()
        }
        Dtype::U8 => bytes.iter().map(|b| f32::from(*b)).collect(),
        // PyTorch stores how many batches a batch norm has seen beside its statistics.
        Dtype::I64 => bytes.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b) as f32).collect(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut tensors = BTreeMap::new();
        tensors.insert("a".to_owned(), Tensor { shape: vec![2, 2], values: vec![1.0, 2.0, 3.0, f32::NAN] });
        let metadata =
            HashMap::from([("T".to_owned(), "24".to_owned()), ("name".to_owned(), "x".to_owned())]);
        serialize(&tensors, metadata).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let file = TensorFile::parse(Path::new("f"), &sample()).unwrap();
        assert_eq!(file.require("a").unwrap().shape, [2, 2]);
        assert_eq!(file.require("a").unwrap().values[..3], [1.0, 2.0, 3.0]);
        assert_eq!(file.setting::<usize>("T").unwrap(), 24);
    }

    #[test]
    fn equal_content_is_equal_bytes() {
        // A hash map's order differs from one map to the next: twenty of them would not agree by chance.
        let many = || {
            let metadata = (0..9).map(|n| (n.to_string(), "é \"quoted\"".to_owned())).collect();
            serialize(&BTreeMap::new(), metadata).unwrap()
        };
        assert!((0..20).all(|_| many() == many()));
        assert_eq!(TensorFile::parse(Path::new("f"), &many()).unwrap().metadata()["3"], "é \"quoted\"");
        assert_eq!(u64::from_le_bytes(*many().first_chunk().unwrap()) % 8, 0);
    }

    #[test]
    fn faults_name_file_and_tensor() {
        let file = TensorFile::parse(Path::new("f"), &sample()).unwrap();
        let message = |result: Result<&[f32]>| result.unwrap_err().to_string();
        assert_eq!(message(file.finite("b", &[1])), "f: tensor `b` is missing");
        assert_eq!(message(file.finite("a", &[4])), "f: tensor `a` has shape [2, 2]; expected [4]");
        assert!(message(file.finite("a", &[2, 2])).contains("`a` holds NaN at element 3"));
        assert!(file.setting::<usize>("name").unwrap_err().to_string().contains("`name`"));
    }

    #[test]
    fn no_prefix_of_a_file_is_taken_for_a_file() {
        let bytes = sample();
        for length in 0..bytes.len() {
            let error = TensorFile::parse(Path::new("f"), &bytes[..length]).unwrap_err();
            assert_eq!(error.exit_code(), 2, "at {length}");
        }
    }
}

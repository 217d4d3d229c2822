//! PyTorch's `.pth` files: a pickled dictionary of tensors, read through candle's pickle reader.
//!
//! Two formats are about. Since PyTorch 1.6 a file is a zip archive of the pickle and, each in an entry of its own and
//! not compressed, the storages with the numbers. Before, and so in torchvision's first MobileNet-V2, it is a row of
//! pickles (a magic number, a protocol number, a note on the system, the dictionary, the list of storages), and then for
//! each storage its length and its numbers. candle reads the pickles of both; the rest is read here, because its
//! archive reader (zip 9.2) looks for the directory 76 bytes too far when the first entry of the directory is 76 bytes
//! long.
//!
//! Nothing in a pickle is executed: the reader knows the few objects that tensors are made of.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, Cursor, Read};
use std::ops::Range;
use std::panic::catch_unwind;
use std::path::Path;

use candle_core::pickle::{Object, Stack, TensorInfo};
use candle_core::{DType, Device, bail};

use crate::tensors::Tensor;
use crate::{Error, Result};

/// Keys under which training scripts put the dictionary of tensors beside other things.
const WITHIN: [&str; 2] = ["state_dict", "model"];

/// The first pickle of the older format.
const OLDER: [u8; 15] = [0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, b'.'];

type Tensors = BTreeMap<String, Tensor>;

/// Reads all tensors of a file.
pub(super) fn read(path: &Path) -> Result<Tensors> {
    let bytes = fs::read(path).map_err(|error| Error::io(path, error))?;
    parse(&bytes).map_err(|message| {
        Error::input(format!("{}: not a whole PyTorch file of tensors ({message})", path.display()))
    })
}

fn parse(bytes: &[u8]) -> Result<Tensors, String> {
    // The pickle reader takes the form of a pickle on trust, and panics where a damaged one breaks it.
    let outcome = catch_unwind(|| match bytes.strip_prefix(&OLDER) {
        Some(rest) => read_older(rest),
        None => read_archive(bytes),
    });
    match outcome {
        Ok(Ok(tensors)) if tensors.is_empty() => Err("no tensor in it".to_owned()),
        Ok(Ok(tensors)) => Ok(tensors),
        Ok(Err(error)) => Err(error.to_string().lines().next().unwrap_or_default().to_owned()),
        Err(_) => Err("damaged".to_owned()),
    }
}

fn read_archive(bytes: &[u8]) -> candle_core::Result<Tensors> {
    let entries = archive_entries(bytes)?;
    let Some(pickle) = entries.keys().find(|name| name.ends_with("/data.pkl")) else {
        bail!("no pickle in the archive");
    };
    let folder = pickle.trim_end_matches(".pkl").to_owned();
    let dictionary = unpickle(&mut entry(bytes, &entries[pickle])?)?;
    let mut tensors = BTreeMap::new();
    for info in tensor_infos(dictionary)? {
        let Some(storage) = entries.get(&format!("{folder}{}", info.path)) else {
            bail!("the numbers of {} are missing", info.name);
        };
        tensors.insert(info.name.clone(), tensor(&info, entry(bytes, storage)?)?);
    }
    Ok(tensors)
}

fn read_older(bytes: &[u8]) -> candle_core::Result<Tensors> {
    let mut file = Cursor::new(bytes);
    let _protocol = unpickle(&mut file)?;
    let _system = unpickle(&mut file)?;
    let dictionary = unpickle(&mut file)?;
    let Object::List(storages) = unpickle(&mut file)? else {
        bail!("no list of storages");
    };
    let infos = tensor_infos(dictionary)?;
    let mut users: HashMap<&str, Vec<&TensorInfo>> = HashMap::new();
    for info in &infos {
        users.entry(info.path.trim_start_matches('/')).or_default().push(info);
    }
    let mut tensors = BTreeMap::new();
    for storage in storages {
        let Ok(storage) = storage.unicode() else {
            bail!("a storage has no name");
        };
        let Some(users) = users.get(storage.as_str()) else {
            bail!("storage {storage} belongs to no tensor");
        };
        let mut length = [0; 8];
        file.read_exact(&mut length)?;
        let start = file.position() as usize;
        let len = u64::from_le_bytes(length).saturating_mul(users[0].dtype.size_in_bytes() as u64);
        let Some(numbers) = bytes[start..].get(..usize::try_from(len).unwrap_or(usize::MAX)) else {
            bail!("it ends within storage {storage}");
        };
        file.set_position(file.position() + len);
        for info in users {
            tensors.insert(info.name.clone(), tensor(info, numbers)?);
        }
    }
    Ok(tensors)
}

fn unpickle(from: &mut impl BufRead) -> candle_core::Result<Object> {
    let mut stack = Stack::empty();
    stack.read_loop(from)?;
    stack.finalize()
}

/// The tensors that a dictionary describes, or one within it under a usual key.
fn tensor_infos(dictionary: Object) -> candle_core::Result<Vec<TensorInfo>> {
    let Object::Dict(entries) = dictionary else {
        return Ok(Vec::new());
    };
    let mut infos = Vec::new();
    let mut within = None;
    for (name, value) in entries {
        if matches!(&name, Object::Unicode(name) if WITHIN.contains(&name.as_str())) {
            within = Some(value);
        } else if let Some(info) = value.into_tensor_info(name, Path::new(""))? {
            infos.push(info);
        }
    }
    match within {
        Some(inner) if infos.is_empty() => tensor_infos(inner),
        _ => Ok(infos),
    }
}

/// A tensor out of the bytes of its storage.
fn tensor(info: &TensorInfo, storage: &[u8]) -> candle_core::Result<Tensor> {
    if !info.layout.is_contiguous() {
        bail!("tensor {} does not lie in one piece", info.name);
    }
    let len = info.layout.shape().elem_count().saturating_mul(info.dtype.size_in_bytes());
    let Some(bytes) = storage.get(info.layout.start_offset()..).and_then(|rest| rest.get(..len)) else {
        bail!("it ends within tensor {}", info.name);
    };
    let tensor = candle_core::Tensor::from_raw_buffer(bytes, info.dtype, info.layout.dims(), &Device::Cpu)?;
    let values = tensor.to_dtype(DType::F32)?.flatten_all()?.to_vec1()?;
    Ok(Tensor { shape: info.layout.dims().to_vec(), values })
}

/// An entry of an archive: where its bytes lie, and their checksum.
struct Entry {
    bytes: Range<usize>,
    checksum: u32,
}

fn entry<'b>(bytes: &'b [u8], entry: &Entry) -> candle_core::Result<&'b [u8]> {
    match bytes.get(entry.bytes.clone()) {
        Some(bytes) if crc32fast::hash(bytes) == entry.checksum => Ok(bytes),
        _ => bail!("an entry of the archive is damaged"),
    }
}

/// The entries of a zip archive as PyTorch writes it: nothing compressed, less than 4 GiB.
fn archive_entries(bytes: &[u8]) -> candle_core::Result<BTreeMap<String, Entry>> {
    let number = |at: usize, len: usize| -> candle_core::Result<usize> {
        match bytes.get(at..).and_then(|rest| rest.get(..len)) {
            Some(bytes) => Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte))),
            None => bail!("it ends too early"),
        }
    };
    let Some(end) = bytes.windows(4).rposition(|window| window == b"PK\x05\x06") else {
        bail!("neither a zip archive nor a row of pickles");
    };
    let comment = number(end + 20, 2)?;
    if end + 22 + comment != bytes.len() {
        bail!("it is longer or shorter than it says");
    }
    let count = number(end + 10, 2)?;
    let mut at = number(end + 16, 4)?;
    let mut entries = BTreeMap::new();
    for _ in 0..count {
        if number(at, 4)? != 0x0201_4b50 || number(at + 10, 2)? != 0 {
            bail!("its directory is damaged, or compressed as PyTorch's never are");
        }
        let (checksum, len, name_len) = (number(at + 16, 4)?, number(at + 20, 4)?, number(at + 28, 2)?);
        let (extra, comment, header) = (number(at + 30, 2)?, number(at + 32, 2)?, number(at + 42, 4)?);
        let name = bytes.get(at + 46..at + 46 + name_len).unwrap_or_default();
        let start = header + 30 + number(header + 26, 2)? + number(header + 28, 2)?;
        let entry = Entry { bytes: start..start + len, checksum: checksum as u32 };
        entries.insert(String::from_utf8_lossy(name).into_owned(), entry);
        at += 46 + name_len + extra + comment;
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files that PyTorch 2.15 wrote: `torch.save({"state_dict": OrderedDict(weight=…, half=…, count=…), "epoch": 3}, name)`,
    /// the second with `_use_new_zipfile_serialization=False`.
    const FILES: [&[u8]; 2] =
        [include_bytes!("../../tests/data/archive.pth"), include_bytes!("../../tests/data/older.pth")];

    #[test]
    fn both_formats_are_read() {
        for bytes in FILES {
            let tensors = parse(bytes).unwrap();
            assert_eq!(tensors.keys().collect::<Vec<_>>(), ["count", "half", "weight"]);
            let weight = &tensors["weight"];
            assert_eq!(weight.shape, [2, 3]);
            assert_eq!(weight.values, [0.5, -1.25, 3.0, 1e-3, -7.0, 42.0]);
            assert_eq!(
                (&tensors["half"].shape[..], &tensors["half"].values[..]),
                (&[2][..], &[0.5, -2.0][..])
            );
            assert_eq!((tensors["count"].shape.len(), &tensors["count"].values[..]), (0, &[9.0][..]));
        }
    }

    #[test]
    fn damage_is_an_error_and_no_panic() {
        for bytes in FILES {
            for length in 0..bytes.len() {
                assert!(parse(&bytes[..length]).is_err(), "cut at {length}");
            }
            let mut damaged = bytes.to_vec();
            for at in 0..bytes.len() {
                damaged[at] ^= 0x5a;
                // A number may have changed without a trace in the older format, which has no checksums.
                let _ = parse(&damaged);
                damaged[at] ^= 0x5a;
            }
        }
    }
}

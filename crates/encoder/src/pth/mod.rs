//! PyTorch's `.pth` files: a pickled dictionary of tensors.
//!
//! Two formats are about. Since PyTorch 1.6 a file is a zip archive ([`archive`]) of the pickle ([`pickle`]) and, each in an
//! entry of its own and not compressed, the storages with the numbers. Before, and so in torchvision's first MobileNet-V2,
//! it is a row of pickles (a magic number, a protocol number, a note on the system, the dictionary, the list of storages),
//! and then for each storage its length and its numbers.
//!
//! Files come from strangers. Nothing in a pickle is executed, and a file takes no more memory than a few times its length:
//! objects are counted, nothing recurses, and tensors that share a storage may not multiply it without end ([`Budget`]).

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use crate::tensors::{Tensor, read_file};
use crate::{Error, Result};

mod archive;
mod described;
mod pickle;

#[cfg(test)]
mod tests;

use archive::Archive;
use described::{Described, tensors};
use pickle::{Object, Pickle};

/// The first pickle of the older format.
const OLDER: [u8; 15] = [0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, b'.'];

type Tensors = BTreeMap<String, Tensor>;

/// Reads all tensors of a file.
pub(super) fn read(path: &Path) -> Result<Tensors> {
    let bytes = read_file(path)?;
    parse(&bytes).map_err(|message| {
        Error::input(format!("{}: not a whole PyTorch file of tensors ({message})", path.display()))
    })
}

fn parse(bytes: &[u8]) -> Result<Tensors, String> {
    let tensors = match bytes.strip_prefix(&OLDER) {
        Some(rest) => read_older(rest),
        None => read_archive(bytes),
    }?;
    if tensors.is_empty() { Err("no tensor in it".to_owned()) } else { Ok(tensors) }
}

fn read_archive(bytes: &[u8]) -> Result<Tensors, String> {
    let archive = Archive::read(bytes)?;
    let name = archive.name_ending_in("/data.pkl").ok_or("no pickle in the archive")?;
    let folder = name.trim_end_matches(".pkl");
    let mut pickled = archive.get(name).unwrap_or(Ok(&[]))?;
    let pickle = Pickle::read(&mut pickled)?;
    let mut budget = Budget::of(bytes);
    // Each storage is checked once, however many tensors share it.
    let mut storages = HashMap::new();
    let mut all = BTreeMap::new();
    for described in tensors(&pickle)? {
        let storage = match storages.get(described.storage) {
            Some(storage) => *storage,
            None => {
                let storage = archive
                    .get(&format!("{folder}/{}", described.storage))
                    .ok_or_else(|| format!("the numbers of {} are missing", described.name))??;
                storages.insert(described.storage, storage);
                storage
            }
        };
        all.insert(described.name.to_owned(), budget.tensor(&described, storage)?);
    }
    Ok(all)
}

fn read_older(bytes: &[u8]) -> Result<Tensors, String> {
    let mut rest = bytes;
    let _protocol = Pickle::read(&mut rest)?;
    let _system = Pickle::read(&mut rest)?;
    let dictionary = Pickle::read(&mut rest)?;
    let list = Pickle::read(&mut rest)?;
    let Object::List(storages) = list.top() else {
        return Err("no list of storages".to_owned());
    };
    let mut users: HashMap<&str, Vec<Described>> = HashMap::new();
    for described in tensors(&dictionary)? {
        users.entry(described.storage).or_default().push(described);
    }
    let mut budget = Budget::of(bytes);
    let mut all = BTreeMap::new();
    for &storage in storages {
        let Object::Text(name) = *list.get(storage) else {
            return Err("a storage has no name".to_owned());
        };
        let users = users.get(name).ok_or_else(|| format!("storage {name} belongs to no tensor"))?;
        let cut = || format!("it ends within storage {name}");
        let (len, numbers) = rest.split_first_chunk().ok_or_else(cut)?;
        let size = users.first().map_or(1, |user| user.kind.size());
        let len = usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX).saturating_mul(size);
        let (numbers, after) = numbers.split_at_checked(len).ok_or_else(cut)?;
        rest = after;
        for user in users {
            all.insert(user.name.to_owned(), budget.tensor(user, numbers)?);
        }
    }
    Ok(all)
}

/// How many numbers may still be read: two for each byte of the file, so that every file of small numbers fits and tensors
/// may share a storage, but not a thousand of them.
struct Budget {
    left: usize,
}

impl Budget {
    fn of(bytes: &[u8]) -> Self {
        Self { left: 2 * bytes.len() }
    }

    /// A tensor out of the bytes of its storage.
    fn tensor(&mut self, described: &Described<'_>, storage: &[u8]) -> Result<Tensor, String> {
        let (name, size) = (described.name, described.kind.size());
        let bytes = described.numbers().and_then(|numbers| {
            let (start, len) = (described.offset.checked_mul(size)?, numbers.checked_mul(size)?);
            storage.get(start..)?.get(..len)
        });
        let bytes = bytes.ok_or_else(|| format!("it ends within tensor {name}"))?;
        // Even a tensor of no numbers costs something.
        let left = self.left.checked_sub(bytes.len() / size + 1);
        self.left = left.ok_or("its tensors have more numbers than the file holds")?;
        Ok(Tensor { shape: described.shape.clone(), values: described.kind.values(bytes) })
    }
}

//! The folder that keeps fetched models, and how `--model NAME` finds one in it.
//!
//! `$STATE_DIRECTORY/models` for a system service (systemd sets the variable), otherwise `$XDG_DATA_HOME/oupn-edge/models`, which is
//! `~/.local/share/oupn-edge/models` unless it was moved.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::catalogue;
use crate::encoder::{ModelCard, Weights};
use crate::storage::{Filesystem as _, OsFilesystem};
use crate::{Error, Result};

/// How the files end.
const EXTENSION: &str = ".safetensors";

/// The folder of this user or service; it need not exist.
///
/// # Errors
/// If nothing says where it is.
pub fn folder() -> Result<PathBuf> {
    of(|name| std::env::var_os(name)).ok_or_else(|| {
        Error::input("neither HOME nor XDG_DATA_HOME says where models are kept; name a folder with --to")
    })
}

fn of(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The specification of XDG's folders wants relative ones to be ignored.
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(states) = variable("STATE_DIRECTORY") {
        // A service may have several, with colons between them.
        let first = states.to_string_lossy().split(':').next().map(PathBuf::from);
        if let Some(state) = first.filter(|path| path.is_absolute()) {
            return Some(state.join("models"));
        }
    }
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(data.join("oupn-edge/models"))
}

/// The file of a model in a folder. Names have points in them, so nothing is taken for an extension.
pub fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}{EXTENSION}"))
}

/// What `--model` means: a file if there is one, otherwise the model of that name in the folder. What is neither stays as it is, and
/// whoever reads it says what is wrong.
pub fn find(asked: &Path) -> PathBuf {
    match folder() {
        Ok(folder) => find_in(&folder, asked),
        Err(_) => asked.to_path_buf(),
    }
}

fn find_in(folder: &Path, asked: &Path) -> PathBuf {
    let name = asked.to_str().filter(|name| !name.contains('/'));
    if let (false, Some(name)) = (asked.is_file(), name) {
        let whole = catalogue::known(name).map_or(name, |entry| entry.name);
        let found = [name, whole].map(|name| file(folder, name)).into_iter().find(|path| path.is_file());
        return found.unwrap_or_else(|| asked.to_path_buf());
    }
    asked.to_path_buf()
}

/// A model in the folder.
#[derive(Debug)]
pub struct Kept {
    /// Its name for `--model`.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Its card, or why it cannot be used.
    pub card: Result<ModelCard>,
}

/// The models in a folder, by name; none if there is no such folder. Each one is read, so that what is listed can be used.
///
/// # Errors
/// If the folder is there and cannot be looked into.
pub fn list(folder: &Path) -> Result<Vec<Kept>> {
    let names = match OsFilesystem.list(folder) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(folder, error)),
    };
    let kept = |name: &String| {
        let name = name.strip_suffix(EXTENSION).filter(|name| !name.starts_with('.'))?;
        let path = file(folder, name);
        let card = Weights::read(&path).map(|weights| weights.card);
        Some(Kept { name: name.to_owned(), path, card })
    };
    Ok(names.iter().filter_map(kept).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_has_its_own_folder() {
        let folder = |variables: &[(&str, &str)]| {
            of(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into()))
                .map(|path| path.to_string_lossy().into_owned())
        };
        let home = ("HOME", "/home/ada");
        assert_eq!(folder(&[home]).as_deref(), Some("/home/ada/.local/share/oupn-edge/models"));
        assert_eq!(folder(&[home, ("XDG_DATA_HOME", "/data")]).as_deref(), Some("/data/oupn-edge/models"));
        assert_eq!(
            folder(&[home, ("XDG_DATA_HOME", "data")]).as_deref(),
            Some("/home/ada/.local/share/oupn-edge/models")
        );
        let state = ("STATE_DIRECTORY", "/var/lib/oupn-edge:/var/lib/other");
        assert_eq!(folder(&[home, state]).as_deref(), Some("/var/lib/oupn-edge/models"));
        assert_eq!(folder(&[("XDG_DATA_HOME", "")]), None);
    }

    #[test]
    fn names_are_looked_up_and_paths_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let kept = file(folder.path(), "mobilenetv2_100.ra_in1k");
        std::fs::write(&kept, "weights").unwrap();
        let find = |asked: &str| find_in(folder.path(), Path::new(asked));
        assert_eq!(find("mobilenetv2_100.ra_in1k"), kept);
        assert_eq!(find("mobilenetv2_100"), kept, "without timm's tag");
        assert_eq!(find("mobilenetv2_140"), Path::new("mobilenetv2_140"), "not fetched");
        assert_eq!(find("./mobilenetv2_100"), Path::new("./mobilenetv2_100"), "a path");
        assert_eq!(find("Cargo.toml"), Path::new("Cargo.toml"), "a file that is there");
        assert!(list(&folder.path().join("none")).unwrap().is_empty());
        let listed = list(folder.path()).unwrap();
        assert_eq!((listed.len(), listed[0].name.as_str()), (1, "mobilenetv2_100.ra_in1k"));
        assert!(listed[0].card.is_err(), "these are no weights");
    }
}

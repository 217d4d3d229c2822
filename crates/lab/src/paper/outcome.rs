//! What a cell came to: `result.json` in its folder.
//!
//! Version 1: `version`, `id`, `row`, `seed`, `windows`, `episodes`, `ami`, `ami_error`, `ami_first_ten`, `ap`, `ap_error`, `categories`,
//! `classes`, `seconds` (of learning). Scores are fractions. `ami` is by the sweep over similarities, in which every method has
//! the same chance; `ami_first_ten` is by the paper's sweep over thresholds, with the method's own β or the one that all start with.

use std::path::Path;

use serde_json::{Value, json};

use crate::eval::episodes::Scores;
use crate::storage::{OsFilesystem, write_atomically};
use crate::{Error, Result};

const VERSION: u64 = 1;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// AMI by the sweep over similarities.
    pub ami: f64,
    /// Its standard error over episodes.
    pub ami_error: f64,
    /// AMI by the paper's sweep.
    pub ami_first_ten: f64,
    /// Average precision.
    pub ap: f64,
    /// Its standard error.
    pub ap_error: f64,
    /// Categories found, on average over the episodes.
    pub categories: f64,
    /// Classes that there were.
    pub classes: f64,
    /// Seconds of learning.
    pub seconds: f64,
}

impl Outcome {
    pub(super) fn of(scores: &Scores, first_ten: &Scores, seconds: f64) -> Self {
        Self {
            ami: scores.ami,
            ami_error: scores.ami_error,
            ami_first_ten: first_ten.ami,
            ap: scores.ap,
            ap_error: scores.ap_error,
            categories: scores.categories,
            classes: scores.classes,
            seconds,
        }
    }

    /// Reads a cell's file; none if there is none.
    ///
    /// # Errors
    /// If it cannot be read, or is not such a file.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io(path, error)),
        };
        let fault = |what: &str| {
            Error::input(format!("{}: {what}; remove it to have the cell computed again", path.display()))
        };
        let line: Value = serde_json::from_str(&text).map_err(|_| fault("not a result"))?;
        if line["version"] != VERSION {
            return Err(fault("a result of another version"));
        }
        let number = |name: &str| {
            let value = line[name].as_f64().filter(|value| value.is_finite());
            value.ok_or_else(|| fault(&format!("`{name}` is not a number")))
        };
        Ok(Some(Self {
            ami: number("ami")?,
            ami_error: number("ami_error")?,
            ami_first_ten: number("ami_first_ten")?,
            ap: number("ap")?,
            ap_error: number("ap_error")?,
            categories: number("categories")?,
            classes: number("classes")?,
            seconds: number("seconds")?,
        }))
    }

    /// Writes a cell's file; `about` is what the cell says of itself.
    pub(super) fn write(&self, path: &Path, about: &Value) -> Result<()> {
        let Self { ami, ami_error, ami_first_ten, ap, ap_error, categories, classes, seconds } = self;
        let mut line = json!({
            "version": VERSION, "ami": ami, "ami_error": ami_error, "ami_first_ten": ami_first_ten, "ap": ap,
            "ap_error": ap_error, "categories": categories, "classes": classes, "seconds": seconds,
        });
        for name in ["id", "row", "seed", "windows", "episodes"] {
            line[name] = about[name].clone();
        }
        write_atomically(&OsFilesystem, path, format!("{line}\n").as_bytes())
            .map_err(|error| Error::io(path, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_comes_back_and_a_damaged_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        assert_eq!(Outcome::read(&path).unwrap(), None);
        let outcome = Outcome {
            ami: 0.1 + 0.2,
            ami_error: 0.01,
            ami_first_ten: 1.0 / 3.0,
            ap: 0.5,
            ap_error: 0.02,
            categories: 7.5,
            classes: 8.0,
            seconds: 12.25,
        };
        outcome.write(&path, &json!({ "id": "x", "row": "OUPN", "seed": 1 })).unwrap();
        assert_eq!(Outcome::read(&path).unwrap(), Some(outcome));
        for damaged in ["", "{}", "{\"version\":1}", "{\"version\":2}"] {
            std::fs::write(&path, damaged).unwrap();
            let error = Outcome::read(&path).unwrap_err().to_string();
            assert!(error.contains("result.json") && error.contains("remove it"), "{error}");
        }
    }
}

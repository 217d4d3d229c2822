//! `--model`: a file of weights, or the name of a model that `oupn-edge model fetch` has downloaded.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};

use oupn_edge::model_fetch::folder;

/// Reads either as the path of the file.
pub(super) fn model_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(|asked| folder::find(&asked))
}

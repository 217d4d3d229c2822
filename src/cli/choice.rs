//! Choices of the library as values of flags.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use oupn_base::Choice;

/// Reads one of a choice's names, and lists them in the help.
pub(super) fn choice<C: Choice>() -> impl TypedValueParser<Value = C> {
    let values = C::ALL.iter().map(|(_, name, help)| PossibleValue::new(*name).help(*help));
    PossibleValuesParser::new(values)
        .try_map(|name| C::named(&name).ok_or_else(|| format!("there is no `{name}`")))
}

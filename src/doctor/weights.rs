//! Which weights there are to start from.

use std::path::Path;

use super::Check;
use crate::encoder::Weights;
use crate::model_fetch::folder;

const NAME: &str = "weights";

/// `model` is what a recording was said to start from, `models` the folder of fetched ones.
pub(super) fn check(model: Option<&Path>, models: Option<&Path>) -> Check {
    if let Some(model) = model {
        return match Weights::read(model) {
            Ok(weights) => Check::ok(NAME, format!("{}, {}", weights.card.name, weights.card.encoder)),
            Err(error) => Check::problem(
                NAME,
                error.to_string(),
                "`oupn-edge model fetch` downloads published weights, `model import` checks a file that you have",
            ),
        };
    }
    let kept = models.and_then(|models| folder::list(models).ok()).unwrap_or_default();
    let names: Vec<&str> =
        kept.iter().filter(|kept| kept.card.is_ok()).map(|kept| kept.name.as_str()).collect();
    if names.is_empty() {
        return Check::advice(
            NAME,
            "no --model given, and none was fetched: a recording starts from the built-in weights",
            "weights learned from photographs tell things apart better: `oupn-edge model fetch NAME` downloads published ones \
             (`oupn-edge model list` shows names), and `--model NAME` uses them",
        );
    }
    Check::ok(NAME, format!("fetched, for --model: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn a_machine_without_weights_is_told_where_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let none = check(None, Some(folder.path()));
        assert_eq!(none.verdict, Verdict::Advice);
        assert!(none.advice.contains("oupn-edge model fetch"), "{}", none.advice);
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/conv4_omniglot.safetensors");
        std::fs::copy(&shipped, folder.path().join("mine.safetensors")).unwrap();
        let kept = check(None, Some(folder.path()));
        assert_eq!((kept.verdict, kept.found.contains("mine")), (Verdict::Ok, true), "{}", kept.found);
        assert!(check(Some(&shipped), None).found.contains("conv4_omniglot"));
        assert_eq!(check(Some(Path::new("missing")), None).verdict, Verdict::Problem);
    }
}

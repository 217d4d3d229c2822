//! What the report says of categories that turned out to be one. Of a recording without merges it says nothing.

use super::digest::Digest;
use super::words::count;
use crate::recording::{Categories, Recording};

/// Numbers that a card lists; the others are counted.
const LISTED: usize = 8;

/// The sentence that tells which numbers the report goes by.
pub(super) fn note(recording: &Recording, digest: &Digest) -> String {
    let joined = match recording.merges.len() {
        0 => return String::new(),
        1 => "1 was".to_owned(),
        many => format!("{} were", count(many as u64)),
    };
    match digest.view {
        Categories::Final => {
            format!(" Categories are shown as they ended up: {joined} joined into older ones.")
        }
        Categories::Live => {
            format!(
                " Categories are shown as they were given at the time: {joined} joined into older ones later."
            )
        }
    }
}

/// The line of a card that names the categories which were joined into it.
pub(super) fn parts(joined: Option<&Vec<u64>>) -> String {
    let Some(joined) = joined else { return String::new() };
    let mut listed: Vec<String> = joined.iter().take(LISTED).map(u64::to_string).collect();
    match joined.len() - listed.len() {
        0 => {}
        more => listed.push(format!("{more} more")),
    }
    let word = if joined.len() == 1 { "category" } else { "categories" };
    let listed = match listed.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => listed.concat(),
    };
    format!("<p class=\"note\">{word} {listed} joined into it</p>")
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn a_card_names_a_few_and_counts_the_others() {
        let said = |joined: &[u64]| parts(Some(&joined.to_vec()));
        assert_eq!(parts(None), "");
        assert_eq!(said(&[17]), "<p class=\"note\">category 17 joined into it</p>");
        assert_eq!(said(&[17, 21, 30]), "<p class=\"note\">categories 17, 21 and 30 joined into it</p>");
        let many = said(&(10..30).collect::<Vec<_>>());
        assert_eq!(
            many,
            "<p class=\"note\">categories 10, 11, 12, 13, 14, 15, 16, 17 and 12 more joined into it</p>"
        );
    }
}

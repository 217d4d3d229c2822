//! Text of others, made fit for a terminal: names of devices, cameras and files may hold what moves the cursor, changes
//! colours or begins a line that this program never said.

use std::borrow::Cow;

/// The text with control characters, and those that turn the direction of writing, spelled out.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// As [`plain`], for text of several lines and columns.
pub(super) fn plain_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let acts = |c: char| {
        (c.is_control() && !keep(c))
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(acts) {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if acts(c) { plain.extend(c.escape_default()) } else { plain.push(c) }
    }
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_spelled_out() {
        assert_eq!(plain("Kamera \u{1f4f7} 7"), "Kamera \u{1f4f7} 7");
        assert_eq!(plain("a\u{1b}[31mb\nc\u{9b}2J\u{202e}d"), "a\\u{1b}[31mb\\nc\\u{9b}2J\\u{202e}d");
        assert_eq!(plain_lines("a\tb\r\n"), "a\tb\\r\n");
    }
}

//! Numbers as people read them, and text made safe for HTML.

use std::fmt;

pub(super) use crate::words::duration;

/// Text that stands for itself in HTML, also within quotes.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(['&', '<', '>', '"', '\'']) {
            let (text, entity) = match part.chars().last() {
                Some('&') => (&part[..part.len() - 1], "&amp;"),
                Some('<') => (&part[..part.len() - 1], "&lt;"),
                Some('>') => (&part[..part.len() - 1], "&gt;"),
                Some('"') => (&part[..part.len() - 1], "&quot;"),
                Some('\'') => (&part[..part.len() - 1], "&#39;"),
                _ => (part, ""),
            };
            f.write_str(text)?;
            f.write_str(entity)?;
        }
        Ok(())
    }
}

/// A place on the time line: `0:07:42`, or with days `2 d 03:15`.
pub(super) fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let (days, hours, minutes, seconds) =
        (whole / 86_400, whole % 86_400 / 3600, whole % 3600 / 60, whole % 60);
    if days > 0 {
        format!("{days} d {hours:02}:{minutes:02}")
    } else {
        format!("{hours}:{minutes:02}:{seconds:02}")
    }
}

/// A number with thin spaces between thousands.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A number with as many digits as its size asks for.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 => format!("{value:.2}"),
        size if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// A part of a whole, in per cent.
pub(super) fn percent(part: f64) -> String {
    if part.is_finite() { format!("{:.0} %", 100.0 * part) } else { "–".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_can_become_markup() {
        let text = "<script>alert('1 & \"2\"')</script>";
        let safe = Escaped(text).to_string();
        assert_eq!(safe, "&lt;script&gt;alert(&#39;1 &amp; &quot;2&quot;&#39;)&lt;/script&gt;");
        assert_eq!(Escaped("û ≥ 0.5").to_string(), "û ≥ 0.5");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(clock(3725.0), "1:02:05");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(
            (short(0.0123), short(3.1449), short(12345.6)),
            ("0.0123".into(), "3.14".into(), "12346".into())
        );
    }
}

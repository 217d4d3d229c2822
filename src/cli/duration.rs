//! Spans of time as people type them: `4s`, `250ms`, `10m`, `1.5h`, or plain seconds.

use std::time::Duration;

/// A span of time above zero; without a unit it is seconds.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(format!("`{unit}` is no unit of time; use ms, s, m, h or d")),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number * seconds <= 1e9 => {
            Ok(Duration::from_secs_f64(number * seconds))
        }
        _ => Err("expected a span of time such as 4s, 10m or 250ms".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_people_write_them() {
        assert_eq!(parse_duration("4s"), Ok(Duration::from_secs(4)));
        assert_eq!(parse_duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(parse_duration("1.5h"), Ok(Duration::from_secs(5400)));
        for nonsense in ["", "s", "-1s", "0", "4 parsecs", "inf", "1e300h", "NaNm"] {
            assert!(parse_duration(nonsense).is_err(), "{nonsense}");
        }
    }
}

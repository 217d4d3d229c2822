//! Spans of time as people type them: `4s`, `250ms`, `10m`, `10 minutes`, `1.5h`, or plain seconds.

use std::time::Duration;

/// A span of time above zero; without a unit it is seconds.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let seconds = match unit.to_ascii_lowercase().as_str() {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
        "ms" | "msec" | "millisecond" | "milliseconds" => 1e-3,
        "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => 86_400.0,
        _ => return Err(format!("`{unit}` is not a unit of time: use ms, s, m (minutes), h or d")),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number * seconds <= 1e9 => {
            Ok(Duration::from_secs_f64(number * seconds))
        }
        Ok(0.0) => Err("a span of time must be longer than 0, such as 4s or 250ms".to_owned()),
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
        for ten in ["10m", "10min", "10minutes", "10 minutes", "10 Min"] {
            assert_eq!(parse_duration(ten), Ok(Duration::from_secs(600)), "{ten}");
        }
        assert_eq!(parse_duration("1.5h"), Ok(Duration::from_secs(5400)));
        for nonsense in ["", "s", "-1s", "0", "4 parsecs", "inf", "1e300h", "NaNm"] {
            assert!(parse_duration(nonsense).is_err(), "{nonsense}");
        }
        assert!(parse_duration("0s").unwrap_err().contains("longer than 0"));
        assert!(parse_duration("4 parsecs").unwrap_err().contains("minutes"));
    }
}

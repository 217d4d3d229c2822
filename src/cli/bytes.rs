//! Amounts of memory as people type them: `1536M`, `2GiB`, `1.5G`, or plain bytes.

/// Bytes in an amount of memory; K, M and G count in steps of 1024, with or without `iB` or `B` behind them.
pub(super) fn parse_bytes(text: &str) -> Result<usize, String> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit = unit.to_ascii_lowercase();
    let factor: f64 = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 1.0,
        "k" => 1024.0,
        "m" => 1024.0 * 1024.0,
        "g" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("`{unit}` is no unit of memory; use K, M or G")),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number * factor < 1e15 => Ok((number * factor) as usize),
        _ => Err("expected an amount of memory such as 1536M or 2G".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn amounts_are_read_as_people_write_them() {
        assert_eq!(parse_bytes("1536M"), Ok(1536 << 20));
        assert_eq!(parse_bytes("1.5GiB"), Ok(1536 << 20));
        assert_eq!(parse_bytes("64 kb"), Ok(64 << 10));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        for nonsense in ["", "G", "-1M", "0", "1T", "inf", "NaN", "1e300"] {
            assert!(parse_bytes(nonsense).is_err(), "{nonsense}");
        }
    }
}

//! Numbers as people read them: with the right plural, in units that suit their size.

/// A number with the word for what it counts: `1 frame`, `2 frames`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// `1 frame`, `2 frames`.
pub fn frames(number: u64) -> String {
    counted(number, "frame", "frames")
}

/// `1 update`, `2 updates`.
pub fn updates(number: u64) -> String {
    counted(number, "update", "updates")
}

/// `1 category`, `2 categories`.
pub fn categories(number: u64) -> String {
    counted(number, "category", "categories")
}

/// A length of time: `42 s`, `7 min`, `3 h 20 min`, `5 d 2 h`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    let two = |big: u64, unit: &str, small: u64, less: &str| match small {
        0 => format!("{big} {unit}"),
        small => format!("{big} {unit} {small} {less}"),
    };
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => two(whole / 60, "min", if whole < 600 { whole % 60 } else { 0 }, "s"),
        3600..86_400 => two(whole / 3600, "h", whole % 3600 / 60, "min"),
        _ => two(whole / 86_400, "d", whole % 86_400 / 3600, "h"),
    }
}

/// An amount of memory or disk: `512 B`, `3.4 MiB`, `118 GiB`.
pub fn bytes(number: u64) -> String {
    let mut amount = number as f64;
    let mut unit = "B";
    for larger in ["KiB", "MiB", "GiB", "TiB"] {
        if amount < 1024.0 {
            break;
        }
        amount /= 1024.0;
        unit = larger;
    }
    let decimals = usize::from(unit != "B" && amount < 10.0);
    format!("{amount:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_not_many() {
        assert_eq!(
            (frames(0), frames(1), frames(2)),
            ("0 frames".into(), "1 frame".into(), "2 frames".into())
        );
        assert_eq!((categories(1), categories(3)), ("1 category".into(), "3 categories".into()));
    }

    #[test]
    fn units_suit_the_size() {
        assert_eq!(duration(42.4), "42 s");
        assert_eq!(duration(127.0), "2 min 7 s");
        assert_eq!(duration(7200.0 + 61.0), "2 h 1 min");
        assert_eq!(duration(86_400.0 * 3.0), "3 d");
        assert_eq!(
            (bytes(512), bytes(3_565_158), bytes(118 << 30)),
            ("512 B".into(), "3.4 MiB".into(), "118 GiB".into())
        );
    }
}

//! The log on standard error: time, level, module, message. A person's terminal has no use for times and module names.
//!
//! The time is formatted here, because the clock of a device can show anything: a formatter that refuses a year would take the
//! thread down that had something to say.

use std::io::{IsTerminal, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// Lets log messages go to standard error; `RUST_LOG` says which, `info` and above if it says nothing.
pub(super) fn init() {
    let for_a_person = std::io::stderr().is_terminal();
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("info"))
        .format(move |out, record| {
            let (level, style) = (record.level(), out.default_level_style(record.level()));
            if for_a_person {
                return writeln!(out, "[{style}{level:<5}{style:#}] {}", record.args());
            }
            let time = utc(SystemTime::now());
            writeln!(out, "[{time} {style}{level:<5}{style:#} {}] {}", record.target(), record.args())
        })
        .init();
}

/// A moment in UTC, to the second, as ISO 8601 has it; years beyond 9999 have more digits, those before 1970 are not told apart.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of a day since 1970-01-01 in the Gregorian calendar. Years are counted from March, so that the leap day is
/// the last of its year, in eras of 400 years of 146,097 days.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let first = (153 * month + 2) / 5;
    let (calendar_month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, calendar_month, day - first + 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn days_agree_with_another_calendar() {
        // Every day from 1970 to 2400, against jiff.
        for day in 0..157_000_u64 {
            let there = jiff::Timestamp::from_second(i64::try_from(day * 86_400).unwrap()).unwrap();
            let (year, month, date) = date(day);
            let here = format!("{year:04}-{month:02}-{date:02}T00:00:00Z");
            assert_eq!(here, there.to_string(), "day {day}");
        }
        assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(1_800_000_005)), "2027-01-15T08:00:05Z");
    }

    #[test]
    fn no_clock_is_too_far_off() {
        assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(253_402_300_799)), "9999-12-31T23:59:59Z");
        assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(253_402_300_800)), "10000-01-01T00:00:00Z");
        assert_eq!(utc(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00:00:00Z");
        let last = (0..63).rev().find_map(|bit| UNIX_EPOCH.checked_add(Duration::from_secs(1 << bit)));
        assert!(utc(last.unwrap()).len() > 20);
    }
}

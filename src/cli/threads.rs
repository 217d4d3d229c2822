//! A number of threads, as typed.

/// More than any machine of this kind has processors; each thread takes memory, and starting them takes time.
const MOST: usize = 1024;

/// Reads a number of threads; 0 is as many as the machine has.
pub(super) fn parse_threads(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|threads| *threads <= MOST);
    number.ok_or_else(|| {
        format!("expected a whole number from 0 to {MOST}; 0 takes as many as the machine has")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_numbers_are_refused() {
        assert_eq!((parse_threads("0"), parse_threads("1024")), (Ok(0), Ok(1024)));
        for nonsense in ["", "-1", "1025", "100000", "two", "1.5"] {
            assert!(parse_threads(nonsense).is_err(), "{nonsense}");
        }
    }
}

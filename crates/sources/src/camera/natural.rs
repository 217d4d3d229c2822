//! The order in which people number files: `frame2` before `frame10`.

use std::cmp::Ordering;

/// Compares names by their digits' values and everything else byte by byte; names that differ only in leading zeros keep
/// the order of their bytes.
pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.as_bytes(), b.as_bytes());
    loop {
        let (digits_left, rest_left) = split_digits(left);
        let (digits_right, rest_right) = split_digits(right);
        let order = if digits_left.is_empty() || digits_right.is_empty() {
            match (left.split_first(), right.split_first()) {
                (Some((one, rest_left)), Some((other, rest_right))) if one == other => {
                    (left, right) = (rest_left, rest_right);
                    continue;
                }
                (one, other) => one.map(|pair| pair.0).cmp(&other.map(|pair| pair.0)),
            }
        } else {
            let significant =
                |digits: &[u8]| digits.iter().position(|&digit| digit != b'0').unwrap_or(digits.len());
            let (one, other) =
                (&digits_left[significant(digits_left)..], &digits_right[significant(digits_right)..]);
            (left, right) = (rest_left, rest_right);
            one.len().cmp(&other.len()).then_with(|| one.cmp(other))
        };
        if order.is_ne() {
            return order;
        }
        if left.is_empty() && right.is_empty() {
            return a.cmp(b);
        }
    }
}

fn split_digits(bytes: &[u8]) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_count_by_value() {
        let mut names = ["b1", "a10", "a2", "a", "a02", "a2b", "", "a100", "10", "9", "a1.png", "a1"];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(names, ["", "9", "10", "a", "a1", "a1.png", "a02", "a2", "a2b", "a10", "a100", "b1"]);
    }

    proptest! {
        /// A total order: whatever it is asked, it contradicts itself neither in pairs nor in chains.
        #[test]
        fn the_order_is_total(names in proptest::collection::vec("[0-2a./]{0,6}", 3)) {
            let [a, b, c] = [&names[0], &names[1], &names[2]];
            prop_assert_eq!(compare(a, b), compare(b, a).reverse());
            prop_assert_eq!(compare(a, b).is_eq(), a == b);
            if compare(a, b).is_lt() && compare(b, c).is_lt() {
                prop_assert!(compare(a, c).is_lt(), "{:?}", names);
            }
        }
    }
}

//! Small copies of pictures: each pixel is the mean of those it stands for.

/// A square copy, `side` pixels wide, of an RGB picture; none if its size does not fit its pixels.
pub fn shrink(rgb: &[u8], width: usize, height: usize, side: usize) -> Option<Vec<u8>> {
    if width == 0 || height == 0 || rgb.len() != 3 * width * height {
        return None;
    }
    let span = |at: usize, length: usize| {
        let start = at * length / side;
        start..((at + 1) * length / side).max(start + 1).min(length)
    };
    let mut small = Vec::with_capacity(3 * side * side);
    for y in 0..side {
        for x in 0..side {
            let (rows, columns) = (span(y, height), span(x, width));
            let area = (rows.len() * columns.len()).max(1);
            let mut sums = [0usize; 3];
            for row in rows {
                let line = &rgb[3 * (row * width + columns.start)..][..3 * columns.len()];
                for pixel in line.chunks_exact(3) {
                    sums.iter_mut().zip(pixel).for_each(|(sum, value)| *sum += usize::from(*value));
                }
            }
            #[allow(clippy::cast_possible_truncation)]
            small.extend(sums.map(|sum| ((sum + area / 2) / area) as u8));
        }
    }
    Some(small)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_means_and_small_pictures_grow() {
        let rgb: Vec<u8> = (0..16u8).flat_map(|value| [value, 2 * value, 9]).collect();
        let small = shrink(&rgb, 4, 4, 2).unwrap();
        // Means of 0, 1, 4, 5 and so on, rounded.
        assert_eq!(small, [3, 5, 9, 5, 9, 9, 11, 21, 9, 13, 25, 9]);
        assert_eq!(shrink(&[1, 2, 3], 1, 1, 2).unwrap(), [1, 2, 3].repeat(4));
        assert_eq!(shrink(&rgb, 4, 3, 2), None);
        assert_eq!(shrink(&[], 0, 0, 2), None);
    }
}

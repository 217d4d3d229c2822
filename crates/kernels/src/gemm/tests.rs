use proptest::prelude::*;

use super::*;

/// Numbers of size 1 without a pattern that a wrong index could hit by chance.
fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 8_388_608.0 - 1.0
        })
        .collect()
}

/// Sums of up to ~600 products of size 1 in f32 against f64: a relative 1e-6 of the terms' total.
fn close(fast: &[f32], exact: &[f32], terms: usize) {
    let tolerance = 2e-7 * terms.max(4) as f32;
    for (index, (fast, exact)) in fast.iter().zip(exact).enumerate() {
        assert!((fast - exact).abs() <= tolerance, "{fast} instead of {exact} at {index}");
    }
}

/// Segments of panels of `pixels` pixels that hold `depth` channels.
fn panel_segments(depth: usize, pixels: usize) -> (Vec<usize>, usize) {
    let segments = (0..panels(depth)).map(|panel| panel * pixels * PANEL).collect();
    (segments, depth - (panels(depth) - 1) * PANEL)
}

/// Sums in the lanes beyond the last column are of what the vectors hold there, which is nobody's business.
fn clear_unused(sums: &mut [f32], depth: usize, columns: usize) {
    for k in 0..depth {
        for n in columns..padded(columns) {
            sums[packed_index(depth, k, n)] = 0.0;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any sizes, every ending: remainders of rows, columns and depth.
    #[test]
    fn products_on_panels_agree_with_plain_loops(rows in 1usize..40, columns in 1usize..70, depth in 1usize..70, ending in 0usize..5, seed: u32) {
        let (segments, last) = panel_segments(depth, rows);
        let data = numbers(seed, padded(depth) * rows);
        let left = Rows { data: &data, lines: Lines::PIXELS, segments: &segments, length: PANEL, last };
        let weights = numbers(seed ^ 1, depth * columns);
        let right = pack(depth, columns, |k, n| weights[k * columns + n]);
        let target = Columns { lines: Lines::PIXELS, panel: rows * PANEL, count: columns };
        let mut scale = numbers(seed ^ 2, columns);
        let mut shift = numbers(seed ^ 3, columns);
        scale.resize(padded(columns), 0.0);
        shift.resize(padded(columns), 0.0);
        let finish = match ending {
            0 => Finish::Store,
            1 => Finish::Add,
            2 => Finish::Affine { scale: &scale, shift: &shift, range: (0.0, 6.0) },
            3 => Finish::Shift { shift: &shift, range: (0.0, f32::INFINITY) },
            _ => Finish::ShiftAdd { shift: &shift },
        };
        let mut fast = vec![0.5; padded(columns) * rows];
        let mut exact = fast.clone();
        product(rows, &left, &right, &target, &mut fast, finish);
        plain::product(rows, &left, &right, &target, &mut exact, finish);
        if !matches!(finish, Finish::Add | Finish::ShiftAdd { .. }) {
            // What lies beyond the last column is zero.
            for panel in 0..panels(columns) {
                for lane in 0..PANEL {
                    if panel * PANEL + lane >= columns {
                        (0..rows).for_each(|row| exact[(panel * rows + row) * PANEL + lane] = 0.0);
                    }
                }
            }
        }
        close(&fast, &exact, depth);
    }

    /// A 3×3 convolution as a product whose rows overlap in a padded image, stride 1 and 2.
    #[test]
    fn rows_may_be_windows_of_an_image(height in 1usize..7, width in 1usize..9, stride in 1usize..3, columns in 1usize..20, seed: u32) {
        let line = (width * stride + 2) * PANEL;
        let data = numbers(seed, line * (height * stride + 2));
        let left = Rows {
            data: &data,
            lines: Lines { width, step: PANEL * stride, line: line * stride },
            segments: &[0, line, 2 * line],
            length: 3 * PANEL,
            last: 3 * PANEL,
        };
        let weights = numbers(seed ^ 1, 9 * PANEL * columns);
        let right = pack(9 * PANEL, columns, |k, n| weights[k * columns + n]);
        let target = Columns { lines: Lines::PIXELS, panel: height * width * PANEL, count: columns };
        let mut fast = vec![0.0; padded(columns) * height * width];
        let mut exact = fast.clone();
        product(height * width, &left, &right, &target, &mut fast, Finish::Store);
        plain::product(height * width, &left, &right, &target, &mut exact, Finish::Store);
        close(&fast, &exact, 9 * PANEL);

        let vectors = numbers(seed ^ 2, padded(columns) * height * width);
        let mut fast = numbers(seed ^ 3, padded(columns) * 9 * PANEL);
        let mut exact = fast.clone();
        outer(height * width, &left, &target, &vectors, &mut fast);
        plain::outer(height * width, &left, &target, &vectors, &mut exact);
        clear_unused(&mut fast, 9 * PANEL, columns);
        clear_unused(&mut exact, 9 * PANEL, columns);
        close(&fast, &exact, height * width);
    }

    /// The outer product over any number of pixels: blocks, and remainders of both operands.
    #[test]
    fn outer_products_agree_with_plain_loops(pixels in 1usize..400, columns in 1usize..40, depth in 1usize..40, seed: u32) {
        let (segments, last) = panel_segments(depth, pixels);
        let data = numbers(seed, padded(depth) * pixels);
        let scalars = Rows { data: &data, lines: Lines::PIXELS, segments: &segments, length: PANEL, last };
        let target = Columns { lines: Lines::PIXELS, panel: pixels * PANEL, count: columns };
        let vectors = numbers(seed ^ 2, padded(columns) * pixels);
        let mut fast = vec![0.25; padded(columns) * depth];
        let mut exact = fast.clone();
        outer(pixels, &scalars, &target, &vectors, &mut fast);
        plain::outer(pixels, &scalars, &target, &vectors, &mut exact);
        clear_unused(&mut fast, depth, columns);
        clear_unused(&mut exact, depth, columns);
        close(&fast, &exact, pixels);
    }
}

/// A sum does not depend on the tile that it falls into: cutting the rows up elsewhere changes no bit.
#[test]
fn results_do_not_depend_on_the_cut() {
    let (rows, depth, columns) = (29, 37, 24);
    let (segments, last) = panel_segments(depth, rows);
    let data = numbers(5, padded(depth) * rows);
    let weights = numbers(6, depth * columns);
    let right = pack(depth, columns, |k, n| weights[k * columns + n]);
    let target = Columns { lines: Lines::PIXELS, panel: rows * PANEL, count: columns };
    let run = |cut: usize| {
        let mut result = vec![0.0; padded(columns) * rows];
        for (from, to) in [(0, cut), (cut, rows)] {
            let left = Rows {
                data: &data[from * PANEL..],
                lines: Lines::PIXELS,
                segments: &segments,
                length: PANEL,
                last,
            };
            product(to - from, &left, &right, &target, &mut result[from * PANEL..], Finish::Store);
        }
        result
    };
    let whole = run(rows);
    for cut in 1..rows {
        assert_eq!(run(cut), whole, "cut at {cut}");
    }
}

#[test]
#[should_panic(expected = "beyond their memory")]
fn rows_beyond_the_memory_are_refused() {
    let data = vec![0.0; 10 * PANEL];
    let left =
        Rows { data: &data, lines: Lines::PIXELS, segments: &[0, 5 * PANEL], length: PANEL, last: PANEL };
    let columns = Columns { lines: Lines::PIXELS, panel: 6 * PANEL, count: 16 };
    product(6, &left, &vec![0.0; 512], &columns, &mut vec![0.0; 96], Finish::Store);
}

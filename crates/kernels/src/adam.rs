//! Adam's inner loop over flat buffers.

use super::simd::fma;

vectorised! {
    /// One update of all parameters: both moments go their share of the way to the gradient and its square, then
    /// parameter ← parameter − `rate`·first / (√second + `epsilon`). The four slices have one length.
    pub fn adam(
        parameters: &mut [f32],
        gradient: &[f32],
        first: &mut [f32],
        second: &mut [f32],
        share_first: f32,
        share_second: f32,
        rate: f32,
        epsilon: f32,
    ) {
        let moments = first.iter_mut().zip(second);
        for ((parameter, gradient), (first, second)) in parameters.iter_mut().zip(gradient).zip(moments) {
            let step = *gradient - *first;
            *first = fma::<FMA>(share_first, step, *first);
            let step = *gradient * *gradient - *second;
            *second = fma::<FMA>(share_second, step, *second);
            *parameter -= rate * *first / (second.sqrt() + epsilon);
        }
    }
}

vectorised! {
    /// Whether every number has at most this magnitude; one that is not a number has none.
    pub fn all_within(values: &[f32], limit: f32) -> bool {
        let (blocks, rest) = values.as_chunks::<64>();
        // Whole blocks without a branch between their elements; a look at the result after each.
        blocks.iter().all(|block| block.iter().fold(true, |within, value| within & (value.abs() <= limit)))
            && rest.iter().all(|value| value.abs() <= limit)
    }
}

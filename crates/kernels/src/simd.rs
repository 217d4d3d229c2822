//! One body, several instruction sets.
//!
//! [`vectorised!`] compiles the same safe body for the baseline and, on x86-64, for AVX2+FMA and AVX-512, and picks
//! one at run time. On aarch64 the baseline already has NEON and fused multiply-add. The compiler's vectoriser does
//! the rest: bodies are written over fixed-size blocks so that it can.

/// The widest instruction set that a kernel may use on this x86-64 machine. Other architectures have their baseline alone.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// What every one has: SSE2.
    Baseline,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512 F and VL.
    Avx512,
}

/// The level of this machine. The standard library caches the detection: this is two loads.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn level() -> Level {
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
        Level::Avx512
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        Level::Avx2
    } else {
        Level::Baseline
    }
}

/// Whether the baseline has a fused multiply-add; without one `mul_add` would call a slow library routine.
pub(crate) const BASELINE_FMA: bool = cfg!(any(target_arch = "aarch64", target_feature = "fma"));

/// `a * b + c`, fused where the caller's instruction set has it.
#[inline(always)]
pub(crate) fn fma<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Defines a function whose body is compiled for every instruction set and dispatched at run time.
///
/// The body sees a constant `FMA` that says whether [`fma`] fuses. It must be safe code.
macro_rules! vectorised {
    ($(#[$attribute:meta])* $visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $output:ty)? $body:block) => {
        $(#[$attribute])*
        #[allow(clippy::too_many_arguments)]
        $visibility fn $name($($argument: $type),*) $(-> $output)? {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            fn body<const FMA: bool>($($argument: $type),*) $(-> $output)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                fn avx2($($argument: $type),*) $(-> $output)? { body::<true>($($argument),*) }
                #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                fn avx512($($argument: $type),*) $(-> $output)? { body::<true>($($argument),*) }

                match $crate::simd::level() {
                    // SAFETY: the two functions are safe code; they only need the instruction sets that `level`
                    // has just found on this machine.
                    #[allow(unsafe_code)]
                    $crate::simd::Level::Avx512 => return unsafe { avx512($($argument),*) },
                    #[allow(unsafe_code)]
                    $crate::simd::Level::Avx2 => return unsafe { avx2($($argument),*) },
                    $crate::simd::Level::Baseline => {}
                }
            }
            body::<{ $crate::simd::BASELINE_FMA }>($($argument),*)
        }
    };
}

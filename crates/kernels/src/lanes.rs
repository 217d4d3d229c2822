//! Vectors of sixteen and of eight `f32`, for the kernels whose registers are laid out by hand.
//!
//! The compiler's vectoriser serves the elementwise kernels well ([`super::simd`]), but a matrix product lives on keeping
//! its accumulators in registers, and that is not left to luck. [`Lanes`] is the little that such kernels need;
//! [`lanes!`] compiles a body once for every instruction set and picks one at run time, as [`vectorised!`] does.
//!
//! All methods are unsafe for the same two reasons: a pointer must be good for `WIDTH` numbers, and the machine must have
//! the instruction set of the type. `lanes!` sees to the second.
//!
//! [`vectorised!`]: super::simd

#![allow(unsafe_code)]

/// A vector of `WIDTH` numbers.
pub(super) trait Lanes: Copy {
    const WIDTH: usize;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn splat(value: f32) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    /// `self · factor + term`, fused where the instruction set can.
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self;
    unsafe fn min(self, other: Self) -> Self;
    unsafe fn max(self, other: Self) -> Self;
    /// `self` in the lanes where `low < gate < high`, zero elsewhere.
    unsafe fn gated(self, gate: Self, low: Self, high: Self) -> Self;
}

/// The vectors of one instruction set.
pub(super) trait InstructionSet {
    /// Sixteen lanes: one panel.
    type Wide: Lanes;
    /// Eight lanes: half a panel.
    type Half: Lanes;
    /// Rows of the largest tile of a matrix product whose accumulators fit the registers.
    const TILE_ROWS: usize;
    /// Whether a 3×3 filter of wide vectors fits the registers.
    const WIDE_FILTERS: bool;
}

/// Plain arrays: what the other instruction sets are compared with, and all that an unknown machine has.
#[derive(Clone, Copy)]
#[cfg_attr(target_arch = "aarch64", allow(dead_code))]
pub(super) struct Array<const N: usize>([f32; N]);

impl<const N: usize> Lanes for Array<N> {
    const WIDTH: usize = N;
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self(from.cast::<[f32; N]>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[f32; N]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; N])
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|lane| self.0[lane] + other.0[lane]))
    }
    #[inline(always)]
    unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
        Self(std::array::from_fn(|lane| {
            super::simd::fma::<{ super::simd::BASELINE_FMA }>(self.0[lane], factor.0[lane], term.0[lane])
        }))
    }
    #[inline(always)]
    unsafe fn min(self, other: Self) -> Self {
        Self(std::array::from_fn(|lane| self.0[lane].min(other.0[lane])))
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        Self(std::array::from_fn(|lane| self.0[lane].max(other.0[lane])))
    }
    #[inline(always)]
    unsafe fn gated(self, gate: Self, low: Self, high: Self) -> Self {
        Self(std::array::from_fn(|lane| {
            if gate.0[lane] > low.0[lane] && gate.0[lane] < high.0[lane] { self.0[lane] } else { 0.0 }
        }))
    }
}

/// Any machine.
#[cfg_attr(target_arch = "aarch64", allow(dead_code))]
pub(super) struct Baseline;

impl InstructionSet for Baseline {
    type Wide = Array<16>;
    type Half = Array<8>;
    const TILE_ROWS: usize = 6;
    const WIDE_FILTERS: bool = false;
}

/// Implements [`Lanes`] for a struct of `$count` registers of `$width` lanes each, from the names of the intrinsics.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! registers {
    ($name:ident, $register:ty, $width:literal, [$($part:tt),+], $load:path, $store:path, $splat:path, $add:path,
     $mul_add:path, $min:path, $max:path, $gated:path) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $name($(registers!(@type $part $register)),+);

        // SAFETY (all blocks): the pointer is good for `WIDTH` numbers and the machine has the instructions, by the
        // caller's promise.
        impl Lanes for $name {
            const WIDTH: usize = $width * [$($part),+].len();
            #[inline(always)]
            unsafe fn load(from: *const f32) -> Self {
                unsafe { Self($($load(from.add($width * $part))),+) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut f32) {
                unsafe { $($store(to.add($width * $part), self.$part));+ }
            }
            #[inline(always)]
            unsafe fn splat(value: f32) -> Self {
                unsafe {
                    let register = $splat(value);
                    Self($(registers!(@value $part register)),+)
                }
            }
            #[inline(always)]
            unsafe fn add(self, other: Self) -> Self {
                unsafe { Self($($add(self.$part, other.$part)),+) }
            }
            #[inline(always)]
            unsafe fn mul_add(self, factor: Self, term: Self) -> Self {
                unsafe { Self($($mul_add(self.$part, factor.$part, term.$part)),+) }
            }
            #[inline(always)]
            unsafe fn min(self, other: Self) -> Self {
                unsafe { Self($($min(self.$part, other.$part)),+) }
            }
            #[inline(always)]
            unsafe fn max(self, other: Self) -> Self {
                unsafe { Self($($max(self.$part, other.$part)),+) }
            }
            #[inline(always)]
            unsafe fn gated(self, gate: Self, low: Self, high: Self) -> Self {
                unsafe { Self($($gated(self.$part, gate.$part, low.$part, high.$part)),+) }
            }
        }
    };
    (@type $part:tt $register:ty) => { $register };
    (@value $part:tt $register:ident) => { $register };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{InstructionSet, Lanes};

    #[rustfmt::skip]
    registers!(
        Avx2x16, __m256, 8, [0, 1], _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_add_ps,
        _mm256_fmadd_ps, _mm256_min_ps, _mm256_max_ps, gated_256
    );
    #[rustfmt::skip]
    registers!(
        Avx2x8, __m256, 8, [0], _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_add_ps,
        _mm256_fmadd_ps, _mm256_min_ps, _mm256_max_ps, gated_256
    );
    #[rustfmt::skip]
    registers!(
        Avx512x16, __m512, 16, [0], _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_add_ps,
        _mm512_fmadd_ps, _mm512_min_ps, _mm512_max_ps, gated_512
    );

    // SAFETY (both): the machine has the instructions, by the caller's promise.
    #[inline(always)]
    unsafe fn gated_256(value: __m256, gate: __m256, low: __m256, high: __m256) -> __m256 {
        unsafe {
            let above = _mm256_cmp_ps::<_CMP_GT_OQ>(gate, low);
            let below = _mm256_cmp_ps::<_CMP_LT_OQ>(gate, high);
            _mm256_and_ps(value, _mm256_and_ps(above, below))
        }
    }

    #[inline(always)]
    unsafe fn gated_512(value: __m512, gate: __m512, low: __m512, high: __m512) -> __m512 {
        unsafe {
            let above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(gate, low);
            let below = _mm512_cmp_ps_mask::<_CMP_LT_OQ>(gate, high);
            _mm512_maskz_mov_ps(above & below, value)
        }
    }

    /// AVX2 with fused multiply-add: 16 registers of 8 lanes.
    pub(crate) struct Avx2;

    impl InstructionSet for Avx2 {
        type Wide = Avx2x16;
        type Half = Avx2x8;
        const TILE_ROWS: usize = 6;
        const WIDE_FILTERS: bool = false;
    }

    /// AVX-512: 32 registers of 16 lanes.
    pub(crate) struct Avx512;

    impl InstructionSet for Avx512 {
        type Wide = Avx512x16;
        type Half = Avx2x8;
        const TILE_ROWS: usize = 12;
        const WIDE_FILTERS: bool = true;
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::*;

    use super::{InstructionSet, Lanes};

    #[rustfmt::skip]
    registers!(
        Neonx16, float32x4_t, 4, [0, 1, 2, 3], vld1q_f32, vst1q_f32, vdupq_n_f32, vaddq_f32,
        mul_add, vminq_f32, vmaxq_f32, gated
    );
    #[rustfmt::skip]
    registers!(
        Neonx8, float32x4_t, 4, [0, 1], vld1q_f32, vst1q_f32, vdupq_n_f32, vaddq_f32,
        mul_add, vminq_f32, vmaxq_f32, gated
    );

    // SAFETY (both): every aarch64 machine has these instructions.
    #[inline(always)]
    unsafe fn mul_add(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        unsafe { vfmaq_f32(c, a, b) }
    }

    #[inline(always)]
    unsafe fn gated(
        value: float32x4_t,
        gate: float32x4_t,
        low: float32x4_t,
        high: float32x4_t,
    ) -> float32x4_t {
        unsafe {
            let within = vandq_u32(vcgtq_f32(gate, low), vcltq_f32(gate, high));
            vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(value), within))
        }
    }

    /// NEON, which every aarch64 machine has: 32 registers of 4 lanes.
    pub(crate) struct Neon;

    impl InstructionSet for Neon {
        type Wide = Neonx16;
        type Half = Neonx8;
        const TILE_ROWS: usize = 6;
        const WIDE_FILTERS: bool = false;
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) use arm::Neon;

/// Defines an unsafe function whose body is compiled for every instruction set and dispatched at run time.
///
/// The body sees the type `I`, the [`InstructionSet`] at hand; what else the caller must promise is the function's own
/// matter.
macro_rules! lanes {
    ($(#[$attribute:meta])* $visibility:vis unsafe fn $name:ident<$set:ident>($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$attribute])*
        #[allow(clippy::too_many_arguments)]
        $visibility unsafe fn $name($($argument: $type),*) {
            #[inline(always)]
            #[allow(clippy::too_many_arguments)]
            unsafe fn body<$set: $crate::lanes::InstructionSet>($($argument: $type),*) $body

            // SAFETY (all calls): each set is used only where it was found; the rest is the caller's promise.
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn avx2($($argument: $type),*) {
                    unsafe { body::<$crate::lanes::Avx2>($($argument),*) }
                }
                #[target_feature(enable = "avx512f,avx512vl,avx2,fma")]
                #[allow(clippy::too_many_arguments)]
                unsafe fn avx512($($argument: $type),*) {
                    unsafe { body::<$crate::lanes::Avx512>($($argument),*) }
                }
                match $crate::simd::level() {
                    $crate::simd::Level::Avx512 => unsafe { avx512($($argument),*) },
                    $crate::simd::Level::Avx2 => unsafe { avx2($($argument),*) },
                    $crate::simd::Level::Baseline => unsafe {
                        body::<$crate::lanes::Baseline>($($argument),*)
                    },
                }
            }
            #[cfg(target_arch = "aarch64")]
            unsafe { body::<$crate::lanes::Neon>($($argument),*) }
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            unsafe { body::<$crate::lanes::Baseline>($($argument),*) }
        }
    };
}

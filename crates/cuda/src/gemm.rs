//! Products of row-major matrices in the words of cuBLAS, which knows only column-major ones.
//!
//! A row-major matrix read column-major is its transpose, so `C = A·B` is asked for as `Cᵀ = Bᵀ·Aᵀ`: operands swapped,
//! no copy. This is where signs get lost in GPU code; so the mapping stands alone, and the emulated device computes
//! with exactly the numbers that cuBLAS would get.

use super::geometry::int;
use oupn_base::Result;

/// The arguments of one `cublasGemmEx` call, column-major: `C[m,n] ← op(A)[m,k] · op(B)[k,n] + beta · C`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// Whether op transposes A.
    pub transpose_a: bool,
    /// Whether op transposes B.
    pub transpose_b: bool,
    /// Rows of C.
    pub m: i32,
    /// Columns of C.
    pub n: i32,
    /// Length of the sums.
    pub k: i32,
    /// Distance between columns of A, B and C.
    pub leading: [i32; 3],
    /// 0 overwrites C, 1 adds to it.
    pub beta: f32,
}

impl Gemm {
    /// Row-major `z[rows, to] = x[rows, from] · w[to, from]ᵀ`, with w as A and x as B.
    pub fn forward(rows: usize, from: usize, to: usize) -> Result<Self> {
        let (rows, from, to) = (int(rows)?, int(from)?, int(to)?);
        // zᵀ[to, rows] = w[to, from] · xᵀ[from, rows]; in memory w is [from, to] column-major.
        Ok(Self {
            transpose_a: true,
            transpose_b: false,
            m: to,
            n: rows,
            k: from,
            leading: [from, from, to],
            beta: 0.0,
        })
    }

    /// Row-major `dx[rows, from] = dz[rows, to] · w[to, from]`, with w as A and dz as B.
    pub fn input_gradient(rows: usize, from: usize, to: usize) -> Result<Self> {
        let (rows, from, to) = (int(rows)?, int(from)?, int(to)?);
        // dxᵀ[from, rows] = wᵀ[from, to] · dzᵀ[to, rows]
        Ok(Self {
            transpose_a: false,
            transpose_b: false,
            m: from,
            n: rows,
            k: to,
            leading: [from, to, from],
            beta: 0.0,
        })
    }

    /// Row-major `dw[to, from] += dz[rows, to]ᵀ · x[rows, from]`, with x as A and dz as B.
    pub fn weight_gradient(rows: usize, from: usize, to: usize) -> Result<Self> {
        let (rows, from, to) = (int(rows)?, int(from)?, int(to)?);
        // dwᵀ[from, to] = xᵀ[from, rows] · dz[rows, to]; in memory dz is [to, rows] column-major.
        Ok(Self {
            transpose_a: false,
            transpose_b: true,
            m: from,
            n: to,
            k: rows,
            leading: [from, to, from],
            beta: 1.0,
        })
    }
}

//! The encoder's kernels for CUDA devices, and the seam between what launches them and what runs them.
//!
//! `module.cu` and the files it includes hold every kernel that is not a matrix product. [`Gpu`] is the little that a
//! device must offer: memory, launches, matrix products. Everything above it — kernel names, grids, shared memory, the
//! order of arguments, the leading dimensions of matrices — is the same code whatever stands below, so it is tested
//! without a graphics card: `tests/cuda_emulation` puts an emulated device there. With feature `cuda`,
//! `driver::CudaGpu` puts a real one there.
//!
//! The kernels reach the device as machine code and PTX that nvcc makes at build time, not through NVRTC on the device: candle's own
//! kernels need nvcc for such a build anyway, a kernel that does not compile then fails the build and not the first
//! start in the field, and the device needs neither CUDA's headers nor seconds of compiling at every start.

#[cfg(feature = "cuda")]
pub mod driver;
pub mod gemm;
pub mod geometry;
pub mod timed;

use half::{bf16, f16};

pub use gemm::Gemm;
pub use geometry::Geometry;
use oupn_base::Result;

/// In what a buffer's numbers are stored. Arithmetic is always f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// Single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of a single.
    Bf16,
}

impl Element {
    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// Numbers as the device stores them, rounded to the nearest.
    pub fn encode(self, numbers: &[f32]) -> Vec<u8> {
        let mut bytes = vec![0; numbers.len() * self.bytes()];
        match self {
            Self::F32 => write(&mut bytes, numbers, |x| x.to_le_bytes()),
            Self::F16 => write(&mut bytes, numbers, |x| f16::from_f32(x).to_le_bytes()),
            Self::Bf16 => write(&mut bytes, numbers, |x| bf16::from_f32(x).to_le_bytes()),
        }
        bytes
    }

    /// The way back, as many numbers as both have room for.
    pub fn decode(self, bytes: &[u8], numbers: &mut [f32]) {
        match self {
            Self::F32 => read(bytes, numbers, f32::from_le_bytes),
            Self::F16 => read(bytes, numbers, |bytes| f16::from_le_bytes(bytes).to_f32()),
            Self::Bf16 => read(bytes, numbers, |bytes| bf16::from_le_bytes(bytes).to_f32()),
        }
    }

    /// How the names of kernels for this element end.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }
}

fn write<const WIDTH: usize>(bytes: &mut [u8], numbers: &[f32], encode: impl Fn(f32) -> [u8; WIDTH]) {
    bytes.as_chunks_mut().0.iter_mut().zip(numbers).for_each(|(bytes, &x)| *bytes = encode(x));
}

fn read<const WIDTH: usize>(bytes: &[u8], numbers: &mut [f32], decode: impl Fn([u8; WIDTH]) -> f32) {
    bytes.as_chunks().0.iter().zip(numbers).for_each(|(&bytes, x)| *x = decode(bytes));
}

/// One argument of a kernel; buffers are handed over from an offset on, counted in numbers.
#[derive(Debug)]
pub enum Argument<'a, B> {
    /// A buffer that is read: `const T *`.
    Input(&'a B, usize),
    /// A buffer that is written, or read and written: `T *`.
    Output(&'a mut B, usize),
    /// `int`
    Int(i32),
}

/// A device that can run the kernels. Calls take effect in their order; only [`download`](Self::download) waits.
pub trait Gpu {
    /// Memory of the device.
    type Buffer;

    /// Memory for `len` numbers of one kind, whose content does not matter.
    fn allocate(&mut self, element: Element, len: usize) -> Result<Self::Buffer>;
    /// Rounds numbers of the host to the buffer's kind and copies them to its start.
    fn upload(&mut self, from: &[f32], to: &mut Self::Buffer) -> Result<()>;
    /// The same for several buffers; a device that has to be waited for is waited for once.
    fn upload_all(&mut self, pairs: &mut [(&[f32], &mut Self::Buffer)]) -> Result<()> {
        pairs.iter_mut().try_for_each(|(from, to)| self.upload(from, to))
    }
    /// Sets the first `len` numbers to zero.
    fn clear(&mut self, buffer: &mut Self::Buffer, len: usize) -> Result<()> {
        self.upload(&vec![0.0; len], buffer)
    }
    /// The beginnings of several buffers; see [`download`](Self::download) and [`upload_all`](Self::upload_all).
    fn download_all(&mut self, pairs: &mut [(&Self::Buffer, &mut [f32])]) -> Result<()> {
        pairs.iter_mut().try_for_each(|(from, to)| self.download(from, 0, to))
    }
    /// Copies numbers to the host, as many as `to` has room for.
    fn download(&mut self, from: &Self::Buffer, offset: usize, to: &mut [f32]) -> Result<()>;
    /// Runs one kernel of `module.cu`.
    ///
    /// The arguments must be those of the kernel, in order, and the buffers large enough for what the extents among
    /// them say: a real device checks neither.
    fn launch(
        &mut self,
        kernel: &str,
        geometry: Geometry,
        arguments: &mut [Argument<'_, Self::Buffer>],
    ) -> Result<()>;
    /// One matrix product, as cuBLAS defines it, from the given offsets on.
    fn gemm(
        &mut self,
        gemm: &Gemm,
        a: (&Self::Buffer, usize),
        b: (&Self::Buffer, usize),
        c: (&mut Self::Buffer, usize),
    ) -> Result<()>;
}

//! A real CUDA device below [`Gpu`]: candle's device, stream and cuBLAS handle, and this crate's kernels as a module.
//!
//! Everything is queued on one stream, so calls take effect in their order. Copies wait for the stream: CUDA leaves it
//! open whether a copy from or to ordinary host memory has finished when it returns. While it waits, the thread sleeps: a
//! device that is worn should not burn a core on it.
//!
//! A device can fail for good (a kernel that strays, a driver that gives up): from then on every call fails, those that
//! give things back among them. Nothing here panics over that; what cannot be given back is left to the end of the process.

use std::borrow::Cow;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use candle_core::Device;
use candle_core::cuda_backend::cudarc::cublas::{CudaBlas, result::gemm_ex, sys};
use candle_core::cuda_backend::cudarc::driver::{
    CudaModule, CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, LaunchConfig,
    PushKernelArg,
};
use candle_core::cuda_backend::cudarc::nvrtc::Ptx;

use super::{Argument, Element, Gemm, Geometry, Gpu};
use oupn_base::{Error, Result};

/// The kernels, compiled by the build script.
const KERNELS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/module.fatbin"));

/// One CUDA device with the kernels loaded.
#[derive(Debug)]
pub struct CudaGpu {
    stream: Arc<CudaStream>,
    module: Arc<CudaModule>,
    blas: Arc<CudaBlas>,
    name: String,
}

/// Memory of a CUDA device, as bytes.
#[derive(Debug)]
pub struct CudaBuffer {
    element: Element,
    bytes: CudaSlice<u8>,
}

/// What the device or its driver said, with what it was asked for: one line, though candle may add where it was called from.
fn failed<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> Error {
    move |error| {
        let said = error.to_string();
        Error::Device(format!("CUDA cannot {what}: {}", said.lines().next().unwrap_or_default()))
    }
}

impl CudaGpu {
    /// Opens the device with this number; the first one is 0.
    pub fn open(ordinal: usize) -> Result<Self> {
        // Candle's device panics when it is given up half made and the driver refuses to take it back.
        catch_unwind(AssertUnwindSafe(|| Self::try_open(ordinal)))
            .unwrap_or_else(|_| Err(Error::Device("CUDA failed while the device was opened".into())))
    }

    fn try_open(ordinal: usize) -> Result<Self> {
        let device = Device::new_cuda_with_stream(ordinal).map_err(failed("open the device"))?;
        let device = device.as_cuda_device().map_err(failed("open the device"))?;
        let stream = device.cuda_stream();
        // cudarc's handle panics if it cannot be destroyed, and on a device that has failed nothing can. So it is held on to
        // until everything has gone well.
        let held = ManuallyDrop::new(device.cublas_handle());
        // SAFETY: without these events nobody orders work on different streams; this module has one, and hands out
        // neither it nor its memory.
        #[allow(unsafe_code)]
        unsafe {
            stream.context().disable_event_tracking();
        }
        stream.context().set_blocking_synchronize().map_err(failed("be asked to wait without spinning"))?;
        let module = stream
            .context()
            .load_module(Ptx::from_binary(KERNELS.to_vec()))
            .map_err(failed("load this program's kernels"))?;
        let name = stream.context().name().map_err(failed("tell the device's name"))?;
        Ok(Self { stream, module, blas: ManuallyDrop::into_inner(held), name })
    }

    /// What the device calls itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Waits until nothing that was queued touches the host's memory any more. A wait that fails is tried once more: after an error
    /// that passes the work is still queued; after one that stays the device does no more work.
    fn wait(&self, doing: &'static str) -> Result<()> {
        let waited = self.stream.synchronize();
        if waited.is_err() {
            let _ = self.stream.synchronize();
        }
        waited.map_err(failed(doing))
    }
}

impl Drop for CudaGpu {
    fn drop(&mut self) {
        // cudarc's handle panics if it cannot be destroyed, and on a device that has failed nothing can: then it stays.
        if self.stream.synchronize().is_err() {
            std::mem::forget(Arc::clone(&self.blas));
        }
    }
}

impl Drop for CudaBuffer {
    fn drop(&mut self) {
        // cudarc frees without binding the context, and a buffer may go on a thread that has not used the device yet: the
        // learner's first window gives back what the opening has taken. An error from before comes out of the first
        // attempt; it is kept for the next call.
        let context = self.bytes.context();
        if let Err(before) = context.bind_to_thread() {
            let bound = context.bind_to_thread();
            context.record_err(bound.and(Err::<(), _>(before)));
        }
    }
}

impl CudaBuffer {
    fn at(&self, offset: usize) -> Result<CudaView<'_, u8>> {
        self.bytes.try_slice(offset * self.element.bytes()..).ok_or_else(out_of_bounds)
    }

    fn at_mut(&mut self, offset: usize) -> Result<CudaViewMut<'_, u8>> {
        self.bytes.try_slice_mut(offset * self.element.bytes()..).ok_or_else(out_of_bounds)
    }

    fn data_type(&self) -> sys::cudaDataType_t {
        match self.element {
            Element::F32 => sys::cudaDataType_t::CUDA_R_32F,
            Element::F16 => sys::cudaDataType_t::CUDA_R_16F,
            Element::Bf16 => sys::cudaDataType_t::CUDA_R_16BF,
        }
    }
}

fn out_of_bounds() -> Error {
    Error::Device("an operand of a CUDA kernel lies outside of its buffer".into())
}

/// Numbers in the form in which the device stores them; f32 as they lie in memory, on every machine that has such a GPU.
fn host_bytes(element: Element, numbers: &[f32]) -> Cow<'_, [u8]> {
    if element == Element::F32 && cfg!(target_endian = "little") {
        return Cow::Borrowed(bytemuck::cast_slice(numbers));
    }
    Cow::Owned(element.encode(numbers))
}

/// An argument in the form whose address the driver is given.
enum Prepared<'a> {
    Input(CudaView<'a, u8>),
    Output(CudaViewMut<'a, u8>),
    Int(i32),
}

impl Gpu for CudaGpu {
    type Buffer = CudaBuffer;

    fn allocate(&mut self, element: Element, len: usize) -> Result<CudaBuffer> {
        // CUDA does not allocate nothing.
        let bytes = (len * element.bytes()).max(1);
        // SAFETY: the bytes are not initialised, and any bytes are valid numbers; `Gpu` promises no content.
        #[allow(unsafe_code)]
        let bytes = unsafe { self.stream.alloc::<u8>(bytes) }.map_err(failed("allocate memory"))?;
        Ok(CudaBuffer { element, bytes })
    }

    fn upload(&mut self, from: &[f32], to: &mut CudaBuffer) -> Result<()> {
        self.upload_all(&mut [(from, to)])
    }

    fn upload_all(&mut self, pairs: &mut [(&[f32], &mut CudaBuffer)]) -> Result<()> {
        // Until the stream has been waited for, copies may still read what they were given: it is kept until then.
        let mut sources = Vec::with_capacity(pairs.len());
        let mut queued = Ok(());
        for (from, to) in pairs {
            sources.push(host_bytes(to.element, from));
            let Some(bytes) = sources.last() else { break };
            queued = match to.bytes.try_slice_mut(..bytes.len()) {
                Some(mut target) => {
                    self.stream.memcpy_htod(&**bytes, &mut target).map_err(failed("copy to the device"))
                }
                None => Err(out_of_bounds()),
            };
            if queued.is_err() {
                break;
            }
        }
        let waited = self.wait("copy to the device");
        queued.and(waited)
    }

    fn clear(&mut self, buffer: &mut CudaBuffer, len: usize) -> Result<()> {
        let bytes = len * buffer.element.bytes();
        let mut target = buffer.bytes.try_slice_mut(..bytes).ok_or_else(out_of_bounds)?;
        self.stream.memset_zeros(&mut target).map_err(failed("clear memory"))
    }

    fn download_all(&mut self, pairs: &mut [(&CudaBuffer, &mut [f32])]) -> Result<()> {
        let mut copies: Vec<Vec<u8>> =
            pairs.iter().map(|(from, to)| vec![0; to.len() * from.element.bytes()]).collect();
        let mut queued = Ok(());
        for ((from, _), bytes) in pairs.iter().zip(&mut copies) {
            queued = match from.bytes.try_slice(..bytes.len()) {
                Some(source) => {
                    self.stream.memcpy_dtoh(&source, bytes).map_err(failed("copy from the device"))
                }
                None => Err(out_of_bounds()),
            };
            if queued.is_err() {
                break;
            }
        }
        // Whatever was queued still writes into `copies`, also after an error.
        let waited = self.wait("finish the work on the device");
        queued.and(waited)?;
        for ((from, to), bytes) in pairs.iter_mut().zip(&copies) {
            from.element.decode(bytes, to);
        }
        Ok(())
    }

    fn download(&mut self, from: &CudaBuffer, offset: usize, to: &mut [f32]) -> Result<()> {
        let width = from.element.bytes();
        let range = offset * width..(offset + to.len()) * width;
        let source = from.bytes.try_slice(range).ok_or_else(out_of_bounds)?;
        let mut bytes = vec![0; to.len() * width];
        self.stream.memcpy_dtoh(&source, &mut bytes).map_err(failed("copy from the device"))?;
        self.wait("finish the work on the device")?;
        from.element.decode(&bytes, to);
        Ok(())
    }

    fn launch(
        &mut self,
        kernel: &str,
        geometry: Geometry,
        arguments: &mut [Argument<'_, CudaBuffer>],
    ) -> Result<()> {
        let function = self.module.load_function(kernel).map_err(failed("find a kernel"))?;
        let mut prepared = Vec::with_capacity(arguments.len());
        for argument in arguments {
            prepared.push(match argument {
                Argument::Input(buffer, offset) => Prepared::Input(buffer.at(*offset)?),
                Argument::Output(buffer, offset) => Prepared::Output(buffer.at_mut(*offset)?),
                Argument::Int(value) => Prepared::Int(*value),
            });
        }
        let mut launch = self.stream.launch_builder(&function);
        for argument in &mut prepared {
            match argument {
                Prepared::Input(view) => launch.arg(&*view),
                Prepared::Output(view) => launch.arg(view),
                Prepared::Int(value) => launch.arg(&*value),
            };
        }
        let Geometry { grid, block, shared_floats } = geometry;
        let config = LaunchConfig {
            grid_dim: (grid[0], grid[1], 1),
            block_dim: (block[0], block[1], 1),
            shared_mem_bytes: shared_floats * 4,
        };
        // SAFETY: names, types and order of the arguments, and that no kernel leaves its operands, are what the
        // emulation tests check for every launch of this crate. A kernel reaches the device's memory of this process
        // only, none of which Rust holds references into.
        #[allow(unsafe_code)]
        let launched = unsafe { launch.launch(config) };
        launched.map(|_| ()).map_err(failed("launch a kernel"))
    }

    fn gemm(
        &mut self,
        gemm: &Gemm,
        a: (&CudaBuffer, usize),
        b: (&CudaBuffer, usize),
        c: (&mut CudaBuffer, usize),
    ) -> Result<()> {
        let operation = |transpose| match transpose {
            true => sys::cublasOperation_t::CUBLAS_OP_T,
            false => sys::cublasOperation_t::CUBLAS_OP_N,
        };
        let Gemm { transpose_a, transpose_b, m, n, k, leading, beta } = *gemm;
        let types = [a.0.data_type(), b.0.data_type(), c.0.data_type()];
        let (a, b, mut c) = (a.0.at(a.1)?, b.0.at(b.1)?, c.0.at_mut(c.1)?);
        let (a, _reads_a) = a.device_ptr(&self.stream);
        let (b, _reads_b) = b.device_ptr(&self.stream);
        let (c, _writes_c) = c.device_ptr_mut(&self.stream);
        let alpha = 1.0f32;
        // The one call that does not go through cudarc's own binding of the context to this thread.
        self.stream.context().bind_to_thread().map_err(failed("use the device on this thread"))?;
        // SAFETY: the handle lives as long as `self.blas`; alpha and beta are host numbers of the compute type that
        // outlive the call, which reads them at once; the three matrices lie in device memory that the guards keep
        // ordered, with extents that the emulation tests check.
        #[allow(unsafe_code)]
        let multiplied = unsafe {
            gemm_ex(
                *self.blas.handle(),
                operation(transpose_a),
                operation(transpose_b),
                m,
                n,
                k,
                (&raw const alpha).cast(),
                a as *const _,
                types[0],
                leading[0],
                b as *const _,
                types[1],
                leading[1],
                (&raw const beta).cast(),
                c as *mut _,
                types[2],
                leading[2],
                // f32 products and sums: no TensorFloat-32, whose 10 bits would be seen in the gradients.
                sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        multiplied.map_err(|error| {
            let said = format!("{error:?}");
            Error::Device(format!("cuBLAS cannot multiply: {}", said.lines().next().unwrap_or_default()))
        })
    }
}

//! A device with a stopwatch: every call is waited for, and its time counted under the name of what ran.
//!
//! Waiting after each call is slow and hides what a device would do at the same time, so the sum is more than an ordinary run
//! takes. It tells which operation the time goes to.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::{Argument, Element, Gemm, Geometry, Gpu};
use oupn_base::Result;

/// What one kind of call took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// How often it was made.
    pub calls: u64,
    /// Seconds of all calls together, each with a wait at its end.
    pub seconds: f64,
    /// Bytes that were allocated or copied.
    pub bytes: u64,
}

/// What was spent, by the name of the call: a kernel's, `product` with its extents, `allocate`, `upload`, `download`, `clear`;
/// `wait` is a wait for nothing, and a part of every other.
pub type Spendings = BTreeMap<String, Spent>;

/// See the [module](self).
#[derive(Debug)]
pub struct Timed<G: Gpu> {
    gpu: G,
    /// One number: what downloads it has waited for everything before.
    mark: G::Buffer,
    spendings: Arc<Mutex<Spendings>>,
}

impl<G: Gpu> Timed<G> {
    /// Times the calls to this device. The spendings can be looked at while something else has the device.
    ///
    /// # Errors
    /// If the device fails.
    pub fn new(mut gpu: G) -> Result<(Self, Arc<Mutex<Spendings>>)> {
        let mut mark = gpu.allocate(Element::F32, 1)?;
        gpu.upload(&[0.0], &mut mark)?;
        let spendings = Arc::default();
        let mut timed = Self { gpu, mark, spendings: Arc::clone(&spendings) };
        for _ in 0..10 {
            timed.time("wait", 0, |_| Ok(()))?;
        }
        Ok((timed, spendings))
    }

    fn time<T>(&mut self, name: &str, bytes: usize, call: impl FnOnce(&mut G) -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let outcome = call(&mut self.gpu)?;
        self.gpu.download(&self.mark, 0, &mut [0.0])?;
        let mut spendings = self.spendings.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = spendings.entry(name.to_owned()).or_default();
        spent.calls += 1;
        spent.seconds += start.elapsed().as_secs_f64();
        spent.bytes += bytes as u64;
        Ok(outcome)
    }
}

impl<G: Gpu> Gpu for Timed<G> {
    type Buffer = G::Buffer;

    fn allocate(&mut self, element: Element, len: usize) -> Result<G::Buffer> {
        self.time("allocate", len * element.bytes(), |gpu| gpu.allocate(element, len))
    }

    fn upload(&mut self, from: &[f32], to: &mut G::Buffer) -> Result<()> {
        self.time("upload", size_of_val(from), |gpu| gpu.upload(from, to))
    }

    fn upload_all(&mut self, pairs: &mut [(&[f32], &mut G::Buffer)]) -> Result<()> {
        let bytes = pairs.iter().map(|(from, _)| size_of_val(*from)).sum();
        self.time("upload", bytes, |gpu| gpu.upload_all(pairs))
    }

    fn clear(&mut self, buffer: &mut G::Buffer, len: usize) -> Result<()> {
        self.time("clear", 0, |gpu| gpu.clear(buffer, len))
    }

    fn download_all(&mut self, pairs: &mut [(&G::Buffer, &mut [f32])]) -> Result<()> {
        let bytes = pairs.iter().map(|(_, to)| size_of_val(*to)).sum();
        self.time("download", bytes, |gpu| gpu.download_all(pairs))
    }

    fn download(&mut self, from: &G::Buffer, offset: usize, to: &mut [f32]) -> Result<()> {
        self.time("download", size_of_val(to), |gpu| gpu.download(from, offset, to))
    }

    fn launch(
        &mut self,
        kernel: &str,
        geometry: Geometry,
        arguments: &mut [Argument<'_, G::Buffer>],
    ) -> Result<()> {
        self.time(kernel, 0, |gpu| gpu.launch(kernel, geometry, arguments))
    }

    fn gemm(
        &mut self,
        gemm: &Gemm,
        a: (&G::Buffer, usize),
        b: (&G::Buffer, usize),
        c: (&mut G::Buffer, usize),
    ) -> Result<()> {
        let name = format!("product {}x{}x{}", gemm.m, gemm.n, gemm.k);
        self.time(&name, 0, |device| device.gemm(gemm, a, b, c))
    }
}

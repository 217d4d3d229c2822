//! A vector lent to candle: a tensor while that computes, and a vector again afterwards, without a copy either way.

use std::cell::RefCell;

use candle_core::{CpuStorage, Device, InplaceOp1, Layout, Result, Tensor, Var};

/// The numbers of a vector as a tensor on the host. The vector is empty meanwhile; when this is dropped it has them back, and
/// every handle of the tensor that is still about is left without numbers.
#[derive(Debug)]
pub struct Lent<'a> {
    home: &'a mut Vec<f32>,
    tensor: Tensor,
}

impl<'a> Lent<'a> {
    /// A tensor that no gradient is asked for.
    ///
    /// # Errors
    /// If the vector has not as many numbers as the shape; then it keeps them.
    pub fn constant(home: &'a mut Vec<f32>, shape: &[usize]) -> Result<Self> {
        check(home, shape)?;
        let tensor = Tensor::from_vec(std::mem::take(home), shape, &Device::Cpu)?;
        Ok(Self { home, tensor })
    }

    /// A variable.
    ///
    /// # Errors
    /// As [`constant`](Self::constant).
    pub fn variable(home: &'a mut Vec<f32>, shape: &[usize]) -> Result<Self> {
        check(home, shape)?;
        let tensor = Var::from_vec(std::mem::take(home), shape, &Device::Cpu)?.into_inner();
        Ok(Self { home, tensor })
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }
}

fn check(home: &[f32], shape: &[usize]) -> Result<()> {
    if home.len() == shape.iter().product::<usize>() {
        return Ok(());
    }
    candle_core::bail!("{} numbers cannot be a tensor of {shape:?}", home.len())
}

struct TakeBack(RefCell<Vec<f32>>);

impl InplaceOp1 for TakeBack {
    fn name(&self) -> &'static str {
        "take-back"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _layout: &Layout) -> Result<()> {
        if let CpuStorage::F32(numbers) = storage {
            self.0.replace(std::mem::take(numbers));
        }
        Ok(())
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let back = TakeBack(RefCell::default());
        // A tensor on the host, with an operation for the host: it cannot fail.
        if self.tensor.inplace_op1(&back).is_ok() {
            *self.home = back.0.into_inner();
        }
    }
}

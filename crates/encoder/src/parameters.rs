//! Named tensors in one flat buffer: what an encoder learns, and the running statistics of its batch norms.
//!
//! Names, order and layout are those of the PyTorch model (a convolution is `[out, in, height, width]`). One
//! buffer makes the optimiser, checkpoints and gradients a single loop; executors repack for themselves.

use std::marker::PhantomData;
use std::sync::Arc;

/// Name, shape and place of one tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    /// The name in a weight file, such as `features.0.0.weight`.
    pub name: String,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Index of the first number in the flat buffer.
    pub offset: usize,
}

impl TensorSpec {
    /// How many numbers the tensor has.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the tensor has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Tensors of one role in one flat buffer. The role is a type so that statistics cannot stand in for parameters.
#[derive(Debug)]
pub struct FlatTensors<Role> {
    specs: Arc<[TensorSpec]>,
    /// All numbers, tensor after tensor.
    pub values: Vec<f32>,
    role: PhantomData<Role>,
}

/// Role of [`Parameters`].
#[derive(Debug)]
pub enum Trained {}

/// Role of [`Statistics`].
#[derive(Debug)]
pub enum Running {}

/// What the optimiser changes; also the type of gradients and of the optimiser's moments.
pub type Parameters = FlatTensors<Trained>;

/// Running means and variances of the batch norms: followed, not learned.
pub type Statistics = FlatTensors<Running>;

// Derived `Clone` would ask for a `Role` that can be cloned.
impl<Role> Clone for FlatTensors<Role> {
    fn clone(&self) -> Self {
        Self { specs: Arc::clone(&self.specs), values: self.values.clone(), role: PhantomData }
    }
}

impl<Role> PartialEq for FlatTensors<Role> {
    fn eq(&self, other: &Self) -> bool {
        self.specs == other.specs && self.values == other.values
    }
}

impl<Role> FlatTensors<Role> {
    /// Tensors of these specifications, all zero. The specifications must lie one after another, as a plan's do.
    pub fn zeros(specs: &Arc<[TensorSpec]>) -> Self {
        let total = specs.last().map_or(0, |last| last.offset + last.len());
        Self { specs: Arc::clone(specs), values: vec![0.0; total], role: PhantomData }
    }

    /// Names, shapes and places, in the order of the buffer.
    pub fn specs(&self) -> &[TensorSpec] {
        &self.specs
    }

    /// The numbers of the tensor with this index.
    pub fn tensor(&self, index: usize) -> &[f32] {
        let spec = &self.specs[index];
        &self.values[spec.offset..spec.offset + spec.len()]
    }

    /// The numbers of the tensor with this index, to be changed.
    pub fn tensor_mut(&mut self, index: usize) -> &mut [f32] {
        let spec = &self.specs[index];
        &mut self.values[spec.offset..spec.offset + spec.len()]
    }

    /// Index of the tensor with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.specs.iter().position(|spec| spec.name == name)
    }
}

/// Gathers specifications one after another while a plan is built.
#[derive(Debug, Default)]
pub(super) struct SpecList {
    specs: Vec<TensorSpec>,
    total: usize,
}

impl SpecList {
    /// Adds a tensor at the end and returns its index.
    pub(super) fn push(&mut self, name: String, shape: &[usize]) -> usize {
        let spec = TensorSpec { name, shape: shape.to_vec(), offset: self.total };
        self.total += spec.len();
        self.specs.push(spec);
        self.specs.len() - 1
    }

    pub(super) fn finish(self) -> Arc<[TensorSpec]> {
        self.specs.into()
    }
}

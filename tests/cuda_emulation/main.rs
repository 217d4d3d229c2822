//! The CUDA kernels, run without a graphics card and compared with the plain loops of the host.
//!
//! What runs is everything but the device: the kernels' own source, compiled by g++ and executed thread by thread
//! (`shim.h`, `emulator.cpp`), under the very launches that a device gets — names, grids, shared memory, order of
//! arguments, leading dimensions of matrices. Each operation runs with threads in forward and in reverse order, which
//! must give the same bits, in f32 and in f16. It says nothing of speed, nor of races that an order of whole threads
//! cannot show.

// A test may panic.
#![allow(clippy::unwrap_used, clippy::panic)]

mod case;
mod controls;
mod device;
mod network;
mod operations;

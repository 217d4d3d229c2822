// Every kernel of the crate in one module, each for both storage types: depthwise_forward_f32, depthwise_forward_f16 …
// nvcc compiles this file for the device; the emulation test compiles it for the host.
#include "common.cuh"

#define STORAGE float
#define KERNEL(name) extern "C" __global__ void name##_f32
#include "batch_norm.cu"
#include "depthwise.cu"
#include "elementwise.cu"
#include "im2col.cu"
#undef STORAGE
#undef KERNEL

#define STORAGE __half
#define KERNEL(name) extern "C" __global__ void name##_f16
#include "batch_norm.cu"
#include "depthwise.cu"
#include "elementwise.cu"
#include "im2col.cu"
#undef STORAGE
#undef KERNEL

#include "reduce.cu"

// What every kernel shares: storage types, activations, the channel tile.
//
// Layout. Activations are NHWC: row-major [rows, channels], a row being one pixel of one image. Neighbouring threads
// hold neighbouring channels, so a warp reads and writes consecutive addresses.
//
// The channel tile. A block is (x, y) threads: x runs over channels, y over rows (or pixels, or strips of pixels);
// blockIdx.y picks the tile of channels and blockIdx.x the rows. Where there are fewer channels than a warp has lanes,
// x is the number of channels, and threads (x, y) and (0, y + 1) are still neighbours in memory.
//
// Order. No kernel uses atomics or warp intrinsics. Every sum has one order, fixed by the shapes alone, so a result
// does not depend on how the hardware schedules blocks; and a plain emulation of threads and barriers can run all of it.
//
// Index arithmetic is 32-bit, as division is what these kernels would otherwise spend their time on. The launching
// side refuses buffers of 2^31 elements and more.
#pragma once

#ifdef __CUDACC__
#include <cuda_fp16.h>
// Shared memory of the size that the launch asked for.
#define SHARED_FLOATS(name) extern __shared__ float name[]
#endif

// Values are stored as float or half, and always computed with as float.
__device__ __forceinline__ float load(const float *place) { return *place; }
__device__ __forceinline__ float load(const __half *place) { return __half2float(*place); }
__device__ __forceinline__ void store(float *place, float value) { *place = value; }
__device__ __forceinline__ void store(__half *place, float value) { *place = __float2half_rn(value); }

// The upper half of a float. Only ever a storage of values that are kept, so it needs no arithmetic and no header.
struct bfloat {
    unsigned short bits;
};
__device__ __forceinline__ float load(const bfloat *place) { return __uint_as_float(unsigned(place->bits) << 16); }
__device__ __forceinline__ void store(bfloat *place, float value) {
    unsigned bits = __float_as_uint(value);
    unsigned upper = bits >> 16;
    // To nearest, ties to even; a NaN must not be rounded up into an infinity.
    place->bits = value != value ? upper | 0x40 : (bits + 0x7fff + (upper & 1)) >> 16;
}

enum { ACTIVATION_NONE = 0, ACTIVATION_RELU = 1, ACTIVATION_RELU6 = 2 };

// Comparisons that let a NaN through: a NaN must reach the loss, where it is noticed, and not end here as a zero.
__device__ __forceinline__ float activate(float value, int activation) {
    if (activation != ACTIVATION_NONE && value < 0.0f) return 0.0f;
    if (activation == ACTIVATION_RELU6 && value > 6.0f) return 6.0f;
    return value;
}

// Whether a gradient passes an activation, told from the value before it or after it: both give the same answer.
__device__ __forceinline__ bool passes(float value, int activation) {
    return activation == ACTIVATION_NONE || (value > 0.0f && !(activation == ACTIVATION_RELU6 && value >= 6.0f));
}

// The weight of a place among so many: a parabola, 1 in the middle and 0 at the edge, over the sum of all.
__device__ __forceinline__ float parabola(int length, int at) {
    int from_middle = 2 * at + 1 - length;
    return float(3 * (length * length - from_middle * from_middle)) / float(length * (2 * length * length + 1));
}

__device__ __forceinline__ int tile_channel() { return blockIdx.y * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int tile_row() { return blockIdx.x * blockDim.y + threadIdx.y; }
// For kernels that do not care about channels: one dimension of threads.
__device__ __forceinline__ int tile_element() { return blockIdx.x * blockDim.x + threadIdx.x; }
// Place of this thread in a shared array of one float per thread.
__device__ __forceinline__ int tile_place() { return threadIdx.y * blockDim.x + threadIdx.x; }

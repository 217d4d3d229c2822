// Count, mean and sum of squared deviations of a set of numbers, and how two sets become one.
//
// E[x^2] - E[x]^2 cancels where the mean is large beside the deviation, which is what a convolution without bias often
// gives. Welford's update within a thread and Chan's merge between threads, groups and chunks never subtract large
// equal numbers.
#pragma once
#include "common.cuh"

struct Moments {
    float count, mean, deviation; // `deviation` is the sum of squared deviations from the mean
};

__device__ __forceinline__ void include(Moments &moments, float value) {
    moments.count += 1.0f;
    float delta = value - moments.mean;
    moments.mean += delta / moments.count;
    moments.deviation += delta * (value - moments.mean);
}

__device__ __forceinline__ Moments merge(Moments a, Moments b) {
    float count = a.count + b.count;
    if (count == 0.0f) return a;
    float delta = b.mean - a.mean;
    float share = b.count / count;
    return {count, a.mean + delta * share, a.deviation + b.deviation + delta * delta * a.count * share};
}

// Merges the moments of the block's threads over y, in the order of y, for every channel of the tile. All threads call
// it; only threads of y = 0 get the answer. Shared: three floats a thread.
__device__ __forceinline__ Moments merge_over_rows(Moments own, float *shared) {
    int threads = blockDim.x * blockDim.y;
    shared[tile_place()] = own.count;
    shared[threads + tile_place()] = own.mean;
    shared[2 * threads + tile_place()] = own.deviation;
    __syncthreads();
    if (threadIdx.y == 0) {
        for (int y = 1; y < int(blockDim.y); ++y) {
            int place = y * blockDim.x + threadIdx.x;
            own = merge(own, {shared[place], shared[threads + place], shared[2 * threads + place]});
        }
    }
    return own;
}

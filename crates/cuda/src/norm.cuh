// What forward and backward of a batch norm compute alike. They must agree to the last bit: the backward pass tells
// again from z which values the activation let through and which one of a window was the largest. Hence the explicit
// fmaf, which leaves the compiler no choice.
#pragma once
#include "common.cuh"

// Rows of `norm`, in the order in which the host writes them.
enum {
    NORM_SCALE = 0,               // gamma / sqrt(variance + epsilon)
    NORM_SHIFT = 1,               // beta - mean * scale
    NORM_MEAN = 2,                // the mean that is subtracted
    NORM_INVERSE = 3,             // 1 / sqrt(variance + epsilon)
    NORM_MEAN_SHIFT_GRADIENT = 4, // both 0 where the statistics are constants
    NORM_MEAN_SCALE_GRADIENT = 5,
};

__device__ __forceinline__ float affine(float z, const float *norm, int channel, int channels) {
    return fmaf(norm[NORM_SCALE * channels + channel], z, norm[NORM_SHIFT * channels + channel]);
}

template <class T>
__device__ __forceinline__ float affine(const T *z, const float *norm, const T *added, int adds, int place,
                                        int channel, int channels) {
    float value = affine(load(z + place), norm, channel, channels);
    return adds ? value + load(added + place) : value;
}

__device__ __forceinline__ float normalised(float z, const float *norm, int channel, int channels) {
    return (z - norm[NORM_MEAN * channels + channel]) * norm[NORM_INVERSE * channels + channel];
}

struct Largest {
    int place;
    float value;
};

// The largest affine(z) + added of a window, the first one in reading order where several are equal; a NaN wins.
// What sticks out of the image at the bottom and right is not looked at.
template <class T>
__device__ __forceinline__ Largest largest_in_window(const T *z, const float *norm, const T *added, int adds,
                                                     int image, int top, int left, int height, int width,
                                                     int channels, int channel, int size) {
    Largest best = {-1, 0.0f};
    for (int row = top; row < min(top + size, height); ++row) {
        for (int column = left; column < min(left + size, width); ++column) {
            int place = ((image * height + row) * width + column) * channels + channel;
            float value = affine(z, norm, added, adds, place, channel, channels);
            if (best.place < 0 || value > best.value || value != value) best = {place, value};
        }
    }
    return best;
}

// The two loops of the depthwise 3x3 convolution that depend on the stride at compile time.
//
// A thread holds one channel and walks along a row of the output with the 3x3 window in registers, so each value is
// read from memory three times (once per row of the window), not nine.
#pragma once
#include "common.cuh"

// Outputs of one thread: long enough to reuse the window, short enough to fill the device at 7x7 pixels.
#define DEPTHWISE_STRIP 8

// One column of the window: three rows at image column `column`, zero outside of the image.
template <class T>
__device__ __forceinline__ void window_column(float *column_values, const T *image, int top, int column, int height,
                                              int width, int channels) {
#pragma unroll
    for (int ky = 0; ky < 3; ++ky) {
        int row = top + ky;
        bool inside = row >= 0 && row < height && column >= 0 && column < width;
        column_values[ky] = inside ? load(image + (row * width + column) * channels) : 0.0f;
    }
}

// With FLIP the weight is turned by 180 degrees: at stride 1 the gradient of the input is the convolution of the
// output's gradient with the turned weight.
template <int STRIDE, bool FLIP, class T>
__device__ __forceinline__ void depthwise_strip(const T *x, const float *weight, T *y, int images, int height,
                                                int width, int channels, int out_height, int out_width, int pad_top,
                                                int pad_left) {
    int channel = tile_channel();
    int strip = tile_row();
    int strips_in_row = (out_width + DEPTHWISE_STRIP - 1) / DEPTHWISE_STRIP;
    int out_row = strip / strips_in_row;
    if (channel >= channels || out_row >= images * out_height) return;
    int image = out_row / out_height;
    int top = (out_row - image * out_height) * STRIDE - pad_top;
    int first = (strip - out_row * strips_in_row) * DEPTHWISE_STRIP;
    int last = min(first + DEPTHWISE_STRIP, out_width);

    float taps[9];
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) taps[tap] = weight[(FLIP ? 8 - tap : tap) * channels + channel];

    const T *source = x + image * height * width * channels + channel;
    float window[3][3]; // [column][row]
#pragma unroll
    for (int kx = 0; kx < 3 - STRIDE; ++kx)
        window_column(window[kx], source, top, first * STRIDE - pad_left + kx, height, width, channels);
    for (int out = first; out < last; ++out) {
        int left = out * STRIDE - pad_left;
        float sum = 0.0f;
#pragma unroll
        for (int kx = 3 - STRIDE; kx < 3; ++kx)
            window_column(window[kx], source, top, left + kx, height, width, channels);
#pragma unroll
        for (int kx = 0; kx < 3; ++kx) {
#pragma unroll
            for (int ky = 0; ky < 3; ++ky) sum += window[kx][ky] * taps[ky * 3 + kx];
        }
        store(y + (out_row * out_width + out) * channels + channel, sum);
#pragma unroll
        for (int kx = 0; kx < 3 - STRIDE; ++kx) {
#pragma unroll
            for (int ky = 0; ky < 3; ++ky) window[kx][ky] = window[kx + STRIDE][ky];
        }
    }
}

// Nine sums over this thread's rows of the output: gradient of the output times the value under each tap.
template <int STRIDE, class T>
__device__ __forceinline__ void depthwise_weight_sums(float *sums, const T *x, const T *d_y, int height, int width,
                                                      int channels, int out_height, int out_width, int pad_top,
                                                      int pad_left, int begin, int end) {
    int channel = tile_channel();
    for (int out_row = begin + threadIdx.y; out_row < end; out_row += blockDim.y) {
        int image = out_row / out_height;
        int top = (out_row - image * out_height) * STRIDE - pad_top;
        const T *source = x + image * height * width * channels + channel;
        float window[3][3]; // [column][row]
#pragma unroll
        for (int kx = 0; kx < 3 - STRIDE; ++kx)
            window_column(window[kx], source, top, kx - pad_left, height, width, channels);
        for (int out = 0; out < out_width; ++out) {
            float gradient = load(d_y + (out_row * out_width + out) * channels + channel);
#pragma unroll
            for (int kx = 3 - STRIDE; kx < 3; ++kx)
                window_column(window[kx], source, top, out * STRIDE - pad_left + kx, height, width, channels);
#pragma unroll
            for (int kx = 0; kx < 3; ++kx) {
#pragma unroll
                for (int ky = 0; ky < 3; ++ky) sums[ky * 3 + kx] += gradient * window[kx][ky];
            }
#pragma unroll
            for (int kx = 0; kx < 3 - STRIDE; ++kx) {
#pragma unroll
                for (int ky = 0; ky < 3; ++ky) window[kx][ky] = window[kx + STRIDE][ky];
            }
        }
    }
}

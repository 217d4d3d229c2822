// Depthwise 3x3 convolution: forward, gradient of the input, gradient of the weight. Stride 1 or 2, any padding.
//
// A weight is [tap][channel], taps in reading order; `pad_top` and `pad_left` are the zeros before the first row and column, what lies
// beyond the last follows from the output size. All kernels take the same extents in the same order.
#include "depthwise.cuh"

// y = x * weight. Tile: channels x strips of the output.
KERNEL(depthwise_forward)
(const STORAGE *x, const float *weight, STORAGE *y, int images, int height, int width, int channels, int out_height,
 int out_width, int stride, int pad_top, int pad_left) {
    if (stride == 1)
        depthwise_strip<1, false>(x, weight, y, images, height, width, channels, out_height, out_width, pad_top,
                                  pad_left);
    else
        depthwise_strip<2, false>(x, weight, y, images, height, width, channels, out_height, out_width, pad_top,
                                  pad_left);
}

// d_x at stride 1, where input and output have one size. Tile: channels x strips of the input.
KERNEL(depthwise_input_gradient_stride1)
(const STORAGE *d_y, const float *weight, STORAGE *d_x, int images, int height, int width, int channels,
 int out_height, int out_width, int /* stride */, int pad_top, int pad_left) {
    depthwise_strip<1, true>(d_y, weight, d_x, images, out_height, out_width, channels, height, width, 2 - pad_top,
                             2 - pad_left);
}

// d_x at stride 2: each pixel of the input gathers from the one to four outputs that saw it. Tile: channels x pixels
// of the input.
KERNEL(depthwise_input_gradient_stride2)
(const STORAGE *d_y, const float *weight, STORAGE *d_x, int images, int height, int width, int channels,
 int out_height, int out_width, int /* stride */, int pad_top, int pad_left) {
    int channel = tile_channel();
    int pixel = tile_row();
    if (channel >= channels || pixel >= images * height * width) return;
    int row_of_all = pixel / width;
    int image = row_of_all / height;
    int row = row_of_all - image * height + pad_top;
    int column = pixel - row_of_all * width + pad_left;
    const STORAGE *source = d_y + image * out_height * out_width * channels + channel;
    float sum = 0.0f;
    // Only taps of the pixel's own parity have seen it.
    for (int ky = row & 1; ky < 3; ky += 2) {
        int out_row = (row - ky) / 2;
        if (row < ky || out_row >= out_height) continue;
        for (int kx = column & 1; kx < 3; kx += 2) {
            int out = (column - kx) / 2;
            if (column < kx || out >= out_width) continue;
            sum += weight[(ky * 3 + kx) * channels + channel] * load(source + (out_row * out_width + out) * channels);
        }
    }
    store(d_x + pixel * channels + channel, sum);
}

// First level of the gradient of the weight: partial[group][tap][channel], summed over a group of output rows.
// `sum_groups` is the second level. Shared: nine floats a thread.
KERNEL(depthwise_weight_gradient)
(const STORAGE *x, const STORAGE *d_y, float *partial, int images, int height, int width, int channels,
 int out_height, int out_width, int stride, int pad_top, int pad_left, int rows_per_group) {
    SHARED_FLOATS(shared);
    int channel = tile_channel();
    int begin = blockIdx.x * rows_per_group;
    int end = min(begin + rows_per_group, images * out_height);
    float sums[9] = {0.0f};
    // No early return: every thread of the block must arrive at the barrier.
    if (channel < channels) {
        if (stride == 1)
            depthwise_weight_sums<1>(sums, x, d_y, height, width, channels, out_height, out_width, pad_top, pad_left,
                                     begin, end);
        else
            depthwise_weight_sums<2>(sums, x, d_y, height, width, channels, out_height, out_width, pad_top, pad_left,
                                     begin, end);
    }
    int threads = blockDim.x * blockDim.y;
#pragma unroll
    for (int tap = 0; tap < 9; ++tap) shared[tap * threads + tile_place()] = sums[tap];
    __syncthreads();
    if (channel >= channels) return;
    for (int tap = threadIdx.y; tap < 9; tap += blockDim.y) {
        float sum = 0.0f;
        for (int y = 0; y < int(blockDim.y); ++y) sum += shared[tap * threads + y * blockDim.x + threadIdx.x];
        partial[(blockIdx.x * 9 + tap) * channels + channel] = sum;
    }
}

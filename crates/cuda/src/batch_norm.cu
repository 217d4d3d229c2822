// Batch norm and what follows it (addition, max pool, activation), forward and backward.
//
// `norm` holds six rows of `channels` numbers that describe one batch norm (see norm.cuh). Reductions have two levels:
// here one partial result for each group of rows, in reduce.cu the joining of the groups.
#include "moments.cuh"
#include "norm.cuh"

// partial[group][0][channel] = mean, [1] = sum of squared deviations of the group's rows. Tile: channels x groups.
// Shared: three floats a thread.
KERNEL(moments)
(const STORAGE *z, float *partial, int rows, int channels, int rows_per_group) {
    SHARED_FLOATS(shared);
    int channel = tile_channel();
    int begin = blockIdx.x * rows_per_group;
    int end = min(begin + rows_per_group, rows);
    Moments moments = {0.0f, 0.0f, 0.0f};
    // No early return: every thread of the block must arrive at the barrier.
    if (channel < channels) {
        for (int row = begin + threadIdx.y; row < end; row += blockDim.y)
            include(moments, load(z + row * channels + channel));
    }
    moments = merge_over_rows(moments, shared);
    if (channel < channels && threadIdx.y == 0) {
        partial[2 * blockIdx.x * channels + channel] = moments.mean;
        partial[(2 * blockIdx.x + 1) * channels + channel] = moments.deviation;
    }
}

// y = activation(affine(z) + added); `added` is read only where `adds` is not 0. Tile: channels x rows.
KERNEL(normalise)
(const STORAGE *z, const float *norm, const STORAGE *added, STORAGE *y, int rows, int channels, int adds,
 int activation) {
    int channel = tile_channel();
    int row = tile_row();
    if (channel >= channels || row >= rows) return;
    int place = row * channels + channel;
    store(y + place, activate(affine(z, norm, added, adds, place, channel, channels), activation));
}

// y = activation(max pool(affine(z) + added)). Tile: channels x output pixels.
KERNEL(normalise_pool)
(const STORAGE *z, const float *norm, const STORAGE *added, STORAGE *y, int images, int height, int width,
 int channels, int out_height, int out_width, int size, int adds, int activation) {
    int channel = tile_channel();
    int pixel = tile_row();
    if (channel >= channels || pixel >= images * out_height * out_width) return;
    int row_of_all = pixel / out_width;
    int image = row_of_all / out_height;
    int top = (row_of_all - image * out_height) * size;
    int left = (pixel - row_of_all * out_width) * size;
    Largest found = largest_in_window(z, norm, added, adds, image, top, left, height, width, channels, channel, size);
    store(y + pixel * channels + channel, activate(found.value, activation));
}

// d, the gradient with respect to affine(z) + added, from that with respect to y, back through the activation alone.
// Tile: channels x rows.
KERNEL(activation_gradient)
(const STORAGE *d_y, const STORAGE *z, const float *norm, const STORAGE *added, STORAGE *d, int rows, int channels,
 int adds, int activation) {
    int channel = tile_channel();
    int row = tile_row();
    if (channel >= channels || row >= rows) return;
    int place = row * channels + channel;
    bool open = passes(affine(z, norm, added, adds, place, channel, channels), activation);
    store(d + place, open ? load(d_y + place) : 0.0f);
}

// The same back through activation and pool: the gradient of a window goes to its largest value, which is looked for
// again. Windows do not overlap, so each pixel before the pool asks its one window; pixels outside of every window get
// nothing. Tile: channels x pixels before the pool.
KERNEL(pool_gradient)
(const STORAGE *d_y, const STORAGE *z, const float *norm, const STORAGE *added, STORAGE *d, int images, int height,
 int width, int channels, int out_height, int out_width, int size, int adds, int activation) {
    int channel = tile_channel();
    int pixel = tile_row();
    if (channel >= channels || pixel >= images * height * width) return;
    int row_of_all = pixel / width;
    int image = row_of_all / height;
    int out_row = (row_of_all - image * height) / size;
    int out = (pixel - row_of_all * width) / size;
    int place = pixel * channels + channel;
    float gradient = 0.0f;
    if (out_row < out_height && out < out_width) {
        Largest found = largest_in_window(z, norm, added, adds, image, out_row * size, out * size, height, width,
                                          channels, channel, size);
        if (found.place == place && passes(found.value, activation))
            gradient = load(d_y + ((image * out_height + out_row) * out_width + out) * channels + channel);
    }
    store(d + place, gradient);
}

// partial[group][0][channel] = sum of d, [1] = sum of d times the normalised value, over the group's rows, where
// d = d_y where the activation let affine(z) through. Tile: channels x groups. Shared: two floats a thread.
KERNEL(norm_sums)
(const STORAGE *d_y, const STORAGE *z, const float *norm, float *partial, int rows, int channels, int activation,
 int rows_per_group) {
    SHARED_FLOATS(shared);
    int channel = tile_channel();
    int begin = blockIdx.x * rows_per_group;
    int end = min(begin + rows_per_group, rows);
    float shift_sum = 0.0f, scale_sum = 0.0f;
    if (channel < channels) {
        for (int row = begin + threadIdx.y; row < end; row += blockDim.y) {
            int place = row * channels + channel;
            float value = load(z + place);
            if (passes(affine(value, norm, channel, channels), activation)) {
                float gradient = load(d_y + place);
                shift_sum += gradient;
                scale_sum += gradient * normalised(value, norm, channel, channels);
            }
        }
    }
    int threads = blockDim.x * blockDim.y;
    shared[tile_place()] = shift_sum;
    shared[threads + tile_place()] = scale_sum;
    __syncthreads();
    if (channel >= channels || threadIdx.y != 0) return;
    for (int y = 1; y < int(blockDim.y); ++y) {
        shift_sum += shared[y * blockDim.x + threadIdx.x];
        scale_sum += shared[threads + y * blockDim.x + threadIdx.x];
    }
    partial[2 * blockIdx.x * channels + channel] = shift_sum;
    partial[(2 * blockIdx.x + 1) * channels + channel] = scale_sum;
}

// d_z = scale * (d - mean shift gradient - normalised value * mean scale gradient), d as above. Tile: channels x rows.
KERNEL(norm_input_gradient)
(const STORAGE *d_y, const STORAGE *z, const float *norm, STORAGE *d_z, int rows, int channels, int activation) {
    int channel = tile_channel();
    int row = tile_row();
    if (channel >= channels || row >= rows) return;
    int place = row * channels + channel;
    float value = load(z + place);
    float d = passes(affine(value, norm, channel, channels), activation) ? load(d_y + place) : 0.0f;
    d -= norm[NORM_MEAN_SHIFT_GRADIENT * channels + channel];
    d -= normalised(value, norm, channel, channels) * norm[NORM_MEAN_SCALE_GRADIENT * channels + channel];
    store(d_z + place, d * norm[NORM_SCALE * channels + channel]);
}

// Second levels of the reductions: one block a tile of columns joins the partial results of all groups.
//
// Each thread of y takes a run of neighbouring groups, and the runs are joined in their order. All in f32.
#include "moments.cuh"

// target[column] = (accumulate ? target[column] : 0) + sum over groups of partial[group][column].
// Shared: one float a thread.
extern "C" __global__ void sum_groups(const float *partial, float *target, int groups, int columns, int accumulate) {
    SHARED_FLOATS(shared);
    int column = tile_channel();
    int run = (groups + int(blockDim.y) - 1) / int(blockDim.y);
    float sum = 0.0f;
    if (column < columns) {
        int begin = int(threadIdx.y) * run;
        for (int group = begin; group < min(begin + run, groups); ++group) sum += partial[group * columns + column];
    }
    shared[tile_place()] = sum;
    __syncthreads();
    if (column >= columns || threadIdx.y != 0) return;
    for (int y = 1; y < int(blockDim.y); ++y) sum += shared[y * blockDim.x + threadIdx.x];
    target[column] = accumulate ? target[column] + sum : sum;
}

// target[0][channel] = mean, target[1][channel] = sum of squared deviations over all rows, from partial[group][2][channel]
// of the same meaning. Shared: three floats a thread.
extern "C" __global__ void merge_moments(const float *partial, float *target, int groups, int rows, int channels,
                                         int rows_per_group) {
    SHARED_FLOATS(shared);
    int channel = tile_channel();
    int run = (groups + int(blockDim.y) - 1) / int(blockDim.y);
    Moments moments = {0.0f, 0.0f, 0.0f};
    if (channel < channels) {
        int begin = int(threadIdx.y) * run;
        for (int group = begin; group < min(begin + run, groups); ++group) {
            float count = float(min(rows_per_group, rows - group * rows_per_group));
            const float *place = partial + 2 * group * channels + channel;
            moments = merge(moments, {count, place[0], place[channels]});
        }
    }
    moments = merge_over_rows(moments, shared);
    if (channel >= channels || threadIdx.y != 0) return;
    target[channel] = moments.mean;
    target[channels + channel] = moments.deviation;
}

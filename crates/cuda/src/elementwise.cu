// The mean over an image, addition, and conversion between precisions.
#include "common.cuh"

// y[image][channel]: the mean over the pixels. Tile: channels x images.
KERNEL(mean_pool)
(const STORAGE *x, STORAGE *y, int images, int pixels, int channels) {
    int channel = tile_channel();
    int image = tile_row();
    if (channel >= channels || image >= images) return;
    float sum = 0.0f;
    for (int pixel = 0; pixel < pixels; ++pixel) sum += load(x + (image * pixels + pixel) * channels + channel);
    store(y + image * channels + channel, sum / float(pixels));
}

// d_x: every pixel of an image gets the same share of d_y. Tile: channels x pixels of all images.
KERNEL(mean_pool_gradient)
(const STORAGE *d_y, STORAGE *d_x, int images, int pixels, int channels) {
    int channel = tile_channel();
    int pixel = tile_row();
    if (channel >= channels || pixel >= images * pixels) return;
    store(d_x + pixel * channels + channel, load(d_y + pixel / pixels * channels + channel) / float(pixels));
}

// As mean_pool and its gradient, with the middle of an image weighed more than its border.
KERNEL(centre_pool)
(const STORAGE *x, STORAGE *y, int images, int height, int width, int channels) {
    int channel = tile_channel();
    int image = tile_row();
    if (channel >= channels || image >= images) return;
    float sum = 0.0f;
    for (int row = 0; row < height; ++row) {
        float line = 0.0f;
        for (int column = 0; column < width; ++column) {
            int pixel = (image * height + row) * width + column;
            line += parabola(width, column) * load(x + pixel * channels + channel);
        }
        sum += parabola(height, row) * line;
    }
    store(y + image * channels + channel, sum);
}
KERNEL(centre_pool_gradient)
(const STORAGE *d_y, STORAGE *d_x, int images, int height, int width, int channels) {
    int channel = tile_channel();
    int pixel = tile_row();
    if (channel >= channels || pixel >= images * height * width) return;
    float share = parabola(height, pixel / width % height) * parabola(width, pixel % width);
    store(d_x + pixel * channels + channel, share * load(d_y + pixel / (height * width) * channels + channel));
}

// y += x. One thread an element, as in all that follow.
KERNEL(add)
(const STORAGE *x, STORAGE *y, int elements) {
    int element = tile_element();
    if (element < elements) store(y + element, load(y + element) + load(x + element));
}

// Between the storage type of the computation and that of values kept for the whole window.
KERNEL(pack_to_f32)
(const STORAGE *from, float *to, int elements) {
    int element = tile_element();
    if (element < elements) store(to + element, load(from + element));
}
KERNEL(pack_to_f16)
(const STORAGE *from, __half *to, int elements) {
    int element = tile_element();
    if (element < elements) store(to + element, load(from + element));
}
KERNEL(pack_to_bf16)
(const STORAGE *from, bfloat *to, int elements) {
    int element = tile_element();
    if (element < elements) store(to + element, load(from + element));
}
KERNEL(unpack_from_f32)
(const float *from, STORAGE *to, int elements) {
    int element = tile_element();
    if (element < elements) store(to + element, load(from + element));
}
KERNEL(unpack_from_f16)
(const __half *from, STORAGE *to, int elements) {
    int element = tile_element();
    if (element < elements) store(to + element, load(from + element));
}
KERNEL(unpack_from_bf16)
(const bfloat *from, STORAGE *to, int elements) {
    int element = tile_element();
    if (element < elements) store(to + element, load(from + element));
}

// Full 3x3 convolution as a matrix product: images to columns, and columns back to images.
//
// A row of the column matrix holds the window of one output pixel, tap by tap: [tap = ky * 3 + kx][channel]. Channels
// last keeps both sides coalesced; the weight comes laid out to match, [out][tap][in].

// columns[output pixel][tap][channel]. Tile: channels x (output pixel, tap).
KERNEL(im2col)
(const STORAGE *x, STORAGE *columns, int images, int height, int width, int channels, int out_height, int out_width,
 int stride, int pad_top, int pad_left) {
    int channel = tile_channel();
    int place = tile_row();
    int pixel = place / 9;
    if (channel >= channels || pixel >= images * out_height * out_width) return;
    int tap = place - pixel * 9;
    int row_of_all = pixel / out_width;
    int image = row_of_all / out_height;
    int row = (row_of_all - image * out_height) * stride - pad_top + tap / 3;
    int column = (pixel - row_of_all * out_width) * stride - pad_left + tap % 3;
    bool inside = row >= 0 && row < height && column >= 0 && column < width;
    float value = inside ? load(x + ((image * height + row) * width + column) * channels + channel) : 0.0f;
    store(columns + place * channels + channel, value);
}

// The transpose: each input pixel gathers from the up to nine windows that held it. Tile: channels x input pixels.
KERNEL(col2im)
(const STORAGE *columns, STORAGE *d_x, int images, int height, int width, int channels, int out_height, int out_width,
 int stride, int pad_top, int pad_left) {
    int channel = tile_channel();
    int pixel = tile_row();
    if (channel >= channels || pixel >= images * height * width) return;
    int row_of_all = pixel / width;
    int image = row_of_all / height;
    int row = row_of_all - image * height + pad_top;
    int column = pixel - row_of_all * width + pad_left;
    float sum = 0.0f;
    for (int ky = 0; ky < 3; ++ky) {
        int out_row = (row - ky) / stride;
        if (row < ky || out_row * stride != row - ky || out_row >= out_height) continue;
        for (int kx = 0; kx < 3; ++kx) {
            int out = (column - kx) / stride;
            if (column < kx || out * stride != column - kx || out >= out_width) continue;
            int window = (image * out_height + out_row) * out_width + out;
            sum += load(columns + (window * 9 + ky * 3 + kx) * channels + channel);
        }
    }
    store(d_x + pixel * channels + channel, sum);
}

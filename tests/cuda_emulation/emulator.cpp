// A graphics device on the host: a process that holds buffers, runs the crate's kernels and multiplies matrices, as
// told on standard input. Each buffer is an allocation of its own and starts as NaN, so a kernel that reads or writes
// outside of it is caught by the address sanitizer, and one that forgets to write an element by the result.
//
// Requests (little-endian, as the test writes them): a letter, then
//   A kind elements    allocate; kind 0 = f32, 1 = f16, 2 = bf16; buffers are numbered from 0
//   F buffer           free
//   U buffer bytes     upload: that many bytes follow
//   D buffer           download: all bytes of the buffer are written to standard output
//   L name grid block shared_floats arguments   launch; an argument is i or o, buffer, offset; or n, integer
//   G ta tb m n k a b c beta                    cuBLAS's gemmEx; a matrix is buffer, offset, leading dimension
#include "shim.h"
#include "module.cu"

#include "kernels.h"

#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

enum class Kind : uint32_t { F32, F16, Bf16 };
struct Buffer {
    Kind kind;
    std::vector<char> bytes;
    size_t width() const { return kind == Kind::F32 ? 4 : 2; }
};
template <class T> constexpr Kind kind_of = Kind::F32;
template <> constexpr Kind kind_of<__half> = Kind::F16;
template <> constexpr Kind kind_of<bfloat> = Kind::Bf16;
static const char *const KIND_NAMES[] = {"a buffer of f32", "a buffer of f16", "a buffer of bf16"};
static std::vector<std::unique_ptr<Buffer>> buffers;

[[noreturn]] static void refuse(const std::string &what) {
    std::fprintf(stderr, "emulator: %s\n", what.c_str());
    std::exit(3);
}

template <class T> static T read_value() {
    T value;
    if (std::fread(&value, sizeof value, 1, stdin) != 1) refuse("the request ends early");
    return value;
}

static Buffer &read_buffer() {
    auto number = read_value<uint32_t>();
    if (number >= buffers.size() || !buffers[number]) refuse("no such buffer");
    return *buffers[number];
}

// An argument as sent; its letter says whether the launching side thinks of it as input, output or number.
struct Argument {
    char letter;
    Buffer *buffer;
    uint32_t offset;
    int32_t integer;
};

// The conversion to the kernel's own parameter type refuses what does not match: order, direction, type.
template <class T> static T as_parameter(const std::string &kernel, size_t index, const Argument &argument) {
    auto wrong = [&](const char *expected) {
        refuse(kernel + ": argument " + std::to_string(index) + " should be " + expected);
    };
    if constexpr (std::is_pointer_v<T>) {
        constexpr bool input = std::is_const_v<std::remove_pointer_t<T>>;
        constexpr Kind kind = kind_of<std::remove_const_t<std::remove_pointer_t<T>>>;
        if (argument.letter != (input ? 'i' : 'o')) wrong(input ? "an input buffer" : "an output buffer");
        if (argument.buffer->kind != kind) wrong(KIND_NAMES[int(kind)]);
        return reinterpret_cast<T>(argument.buffer->bytes.data()) + argument.offset;
    } else {
        static_assert(std::is_same_v<T, int>);
        if (argument.letter != 'n') wrong("an integer");
        return argument.integer;
    }
}

using Bound = std::function<void()>;
template <class... P, size_t... I>
static Bound bind(const std::string &name, void (*kernel)(P...), const std::vector<Argument> &arguments,
                  std::index_sequence<I...>) {
    if (arguments.size() != sizeof...(P)) refuse(name + " takes " + std::to_string(sizeof...(P)) + " arguments");
    auto parameters = std::make_tuple(as_parameter<P>(name, I, arguments[I])...);
    return [=] { std::apply(kernel, parameters); };
}

static std::map<std::string, std::function<Bound(const std::string &, const std::vector<Argument> &)>> kernels;
template <class... P> static void offer(const char *name, void (*kernel)(P...)) {
    kernels[name] = [kernel](const std::string &name, const std::vector<Argument> &arguments) {
        return bind(name, kernel, arguments, std::index_sequence_for<P...>{});
    };
}

// Faults that the emulation itself must notice; the tests launch them to see that it does.
static void control_divergent_barrier(int limit) {
    if (int(threadIdx.x) < limit) {
        __syncthreads();
    }
}
static void control_out_of_bounds(float *target) { target[tile_element()] = 1.0f; }

static void offer_all() {
#define OFFER(name) offer(#name, name);
    EACH_KERNEL(OFFER)
    OFFER(control_divergent_barrier)
    OFFER(control_out_of_bounds)
}

static void launch() {
    std::string name(read_value<uint32_t>(), ' ');
    if (std::fread(name.data(), 1, name.size(), stdin) != name.size()) refuse("the request ends early");
    Dimensions grid, block;
    for (unsigned *axis : {&grid.x, &grid.y, &grid.z, &block.x, &block.y, &block.z}) *axis = read_value<uint32_t>();
    auto shared_floats = read_value<uint32_t>();
    std::vector<Argument> arguments(read_value<uint32_t>());
    for (Argument &argument : arguments) {
        argument.letter = read_value<char>();
        if (argument.letter == 'n') {
            argument.integer = read_value<int32_t>();
        } else {
            argument.buffer = &read_buffer();
            argument.offset = read_value<uint32_t>();
        }
    }
    auto kernel = kernels.find(name);
    if (kernel == kernels.end()) refuse("no kernel is called " + name);
    emulator::run(grid, block, shared_floats, kernel->second(name, arguments));
}

// One matrix of a gemm: column-major, with its leading dimension, starting at an element of a buffer.
struct Matrix {
    Buffer *buffer;
    uint32_t start, leading;
    char *at(uint32_t row, uint32_t column) const {
        return buffer->bytes.data() + (start + size_t(column) * leading + row) * buffer->width();
    }
    float get(uint32_t row, uint32_t column) const {
        const char *place = at(row, column);
        return buffer->kind == Kind::F16 ? load(reinterpret_cast<const __half *>(place))
                                         : load(reinterpret_cast<const float *>(place));
    }
    void set(uint32_t row, uint32_t column, float value) {
        char *place = at(row, column);
        if (buffer->kind == Kind::F16) store(reinterpret_cast<__half *>(place), value);
        else store(reinterpret_cast<float *>(place), value);
    }
};

static Matrix read_matrix() {
    Matrix matrix;
    matrix.buffer = &read_buffer();
    matrix.start = read_value<uint32_t>();
    matrix.leading = read_value<uint32_t>();
    return matrix;
}

// C = op(A) op(B) + beta C as cublasGemmEx defines it, computed in f32.
static void gemm() {
    bool transpose_a = read_value<char>() == 'T', transpose_b = read_value<char>() == 'T';
    auto m = read_value<uint32_t>(), n = read_value<uint32_t>(), k = read_value<uint32_t>();
    Matrix a = read_matrix(), b = read_matrix(), c = read_matrix();
    auto beta = read_value<float>();
    if (a.leading < (transpose_a ? k : m) || b.leading < (transpose_b ? n : k) || c.leading < m)
        refuse("a leading dimension that cuBLAS refuses");
    if (a.buffer->kind != b.buffer->kind || (c.buffer->kind != Kind::F32 && c.buffer->kind != a.buffer->kind))
        refuse("a combination of types that cuBLAS refuses");
    std::vector<float> left(size_t(m) * k), right(size_t(k) * n);
    for (uint32_t i = 0; i < m; ++i)
        for (uint32_t p = 0; p < k; ++p) left[size_t(i) * k + p] = transpose_a ? a.get(p, i) : a.get(i, p);
    for (uint32_t j = 0; j < n; ++j)
        for (uint32_t p = 0; p < k; ++p) right[size_t(j) * k + p] = transpose_b ? b.get(j, p) : b.get(p, j);
    for (uint32_t j = 0; j < n; ++j)
        for (uint32_t i = 0; i < m; ++i) {
            float sum = 0.0f;
            for (uint32_t p = 0; p < k; ++p) sum += left[size_t(i) * k + p] * right[size_t(j) * k + p];
            // A beta of zero does not read C, which may hold anything.
            c.set(i, j, sum + (beta == 0.0f ? 0.0f : beta * c.get(i, j)));
        }
}

static void allocate() {
    auto buffer = std::make_unique<Buffer>();
    buffer->kind = read_value<Kind>();
    buffer->bytes.assign(size_t(read_value<uint32_t>()) * buffer->width(), char(0xff)); // NaN in every kind
    buffers.push_back(std::move(buffer));
}

static void upload() {
    Buffer &buffer = read_buffer();
    auto count = read_value<uint32_t>();
    if (count > buffer.bytes.size()) refuse("an upload larger than its buffer");
    if (std::fread(buffer.bytes.data(), 1, count, stdin) != count) refuse("the request ends early");
}

int main(int count, char **values) {
    if (count > 1 && std::string(values[1]) == "reverse") emulator::order = emulator::Order::Reverse;
    offer_all();
    for (int request; (request = std::getchar()) != EOF;) {
        if (request == 'A') allocate();
        else if (request == 'F') buffers[read_value<uint32_t>()].reset();
        else if (request == 'U') upload();
        else if (request == 'L') launch();
        else if (request == 'G') gemm();
        else if (request == 'D') {
            const Buffer &buffer = read_buffer();
            std::fwrite(buffer.bytes.data(), 1, buffer.bytes.size(), stdout);
            std::fflush(stdout);
        } else refuse("an unknown request");
    }
}

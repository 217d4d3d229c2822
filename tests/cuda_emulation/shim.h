// Just enough CUDA for g++ to compile the kernels and run them on the host, one block at a time.
//
// Every CUDA thread of a block is a fibre. A barrier yields to the next fibre, so all threads reach it before one goes
// beyond it; that all of them reached the same one is checked. Threads run in a chosen order: a kernel whose result
// depends on it is wrong. Shared memory is as large as the launch says and starts as NaN, so that a value read before
// it was written shows. What this does not show: races within a warp, speed, anything about a real device.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline

struct Dimensions {
    unsigned x = 1, y = 1, z = 1;
    unsigned count() const { return x * y * z; }
};
static Dimensions threadIdx, blockIdx, blockDim, gridDim;

static inline int min(int a, int b) { return a < b ? a : b; }

static inline float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
static inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// IEEE half precision as bits, with the device's rounding (to nearest, ties to even).
struct __half {
    uint16_t bits;
};

static inline float __half2float(__half half) {
    int exponent = half.bits >> 10 & 31, fraction = half.bits & 1023;
    float magnitude = exponent == 31   ? (fraction ? NAN : INFINITY)
                      : exponent == 0 ? std::ldexp(float(fraction), -24)
                                      : std::ldexp(float(fraction | 1024), exponent - 25);
    return half.bits & 0x8000 ? -magnitude : magnitude;
}

static inline __half __float2half_rn(float value) {
    uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    float magnitude = std::fabs(value);
    if (std::isnan(value)) return {uint16_t(sign | 0x7e00)};
    if (magnitude >= 65520.0f) return {uint16_t(sign | 0x7c00)};
    int exponent;
    std::frexp(magnitude, &exponent); // magnitude = f * 2^exponent with f in [0.5, 1)
    int scale = exponent < -13 ? -24 : exponent - 11; // the weight of the last bit, subnormals included
    auto steps = uint16_t(std::nearbyint(std::ldexp(magnitude, -scale)));
    // A step beyond the largest fraction carries into the exponent, as it should.
    return {uint16_t(sign | (steps + (magnitude == 0.0f ? 0 : (scale + 24) << 10)))};
}

namespace emulator {

[[noreturn]] inline void fail(const char *what) {
    std::fprintf(stderr, "emulator: %s in block (%u, %u), thread (%u, %u)\n", what, blockIdx.x, blockIdx.y,
                 threadIdx.x, threadIdx.y);
    std::fflush(stderr);
    std::abort();
}

enum class Order { Forward, Reverse };
static Order order = Order::Forward;

// Exactly what the launch asked for: beyond it the address sanitizer looks.
static std::vector<float> shared_memory;

constexpr size_t STACK_BYTES = 64 * 1024;
struct Fibre {
    ucontext_t context;
    std::vector<char> stack = std::vector<char>(STACK_BYTES);
    int barrier = 0; // line of the barrier at which it waits
    bool finished = false;
};
static std::vector<Fibre> fibres;
static Fibre *running = nullptr;
static ucontext_t scheduler;
static const std::function<void()> *thread_body;

static void fibre_main() {
    (*thread_body)();
    running->finished = true;
}

static void set_thread(unsigned linear) {
    threadIdx = {linear % blockDim.x, linear / blockDim.x % blockDim.y, linear / blockDim.x / blockDim.y};
}

[[maybe_unused]] static void barrier(int line) {
    if (!running) fail("a barrier in a kernel that was launched without shared memory");
    Fibre *self = running;
    self->barrier = line;
    Dimensions own = threadIdx;
    swapcontext(&self->context, &scheduler);
    threadIdx = own;
}

// One round: every unfinished thread runs up to its next barrier or its end.
static void run_block_with_barriers() {
    unsigned count = blockDim.count();
    if (fibres.size() < count) fibres = std::vector<Fibre>(count);
    for (unsigned i = 0; i < count; ++i) {
        Fibre &fibre = fibres[i];
        getcontext(&fibre.context);
        fibre.context.uc_stack.ss_sp = fibre.stack.data();
        fibre.context.uc_stack.ss_size = fibre.stack.size();
        fibre.context.uc_link = &scheduler;
        fibre.finished = false;
        makecontext(&fibre.context, fibre_main, 0);
    }
    for (bool alive = true; alive;) {
        for (unsigned i = 0; i < count; ++i) {
            unsigned linear = order == Order::Forward ? i : count - 1 - i;
            running = &fibres[linear];
            set_thread(linear);
            swapcontext(&scheduler, &running->context);
        }
        running = nullptr;
        alive = !fibres[0].finished;
        for (unsigned i = 1; i < count; ++i) {
            if (fibres[i].finished == alive) fail("a barrier that not all threads of the block reached");
            if (alive && fibres[i].barrier != fibres[0].barrier) fail("threads waiting at different barriers");
        }
    }
}

// Runs a kernel over the whole grid. Threads of a kernel without shared memory are plain calls.
static void run(Dimensions grid, Dimensions block, unsigned shared_floats, const std::function<void()> &body) {
    if (block.count() == 0 || block.count() > 1024 || grid.count() == 0 || grid.y > 65535)
        fail("a launch that no device accepts");
    gridDim = grid;
    blockDim = block;
    thread_body = &body;
    for (unsigned i = 0; i < grid.count(); ++i) {
        unsigned linear = order == Order::Forward ? i : grid.count() - 1 - i;
        blockIdx = {linear % grid.x, linear / grid.x % grid.y, linear / grid.x / grid.y};
        shared_memory = std::vector<float>(shared_floats, NAN);
        if (shared_floats > 0) {
            run_block_with_barriers();
            continue;
        }
        for (unsigned t = 0; t < block.count(); ++t) {
            set_thread(order == Order::Forward ? t : block.count() - 1 - t);
            body();
        }
    }
}

} // namespace emulator

#define SHARED_FLOATS(name) float *name = emulator::shared_memory.data()
#ifdef WITHOUT_BARRIERS
#define __syncthreads() // the negative control: every barrier is forgotten
#else
#define __syncthreads() emulator::barrier(__LINE__)
#endif

// A stand-in for libcuda.so.1 on machines without a GPU: the entry points that this program calls, with the rules that a
// program can break. Kernels are the text of crates/cuda/src/module.cu as g++ understands it, one block at a time, through
// the shim of tests/cuda_emulation. So everything above the driver runs as it would on a device: candle, cudarc, driver.rs,
// the learner. What a real device does beyond that (PTX, scheduling, caches, time) is not here.
//
// Rules it keeps a program to:
//   - a call needs a context that is current on its thread (201);
//   - what is queued on a stream is done as late as the API allows: at the next wait. Copies read and write host memory
//     then, too, so a program that does not wait reads old numbers, or frees what is still needed;
//   - memory starts as NaN, and ends at a page that cannot be touched; the bytes before it are looked at when it is freed;
//   - launches have a device's limits; arguments that are pointers must lie in memory of the device;
//   - errors from 700 on are sticky: every later call fails with them.
//
// Variables:
//   CUDA_STAND_IN_FAIL=CALL:N:CODE   the Nth call of CALL fails with CODE: 2 is out of memory, 700 an illegal address
//   CUDA_STAND_IN_MEMORY=BYTES       how much memory the device has (default 4 GiB)
//   CUDA_STAND_IN_LOG=FILE           at the end: how often each call was made, and what was made and not given back
//   CUDA_STAND_IN_DRY=N              after N launches nothing is computed any more, only counted; memory starts as zeros then
//   CUDA_STAND_IN_ORDER=reverse      threads and blocks run in reverse order
//   CUDA_STAND_IN_BREAK=FAULT        negative controls: `kernel` (a kernel's results are off), `gemm`, `leak`
#include "shim.h"
#include "module.cu"

#include "kernels.h"
#include "stand_in.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <tuple>
#include <unistd.h>

#define API extern "C" __attribute__((visibility("default"))) int

enum : int { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_PTX = 218, NOT_FOUND = 500, INVALID_CONTEXT = 201,
             INVALID_HANDLE = 400, NO_DEVICE = 100, STICKY = 700 };

namespace {

struct Work {
    const char *what;
    std::function<void()> run;
};
struct Stream {
    std::deque<Work> queue;
};
struct Allocation {
    char *mapping;
    size_t mapped, bytes;
};
using Launch = std::function<void()>;
struct Function {
    const char *name;
    std::function<Launch(void **)> bind;
};

// Never destroyed: threads may still call while the process ends.
struct State {
    std::recursive_mutex lock;
    std::map<std::string, long> calls, alive;
    std::map<Stream *, std::unique_ptr<Stream>> streams;
    std::map<const char *, Allocation> memory; // by the first byte
    std::map<std::string, Function> functions;
    size_t used = 0, most_used = 0, capacity = size_t(4) << 30;
    int sticky = 0, contexts = 0;
    long launches = 0;
    std::string fail_call;
    long fail_at = 0;
    int fail_code = 0;
    long dry_after = -1;
    bool dry() const { return dry_after >= 0 && launches >= dry_after; }
    int device = 0; // its address is the primary context
};

const char *variable(const char *name) {
    const char *value = std::getenv(name);
    return value ? value : "";
}

[[noreturn]] void refuse(const std::string &what) {
    std::fprintf(stderr, "stand-in driver: %s\n", what.c_str());
    std::abort();
}

void write_log();

State &state() {
    static State *the = [] {
        auto *made = new State;
        if (std::string memory = variable("CUDA_STAND_IN_MEMORY"); !memory.empty()) made->capacity = std::stoull(memory);
        if (std::string dry = variable("CUDA_STAND_IN_DRY"); !dry.empty()) made->dry_after = std::stol(dry);
        if (std::string(variable("CUDA_STAND_IN_ORDER")) == "reverse") emulator::order = emulator::Order::Reverse;
        std::string fail = variable("CUDA_STAND_IN_FAIL");
        if (!fail.empty()) {
            size_t first = fail.find(':'), second = fail.find(':', first + 1);
            if (second == std::string::npos) refuse("CUDA_STAND_IN_FAIL is CALL:N:CODE");
            made->fail_call = fail.substr(0, first);
            made->fail_at = std::stol(fail.substr(first + 1));
            made->fail_code = std::stoi(fail.substr(second + 1));
        }
        std::atexit(write_log);
        return made;
    }();
    return *the;
}

void write_log() {
    const char *path = variable("CUDA_STAND_IN_LOG");
    if (!*path) return;
    State &s = state();
    std::lock_guard guard(s.lock);
    std::FILE *file = std::fopen(path, "w");
    if (!file) refuse("the log cannot be written");
    for (auto &[call, count] : s.calls) std::fprintf(file, "call %s %ld\n", call.c_str(), count);
    for (auto &[what, count] : s.alive) std::fprintf(file, "left %s %ld\n", what.c_str(), count);
    std::fprintf(file, "peak bytes %zu\n", s.most_used);
    std::fclose(file);
}

thread_local void *current_context = nullptr;

// The allocation that holds a place.
std::map<const char *, Allocation>::iterator holder(const void *place) {
    State &s = state();
    auto after = s.memory.upper_bound(static_cast<const char *>(place));
    if (after == s.memory.begin()) return s.memory.end();
    --after;
    return static_cast<const char *>(place) < after->first + after->second.bytes ? after : s.memory.end();
}

void work_off(Stream &stream) {
    State &s = state();
    while (!stream.queue.empty()) {
        Work work = std::move(stream.queue.front());
        stream.queue.pop_front();
        if (!s.sticky) work.run();
    }
}

Stream *stream_of(void *handle) {
    State &s = state();
    auto found = s.streams.find(static_cast<Stream *>(handle));
    return found == s.streams.end() ? nullptr : found->second.get();
}

int allocate(const char **place, size_t bytes) {
    State &s = state();
    if (bytes == 0) return INVALID_VALUE;
    if (s.used + bytes > s.capacity) return OUT_OF_MEMORY;
    size_t page = sysconf(_SC_PAGESIZE), aligned = (bytes + 3) / 4 * 4;
    size_t mapped = (aligned + page - 1) / page * page;
    void *mapping = mmap(nullptr, mapped + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) return OUT_OF_MEMORY;
    auto *first = static_cast<char *>(mapping);
    mprotect(first + mapped, page, PROT_NONE);
    if (!s.dry()) std::memset(first, 0xff, mapped); // NaN in every kind
    *place = first + mapped - aligned;
    s.memory[*place] = {first, mapped, bytes};
    s.used += bytes;
    s.most_used = std::max(s.most_used, s.used);
    stand_in::made("allocations");
    return OK;
}

int release(const char *place) {
    State &s = state();
    auto found = s.memory.find(place);
    if (found == s.memory.end()) return INVALID_VALUE;
    auto [mapping, mapped, bytes] = found->second;
    for (const char *before = mapping; s.dry_after < 0 && before < place; ++before)
        if (*before != char(0xff)) refuse("a kernel wrote before the beginning of its buffer");
    munmap(mapping, mapped + sysconf(_SC_PAGESIZE));
    s.used -= bytes;
    s.memory.erase(found);
    if (!stand_in::breaks("leak")) stand_in::gone("allocations");
    return OK;
}

template <class T> T parameter(const char *kernel, void *place) {
    T value;
    std::memcpy(&value, place, sizeof value);
    if constexpr (std::is_pointer_v<T>)
        if (!stand_in::inside(value, 1)) refuse(std::string(kernel) + ": an argument points outside of the device's memory");
    return value;
}

template <class... P, size_t... I>
Launch bind(const char *name, void (*kernel)(P...), void **places, std::index_sequence<I...>) {
    auto parameters = std::make_tuple(parameter<P>(name, places[I])...);
    return [=] { std::apply(kernel, parameters); };
}

template <class... P> void offer(const char *name, void (*kernel)(P...)) {
    state().functions[name] = {name, [=](void **places) {
        return bind(name, kernel, places, std::index_sequence_for<P...>{});
    }};
}

// Faults that the stand-in must notice; controls.cpp launches them.
void control_out_of_bounds(float *target, int index) { target[index] = 1.0f; }
void control_write(float *target, int count) {
    if (tile_element() < count) target[tile_element()] = float(tile_element());
}

void offer_all() {
#define OFFER(name) offer(#name, name);
    EACH_KERNEL(OFFER)
    OFFER(control_out_of_bounds)
    OFFER(control_write)
}

} // namespace

#define VISIBLE __attribute__((visibility("default")))
namespace stand_in {

VISIBLE int begin(const char *call) {
    State &s = state();
    std::lock_guard guard(s.lock);
    long count = ++s.calls[call];
    if (s.sticky) return s.sticky;
    if (s.fail_call == call && s.fail_at == count) {
        if (s.fail_code >= STICKY) s.sticky = s.fail_code;
        return s.fail_code;
    }
    return OK;
}
VISIBLE bool broken() { return state().sticky != 0; }
VISIBLE void enqueue(void *stream, const char *what, std::function<void()> work) {
    std::lock_guard guard(state().lock);
    Stream *queue = stream_of(stream);
    if (!queue) refuse(std::string(what) + " on a stream that is none");
    queue->queue.push_back({what, std::move(work)});
}
VISIBLE bool inside(const void *place, size_t bytes) {
    std::lock_guard guard(state().lock);
    auto found = holder(place);
    if (found == state().memory.end()) return false;
    return static_cast<const char *>(place) + bytes <= found->first + found->second.bytes;
}
VISIBLE void made(const char *what) { std::lock_guard guard(state().lock); ++state().alive[what]; }
VISIBLE void gone(const char *what) { std::lock_guard guard(state().lock); --state().alive[what]; }
VISIBLE bool breaks(const char *what) { return std::string(variable("CUDA_STAND_IN_BREAK")) == what; }
VISIBLE bool dry() { return state().dry(); }

} // namespace stand_in

// Begins an entry point: one at a time, counted, failing where it must.
#define ENTER(call)                                                                                                    \
    std::lock_guard guard(state().lock);                                                                               \
    if (int code = stand_in::begin(#call)) return code
// … of those that need a context.
#define ENTER_CONTEXT(call)                                                                                            \
    ENTER(call);                                                                                                       \
    if (!current_context) return INVALID_CONTEXT

API cuInit(unsigned) {
    ENTER(cuInit);
    if (state().functions.empty()) offer_all();
    return OK;
}
API cuGetErrorString(int code, const char **text) {
    switch (code) {
    case OUT_OF_MEMORY: *text = "out of memory (stand-in)"; break;
    case STICKY: *text = "an illegal memory access was encountered (stand-in)"; break;
    default: *text = "an error (stand-in)";
    }
    return OK;
}
API cuGetErrorName(int, const char **text) { *text = "STAND_IN_ERROR"; return OK; }
API cuDeviceGet(int *device, int ordinal) {
    ENTER(cuDeviceGet);
    if (ordinal != 0) return NO_DEVICE;
    *device = 0;
    return OK;
}
API cuDeviceGetAttribute(int *value, int attribute, int) {
    ENTER(cuDeviceGetAttribute);
    *value = attribute == 75 ? 8 : attribute == 76 ? 7 : attribute == 115 ? 1 : 0; // sm_87, with memory pools
    return OK;
}
API cuDeviceGetName(char *name, int length, int) {
    ENTER(cuDeviceGetName);
    std::snprintf(name, length, "a stand-in GPU");
    return OK;
}
API cuDevicePrimaryCtxRetain(void **context, int) {
    ENTER(cuDevicePrimaryCtxRetain);
    *context = &state().device;
    stand_in::made("contexts");
    return OK;
}
// Works on a broken device, too: it is the way to get rid of it.
API cuDevicePrimaryCtxRelease_v2(int) {
    std::lock_guard guard(state().lock);
    ++state().calls["cuDevicePrimaryCtxRelease_v2"];
    stand_in::gone("contexts");
    return OK;
}
API cuCtxGetCurrent(void **context) {
    std::lock_guard guard(state().lock);
    ++state().calls["cuCtxGetCurrent"];
    *context = current_context;
    return OK;
}
API cuCtxSetCurrent(void *context) {
    std::lock_guard guard(state().lock);
    ++state().calls["cuCtxSetCurrent"];
    current_context = context;
    return OK;
}
API cuCtxSetFlags(unsigned) { ENTER_CONTEXT(cuCtxSetFlags); return OK; }
API cuCtxDestroy_v2(void *) { ENTER(cuCtxDestroy_v2); return INVALID_CONTEXT; } // the primary one is released, not destroyed
API cuCtxSynchronize() {
    ENTER_CONTEXT(cuCtxSynchronize);
    for (auto &[handle, stream] : state().streams) work_off(*stream);
    return state().sticky;
}

API cuStreamCreate(void **handle, unsigned) {
    ENTER_CONTEXT(cuStreamCreate);
    auto stream = std::make_unique<Stream>();
    *handle = stream.get();
    state().streams[stream.get()] = std::move(stream);
    stand_in::made("streams");
    return OK;
}
API cuStreamDestroy_v2(void *handle) {
    ENTER_CONTEXT(cuStreamDestroy_v2);
    Stream *stream = stream_of(handle);
    if (!stream) return INVALID_HANDLE;
    work_off(*stream);
    state().streams.erase(stream);
    stand_in::gone("streams");
    return OK;
}
API cuStreamSynchronize(void *handle) {
    ENTER_CONTEXT(cuStreamSynchronize);
    Stream *stream = stream_of(handle);
    if (!stream) return INVALID_HANDLE;
    work_off(*stream);
    return state().sticky;
}
API cuStreamWaitEvent(void *handle, void *, unsigned) {
    ENTER_CONTEXT(cuStreamWaitEvent);
    return stream_of(handle) ? OK : INVALID_HANDLE; // one stream: what was recorded on it comes first anyway
}
API cuStreamIsCapturing(void *, int *answer) { ENTER_CONTEXT(cuStreamIsCapturing); *answer = 0; return OK; }
API cuEventCreate(void **event, unsigned) {
    ENTER_CONTEXT(cuEventCreate);
    *event = new char;
    stand_in::made("events");
    return OK;
}
API cuEventDestroy_v2(void *event) {
    ENTER_CONTEXT(cuEventDestroy_v2);
    delete static_cast<char *>(event);
    stand_in::gone("events");
    return OK;
}
API cuEventRecord(void *, void *handle) { ENTER_CONTEXT(cuEventRecord); return stream_of(handle) ? OK : INVALID_HANDLE; }

API cuMemAlloc_v2(const char **place, size_t bytes) { ENTER_CONTEXT(cuMemAlloc_v2); return allocate(place, bytes); }
API cuMemFree_v2(const char *place) {
    ENTER_CONTEXT(cuMemFree_v2);
    for (auto &[handle, stream] : state().streams) work_off(*stream);
    return release(place);
}
API cuMemAllocAsync(const char **place, size_t bytes, void *handle) {
    ENTER_CONTEXT(cuMemAllocAsync);
    return stream_of(handle) ? allocate(place, bytes) : INVALID_HANDLE;
}
API cuMemFreeAsync(const char *place, void *handle) {
    ENTER_CONTEXT(cuMemFreeAsync);
    if (!stream_of(handle)) return INVALID_HANDLE;
    if (!state().memory.count(place)) return INVALID_VALUE;
    stand_in::enqueue(handle, "free", [=] { release(place); });
    return OK;
}
API cuMemcpyHtoDAsync_v2(char *to, const void *from, size_t bytes, void *handle) {
    ENTER_CONTEXT(cuMemcpyHtoDAsync_v2);
    if (!stream_of(handle)) return INVALID_HANDLE;
    if (!stand_in::inside(to, bytes)) return INVALID_VALUE;
    stand_in::enqueue(handle, "copy to the device", [=] { std::memcpy(to, from, bytes); });
    return OK;
}
API cuMemcpyDtoHAsync_v2(void *to, const char *from, size_t bytes, void *handle) {
    ENTER_CONTEXT(cuMemcpyDtoHAsync_v2);
    if (!stream_of(handle)) return INVALID_HANDLE;
    if (!stand_in::inside(from, bytes)) return INVALID_VALUE;
    stand_in::enqueue(handle, "copy from the device", [=] { std::memcpy(to, from, bytes); });
    return OK;
}
API cuMemcpyDtoDAsync_v2(char *to, const char *from, size_t bytes, void *handle) {
    ENTER_CONTEXT(cuMemcpyDtoDAsync_v2);
    if (!stream_of(handle)) return INVALID_HANDLE;
    if (!stand_in::inside(to, bytes) || !stand_in::inside(from, bytes)) return INVALID_VALUE;
    stand_in::enqueue(handle, "copy on the device", [=] { std::memmove(to, from, bytes); });
    return OK;
}
API cuMemcpyPeerAsync(char *, void *, const char *, void *, size_t, void *) { ENTER_CONTEXT(cuMemcpyPeerAsync); return INVALID_VALUE; }
API cuMemsetD8Async(char *to, unsigned char value, size_t bytes, void *handle) {
    ENTER_CONTEXT(cuMemsetD8Async);
    if (!stream_of(handle)) return INVALID_HANDLE;
    if (!stand_in::inside(to, bytes)) return INVALID_VALUE;
    stand_in::enqueue(handle, "set memory", [=] { std::memset(to, value, bytes); });
    return OK;
}

API cuModuleLoad(void **, const char *) { ENTER_CONTEXT(cuModuleLoad); return INVALID_PTX; }
API cuModuleLoadData(void **module, const void *image) {
    ENTER_CONTEXT(cuModuleLoadData);
    // The stand-in nvcc wrote which sources it saw.
    std::string expected = std::string("// stand-in module ") + KERNELS_SUM;
    if (std::strncmp(static_cast<const char *>(image), expected.c_str(), expected.size()) != 0) return INVALID_PTX;
    *module = new char;
    stand_in::made("modules");
    return OK;
}
API cuModuleUnload(void *module) {
    ENTER_CONTEXT(cuModuleUnload);
    delete static_cast<char *>(module);
    stand_in::gone("modules");
    return OK;
}
API cuModuleGetFunction(void **function, void *, const char *name) {
    ENTER_CONTEXT(cuModuleGetFunction);
    auto found = state().functions.find(name);
    if (found == state().functions.end()) return NOT_FOUND;
    *function = &found->second;
    return OK;
}
API cuLaunchKernel(void *handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **) {
    ENTER_CONTEXT(cuLaunchKernel);
    auto *function = static_cast<Function *>(handle);
    if (!stream_of(stream)) return INVALID_HANDLE;
    Dimensions grid{gx, gy, gz}, block{bx, by, bz};
    bool fits = gx > 0 && gy > 0 && gz > 0 && gx < 1u << 31 && gy <= 65535 && gz <= 65535;
    fits = fits && bx > 0 && by > 0 && bz > 0 && bx <= 1024 && by <= 1024 && bz <= 64 && size_t(bx) * by * bz <= 1024;
    if (!fits || shared > 48 * 1024) return INVALID_VALUE;
    Launch launch = function->bind(parameters);
    ++state().launches;
    bool wrong = stand_in::breaks("kernel") && std::strncmp(function->name, "normalise", 9) == 0;
    if (wrong) grid.x = (grid.x + 1) / 2; // half of the blocks never run
    stand_in::enqueue(stream, function->name, [=] {
        if (!state().dry()) emulator::run(grid, block, (shared + 3) / 4, launch);
    });
    return OK;
}

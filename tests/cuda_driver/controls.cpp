// Negative controls of the stand-in driver: `controls WHAT` breaks one of its rules and ends with 0 if that was noticed. A
// rule whose breach ends the process shows as a signal, which the caller looks for.
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(void **, int);
int cuCtxSetCurrent(void *);
int cuStreamCreate(void **, unsigned);
int cuStreamSynchronize(void *);
int cuMemAllocAsync(char **, size_t, void *);
int cuMemFreeAsync(char *, void *);
int cuMemcpyHtoDAsync_v2(char *, const void *, size_t, void *);
int cuMemcpyDtoHAsync_v2(void *, const char *, size_t, void *);
int cuModuleLoadData(void **, const void *);
int cuModuleGetFunction(void **, void *, const char *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cublasCreate_v2(void **);
int cublasSetStream_v2(void *, void *);
int cublasGemmEx(void *, int, int, int, int, int, const float *, const char *, int, int, const char *, int, int,
                 const float *, char *, int, int, int, int);
}

static void *stream;
static char *buffer; // 100 floats

static int launch(const char *kernel, int number, unsigned grid = 1, unsigned threads = 128, char *target = buffer) {
    void *function, *parameters[] = {&target, &number};
    if (int code = cuModuleGetFunction(&function, nullptr, kernel)) return code;
    return cuLaunchKernel(function, grid, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
}

static int multiply(int m, int n, int k, int lda, int a_type = 0, int b_type = 0) {
    void *handle;
    float one = 1, zero = 0;
    cublasCreate_v2(&handle);
    cublasSetStream_v2(handle, stream);
    return cublasGemmEx(handle, 0, 0, m, n, k, &one, buffer, a_type, lda, buffer, b_type, k, &zero, buffer, 0, m, 68, -1);
}

static bool noticed(const std::string &what) {
    std::vector<float> host(100, 5.0f);
    if (what == "no-context") {
        int code = 0;
        std::thread([&] { code = cuStreamSynchronize(stream); }).join();
        return code == 201;
    }
    if (what == "no-wait") { // numbers of a copy that nobody waited for are the old ones
        cuMemcpyDtoHAsync_v2(host.data(), buffer, 400, stream);
        bool old = host[0] == 5.0f;
        return cuStreamSynchronize(stream) == 0 && old && std::isnan(host[0]);
    }
    if (what == "late-read") { // a source that changes before somebody waits is copied as it is then
        cuMemcpyHtoDAsync_v2(buffer, host.data(), 400, stream);
        host[0] = 6.0f;
        cuMemcpyDtoHAsync_v2(host.data() + 1, buffer, 4, stream);
        return cuStreamSynchronize(stream) == 0 && host[1] == 6.0f;
    }
    if (what == "copy-too-long") return cuMemcpyHtoDAsync_v2(buffer, host.data(), 404, stream) == 1;
    if (what == "grid") return launch("control_write", 1, 0) == 1 && launch("control_write", 1, 1, 1025) == 1;
    if (what == "no-kernel") return launch("no_such_kernel", 1) == 500;
    if (what == "other-sources") {
        void *module;
        return cuModuleLoadData(&module, "// stand-in module of something else") == 218;
    }
    if (what == "memory") { // CUDA_STAND_IN_MEMORY=1000
        char *more;
        return cuMemAllocAsync(&more, 601, stream) == 2 && cuMemAllocAsync(&more, 600, stream) == 0;
    }
    if (what == "sticky") // CUDA_STAND_IN_FAIL=cuLaunchKernel:2:700
        return launch("control_write", 1) == 0 && launch("control_write", 1) == 700 && cuStreamSynchronize(stream) == 700;
    if (what == "leading-dimension") return multiply(4, 4, 4, 3) == 7;
    if (what == "types") return multiply(4, 4, 4, 4, 0, 2) == 15;
    if (what == "kernel-works") { // what the others could not show if nothing ran
        launch("control_write", 100);
        cuMemcpyDtoHAsync_v2(host.data(), buffer, 400, stream);
        cuStreamSynchronize(stream);
        return host[99] == 99.0f;
    }
    // These end the process.
    if (what == "beyond") launch("control_out_of_bounds", 100), cuStreamSynchronize(stream);
    if (what == "before") launch("control_out_of_bounds", -1), cuMemFreeAsync(buffer, stream), cuStreamSynchronize(stream);
    if (what == "host-pointer") launch("control_write", 1, 1, 1, reinterpret_cast<char *>(host.data()));
    if (what == "matrix") multiply(10, 10, 11, 10);
    return false;
}

int main(int, char **arguments) {
    void *context;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) || cuStreamCreate(&stream, 1)) return 2;
    if (cuMemAllocAsync(&buffer, 400, stream)) return 2;
    if (noticed(arguments[1])) return 0;
    std::fprintf(stderr, "controls: %s went unnoticed\n", arguments[1]);
    return 1;
}

// A stand-in for libcublas.so.12: cublasGemmEx with its argument rules, worked off on its stream like a kernel. Sums are f32,
// in eight parts, as no library adds up one number after the other.
#include "shim.h"
#include "stand_in.h"

#include <algorithm>
#include <vector>

#define API extern "C" __attribute__((visibility("default"))) int

enum : int { OK = 0, NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum : int { R_32F = 0, R_16F = 2, COMPUTE_32F = 68 };

struct Handle {
    void *stream = nullptr;
};

// A fault of the driver below becomes cuBLAS's own word for it.
static int begin(const char *call) {
    int code = stand_in::begin(call);
    return code == 0 ? OK : code == 2 ? ALLOC_FAILED : EXECUTION_FAILED;
}

API cublasCreate_v2(Handle **handle) {
    if (int code = begin("cublasCreate_v2")) return code;
    *handle = new Handle;
    stand_in::made("cublas handles");
    return OK;
}
API cublasDestroy_v2(Handle *handle) {
    if (int code = begin("cublasDestroy_v2")) return code;
    delete handle;
    stand_in::gone("cublas handles");
    return OK;
}
API cublasSetStream_v2(Handle *handle, void *stream) {
    if (int code = begin("cublasSetStream_v2")) return code;
    if (!handle) return NOT_INITIALIZED;
    handle->stream = stream;
    return OK;
}

struct Matrix {
    const char *first;
    int type, leading;
    size_t width() const { return type == R_32F ? 4 : 2; }
    float get(size_t row, size_t column) const {
        const char *place = first + (column * leading + row) * width();
        if (type == R_32F) {
            float value;
            std::memcpy(&value, place, 4);
            return value;
        }
        __half half;
        std::memcpy(&half, place, 2);
        return __half2float(half);
    }
    void set(size_t row, size_t column, float value) const {
        char *place = const_cast<char *>(first) + (column * leading + row) * width();
        __half half = __float2half_rn(value);
        if (type == R_32F) std::memcpy(place, &value, 4);
        else std::memcpy(place, &half, 2);
    }
    bool inside(int rows, int columns) const {
        if (rows == 0 || columns == 0) return true;
        return stand_in::inside(first, (size_t(columns - 1) * leading + rows) * width());
    }
};

// op(M) as rows of `k` numbers, so that both factors are read in order.
static std::vector<float> rows_of(const Matrix &matrix, bool k_is_row, int rows, int k) {
    std::vector<float> packed(size_t(rows) * k);
    for (int i = 0; i < rows; ++i)
        for (int p = 0; p < k; ++p) packed[size_t(i) * k + p] = k_is_row ? matrix.get(p, i) : matrix.get(i, p);
    return packed;
}

static void multiply(Matrix a, Matrix b, Matrix c, bool transpose_a, bool transpose_b, int m, int n, int k, float alpha, float beta) {
    std::vector<float> left = rows_of(a, transpose_a, m, k), right = rows_of(b, !transpose_b, n, k);
    if (stand_in::breaks("gemm")) alpha *= 1.01f;
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) {
            const float *x = &left[size_t(i) * k], *y = &right[size_t(j) * k];
            float parts[8] = {};
            int p = 0;
            for (; p + 8 <= k; p += 8)
                for (int lane = 0; lane < 8; ++lane) parts[lane] += x[p + lane] * y[p + lane];
            for (; p < k; ++p) parts[p % 8] += x[p] * y[p];
            float sum = ((parts[0] + parts[4]) + (parts[1] + parts[5])) + ((parts[2] + parts[6]) + (parts[3] + parts[7]));
            // With beta 0 the old values are not read: they may be NaN.
            c.set(i, j, alpha * sum + (beta == 0.0f ? 0.0f : beta * c.get(i, j)));
        }
}

API cublasGemmEx(Handle *handle, int transpose_a, int transpose_b, int m, int n, int k, const float *alpha, const char *a,
                 int a_type, int lda, const char *b, int b_type, int ldb, const float *beta, char *c, int c_type, int ldc,
                 int compute, int) {
    if (int code = begin("cublasGemmEx")) return code;
    if (!handle || !handle->stream) return NOT_INITIALIZED;
    bool at = transpose_a == 1, bt = transpose_b == 1;
    if (m < 0 || n < 0 || k < 0 || transpose_a > 1 || transpose_b > 1) return INVALID_VALUE;
    if (lda < std::max(1, at ? k : m) || ldb < std::max(1, bt ? n : k) || ldc < std::max(1, m)) return INVALID_VALUE;
    bool known = (a_type == R_32F || a_type == R_16F) && a_type == b_type && (c_type == R_32F || c_type == a_type);
    if (!known || compute != COMPUTE_32F) return NOT_SUPPORTED;
    Matrix left{a, a_type, lda}, right{b, b_type, ldb}, outcome{c, c_type, ldc};
    bool inside = left.inside(at ? k : m, at ? m : k) && right.inside(bt ? n : k, bt ? k : n) && outcome.inside(m, n);
    if (!inside) {
        std::fprintf(stderr, "stand-in cuBLAS: a matrix reaches beyond its buffer (m %d, n %d, k %d)\n", m, n, k);
        std::abort();
    }
    float by = *alpha, keep = *beta;
    stand_in::enqueue(handle->stream, "cublasGemmEx", [=] {
        if (!stand_in::dry()) multiply(left, right, outcome, at, bt, m, n, k, by, keep);
    });
    return OK;
}
// Candle links these and this program does not use them.
API cublasGemmStridedBatchedEx(Handle *) { return NOT_SUPPORTED; }
API cublasDgemmStridedBatched(Handle *) { return NOT_SUPPORTED; }

// d += a b in fp32, on plain row-major arrays; the only loop that must be fast.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace kittens::cpu {

// As wide as the machine that this is compiled for: wider vectors are emulated, slowly.
#if defined(__AVX512F__)
inline constexpr int lanes = 16;
#elif defined(__AVX__)
inline constexpr int lanes = 8;
#else
inline constexpr int lanes = 4;
#endif
typedef float vector_of_floats __attribute__((vector_size(lanes * sizeof(float)), aligned(4), may_alias));

// Four rows of d by Vectors vectors of columns stay in registers along the whole of k.
template <int Vectors>
inline void multiply_strip(float* d, int ldd, const float* a, int lda, const float* b, int ldb, int k) {
    vector_of_floats sum[4][Vectors];
    for (int i = 0; i < 4; i++)
        for (int v = 0; v < Vectors; v++)
            sum[i][v] = *reinterpret_cast<const vector_of_floats*>(d + i * ldd + v * lanes);
    for (int l = 0; l < k; l++)
        for (int v = 0; v < Vectors; v++) {
            const vector_of_floats line = *reinterpret_cast<const vector_of_floats*>(b + l * ldb + v * lanes);
            for (int i = 0; i < 4; i++) sum[i][v] += a[i * lda + l] * line;
        }
    for (int i = 0; i < 4; i++)
        for (int v = 0; v < Vectors; v++) *reinterpret_cast<vector_of_floats*>(d + i * ldd + v * lanes) = sum[i][v];
}

// m is a multiple of 4 and n of 16.
__attribute__((noinline)) inline void multiply_add(float* d, int ldd, const float* a, int lda, const float* b, int ldb,
                                                   int m, int n, int k) {
    constexpr int wide = lanes == 16 ? 4 : 2;
    for (int col = 0; col < n;) {
        const bool full = col + wide * lanes <= n;
        for (int row = 0; row < m; row += 4) {
            float* target = d + row * ldd + col;
            if (full) multiply_strip<wide>(target, ldd, a + row * lda, lda, b + col, ldb, k);
            else multiply_strip<1>(target, ldd, a + row * lda, lda, b + col, ldb, k);
        }
        col += full ? wide * lanes : lanes;
    }
}

// Room for one operand as floats, kept by the thread.
inline float* scratch(int which, size_t floats) {
    static thread_local std::vector<float> room[2];
    if (room[which].size() < floats) room[which].resize(floats);
    return room[which].data();
}

}  // namespace kittens::cpu

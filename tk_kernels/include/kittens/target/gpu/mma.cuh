// GPU targets: matrix multiplies by a warp (mma.sync).
//
// mma_AB   D += A B        A rows x K, B K x cols
// mma_ABt  D += A B^T                  B cols x K
// mma_AtB  D += A^T B      A K x rows
// mma_AtBt D += A^T B^T
// mm_*     the same without the old D.
#pragma once

#include "kittens/target/gpu/registers.cuh"

namespace kittens {

template <typename T>
kittens_device void mma_m16n8k16(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    if constexpr (std::is_same_v<T, bf16>)
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, "
            "%1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
            "%2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// A and B as they lie: a transposed operand is one of the other layout, whose fragments are then the same registers.
template <bool TransA, bool TransB, register_tile Acc, register_tile A, register_tile B>
kittens_device void mma_warp(Acc& d, const A& a, const B& b) {
    using T = typename A::T;
    constexpr int m = TransA ? A::cols : A::rows, k = TransA ? A::rows : A::cols, n = TransB ? B::rows : B::cols;
    static_assert(std::is_same_v<typename Acc::T, float> && Acc::order == layout::row,
                  "mma: the accumulator is fp32 in row layout");
    static_assert(sizeof(T) == 2 && std::is_same_v<T, typename B::T>, "mma: A and B must both be bf16 or both fp16");
    static_assert(Acc::rows == m && Acc::cols == n && (TransB ? B::cols : B::rows) == k, "mma: shapes do not match");
    static_assert(A::order == (TransA ? layout::col : layout::row),
                  "mma: A must be in row layout, or in col layout when transposed; use swap_layout");
    static_assert(B::order == (TransB ? layout::row : layout::col),
                  "mma: B must be in col layout, or in row layout when transposed; use swap_layout");
#pragma unroll
    for (int i = 0; i < m / 16; i++)
#pragma unroll
        for (int j = 0; j < n / 16; j++)
#pragma unroll
            for (int l = 0; l < k / 16; l++) {
                uint32_t fa[4], fb[4];
#pragma unroll
                for (int p = 0; p < 4; p++) {
                    // Fragment p of A is (row half p % 2, k half p / 2): a col-layout tile's pieces come in that order,
                    // transposed.
                    fa[p] = TransA ? packed(&a.data[l][8 * i + 2 * p]) : packed(&a.data[i][8 * l + 2 * p]);
                    fb[p] = TransB ? packed(&b.data[j][8 * l + 2 * p]) : packed(&b.data[l][8 * j + 2 * p]);
                }
                mma_m16n8k16<T>(&d.data[i][8 * j], fa, fb[0], fb[2]);
                mma_m16n8k16<T>(&d.data[i][8 * j + 4], fa, fb[1], fb[3]);
            }
}

template <register_tile D> kittens_device void clear(D& d) {
    each([](int, int, auto& x) { x = from_float<typename D::T>(0.f); }, d);
}

template <register_tile D, register_tile A, register_tile B> kittens_device void mma_AB(D& d, const A& a, const B& b,
                                                                                        site = kittens_here) {
    mma_warp<false, false>(d, a, b);
}
template <register_tile D, register_tile A, register_tile B> kittens_device void mma_ABt(D& d, const A& a, const B& b,
                                                                                         site = kittens_here) {
    mma_warp<false, true>(d, a, b);
}
template <register_tile D, register_tile A, register_tile B> kittens_device void mma_AtB(D& d, const A& a, const B& b,
                                                                                         site = kittens_here) {
    mma_warp<true, false>(d, a, b);
}
template <register_tile D, register_tile A, register_tile B> kittens_device void mma_AtBt(D& d, const A& a, const B& b,
                                                                                          site = kittens_here) {
    mma_warp<true, true>(d, a, b);
}
template <register_tile D, register_tile A, register_tile B> kittens_device void mm_AB(D& d, const A& a, const B& b,
                                                                                       site = kittens_here) {
    clear(d);
    mma_warp<false, false>(d, a, b);
}
template <register_tile D, register_tile A, register_tile B> kittens_device void mm_ABt(D& d, const A& a, const B& b,
                                                                                        site = kittens_here) {
    clear(d);
    mma_warp<false, true>(d, a, b);
}
template <register_tile D, register_tile A, register_tile B> kittens_device void mm_AtB(D& d, const A& a, const B& b,
                                                                                        site = kittens_here) {
    clear(d);
    mma_warp<true, false>(d, a, b);
}
template <register_tile D, register_tile A, register_tile B> kittens_device void mm_AtBt(D& d, const A& a, const B& b,
                                                                                         site = kittens_here) {
    clear(d);
    mma_warp<true, true>(d, a, b);
}

}  // namespace kittens

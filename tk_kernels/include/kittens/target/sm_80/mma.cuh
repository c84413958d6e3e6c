// sm_80: matrix multiplies by a warpgroup: each of its warps multiplies its own rows, at once.
#pragma once

#include "kittens/target/gpu/memory.cuh"
#include "kittens/target/gpu/mma.cuh"

namespace kittens {
namespace warpgroup {

template <bool TransA, bool TransB, int Sign = 1, register_tile D, typename A, shared_tile B>
kittens_device void issue(D& d, const A& a, const B& b, int accumulate, const char* /*op*/, site) {
    constexpr int m = is_rt<A> ? 4 * A::rows : TransA ? A::cols : A::rows;
    static_assert(4 * D::rows == m,
                  "mma: shapes do not match; at warpgroup scope each warp holds a quarter of D's rows");
    static_assert(m % 64 == 0, "mma: a warpgroup's A has a multiple of 64 rows");
    static_assert(sizeof(typename B::T) == 2, "mma: this target multiplies bf16 and fp16; 8 bits need another");
    if (!accumulate) zero(d);
    multiply_shared<warpgroup_rows, TransA, TransB, Sign>(d, a, b);
}

// A multiply has ended when it returns.
template <int Pending = 0> kittens_device void mma_wait(site = kittens_here) {}
template <int Pending = 0, register_tile... Tiles>
    requires(sizeof...(Tiles) > 0)
kittens_device void mma_wait(Tiles&...) {}

}  // namespace warpgroup
}  // namespace kittens

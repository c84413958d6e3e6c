// sm_80: matrix multiplies by a warpgroup: each of its warps multiplies its own rows, at once.
#pragma once

#include "kittens/target/gpu/memory.cuh"
#include "kittens/target/gpu/mma.cuh"

namespace kittens {
namespace warpgroup {

template <bool TransA, bool TransB, int Sign = 1, register_tile D, typename A, shared_tile B>
kittens_device void issue(D& d, const A& a, const B& b, int accumulate, const char* /*op*/, site) {
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

// sm_90a: the shared memory of the other blocks of a cluster.
#pragma once

#include "kittens/target/gpu/memory.cuh"

namespace kittens {

// The tile that lies where `src` does, in block `rank` of the cluster. After sync_cluster; that block may not end, nor
// write the tile again, before another.
template <register_tile Dst, shared_tile Src>
kittens_device void load_from(Dst& dst, const Src& src, int rank, site = kittens_here) {
    static_assert(std::is_same_v<typename Src::T, float> && std::is_same_v<typename Dst::T, float> &&
                      Dst::order == layout::row && Src::rows == Dst::rows && Src::cols == Dst::cols,
                  "load_from: fp32 tiles of one shape, in row layout");
    uint32_t there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(src.data)), "r"(rank));
#pragma unroll
    for (int i = 0; i < Dst::height; i++)
#pragma unroll
        for (int j = 0; j < Dst::width; j++)
#pragma unroll
            for (int e = 0; e < 8; e += 2) {
                const uint32_t at = shared_address(element_pair<Src, Dst>(src.data, 16 * i, j, e));
                float* to = &dst.data[i][8 * j + e];
                asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
                             : "=f"(to[0]), "=f"(to[1])
                             : "r"(there + (at - shared_address(src.data)))
                             : "memory");
            }
}

}  // namespace kittens

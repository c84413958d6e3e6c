// sm_90a: matrix multiplies by a warpgroup (wgmma, asynchronous); the names are those of a warp's.
#pragma once

#include "kittens/target/gpu/mma.cuh"
#include "kittens/target/sm_90a/sync.cuh"
#include "kittens/target/sm_90a/wgmma_generated.cuh"

namespace kittens {

// --- warpgroup ------------------------------------------------------------------------------------------------
namespace warpgroup {

// Matrix descriptor (PTX, "wgmma matrix descriptor") of what lies `offset` bytes into a tile: address, leading and
// stride byte offsets in 16-byte units, swizzle mode. In a cluster the shared address of block rank r carries r << 24;
// the mask keeps it out of the next field. The tile's part is the same for all of its slices: a slice costs one
// addition.
template <shared_tile Tile>
kittens_device uint64_t descriptor(const Tile& tile, int offset, int leading_bytes, int stride_bytes) {
    constexpr uint32_t swizzle = Tile::chunk_bytes == 128 ? 1 : Tile::chunk_bytes == 64 ? 2 : 3;
    const uint32_t first = (shared_address(tile.data) & 0x3FFFF) >> 4 | uint32_t(leading_bytes >> 4) << 16;
    return uint64_t(first + (offset >> 4)) | uint64_t(uint32_t(stride_bytes >> 4) | swizzle << 30) << 32;
}

// Slice k, 32 bytes deep, of an operand whose M (or N) runs along the tile's rows: K is contiguous. `row` is its first
// row.
template <shared_tile Tile> kittens_device uint64_t k_major(const Tile& tile, int row, int k) {
    return descriptor(tile, Tile::offset(row, 32 / int(sizeof(typename Tile::T)) * k), 16, 8 * Tile::chunk_bytes);
}
// The same, 16-deep, where M (or N) runs along the tile's columns: M is contiguous, from column `col` on.
template <shared_tile Tile> kittens_device uint64_t mn_major(const Tile& tile, int col, int k) {
    return descriptor(tile, Tile::offset(16 * k, col), Tile::chunk_stride, 8 * Tile::chunk_bytes);
}

// The compiler may neither move uses of an accumulator across an asynchronous multiply's issue and wait nor keep
// copies.
template <register_tile Tile> kittens_device void pin(Tile& tile) {
#pragma unroll
    for (int i = 0; i < Tile::height; i++)
#pragma unroll
        for (int e = 0; e < 8 * Tile::width; e++) asm volatile("" : "+f"(tile.data[i][e])::"memory");
}

template <bool TransA, bool TransB, int Sign = 1, register_tile D, typename A, shared_tile B>
kittens_device void issue(D& d, const A& a, const B& b, int accumulate, const char* /*op*/, site) {
    using T = typename B::T;
    constexpr bool a_in_registers = is_rt<A>;
    constexpr int m = a_in_registers ? 4 * A::rows : TransA ? A::cols : A::rows;
    constexpr int k = TransA ? A::rows : A::cols, n = TransB ? B::rows : B::cols;
    constexpr int depth = std::is_same_v<T, e4m3> ? 32 : 16;  // of K in one instruction
    pin(d);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int i = 0; i < m / 64; i++)
#pragma unroll
        for (int l = 0; l < k / depth; l++) {
            const uint64_t slice_b = TransB ? k_major(b, 0, l) : mn_major(b, 0, l);
            const int keep = l == 0 ? accumulate : 1;
            if constexpr (a_in_registers) {
                wgmma<T, n>::template rs<!TransB, Sign>(d.data[i], packed(&a.data[i][8 * l]),
                                                        packed(&a.data[i][8 * l + 2]), packed(&a.data[i][8 * l + 4]),
                                                        packed(&a.data[i][8 * l + 6]), slice_b, keep);
            } else {
                const uint64_t slice_a = TransA ? mn_major(a, 64 * i, l) : k_major(a, 64 * i, l);
                wgmma<T, n>::template ss<TransA, !TransB, Sign>(d.data[i], slice_a, slice_b, keep);
            }
        }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    pin(d);
}

// Waits until at most Pending of this warpgroup's multiplies are in flight. Name the accumulators that are read next.
template <int Pending = 0> kittens_device void mma_wait(site = kittens_here) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
template <int Pending = 0, register_tile... Tiles>
    requires(sizeof...(Tiles) > 0)
kittens_device void mma_wait(Tiles&... tiles) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
    (pin(tiles), ...);
}

}  // namespace warpgroup
}  // namespace kittens

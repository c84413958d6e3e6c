// sm_80: scalars and identities, limits, what other targets have instructions of their own for, tensors.
#pragma once

#include "kittens/target/gpu/scalars.cuh"
#include "kittens/target/sm_80/limits.cuh"

namespace kittens {

// There are no clusters: a block is alone in its own.
kittens_device int cluster_rank() { return 0; }

// One lane of the warp, the same every time.
kittens_device bool elect() { return lane() == 0; }

// Four 8x8 matrices of 16-bit elements to shared memory, each row to an address that one lane gives (matrix p's rows:
// lanes 8 p to 8 p + 7); transposed, its columns. A lane holds two neighbours of a row: it asks for that row's address.
template <bool Transposed> kittens_device void store_matrices(uint32_t to, const uint32_t (&piece)[4]) {
#pragma unroll
    for (int p = 0; p < 4; p++) {
        uint32_t two = piece[p];
        if constexpr (Transposed)
            asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(two) : "r"(piece[p]));
        const uint32_t row = __shfl_sync(0xffffffffu, to, 8 * p + lane() / 4);
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(row + 4 * (lane() % 4)), "r"(two) : "memory");
    }
}

// Copies by the lanes need no description of the tensor, but 16 bytes at a time they need what a tensor map does.
template <typename Tile> struct tensor_map {
    tensor_map(const void* base, const int (&extent)[4], const int64_t (&stride)[3], bool is_matrix) {
        bool accepted = reinterpret_cast<uintptr_t>(base) % 16 == 0;
        for (int dim = is_matrix ? 2 : 0; dim < 3; dim++)
            accepted = accepted && stride[dim] > 0 && stride[dim] * int64_t(sizeof(typename Tile::T)) % 16 == 0;
        for (int dim = is_matrix ? 2 : 0; dim < 4; dim++) accepted = accepted && extent[dim] > 0;
        if (!accepted)
            throw std::invalid_argument(
                "tensor map: the base must be 16-byte aligned, every stride a multiple of 16 bytes and every extent "
                "positive");
    }
};

}  // namespace kittens

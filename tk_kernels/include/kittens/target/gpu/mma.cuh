// GPU targets: matrix multiplies by a warp (mma.sync). B, or A and B, may lie in shared memory: their fragments are
// loaded as they are multiplied.
#pragma once

#include "kittens/target/gpu/memory.cuh"

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
kittens_device void multiply_registers(Acc& d, const A& a, const B& b) {
    using T = typename A::T;
    constexpr int m = Acc::rows, n = Acc::cols, k = TransA ? A::rows : A::cols;
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

// A lane's address of the first base tile of a shared tile, as ldmatrix asks for its four 8x8 matrices: each row by one
// lane, in the order in which an A operand or an accumulator holds them, or transposed.
template <bool Transposed, shared_tile Tile> kittens_device uint32_t matrices_address(const Tile& tile) {
    const int half_a = 8 * (lane() / 8 % 2), half_b = 8 * (lane() / 16);
    return shared_address(tile, lane() % 8 + (Transposed ? half_b : half_a), Transposed ? half_a : half_b);
}
// The same of the base tile at (row, col): the place in a chunk's row is xored, since rows begin at multiples of a
// chunk. Made anew for each use: a tile's addresses, held throughout a loop, take the registers that its sums need.
template <shared_tile Tile> kittens_device uint32_t moved_address(uint32_t first, int row, int col) {
    const uint32_t flip = col % Tile::chunk_cols * int(sizeof(typename Tile::T));
    uint32_t place;
    asm volatile("xor.b32 %0, %1, %2;" : "=r"(place) : "r"(first), "r"(flip));
    return place + row * Tile::chunk_bytes + col / Tile::chunk_cols * Tile::chunk_stride;
}

// Slice l, 16 deep, of a register tile that is an A operand. Of a shared one, the RowMap says which rows (transposed:
// columns) are meant.
template <typename RowMap, bool Trans, int Height, register_tile A>
kittens_device void load_slice(uint32_t (&slice)[Height][4], const A& a, uint32_t, int l) {
#pragma unroll
    for (int i = 0; i < Height; i++)
#pragma unroll
        for (int p = 0; p < 4; p++) slice[i][p] = packed(&a.data[i][8 * l + 2 * p]);
}
template <typename RowMap, bool Trans, int Height, shared_tile A>
kittens_device void load_slice(uint32_t (&slice)[Height][4], const A&, uint32_t first, int l) {
#pragma unroll
    for (int i = 0; i < Height; i++)
        load_matrices<Trans>(
            slice[i], moved_address<A>(first, Trans ? 16 * l : RowMap::base(i), Trans ? RowMap::base(i) : 16 * l));
}

// D += Sign A B, slice by slice of 16 along K: each part of B that is loaded serves all of D's rows.
template <typename RowMap, bool TransA, bool TransB, int Sign, register_tile Acc, typename A, shared_tile B>
kittens_device void multiply_shared(Acc& d, const A& a, const B& b) {
    using T = typename B::T;
    constexpr int k = TransB ? B::cols : B::rows, n = TransB ? B::rows : B::cols;
    uint32_t first_a = 0;
    if constexpr (is_st<A>) first_a = matrices_address<TransA>(a);
    // B's four matrices in another order than A's: what one multiply takes, the two halves along K of eight columns,
    // lands in two registers that follow one another.
    const uint32_t first_b = matrices_address<TransB>(b);
#pragma unroll
    for (int l = 0; l < k / 16; l++) {
        uint32_t fa[Acc::height][4];
        load_slice<RowMap, TransA>(fa, a, first_a, l);
        if constexpr (Sign < 0)
#pragma unroll
            for (int i = 0; i < 4 * Acc::height; i++) fa[i / 4][i % 4] ^= 0x80008000u;
#pragma unroll
        for (int j = 0; j < n / 16; j++) {
            uint32_t fb[4];
            load_matrices<!TransB>(fb, moved_address<B>(first_b, 16 * (TransB ? j : l), 16 * (TransB ? l : j)));
#pragma unroll
            for (int i = 0; i < Acc::height; i++) {
                mma_m16n8k16<T>(&d.data[i][8 * j], fa[i], fb[0], fb[1]);
                mma_m16n8k16<T>(&d.data[i][8 * j + 4], fa[i], fb[2], fb[3]);
            }
        }
    }
}

// A warp's own rows: A has D's.
template <bool TransA, bool TransB, register_tile Acc, typename A, typename B>
kittens_device void multiply(Acc& d, const A& a, const B& b, bool accumulate, const char* /*op*/, site) {
    if (!accumulate) zero(d);
    if constexpr (is_rt<B>) multiply_registers<TransA, TransB>(d, a, b);
    else multiply_shared<warp_rows, TransA, TransB, 1>(d, a, b);
}

}  // namespace kittens

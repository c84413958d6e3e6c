// The host interface of the bf16 GEMM: what binding.cc may call and nothing more.
// It has no tile-library type in it, so that a plain C++ compiler can read it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tk::gemm {

// The largest M, N and K: what is computed from them in 32 bits (a size rounded up to tiles) stays positive.
constexpr std::int64_t largest_size = 1073741823;

// How a problem is run. Zero or negative values of everything but `persistent` and `order` mean
// "choose by shape"; of those two, negative means so.
struct options {
    int stages = 0;       // buffers in the load ring, 1..4
    int persistent = -1;  // 1: one block a SM walks over the tiles; 0: one block a tile
    int order = -1;       // order of the output tiles: 0 super-grouped, 1 row-major, 2 Hilbert
    int tile_m = 0;       // output tile of a block, rows
    int tile_n = 0;       // output tile of a block, columns
    int cluster_m = 0;    // blocks of a cluster along M (they share tiles of B)
    int cluster_n = 0;    // blocks of a cluster along N (they share tiles of A)
    int schedule = 0;  // 1 cooperative: consumers share a tile; 2 ping-pong: they alternate; 3 swapped: C's transpose;
                       // 4 by warps: where there is no copy engine, they load for themselves
    int split = 0;     // swapped: blocks, a cluster, that divide K, 1..8; else clusters that divide the K of a tile of
                       // the last round, at most, 2..8; 1: none are
};

// Memory that a call may use until it has run, so many fp32 numbers of it.
using allocation = std::function<float*(std::int64_t numbers)>;

// What is multiplied, (m, k) by (k, n), and the result. Row-major, unit column stride; lda, ldb, ldo are row strides in
// elements. For the TMA the base addresses and the row strides are multiples of 16 bytes. Rows of `out` are written up
// to the next multiple of 16 bytes: where n is none, the rest must be padding of its own.
struct matrices {
    void* out;
    const void *a, *b;
    std::int64_t m, n, k, lda, ldb, ldo;
    bool behind_copies = false;           // the kernels before it on the stream have made a or b
    const allocation* scratch = nullptr;  // for kernels that divide tiles, of which only the bf16 GEMM has any
};

// out[i, j] = sum over l of a[i, l] * b[l, j]; bf16 in, fp32 sums, bf16 out.
// `stream` is a cudaStream_t (ignored by the cpu target).
// Throws std::invalid_argument for options or problems (sizes above largest_size, more tiles than that) that no kernel
// is built for.
void launch(const matrices&, const options&, void* stream);
// Which wait of a divided kernel never ended; empty where all have.
std::string stalled();

}  // namespace tk::gemm

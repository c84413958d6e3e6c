// Sums in fp32 that many blocks add to, of matrices that are rounded once all have: gradients, parts of a long product.
// A row of the tensor holds a strip of 16 rows, as tiles of 16 x 64 that are packed (in the order of their registers):
// a warp adds 4 KB that follow one another: by `store_packed` to shared memory and `store_add_async`, or `add_packed`.
#pragma once

#include "rows.cuh"

namespace kittens {

using sum_tile = rt_fl<16, 64>;
template <int Cols> using packed_sums = gl<float, dynamic, dynamic, dynamic, 16 * Cols>;  // (batch, head, strip, tiles)

// A strip before the first addition. strip.c is 0.
template <int Cols> kittens_device void clear_strip(const packed_sums<Cols>& sums, coord strip,
                                                    site where = kittens_here) {
    sum_tile zeros;
    zero(zeros);
    for (; strip.c < Cols / sum_tile::cols; strip.c++) store_packed(sums, zeros, strip, where);
}

// After the last: the sums, scaled, as a matrix. It starts early, behind the kernel that adds. Bound by memory: four or
// more blocks of 64 rows share a multiprocessor.
template <int Cols> struct round_sums_kernel {
    static constexpr int warps = warpgroup_warps, cluster_blocks = 1, blocks_per_sm = 4;
    static constexpr bool starts_early = true;
    static constexpr int tiles = Cols / sum_tile::cols;
    using strip = st_bf<16, Cols>;
    static constexpr int shared_bytes = warps * int(sizeof(strip));
    struct globals {
        packed_sums<Cols> sums;
        heads_of<strip> rounded;
        float scale;
        row_grid grid;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        strip& out = memory.allocate<strip>("out", warps)[warp_index()];
        const auto [batch, head, block] = g.grid.at(block_index());
        const int at = warps * block + warp_index();
        sum_tile x[tiles];
        wait_previous_kernel();
#pragma unroll
        for (int c = 0; c < tiles; c++) load_packed(x[c], g.sums, coord{batch, head, at, c});
#pragma unroll
        for (int c = 0; c < tiles; c++) {
            mul(x[c], x[c], g.scale);
            store(subtile<16, sum_tile::cols>(out, 0, c), x[c]);
        }
        fence_async();
        store_async(g.rounded, out, coord{batch, head, at, 0});
        store_read_wait();
    }
};
// Of a tensor (batch, heads, rows, Cols).
template <int Cols, typename Strided> void round_sums(const packed_sums<Cols>& sums, const Strided& rounded,
                                                      int64_t rows, float scale, void* stream) {
    using kernel = round_sums_kernel<Cols>;
    const int64_t batch = sums.batch(), heads = sums.depth();
    const row_grid grid(heads, rows, 16 * kernel::warps);
    launch_all<kernel>(grid.tasks(batch), stream, {sums, {rounded, batch, heads, rows, Cols}, scale, grid});
}

}  // namespace kittens

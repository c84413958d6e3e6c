// Attention, backward: what its kernels agree on, and what happens to rows of queries before the main kernel.
//
// rows_kernel  delta = row sums of dO o O and lse in base 2, of rows padded to whole steps; zeros for the sums of dQ.
//              Bound by memory: a block of four warps takes 64 rows, four or more of them share a multiprocessor.
#pragma once

#include "heads.cuh"
#include "packed_sums.cuh"

namespace tk::attention {

template <int Dim> inline constexpr int step_queries = 8192 / Dim;  // of keys_kernel
template <int Dim>                                                  // (batch, head, 1, row), rows padded
using padded_values = gl<float, dynamic, dynamic, 1, dynamic, sv_fl<step_queries<Dim>>>;

// What the kernels read that multiply, in tiles of so many queries and keys.
template <int Dim, int Queries, int Keys> struct operands {
    heads_of<st_bf<Queries, Dim>> q, dout;
    heads_of<st_bf<Keys, Dim>> k, v;
    padded_values<Dim> lse, delta;
};

template <int Dim> struct rows_kernel {
    static constexpr int warps = warpgroup_warps, cluster_blocks = 1, blocks_per_sm = 4;
    static constexpr int rows = 64;
    using tile = st_bf<rows, Dim>;
    static constexpr int shared_bytes = 2 * int(sizeof(tile)) + int(sizeof(semaphore));
    struct globals {
        heads_of<tile> out, dout;
        row_values lse;
        padded_values<Dim> lse2, delta;
        packed_sums<Dim> dq;
        bool clear;        // dQ will be summed
        task_queue queue;  // of the kernel that follows
        row_grid grid;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        tile* in = memory.allocate<tile>("in", 2);
        semaphore& loaded = *memory.allocate<semaphore>("loaded");
        const auto [batch, head, block] = g.grid.at(block_index());
        const int row = block * rows + 16 * warp_in_group();
        start_next_kernel();
        if (block_index() == 0 && warp_index() == 0) g.queue.clear();
        if (warp_index() == 0) init(loaded, 1);
        sync_start();
        if (warp_index() == 0) {
            const loading phase(loaded, 2 * tile::bytes);
            load_async(in[0], g.out, coord{batch, head, block, 0}, loaded);
            load_async(in[1], g.dout, coord{batch, head, block, 0}, loaded);
        }
        if (g.clear) clear_strip<Dim>(g.dq, {batch, head, row / 16, 0});
        // Rows that see nothing and rows beyond the last have P = exp2(S - infinity) = 0.
        rows_vec lse, delta;
        load(lse, g.lse, element_coord{batch, head, 0, row});
        each([&](int i, float& x) { x = row + i < g.lse.cols() && x > -INFINITY ? x * log2_e : INFINITY; }, lse);
        store(g.lse2, lse, element_coord{batch, head, 0, row});

        rt_bf<16, Dim> o, dout;
        rt_fl<16, Dim> product;
        wait(loaded, 0);
        warpgroup::load(o, in[0]);
        warpgroup::load(dout, in[1]);
        mul(product, o, dout);
        row_sum(delta, product);
        store(g.delta, delta, element_coord{batch, head, 0, row});
    }
};

}  // namespace tk::attention

// Attention, backward: what happens to rows of queries before and after the main kernel. Bound by memory: a block of four
// warps takes 64 rows, four or more of them share a multiprocessor.
//
// rows_kernel   before: delta = row sums of dO o O and lse in base 2, of rows padded to whole steps; zeros for the sums of dQ
// round_kernel  after: dQ in bf16 from its fp32 sums, scaled
#pragma once

#include "heads.cuh"

namespace tk::attention {

inline constexpr float log2e = 1.4426950408889634f;

// What the kernels of the backward pass agree on, for one head dim.
template <int Dim> struct backward_tiles {
    static constexpr int queries = 8192 / Dim;  // of a step
    static constexpr int keys = 128;
    using strip = st_bf<16, Dim>;    // a warp's own rows, of what it stores
    using sum_tile = rt_fl<16, 64>;  // of the sums of dQ
    using row_vector = sv_fl<queries>;
    using row_values_of = gl<float, dynamic, dynamic, 1, dynamic, row_vector>;  // (batch, head, 1, row), rows padded
    // The sums of dQ, packed: 16 queries a row.
    using sums = gl<float, dynamic, dynamic, dynamic, 16 * Dim>;
};

// Which 64 rows of which head a block takes.
struct row_grid {
    divisor heads, row_blocks;

    struct place {
        int batch, head, block;
    };
    kittens_device place at(int index) const {
        const int head = row_blocks.divide(index), batch = heads.divide(head);
        return {batch, head - batch * heads.value, index - head * row_blocks.value};
    }
};

template <int Dim> struct rows_kernel {
    static constexpr int warps = warpgroup_warps, cluster_blocks = 1, blocks_per_sm = 4;
    static constexpr int rows = 64;
    using tiles = backward_tiles<Dim>;
    using tile = st_bf<rows, Dim>;
    static constexpr int shared_bytes = 2 * int(sizeof(tile)) + int(sizeof(semaphore));
    struct globals {
        heads_of<tile> out, dout;
        row_values lse;
        typename tiles::row_values_of lse2, delta;
        typename tiles::sums dq;
        bool clear;  // dQ will be summed
        row_grid grid;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        tile* in = memory.allocate<tile>("in", 2);
        semaphore& loaded = *memory.allocate<semaphore>("loaded");
        const auto [batch, head, block] = g.grid.at(block_index());
        const int row = block * rows + 16 * warp_in_group();
        if (warp_index() == 0) init(loaded, 1);
        sync_start();
        if (warp_index() == 0) {
            expect_bytes(loaded, 2 * tile::bytes);
            load_async(in[0], g.out, coord{batch, head, block, 0}, loaded);
            load_async(in[1], g.dout, coord{batch, head, block, 0}, loaded);
        }
        if (g.clear) {
            typename tiles::sum_tile zeros;
            zero(zeros);
            for (int c = 0; c < Dim / 64; c++) store_packed(g.dq, zeros, coord{batch, head, row / 16, c});
        }
        // Rows that see nothing and rows beyond the last have P = exp2(S - infinity) = 0.
        rt_fl<16, 16>::col_vec lse, delta;
        load(lse, g.lse, element_coord{batch, head, 0, row});
        each([&](int i, float& x) { x = row + i < g.lse.cols() && x > -INFINITY ? x * log2e : INFINITY; }, lse);
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

template <int Dim> struct round_kernel {
    static constexpr int warps = warpgroup_warps, cluster_blocks = 1, blocks_per_sm = 4;
    static constexpr int rows = 64;
    using tiles = backward_tiles<Dim>;
    using strip = typename tiles::strip;
    static constexpr int shared_bytes = warps * int(sizeof(strip));
    struct globals {
        typename tiles::sums sum;
        heads_of<strip> dq;
        float scale;
        row_grid grid;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        strip& out = memory.allocate<strip>("out", warps)[warp_index()];
        const auto [batch, head, block] = g.grid.at(block_index());
        const int at = 4 * block + warp_index();
        typename tiles::sum_tile dq[Dim / 64];
#pragma unroll
        for (int c = 0; c < Dim / 64; c++) load_packed(dq[c], g.sum, coord{batch, head, at, c});
#pragma unroll
        for (int c = 0; c < Dim / 64; c++) {
            mul(dq[c], dq[c], g.scale);
            store(subtile<16, 64>(out, 0, c), dq[c]);
        }
        fence_async();
        store_async(g.dq, out, coord{batch, head, at, 0});
        store_read_wait();
    }
};

}  // namespace tk::attention

// Attention, forward, for GPUs without a copy engine: four warps that copy, multiply and take exponentials themselves
// (cp.async, ldmatrix, mma.sync), as in FlashAttention-2 (Dao 2023); by online softmax, in base 2.
//
// A block takes 128 rows of queries, 32 a warp, and walks over the keys from the last that any of its rows sees to the
// first. There is one buffer of keys and one of values: values arrive under the multiply of the scores, the next keys
// under softmax and P V, and a second block on the multiprocessor fills the tensor cores meanwhile. A fragment of keys
// or values that is loaded serves 32 rows; with 16 the kernel would be bound by shared memory.
//
// shared memory  Q 128 x dim, K and V `Keys` x dim each: 48 KB at dim 64 with 128 keys and at dim 128 with 32, 64 KB
//                at dim 128 with 64
// registers      S Keys, O dim a thread, both fp32: two blocks have all of a multiprocessor's
// any number of rows and keys: tails are zeros on load, masked in S, clipped on store
#pragma once

#include "heads.cuh"

namespace tk::attention {

template <int Dim, int Keys> struct warps_kernel {
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 2;
    static constexpr int warp_rows = 32, rows = warps * warp_rows;

    using strip = st_bf<warp_rows, Dim>;  // a warp's queries, then its results
    using tile = st_bf<Keys, Dim>;
    template <typename Tile> using tensor_of = gl<bf16, dynamic, dynamic, dynamic, Dim, Tile>;
    struct globals {
        tensor_of<strip> q;
        tensor_of<tile> k, v;
        tensor_of<strip> o;
        row_values lse;
        float scale;  // of the scores, with log2(e)
        seen_keys visible;
        divisor row_blocks, heads, group;  // of a head; of queries; those that share a key head
    };
    static constexpr int shared_bytes = warps * int(sizeof(strip)) + 2 * int(sizeof(tile));

    struct place {
        int batch, head, first;  // of the block's rows
    };
    // A head's blocks of rows come from either end in turn: neighbours are as long as any two.
    kittens_device static place own_place(const globals& g) {
        int nth, head;
        const int batch = g.heads.divide(g.row_blocks.divide(block_index(), nth), head);
        return {batch, head, rows * (nth % 2 == 0 ? g.row_blocks.value - 1 - nth / 2 : nth / 2)};
    }

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        strip& q = memory.allocate<strip>("q", warps)[warp_index()];
        tile& k = *memory.allocate<tile>("k");
        tile& v = *memory.allocate<tile>("v");
        rt_fl<warp_rows, Keys> scores;
        rt_bf<warp_rows, Keys> weights;
        rt_fl<warp_rows, Dim> o;
        online_softmax<warp_rows> state;
        typename rt_fl<warp_rows, Dim>::col_vec shrink, factor, lse;
        const auto [batch, head, first] = own_place(g);
        const int head_kv = g.group.divide(head);
        const int row = first + warp_rows * warp_index();
        const int last = first + rows < g.q.rows() ? first + rows : g.q.rows();
        const int blocks = g.visible.tiles_before(last, Keys);
        const int seen = g.visible.tiles_before(row + warp_rows, Keys);  // what comes later this warp's rows do not see
        const int begin = g.visible.first_tile(first, Keys), own_begin = g.visible.first_tile(row, Keys);
        zero(o);
        group<1>::copy_async(q, g.q, element_coord{batch, head, row, 0});
        if (blocks > 0) group<warps>::copy_async(k, g.k, coord{batch, head_kv, blocks - 1, 0});
        copy_commit();
        for (int block = blocks - 1; block >= begin; block--) {
            copy_wait();
            sync_block();  // the keys are there, and all warps are done with the values before
            group<warps>::copy_async(v, g.v, coord{batch, head_kv, block, 0});
            copy_commit();
            if (g.visible.within(block, own_begin, seen)) mm_ABt(scores, q, k);
            copy_wait();
            sync_block();  // the values are there, and all warps are done with the keys
            if (block > begin) group<warps>::copy_async(k, g.k, coord{batch, head_kv, block - 1, 0});
            copy_commit();
            if (!g.visible.within(block, own_begin, seen)) continue;
            g.visible.hide(scores, row, block * Keys);
            if (state.step(scores, shrink, g.scale)) mul_row(o, o, shrink);
            copy(weights, scores);
            mma_AB(o, weights, v);
        }
        copy_wait();  // of the queries, where they see no key
        state.finish(factor, lse);
        mul_row(o, o, factor);
        store_through(g.o, o, q, element_coord{batch, head, row, 0});
        store(g.lse, lse, element_coord{batch, head, 0, row});
        store_read_wait();
    }
};

}  // namespace tk::attention

// Attention, backward, for GPUs without a copy engine: four warps that copy and multiply themselves, as the forward
// kernel of attention_warps does. With P = exp(scale Q K^T - lse), as ../attention/backward.cuh explains:
//   dV = P^T dO     dS = P o (dO V^T - delta)     dK = scale dS^T Q     dQ = scale dS K
//
// keys_by_warps     a block has 64 keys of one head of keys, 16 a warp, and walks over the queries that see them; S^T
//                   and dS^T are in registers, and dS^T in shared memory too, for a warp's 16 rows of dQ, which are
//                   added to the sums
// queries_by_warps  where results must repeat: a block has 64 queries, 16 a warp, and walks over the keys
//
// There is one buffer of each operand. The next dO arrives under dK and dQ, the next Q under dQ.
//
// shared memory  keys: K, V, Q, dO 64 x dim, dS 8 KB, dQ 16 KB: 57 KB at dim 64, 89 KB at dim 128; queries: 64 KB
// registers      dK and dV dim; S and dP 64, as bf16 32; dQ 32 a thread, not all at a time
// any number of rows and keys: tails are zeros on load, P = 0 where nothing is seen, clipped on store
#pragma once

#include "../attention/backward_rows.cuh"

namespace tk::attention {

using query_values = gl<float, dynamic, dynamic, 1, dynamic, sv_fl<64>>;  // (batch, head, 1, row), rows padded

template <int Dim, bool SumsDq> struct keys_by_warps {
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 1;
    static constexpr int queries = 64, keys = 64;
    using tile = st_bf<64, Dim>;
    using strip = st_bf<16, Dim>;
    using sums = sv_fl<sum_tile::rows * sum_tile::cols>;
    using values = sv_fl<queries>;
    using ds_of_warp = st_bf<keys, 16>;  // of the 16 queries whose dQ a warp computes, transposed
    struct globals {
        heads_of<tile> q, dout, k, v;
        query_values lse, delta;
        packed_sums<Dim> dq;
        heads_of<strip> dk, dv;
        float scale;
        visible_keys visible;
        divisor key_blocks, heads_kv;
        int group, query_blocks;  // query heads that share a key head; blocks of a head's queries
    };
    static constexpr int shared_bytes =
        4 * int(sizeof(tile)) + 2 * int(sizeof(values)) + (SumsDq ? warps * int(sizeof(ds_of_warp) + sizeof(sums)) : 0);

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        tile& k = *memory.allocate<tile>("k");
        tile& v = *memory.allocate<tile>("v");
        tile& q = *memory.allocate<tile>("q");
        tile& dout = *memory.allocate<tile>("dout");
        ds_of_warp* shared_ds = nullptr;
        sums* sent = nullptr;  // a warp's own
        if constexpr (SumsDq) shared_ds = memory.allocate<ds_of_warp>("ds", warps);
        if constexpr (SumsDq) sent = memory.allocate<sums>("dq", warps) + warp_index();
        values* per_query = memory.allocate<values>("lse and delta", 2);
        int block, head_kv;  // the first keys are seen by the most queries: they come first
        const int batch = g.heads_kv.divide(g.key_blocks.divide(block_index(), block), head_kv);
        const int key = block * keys, own_key = key + 16 * warp_index();
        const int first = g.visible.causal && key > g.visible.offset ? (key - g.visible.offset) / queries : 0;
        const int blocks = g.query_blocks - first, steps = g.group * blocks;
        auto& own_k = subtile<16, Dim>(k, warp_index(), 0);
        auto& own_v = subtile<16, Dim>(v, warp_index(), 0);
        const auto place = [&](int step) {
            return coord{batch, head_kv * g.group + step / blocks, first + step % blocks, 0};
        };
        const auto load_dout = [&](int step) {
            const coord at = place(step);
            group<warps>::copy_async(dout, g.dout, at);
            if (warp_index() == 0) group<1>::copy_async(per_query[0], g.lse, element_coord{at.b, at.d, 0, 64 * at.r});
            if (warp_index() == 1) group<1>::copy_async(per_query[1], g.delta, element_coord{at.b, at.d, 0, 64 * at.r});
        };

        rt_fl<16, queries> p, ds;
        rt_bf<16, queries> p_bf, ds_bf;
        rt_fl<16, Dim> dk, dv;
        typename rt_fl<16, queries>::row_vec of_query;
        zero(dk), zero(dv);
        group<warps>::copy_async(k, g.k, coord{batch, head_kv, block, 0});
        group<warps>::copy_async(v, g.v, coord{batch, head_kv, block, 0});
        if (steps > 0) group<warps>::copy_async(q, g.q, place(0)), load_dout(0);
        copy_commit();
        const float scale = g.scale * log2_e;
        for (int step = 0; step < steps; step++) {
            const coord at = place(step);
            copy_wait();
            sync_block();  // this step's operands are there, and all warps are done with the last dS
            mm_ABt(p, own_k, q);
            load(of_query, per_query[0]);
            map_cols(p, p, of_query, [=](float x, float lse) { return x * scale - lse; });
            exp2(p, p);
            g.visible.template hide_transposed<keys>(p, at.r * queries, key, own_key, 0.f);
            mm_ABt(ds, own_v, dout);
            load(of_query, per_query[1]);
            sub_col(ds, ds, of_query);
            mul(ds, ds, p);
            copy(p_bf, p);
            copy(ds_bf, ds);
            if constexpr (SumsDq) share_ds(shared_ds, ds_bf);
            mma_AB(dv, p_bf, dout);
            sync_block();  // dS is there, and all warps are done with dO
            if (step + 1 < steps) load_dout(step + 1);
            mma_AB(dk, ds_bf, q);
            sync_block();  // all warps are done with Q
            if (step + 1 < steps) group<warps>::copy_async(q, g.q, place(step + 1));
            copy_commit();
            if constexpr (SumsDq) add_dq(g, at, shared_ds[warp_index()], k, *sent);
        }
        copy_wait();  // of K and V, where no query sees them
        sync_block();
        mul(dk, dk, g.scale);
        store_through(g.dv, dv, own_v, element_coord{batch, head_kv, own_key, 0});
        store_through(g.dk, dk, own_k, element_coord{batch, head_kv, own_key, 0});
        store_read_wait();
    }

    // This warp's 16 keys of dS, to those that need them.
    kittens_device static void share_ds(ds_of_warp* of_warps, const rt_bf<16, queries>& ds) {
#pragma unroll
        for (int i = 0; i < warps; i++) {
            rt_bf<16, 16> slice;
            part(slice, ds, 0, i);
            store(subtile<16, 16>(of_warps[i], warp_index(), 0), slice);
        }
    }

    // This warp's 16 rows of dS K, added to the sums.
    kittens_device static void add_dq(const globals& g, coord at, ds_of_warp& ds, tile& k, sums& sent) {
        const int row = at.r * queries / 16 + warp_index();
#pragma unroll
        for (int column = 0; column < Dim / sum_tile::cols; column++) {
            sum_tile dq;
            mm_AtB(dq, ds, subtile<keys, sum_tile::cols>(k, 0, column));
            store_read_wait();  // the addition before has left
            store_packed(sent, dq);
            fence_async();
            store_add_async(g.dq, sent, coord{at.b, at.d, row, column});
        }
    }
};

template <int Dim> struct queries_by_warps {
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 1;
    static constexpr int queries = 64, keys = 64;
    using tile = st_bf<64, Dim>;
    using strip = st_bf<16, Dim>;
    struct globals {
        heads_of<tile> q, dout, k, v;
        query_values lse, delta;
        heads_of<strip> dq;
        float scale;
        visible_keys visible;
        row_grid grid;
        int group;
    };
    static constexpr int shared_bytes = 4 * int(sizeof(tile));

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        tile& q = *memory.allocate<tile>("q");
        tile& dout = *memory.allocate<tile>("dout");
        tile& k = *memory.allocate<tile>("k");
        tile& v = *memory.allocate<tile>("v");
        const auto [batch, head, block] = g.grid.at(block_index());
        const int head_kv = head / g.group, first = block * queries, row = first + 16 * warp_index();
        const int last = first + queries < g.q.rows() ? first + queries : g.q.rows();
        const int blocks = g.visible.tiles_before(last, keys);
        auto& own_q = subtile<16, Dim>(q, warp_index(), 0);
        auto& own_dout = subtile<16, Dim>(dout, warp_index(), 0);
        rt_fl<16, keys> p, ds;
        rt_bf<16, keys> ds_bf;
        rt_fl<16, Dim> dq;
        rows_vec lse, delta;
        load(lse, g.lse, element_coord{batch, head, 0, row});
        load(delta, g.delta, element_coord{batch, head, 0, row});
        zero(dq);
        group<warps>::copy_async(q, g.q, coord{batch, head, block, 0});
        group<warps>::copy_async(dout, g.dout, coord{batch, head, block, 0});
        const float scale = g.scale * log2_e;
        for (int step = 0; step < blocks; step++) {
            group<warps>::copy_async(k, g.k, coord{batch, head_kv, step, 0});
            group<warps>::copy_async(v, g.v, coord{batch, head_kv, step, 0});
            copy_commit();
            copy_wait();
            sync_block();  // the keys and values are there
            mm_ABt(p, own_q, k);
            map_rows(p, p, lse, [=](float x, float l) { return math::exp2(x * scale - l); });
            g.visible.hide(p, row, step * keys, 0.f);
            mm_ABt(ds, own_dout, v);
            sub_row(ds, ds, delta);
            mul(ds, ds, p);
            copy(ds_bf, ds);
            mma_AB(dq, ds_bf, k);
            sync_block();  // all warps are done with them
        }
        copy_commit();
        copy_wait();  // of the queries, where they see no key
        sync_block();
        mul(dq, dq, g.scale);
        store_through(g.dq, dq, own_q, element_coord{batch, head, row, 0});
        store_read_wait();
    }
};

}  // namespace tk::attention

// Attention, backward, for GPUs without a copy engine: four warps that copy and multiply themselves, as the forward
// kernel of attention_warps does. With P = exp(scale Q K^T - lse), as backward.cuh explains:
//   dV = P^T dO     dS = P o (dO V^T - delta)     dK = scale dS^T Q     dQ = scale dS K
//
// keys_by_warps     a block has 128 keys of one head of keys (64 at dim 128), 32 a warp (or a pair of warps), and walks
//                   over the queries that see them; S^T and dS^T are in registers, and dS^T in shared memory too, for a
//                   warp's 64 columns of dQ, of 16 queries (32 at dim 128), which are added to the sums from registers
// queries_by_warps  where results must repeat: a block has 64 queries, 16 a warp, and walks over the keys
//
// There is one buffer of each operand. The next Q and dO arrive under dQ.
//
// shared memory  keys: K, V keys x dim, Q, dO 64 x dim, dS 128 bytes a key, at dim 128 P, too: 65 KB at dim 64, 81 KB
//                at 128; queries: 64 KB
// registers      dK and dV 128, at either dim; S and dP 64, of 32 queries; as bf16 16; dQ 32 a thread
//                (64 at dim 128), not all at a time
// any number of rows and keys: tails are zeros on load, P = 0 where nothing is seen, clipped on store
#pragma once

#include "backward_rows.cuh"

namespace tk::attention {

using query_values = gl<float, dynamic, dynamic, 1, dynamic, sv_fl<64>, sv_fl<32>>;  // (batch, head, 1, row), padded

template <int Dim, bool SumsDq> struct keys_by_warps {
    static constexpr int warps = 4, cluster_blocks = 1, blocks_per_sm = 1;
    // A fragment of Q or dO serves 32 keys. Their scores with half of the queries, and 64 columns of dK and dV, fill a
    // warp's registers. At dim 128 two warps share the keys: each has half of the queries, then half of the columns.
    static constexpr int columns = 64, sharing = Dim / columns;
    static constexpr int own_keys = 32, keys = warps / sharing * own_keys;
    static constexpr int queries = 64, together = 32, parts = queries / together;
    using query_tile = st_bf<queries, Dim>;
    using key_tile = st_bf<keys, Dim>;
    using strip = st_bf<own_keys, columns>;
    using values = sv_fl<together>;
    // A warp computes 64 columns of dQ, of so many queries; their dS is shared, transposed.
    static constexpr int own_queries = 16 * sharing;
    using scores = st_bf<keys, own_queries>;
    static constexpr int score_tiles = queries / own_queries;
    static constexpr bool shares_p = sharing > 1, shares_ds = SumsDq || shares_p;
    struct globals {
        heads_of<query_tile> q, dout;
        heads_of<key_tile> k, v;
        query_values lse, delta;
        packed_sums<Dim> dq;
        heads_of<strip> dk, dv;
        float scale;
        seen_keys visible;
        divisor key_blocks, heads_kv;
        int group, query_blocks;  // query heads that share a key head; blocks of a head's queries
    };
    static constexpr int shared_bytes = 2 * int(sizeof(query_tile) + sizeof(key_tile)) +
                                        2 * parts * int(sizeof(values)) +
                                        (shares_p + shares_ds) * score_tiles * int(sizeof(scores));

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        key_tile& k = *memory.allocate<key_tile>("k");
        key_tile& v = *memory.allocate<key_tile>("v");
        query_tile& q = *memory.allocate<query_tile>("q");
        query_tile& dout = *memory.allocate<query_tile>("dout");
        scores *shared_p = nullptr, *shared_ds = nullptr;
        if constexpr (shares_p) shared_p = memory.allocate<scores>("p", score_tiles);
        if constexpr (shares_ds) shared_ds = memory.allocate<scores>("ds", score_tiles);
        values* lse = memory.allocate<values>("lse", parts);
        values* delta = memory.allocate<values>("delta", parts);
        int block, head_kv;  // the first keys are seen by the most queries: they come first
        const int batch = uniform(g.heads_kv.divide(g.key_blocks.divide(block_index(), block), head_kv));
        const int own = warp_index() / sharing, half = warp_index() % sharing;  // of the keys; of queries and columns
        const int key = block * keys, own_key = key + own_keys * own;
        const int first = g.visible.causal && key > g.visible.offset ? (key - g.visible.offset) / queries : 0;
        auto& own_k = subtile<own_keys, Dim>(k, own, 0);
        auto& own_v = subtile<own_keys, Dim>(v, own, 0);
        const int end_head = first < g.query_blocks ? (head_kv + 1) * g.group : 0;
        const auto load_queries = [&](coord at) {
            if (at.d >= end_head) return;
            group<warps>::copy_async(q, g.q, at);
            group<warps>::copy_async(dout, g.dout, at);
            for (int i = 0; i < parts; i++) {
                const element_coord values_at{at.b, at.d, 0, queries * at.r + together * i};
                if (warp_index() == 0) group<1>::copy_async(lse[i], g.lse, values_at);
                if (warp_index() == 1) group<1>::copy_async(delta[i], g.delta, values_at);
            }
        };

        rt_fl<own_keys, columns> dk, dv;
        zero(dk), zero(dv);
        group<warps>::copy_async(k, g.k, coord{batch, head_kv, block, 0});
        group<warps>::copy_async(v, g.v, coord{batch, head_kv, block, 0});
        coord at{batch, head_kv * g.group, first, 0};
        load_queries(at);
        copy_commit();
        const float scale = g.scale * log2_e;
        while (at.d < end_head) {
            copy_wait();
            sync_block();  // this step's operands are there, and all warps are done with the last dS
#pragma unroll 1
            for (int i = half; i < parts; i += sharing) {
                rt_fl<own_keys, together> p, ds;
                rt_bf<own_keys, together> rounded;
                typename rt_fl<own_keys, together>::row_vec of_query;
                mm_ABt(p, own_k, subtile<together, Dim>(q, i, 0));
                load(of_query, lse[i]);
                map_cols(p, p, of_query, [=](float x, float lse) { return x * scale - lse; });
                exp2(p, p);
                g.visible.template hide_transposed<keys>(p, at.r * queries + together * i, key, own_key, 0.f);
                mm_ABt(ds, own_v, subtile<together, Dim>(dout, i, 0));
                load(of_query, delta[i]);
                sub_col(ds, ds, of_query);
                mul(ds, ds, p);
                copy(rounded, p);
                if constexpr (shares_p) share(shared_p, i, own, rounded);
                mma_AB(dv, rounded, subtile<together, columns>(dout, i, half));
                copy(rounded, ds);
                if constexpr (shares_ds) share(shared_ds, i, own, rounded);
                mma_AB(dk, rounded, subtile<together, columns>(q, i, half));
            }
            if constexpr (shares_p) {
                sync_named(1 + own, sharing);  // P and dS of these keys are there
                const int other = 1 - half;
                auto& p = subtile<own_keys, together>(shared_p[other], own, 0);
                auto& ds = subtile<own_keys, together>(shared_ds[other], own, 0);
                mma_AB(dv, p, subtile<together, columns>(dout, other, half));
                mma_AB(dk, ds, subtile<together, columns>(q, other, half));
            }
            sync_block();  // dS is there, and all warps are done with Q and dO
            const coord done = at;
            if (++at.r == g.visible.queries_before(key + keys, queries, g.query_blocks)) at.r = first, at.d++;
            load_queries(at);
            copy_commit();
            if constexpr (SumsDq) add_dq(g, done, shared_ds[warp_index() / sharing], k);
        }
        copy_wait();  // of K and V, where no query sees them
        sync_block();
        mul(dk, dk, g.scale);
        const element_coord to{batch, head_kv, own_key, columns * half};
        store_through(g.dv, dv, subtile<own_keys, columns>(v, own, half), to);
        store_through(g.dk, dk, subtile<own_keys, columns>(k, own, half), to);
        store_read_wait();
    }

    // P or dS of this warp's keys with the i-th part of the queries, to those that need it.
    kittens_device static void share(scores* shared, int i, int own, const rt_bf<own_keys, together>& x) {
#pragma unroll
        for (int j = 0; j < together / own_queries; j++) {
            rt_bf<own_keys, own_queries> slice;
            part(slice, x, 0, j);
            store(subtile<own_keys, own_queries>(shared[together / own_queries * i + j], own, 0), slice);
        }
    }

    // This warp's part of dS K, added to the sums.
    kittens_device static void add_dq(const globals& g, coord at, scores& ds, key_tile& k) {
        const int strip = (at.r * queries + warp_index() / sharing * own_queries) / 16, column = warp_index() % sharing;
        rt_fl<own_queries, columns> dq;
        mm_AtB(dq, ds, subtile<keys, columns>(k, 0, column));
#pragma unroll
        for (int i = 0; i < sharing; i++) {
            sum_tile rows;
            part(rows, dq, i, 0);
            add_packed(g.dq, rows, coord{at.b, at.d, strip + i, column});
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
        seen_keys visible;
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
        for (int step = g.visible.first_tile(first, keys); step < blocks; step++) {
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

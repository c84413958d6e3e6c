// Attention, forward: O = softmax(scale Q K^T) V and the logarithm of each row's sum, by online softmax (Milakov and
// Gimelshein 2018; Dao et al. 2022), in base 2.
//
// A block takes 64 rows of queries a consumer warpgroup and walks over the keys, 128 at a time, from the last that any
// of its rows sees to the first, so that only its first steps meet the mask. A consumer's step: scores S = Q K^T from
// shared memory; P = exp2(S - running maximum), rounded to bf16 in registers; O += P V with P from registers. The
// multiply of the next step's scores is issued before this step's P V, and the consumers issue in turn, so that the
// exponentials of one run under the multiplies of the other and of its own.
//
// The maximum follows a row's scores lazily (kittens/ops/softmax.cuh), so that O is rarely rescaled; README.md has the
// cost.
//
// shared memory  Q: rows x dim, a ring of `stages` tiles of 128 keys or values, O: rows x dim (224 KB at dim 128)
// registers      S 64, O dim / 2, P 32, at dim 128 also Q 32 a thread
// any number of rows and keys: tails are zeros on load, masked in S, clipped on store
#pragma once

#include "heads.cuh"

namespace tk::attention {

struct config {
    int dim, keys, consumers, stages;
    bool hold_queries;  // in registers, where there is room for them: less to read from shared memory
};

// What the two kernels know, in their tiles.
template <typename QTile, typename KTile, typename OTile> struct forward_globals {
    heads_of<QTile> q;
    heads_of<KTile> k, v;
    heads_of<OTile> o;
    row_values lse;
    float scale;  // of the scores, with log2(e)
    visible_keys visible;
    row_schedule order;
    divisor heads, group;  // query heads; those that share a key head
};
struct row_block {
    int batch, head, head_kv, row, end;  // first row, and the one after the last
};
template <int Rows, typename Globals>
kittens_device void find(row_block& t, const Globals& g, const row_schedule::place& at) {
    t.batch = g.heads.divide(at.head, t.head);
    t.head_kv = g.group.divide(t.head);
    t.row = at.row_block * Rows;
    t.end = t.row + Rows < g.q.rows() ? t.row + Rows : g.q.rows();
}

template <config C> struct forward_kernel {
    static constexpr int consumers = C.consumers, consumer_registers = limits::consumer_registers(32, consumers);
    static constexpr int rows = 64 * consumers;

    using tile = st_bf<C.keys, C.dim>;
    using resident = st_bf<rows, C.dim>;
    using strip = st_bf<16, C.dim>;
    using output = per_warp<strip>;
    static constexpr int stages =
        limits::stages(C.stages, sizeof(tile),
                       sizeof(resident) + consumers * (sizeof(output) + sizeof(semaphore)) + 2 * sizeof(semaphore));
    using globals = forward_globals<resident, tile, strip>;
    struct task : row_block {
        int blocks, steps;  // of keys; tiles of keys and of values
    };

    kittens_device static void prefetch(const globals& g) { prefetch_maps(g.q, g.k, g.v, g.o); }

    kittens_device static bool get_task(task& t, const globals& g, int i) {
        row_schedule::place at;
        if (!g.order.at(at, block_index(), block_count(), i)) return false;
        find<rows>(t, g, at);
        t.blocks = t.row < t.end ? g.visible.tiles_before(t.end, C.keys) : 0;
        t.steps = 2 * t.blocks;
        return true;
    }

    kittens_device static void load_resident(resident& q, const task& t, semaphore& full, const globals& g) {
        load_async(q, g.q, element_coord{t.batch, t.head, t.row, 0}, full);
    }

    // In the order in which they are used: the scores of a block of keys come before the values of the block before.
    // K0 K1 V0 K2 V1 ... Vlast, where block 0 holds the last keys.
    kittens_device static void load(tile& into, const task& t, int step, semaphore& full, const globals& g) {
        const bool value = step > 0 && (step % 2 == 0 || step == t.steps - 1);
        const int block = value ? (step - 1) / 2 : (step + 1) / 2;
        load_async(into, value ? g.v : g.k, coord{t.batch, t.head_kv, t.blocks - 1 - block, 0}, full);
    }

    // Blocks of keys at the end, one at most, that a consumer's rows do not see while later rows of the task do. Where
    // a task has no more rows than a block has keys, there are few.
    kittens_device static int hidden_blocks(int consumer, const task& t, const globals& g) {
        if constexpr (rows <= C.keys) return 0;
        const int own = t.row + 64 * (consumer + 1), end = own < g.q.rows() ? own : g.q.rows();
        const int blocks = (g.visible.before(end) + C.keys - 1) / C.keys;
        return 0 < blocks && blocks < t.blocks ? t.blocks - blocks : 0;  // a task may have no blocks at all
    }

    template <typename Stream>
    kittens_device static void consume(Stream& s, output& out, const task& t, const globals& g) {
        rt_fl<16, C.keys> scores;
        rt_bf<16, C.keys> weights;
        rt_fl<16, C.dim> o;
        online_softmax state;
        rows_vec shrink;
        const int row = t.row + 64 * s.consumer + 16 * warp_in_group();
        auto& shared_q = subtile<64, C.dim>(s.hold(), s.consumer, 0);
        rt_bf<16, C.dim> own_q;
        if constexpr (C.hold_queries) {
            warpgroup::load(own_q, shared_q);
            s.release_held();
        }
        auto& q = std::get<C.hold_queries>(std::tie(shared_q, own_q));

        zero(o);
        const int first = t.blocks - 1 - hidden_blocks(s.consumer, t, g);
        if (t.blocks > 0) {
            const bool skips = first < t.blocks - 1;
            if (skips) s.take(), s.skip_turn(), s.release();  // keys that later rows alone see
            tile& k = s.take();
            s.in_turn();
            warpgroup::mm_ABt(scores, q, k);
            if (skips) s.take();  // their values, while the scores are multiplied
            s.pass_turn();
            warpgroup::mma_wait(scores);
            s.release();
            if (skips) s.release();
            g.visible.hide(scores, row, first * C.keys);
            state.step(scores, shrink, g.scale);
            copy(weights, scores);
        }
        for (int block = first - 1; block >= 0; block--) {
            tile& k = s.take();
            s.in_turn();
            warpgroup::mm_ABt(scores, q, k);
            warpgroup::mma_AB(o, weights, s.take());
            s.pass_turn();
            warpgroup::mma_wait<1>(scores);
            s.release();  // the keys
            g.visible.hide(scores, row, block * C.keys);
            const bool moved = state.step(scores, shrink, g.scale);
            warpgroup::mma_wait(o);
            s.release();  // the values of the block before
            if (moved) mul_row(o, o, shrink);
            copy(weights, scores);
        }
        if constexpr (!C.hold_queries) s.release_held();
        rows_vec factor, lse;
        if (t.blocks > 0) warpgroup::mma_AB(o, weights, s.take());
        state.finish(factor, lse);
        warpgroup::mma_wait(o);
        if (t.blocks > 0) s.release();
        mul_row(o, o, factor);
        store_through(g.o, o, out.own(), element_coord{t.batch, t.head, row, 0});
        store(g.lse, lse, element_coord{t.batch, t.head, 0, row});
    }
};

// The same without a pipeline, for the occupancy figure: a block of four warps loads a tile of keys and one of values,
// waits, computes, waits; what hides the waiting is that several blocks share a multiprocessor.
template <int Dim> struct synchronous_kernel {
    static constexpr int warps = warpgroup_warps, cluster_blocks = 1;
    static constexpr int blocks_per_sm = 4;  // at most: what the registers allow
    static constexpr int rows = 64, keys = 64;
    using tile = st_bf<keys, Dim>;
    static constexpr int shared_bytes = 3 * int(sizeof(tile)) + 2 * int(sizeof(semaphore));
    using globals = forward_globals<tile, tile, tile>;

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        tile& q = *memory.allocate<tile>("q");
        tile& k = *memory.allocate<tile>("k");
        tile& v = *memory.allocate<tile>("v");
        semaphore* loaded = memory.allocate<semaphore>("loaded");
        if (warp_index() == 0) init(*loaded, 1);
        sync_start();

        row_schedule::place at;
        row_block t;
        g.order.at(at, block_index(), block_count(), 0);
        find<rows>(t, g, at);
        const int row = t.row + 16 * warp_in_group();
        rt_fl<16, keys> scores;
        rt_bf<16, keys> weights;
        rt_fl<16, Dim> o;
        online_softmax state;
        rows_vec shrink, factor, lse;
        zero(o);
        int parity = 0;
        for (int block = g.visible.tiles_before(t.end, keys) - 1, i = 0; block >= 0; block--, i++, parity ^= 1) {
            if (warp_index() == 0) {
                const loading phase(*loaded, (i == 0 ? 3 : 2) * tile::bytes);
                if (i == 0) load_async(q, g.q, element_coord{t.batch, t.head, t.row, 0}, *loaded);
                load_async(k, g.k, coord{t.batch, t.head_kv, block, 0}, *loaded);
                load_async(v, g.v, coord{t.batch, t.head_kv, block, 0}, *loaded);
            }
            wait(*loaded, parity);
            warpgroup::mm_ABt(scores, q, k);
            warpgroup::mma_wait(scores);
            g.visible.hide(scores, row, block * keys);
            if (state.step(scores, shrink, g.scale)) mul_row(o, o, shrink);
            copy(weights, scores);
            warpgroup::mma_AB(o, weights, v);
            warpgroup::mma_wait(o);
            sync_block();  // k and v are free
        }
        state.finish(factor, lse);
        mul_row(o, o, factor);
        warpgroup::store(q, o);
        fence_async();
        sync_block();
        if (warp_index() == 0) {
            store_async(g.o, q, element_coord{t.batch, t.head, t.row, 0});
            store_read_wait();
        }
        store(g.lse, lse, element_coord{t.batch, t.head, 0, row});
    }
};

}  // namespace tk::attention

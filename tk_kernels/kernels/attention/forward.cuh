// Attention, forward: O = softmax(scale Q K^T) V and the logarithm of each row's sum, by online softmax (Milakov and
// Gimelshein 2018; Dao et al. 2022), in base 2.
//
// A task is 64 rows of queries for each consumer warpgroup of a block, and all keys that they see, 128 at a time, from
// the last to the first, so that only the first steps meet the mask. A consumer's step: scores S = Q K^T; P = exp2(S -
// running maximum), rounded to bf16 in registers; O += P V with P from registers. The multiply of the next step's
// scores is issued before this step's P V, across the borders of tasks too, and the consumers issue in turn, so that
// the exponentials of one run under the multiplies of the other and of its own.
//
// The maximum follows a row's scores lazily (kittens/ops/softmax.cuh), so that O is rarely rescaled. Tasks come from a
// queue, the longest of a band of heads first; README.md has the cost.
//
// shared memory  Q: rows x dim, at dim 64 twice; a ring of `stages` tiles of 128 keys or values; O: rows x dim
// registers      S 64, O dim / 2, P 32, with two consumers also Q dim / 4 a thread
// any number of rows and keys: tails are zeros on load, masked in S, clipped on store
#pragma once

#include "heads.cuh"
#include "lcf_flow.cuh"
#include "rows.cuh"

namespace tk::attention {

struct config {
    int dim, keys, consumers, stages;
    bool hold_queries = false;  // in registers, where there is room for them: less to read from shared memory
};

// What the two kernels know, in their tiles.
template <typename QTile, typename KTile, typename OTile> struct forward_globals {
    heads_of<QTile> q;
    heads_of<KTile> k, v;
    heads_of<OTile> o;
    row_values lse;
    float scale;  // of the scores, with log2(e)
    seen_keys visible;
    row_bands order;
    divisor heads, group;  // query heads; those that share a key head
    task_queue queue;
};
struct row_block {
    int batch, head, head_kv, row, end;  // first row, and the one after the last
};
template <int Rows, typename Globals>
kittens_device void find(row_block& t, const Globals& g, const row_bands::place& at) {
    t.batch = g.heads.divide(at.head, t.head);
    t.head_kv = g.group.divide(t.head);
    t.row = at.row_block * Rows;
    t.end = t.row + Rows < g.q.rows() ? t.row + Rows : g.q.rows();
}

template <config C> struct forward_kernel {
    static constexpr int consumers = C.consumers, consumer_registers = limits::consumer_registers(32, consumers);
    static constexpr int rows = 64 * consumers;
    static constexpr bool starts_early = true;  // after the kernel that clears the queue

    using tile = st_bf<C.keys, C.dim>;
    using resident = st_bf<rows, C.dim>;
    using strip = st_bf<16, C.dim>;
    using output = per_warp<strip>;
    static constexpr int residents = C.hold_queries ? 1 : 2;
    static constexpr int stages =
        limits::stages(C.stages, sizeof(tile),
                       residents * (sizeof(resident) + 2 * sizeof(semaphore)) + consumers * sizeof(output) + 128);
    using globals = forward_globals<resident, tile, strip>;
    struct task : row_block {
        int blocks, steps;  // the block after the last of keys; tiles of keys and of values
    };

    kittens_device static void prefetch(const globals& g) { prefetch_maps(g.q, g.k, g.v, g.o); }

    kittens_device static void get_task(task& t, const globals& g, int number) {
        find<rows>(t, g, g.order.at(number));
        t.blocks = g.visible.tiles_before(t.end, C.keys);
        t.steps = 2 * (t.blocks - g.visible.first_tile(t.row, C.keys));
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

    // Whether a consumer's rows see nothing of the last block of keys, which later rows of the task do see. Where a
    // task has no more rows than a block has keys, few are in vain.
    kittens_device static bool skips_block(int consumer, const task& t, const globals& g) {
        if constexpr (rows <= C.keys) return false;
        const int own = t.row + 64 * (consumer + 1), end = own < g.q.rows() ? own : g.q.rows();
        const int blocks = (g.visible.before(end) + C.keys - 1) / C.keys;
        return uniform(blocks < t.blocks);
    }

    // A consumer's 64 rows of its block's tasks, in one warp's share.
    template <typename Flow> struct own_rows {
        Flow& f;
        output& out;
        const globals& g;
        rt_fl<16, C.keys> scores;
        rt_bf<16, C.keys> weights;  // of the newest block whose values are still to be multiplied
        rt_fl<16, C.dim> o;
        rt_bf<16, C.dim> own_q;
        online_softmax<> state;
        rows_vec shrink;

        kittens_device own_rows(Flow& f_, output& out_, const globals& g_) : f(f_), out(out_), g(g_) {}

        kittens_device int first_row(const task& t) const { return t.row + 64 * f.group + 16 * warp_in_group(); }

        kittens_device void take_queries() {
            auto& q = f.hold();
            if constexpr (C.hold_queries) {
                warpgroup::load(own_q, subtile<64, C.dim>(q, f.group, 0));
                f.release_held();
            }
        }
        kittens_device void multiply_scores(tile& k) {
            if constexpr (C.hold_queries) warpgroup::mm_ABt(scores, own_q, k);
            else warpgroup::mm_ABt(scores, subtile<64, C.dim>(f.held(), f.group, 0), k);
        }

        // The first scores of a task, multiplied together with the last weights of the task `before` where there is
        // one, which this ends. Returns the block of keys.
        template <bool Flows> kittens_device int begin(const task& t, const task& before) {
            take_queries();
            const bool skips = skips_block(f.group, t, g);
            const int block = t.blocks - (skips ? 2 : 1);
            typename Flow::template border<Flows> border(f, skips);
            f.in_turn();
            multiply_scores(border.first);
            if constexpr (Flows) warpgroup::mma_AB(o, weights, border.last());
            border.pass_turn();
            warpgroup::mma_wait<Flows ? 1 : 0>(scores);
            border.release_first();
            g.visible.hide(scores, first_row(t), block * C.keys);
            online_softmax fresh;
            fresh.step(scores, shrink, g.scale);
            if constexpr (Flows) {
                rows_vec factor, lse;
                state.finish(factor, lse);
                warpgroup::mma_wait(o);
                border.release_last();
                copy(weights, scores);
                put(before, factor, lse);
            } else {
                copy(weights, scores);
            }
            zero(o);
            state = fresh;
            border.skip_third();
            return block;
        }

        template <bool Masked> kittens_device void step(const task& t, int block) {
            tile& k = f.take_in_turn();
            f.in_turn();
            multiply_scores(k);
            warpgroup::mma_AB(o, weights, f.take_in_turn());
            f.pass_turn();
            warpgroup::mma_wait<1>(scores);
            f.release();  // the keys
            if constexpr (Masked) g.visible.hide(scores, first_row(t), block * C.keys);
            const bool moved = state.step(scores, shrink, g.scale);
            warpgroup::mma_wait(o);
            f.release();  // the values of the block before
            if (moved) mul_row(o, o, shrink);
            copy(weights, scores);
        }

        // The last multiply of the last task.
        kittens_device void end(const task& t) {
            rows_vec factor, lse;
            warpgroup::mma_AB(o, weights, f.take());
            state.finish(factor, lse);
            warpgroup::mma_wait(o);
            f.release();
            put(t, factor, lse);
        }

        kittens_device void put(const task& t, const rows_vec& factor, const rows_vec& lse) {
            mul_row(o, o, factor);
            store_through(g.o, o, out.own(), element_coord{t.batch, t.head, first_row(t), 0});
            store(g.lse, lse, element_coord{t.batch, t.head, 0, first_row(t)});
        }
    };

    template <typename Flow> kittens_device static void consume(Flow& f, output& out, const globals& g) {
        own_rows<Flow> own(f, out, g);
        task t, next;
        if (!f.next(t)) return;
        int block = own.template begin<false>(t, t);
        while (true) {
            const int seen_whole = g.visible.before(t.row + 64 * f.group + 1) / C.keys;  // blocks
            for (block--; block >= seen_whole; block--) own.template step<true>(t, block);
            const int first_whole = g.visible.first_whole(t.row + 64 * f.group + 63, C.keys);
            for (; block >= first_whole; block--) own.template step<false>(t, block);
            if constexpr (windowed)
                for (const int first = g.visible.first_tile(t.row, C.keys); block >= first; block--)
                    own.template step<true>(t, block);
            if constexpr (!C.hold_queries) f.release_held();
            if (!f.next(next)) break;
            block = own.template begin<true>(next, t);
            t = next;
        }
        own.end(t);
    }
};

// Rows that see no key: zeros, and the logarithm of nothing. Bound by memory.
template <int Dim> struct empty_rows_kernel {
    static constexpr int warps = 8, cluster_blocks = 1, blocks_per_sm = 4, shared_bytes = 0;
    static constexpr int rows = 16 * warps;
    struct globals {
        heads_of<> o;
        row_values lse;
        row_grid grid;
    };

    kittens_device static void run(const globals& g) {
        const auto [batch, head, block] = g.grid.at(block_index());
        const element_coord at{batch, head, block * rows + 16 * warp_index(), 0};
        rl<bf16, 16, Dim> zeros;
        rows_vec nothing;
        zero(zeros);
        fill(nothing, -INFINITY);
        store(g.o, zeros, at);
        store(g.lse, nothing, element_coord{batch, head, 0, at.r});
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

        row_block t;
        find<rows>(t, g, g.order.at(block_index()));
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

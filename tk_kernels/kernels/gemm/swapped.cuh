// GEMM for few rows of A: C^T = B^T A^T, and K divided among the blocks of a cluster.
//
// Few rows leave most of a 64-row multiply empty and most multiprocessors without a tile, while all of B has to come
// from memory. Swapped, B's columns are the multiply's 64 rows and A's rows its columns, 16 at the least; and `split`
// blocks, a cluster, each multiply a part of K for the same tile of C. Each leaves its fp32 sums in its shared memory,
// turned back, over the ring that it no longer needs; then each adds up a part of the tile from all of them, always in
// the order of the blocks' ranks: the result depends on the split, and never on timing.
//
// traffic        B once from memory, where C is no more than tile_m high; A once for each tile column, from L2
// shared memory  stages x (tile_m + tile_n) x 128 B, and two units of 512 B a warp: at 16x128 and 6 stages two blocks
//                share a multiprocessor, and one starts or ends while the other loads
// registers      tile_m / 2 for the sums
// any M, N, K: tails as in gemm.cuh
#pragma once

#include "gemm.cuh"

namespace tk::gemm {

template <config C, operation Operation = product> struct swapped_kernel {
    using operand = typename Operation::operand;
    using result = typename Operation::result;
    static constexpr int stages = C.stages;
    static constexpr bool starts_early = true;  // as in gemm.cuh
    static constexpr int consumers = C.tile.n / 64, consumer_warps = consumers * warpgroup_warps;
    static constexpr int warps = consumer_warps + 1;
    static constexpr int cluster_blocks = any_cluster;
    static constexpr int tile_k = 128 / sizeof(operand);
    static constexpr bool transposed_b = Operation::transposed_b;
    static constexpr int unit_cols = 32 / sizeof(result);  // of C, what a warp stores at a time: 32 bytes of a row

    struct input {
        st<operand, C.tile.m, tile_k> a;
        std::conditional_t<transposed_b, st<operand, C.tile.n, tile_k>, st<operand, tile_k, C.tile.n>> b;
    };
    using sums = st_fl<C.tile.m, 16>;  // a warp's
    union room {                       // the ring is empty when the sums are ready
        input stages[C.stages];
        sums parts[consumer_warps];
    };
    using unit = st<result, 16, unit_cols>;
    using inputs = ring<input, stages>;
    static constexpr int shared_bytes =
        int(sizeof(room)) + 2 * consumer_warps * int(sizeof(unit)) + inputs::semaphores * int(sizeof(semaphore));
    static constexpr int blocks_per_sm = shared_bytes <= limits::shared_bytes_of(2) ? 2 : 1;

    struct globals {
        gl<operand, 1, 1, dynamic, dynamic, decltype(input::a)> a;
        gl<operand, 1, 1, dynamic, dynamic, decltype(input::b)> b;
        gl<result, 1, 1, dynamic, dynamic, unit> c;
        divisor tile_rows, split;  // of C; blocks that divide K
        int steps;
        typename Operation::extra extra;
    };
    struct task {
        int m, n, from, to;  // tile of C; steps of K
    };

    kittens_device static task get_task(const globals& g) {
        task t;
        const int rank = cluster_rank(), tile = g.split.divide(block_index());
        t.n = g.tile_rows.divide(tile, t.m);
        t.from = g.split.divide(rank * g.steps), t.to = g.split.divide((rank + 1) * g.steps);
        return t;
    }

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        room& r = *memory.allocate<room>("input");
        unit* out = memory.allocate<unit>("output", 2 * consumer_warps);
        inputs in;
        in.stages = r.stages;
        in.allocate_semaphores(memory, "full", "empty");
        const bool loader = warp_index() == consumer_warps;
        if (loader) {
            prefetch_maps(g.a, g.b, g.c);
            in.init(1, consumer_warps);
        }
        start_pipeline<warps, 1>(loader);
        const task t = get_task(g);
        if (loader) load(in, t, g);
        else multiply(in, r.parts[warp_index()], t);
        sync_cluster();  // all sums are there
        if (!loader) finish(r.parts, out + 2 * warp_index(), t, g);
        sync_cluster();  // and have been read
    }

    kittens_device static void load(inputs& in, const task& t, const globals& g) {
        wait_previous_kernel();
        typename inputs::position at;
#pragma unroll 1
        for (int step = t.from; step < t.to; step++, at.advance()) {
            const auto into = in.fill(at);
            if constexpr (transposed_b) load_async(into.stage.b, g.b, coord{0, 0, t.n, step}, into.full);
            else load_async(into.stage.b, g.b, coord{0, 0, step, t.n}, into.full);
            load_async(into.stage.a, g.a, coord{0, 0, t.m, step}, into.full);
        }
    }

    kittens_device static void multiply(inputs& in, sums& part, const task& t) {
        rt_fl<16, C.tile.m> acc;
        typename inputs::position at;
#pragma unroll 1
        for (int step = t.from; step < t.to; step++, at.advance()) {
            input& now = in.take(at);
            if constexpr (transposed_b)
                warpgroup::mma_ABt(acc, subtile<64, tile_k>(now.b, warpgroup_index(), 0), now.a, step > t.from);
            else warpgroup::mma_AtBt(acc, subtile<tile_k, 64>(now.b, 0, warpgroup_index()), now.a, step > t.from);
            if constexpr (!limits::multiplies_behind) {
                warpgroup::mma_wait<0>();
                in.release(at.stage);
            } else if (step > t.from) {
                warpgroup::mma_wait<1>();
                in.release(at.stage_before());
            }
        }
        warpgroup::mma_wait(acc);
        rt_fl<C.tile.m, 16, layout::col> turned;
        transpose_layout(turned, acc);
        sync_named(1, consumer_warps);  // the other consumers have read their last stage, too
        store(part, turned);
    }

    // Units of 16 rows, taken in turn by the warps of all blocks.
    kittens_device static void finish(sums (&parts)[consumer_warps], unit* out, const task& t, const globals& g) {
        constexpr int across = C.tile.n / unit_cols;
        const int rank = cluster_rank();
        int turn = 0;
#pragma unroll 1
        for (int u = rank * consumer_warps + warp_index(); u < C.tile.m / 16 * across;
             u += g.split.value * consumer_warps) {
            const int i = u / across, j = u % across;
            const element_coord at{0, 0, C.tile.m * t.m + 16 * i, C.tile.n * t.n + unit_cols * j};
            if (at.r >= g.c.rows() || at.c >= g.c.cols()) continue;
            rt_fl<16, unit_cols> whole;
#pragma unroll
            for (int part = 0; part < unit_cols / 16; part++) {
                auto& tile = subtile<16, 16>(parts[unit_cols / 16 * j + part], i, 0);
                rt_fl<16, 16> sum, next;
                zero(sum);
#pragma unroll 2  // two blocks' answers are waited for together
                for (int from = 0; from < g.split.value; from++) {
                    load_from(next, tile, from);
                    add(sum, sum, next);
                }
                place(whole, sum, 0, part);
            }
            Operation::template finish<unit_cols / 2>(whole, g.extra, at);
            store_through<1>(g.c, whole, out[turn], at);
            turn ^= 1;
        }
        store_read_wait();
    }
};

}  // namespace tk::gemm

// load-compute-store-finish: for kernels that write a tile for every tile they read. One warp loads, one stores, the
// other warpgroups compute; the template owns two rings. A kernel K gives
//
//   types      globals; input, output (one stage of each ring); task (has `steps`); state (a consumer's registers)
//   constants  stages; output_stages; consumers (warpgroups); consumer_registers
//   functions  bool get_task(task&, globals, i)
//              load(input&, task, step, semaphore& full, globals)
//              start(state&, task, globals)                               before a task's first step
//              compute(state&, output&, const input&, task, step)        reads one stage, writes one; synchronous
//              store(const output&, task, step, globals)                  issues the asynchronous stores of one stage
//              finish(state&, task, globals)                              after a task's last step
#pragma once

#include "kittens/pipeline/ring.cuh"

namespace kittens {

template <typename K> struct lcsf {
    using globals = typename K::globals;
    using input = typename K::input;
    using output = typename K::output;
    using task = typename K::task;

    static constexpr int cluster_blocks = 1;
    static constexpr int blocks_per_sm = 1;
    static constexpr int warps = warpgroup_warps * (K::consumers + 1);
    static constexpr int computing_warps = warpgroup_warps * K::consumers;
    static constexpr int shared_bytes = K::stages * int(sizeof(input)) + K::output_stages * int(sizeof(output)) +
                                        2 * (K::stages + K::output_stages) * int(sizeof(semaphore));
    static_assert(shared_bytes <= max_shared_bytes,
                  "lcsf: the two rings exceed a block's shared memory; use fewer stages");

    struct shared {
        input* ring;
        output* results;
        semaphore *full, *empty, *result_full, *result_empty;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        shared s;
        s.ring = memory.allocate<input>("input", K::stages);
        s.results = memory.allocate<output>("output", K::output_stages);
        s.full = memory.allocate<semaphore>("full", K::stages);
        s.empty = memory.allocate<semaphore>("empty", K::stages);
        s.result_full = memory.allocate<semaphore>("result_full", K::output_stages);
        s.result_empty = memory.allocate<semaphore>("result_empty", K::output_stages);
        const bool loader = warp_index() == K::consumers * warpgroup_warps;
        if (loader) {
            init(s.full, K::stages, 1);
            init(s.empty, K::stages, computing_warps);
            init(s.result_full, K::output_stages, computing_warps);
            init(s.result_empty, K::output_stages, 1);
        }
        start_pipeline<warps, 1>(loader);
        if (warpgroup_index() == K::consumers) {
            decrease_registers<producer_registers(K::consumers, K::consumer_registers)>();
            if (loader) load_all(s, g);
            else if (warp_in_group() == 1) store_all(s, g);
        } else {
            increase_registers<K::consumer_registers>();
            compute_all(s, g);
        }
    }

    kittens_device static void load_all(shared& s, const globals& g) {
        ring_position<K::stages> at;
        task t;
        for (int i = 0; K::get_task(t, g, i); i++)
            for (int step = 0; step < t.steps; step++, at.advance()) {
                wait(s.empty[at.stage], 1 - at.parity);
                expect_bytes(s.full[at.stage], sizeof(input));
                K::load(s.ring[at.stage], t, step, s.full[at.stage], g);
            }
    }

    kittens_device static void compute_all(shared& s, const globals& g) {
        ring_position<K::stages> in;
        ring_position<K::output_stages> out;
        task t;
        for (int i = 0; K::get_task(t, g, i); i++) {
            typename K::state state;
            K::start(state, t, g);
            for (int step = 0; step < t.steps; step++, in.advance(), out.advance()) {
                wait(s.full[in.stage], in.parity);
                wait(s.result_empty[out.stage], 1 - out.parity);
                K::compute(state, s.results[out.stage], s.ring[in.stage], t, step);
                fence_async();
                arrive(s.result_full[out.stage]);
                arrive(s.empty[in.stage]);
            }
            K::finish(state, t, g);
        }
    }

    kittens_device static void store_all(shared& s, const globals& g) {
        ring_position<K::output_stages> at;
        task t;
        for (int i = 0; K::get_task(t, g, i); i++)
            for (int step = 0; step < t.steps; step++, at.advance()) {
                wait(s.result_full[at.stage], at.parity);
                K::store(s.results[at.stage], t, step, g);
                store_read_wait();
                arrive(s.result_empty[at.stage]);
            }
        store_wait();
    }
};

}  // namespace kittens

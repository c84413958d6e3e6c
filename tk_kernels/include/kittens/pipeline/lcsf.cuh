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
//
// A kernel whose multiplies are in flight from one step to the next gives, instead of state, start, compute and finish,
//
//              consume(stream&, task, globals)    takes every stage of the input and gives each back, in order; asks for
//                                                 a stage of the output for each step and hands it over
//
// and may have a `preparation`, a type: `preparing_warps` (1 or 2) other warps then write to each stage what no copy engine
// brings, each its own part,
//
//              fetch(preparation&, task, step, part, globals)            starts ordinary loads, a step ahead
//              prepare(const preparation&, input&, task, step, part, globals)
//
// and may have a `workspace` (the consumers' own shared memory: stream::own), `blocks_per_sm` (1 unless given) and, where it
// writes no tiles, output_stages = 0 and no `output`.
#pragma once

#include "kittens/pipeline/lcf.cuh"

namespace kittens {

// What a kernel may leave out.
struct no_workspace {};
template <typename K> struct workspace_of {
    using type = no_workspace;
    static constexpr int bytes = 0;
};
template <typename K>
    requires requires { typename K::workspace; }
struct workspace_of<K> {
    using type = typename K::workspace;
    static constexpr int bytes = int(sizeof(type));
};
struct no_output {};
template <typename K> struct output_of {
    using type = no_output;
};
template <typename K>
    requires requires { typename K::output; }
struct output_of<K> {
    using type = typename K::output;
};
template <typename K> constexpr int preparing_warps_of() {
    if constexpr (requires { typename K::preparation; }) return K::preparing_warps;
    else return 0;
}
template <typename K> constexpr int blocks_per_sm_of() {
    if constexpr (requires { K::blocks_per_sm; }) return K::blocks_per_sm;
    else return 1;
}

template <typename K> struct lcsf {
    using globals = typename K::globals;
    using input = typename K::input;
    using output = typename output_of<K>::type;
    using task = typename K::task;
    using workspace = typename workspace_of<K>::type;
    static constexpr int preparing_warps = preparing_warps_of<K>();
    static_assert(preparing_warps <= 2, "lcsf: two warps are free to prepare");

    static constexpr int cluster_blocks = 1;
    static constexpr int blocks_per_sm = blocks_per_sm_of<K>();
    static constexpr int warps = warpgroup_warps * (K::consumers + 1);
    static constexpr int computing_warps = warpgroup_warps * K::consumers;
    static constexpr int output_stages = K::output_stages > 0 ? K::output_stages : 1;  // of the arrays: never empty
    static constexpr int shared_bytes = K::stages * int(sizeof(input)) + K::output_stages * int(sizeof(output)) +
                                        workspace_of<K>::bytes +
                                        2 * (K::stages + K::output_stages) * int(sizeof(semaphore));
    static_assert(shared_bytes <= (max_shared_bytes + 1024) / blocks_per_sm - 1024,  // each block costs 1 KB more
                  "lcsf: the two rings exceed a block's shared memory; use fewer stages");
    static_assert(producer_registers(K::consumers, K::consumer_registers, blocks_per_sm) >= 24,
                  "lcsf: the consumers ask for more registers than the block has");

    struct shared {
        input* ring;
        output* results;
        workspace* own;
        semaphore *full, *empty, *result_full, *result_empty;
    };

    // A consumer's view of the two rings.
    struct stream {
        shared& s;
        ring_position<K::stages> next, oldest;  // to take, to give back
        ring_position<output_stages> out;

        kittens_device explicit stream(shared& s_) : s(s_) {}

        kittens_device workspace& own() { return *s.own; }

        kittens_device input& take() {
            wait(s.full[next.stage], next.parity);
            input& taken = s.ring[next.stage];
            next.advance();
            return taken;
        }
        // The stage that was taken first of those not yet given back.
        kittens_device void release() {
            arrive(s.empty[oldest.stage]);
            oldest.advance();
        }
        // The stage of the output to write next, and that it is written.
        kittens_device output& ask() {
            wait(s.result_empty[out.stage], 1 - out.parity);
            return s.results[out.stage];
        }
        kittens_device void hand_over() {
            fence_async();
            arrive(s.result_full[out.stage]);
            out.advance();
        }
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        shared s;
        s.ring = memory.allocate<input>("input", K::stages);
        if constexpr (K::output_stages > 0) s.results = memory.allocate<output>("output", K::output_stages);
        if constexpr (workspace_of<K>::bytes > 0) s.own = memory.allocate<workspace>("workspace");
        s.full = memory.allocate<semaphore>("full", K::stages);
        s.empty = memory.allocate<semaphore>("empty", K::stages);
        if constexpr (K::output_stages > 0) {
            s.result_full = memory.allocate<semaphore>("result_full", K::output_stages);
            s.result_empty = memory.allocate<semaphore>("result_empty", K::output_stages);
        }
        const bool loader = warp_index() == K::consumers * warpgroup_warps;
        if (loader) {
            init(s.full, K::stages, 1 + preparing_warps);
            init(s.empty, K::stages, computing_warps);
            if constexpr (K::output_stages > 0) {
                init(s.result_full, K::output_stages, computing_warps);
                init(s.result_empty, K::output_stages, 1);
            }
        }
        start_pipeline<warps, 1>(loader);
        if (warpgroup_index() == K::consumers) {
            decrease_registers<producer_registers(K::consumers, K::consumer_registers, blocks_per_sm)>();
            if (loader) load_all(s, g);
            else if (K::output_stages > 0 && warp_in_group() == 1) store_all(s, g);
            else if (warp_in_group() >= 2 && warp_in_group() < 2 + preparing_warps) prepare_all(s, g);
        } else {
            increase_registers<K::consumer_registers>();
            if constexpr (requires { typename K::state; }) compute_all(s, g);
            else consume_all(s, g);
        }
    }

    kittens_device static void load_all(shared& s, const globals& g) {
        ring_position<K::stages> at;
        task t;
        for (int i = 0; K::get_task(t, g, i); i++)
            for (int step = 0; step < t.steps; step++, at.advance()) {
                wait(s.empty[at.stage], 1 - at.parity);
                expect_bytes(s.full[at.stage], loaded_bytes<input>());
                K::load(s.ring[at.stage], t, step, s.full[at.stage], g);
            }
    }

    kittens_device static void prepare_all(shared& s, const globals& g) {
        if constexpr (preparing_warps > 0) {
            const int part = warp_in_group() - 2;
            ring_position<K::stages> at;
            typename K::preparation now, ahead;
            task t;
            for (int i = 0; K::get_task(t, g, i); i++) {
                K::fetch(ahead, t, 0, part, g);
                for (int step = 0; step < t.steps; step++, at.advance()) {
                    now = ahead;
                    if (step + 1 < t.steps) K::fetch(ahead, t, step + 1, part, g);
                    wait(s.empty[at.stage], 1 - at.parity);
                    K::prepare(now, s.ring[at.stage], t, step, part, g);
                    arrive(s.full[at.stage]);
                }
            }
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

    kittens_device static void consume_all(shared& s, const globals& g) {
        stream tiles(s);
        task t;
        for (int i = 0; K::get_task(t, g, i); i++) K::consume(tiles, t, g);
    }

    kittens_device static void store_all(shared& s, const globals& g) {
        if constexpr (K::output_stages > 0) {
            ring_position<output_stages> at;
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
    }
};

}  // namespace kittens

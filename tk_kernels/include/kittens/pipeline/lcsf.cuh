// load-compute-store-finish: for kernels that write a tile for every tile they read, with multiplies in flight from one
// step to the next. One warp loads, one stores, the other warpgroups compute; the template owns two rings. A kernel K,
// derived from lcsf_defaults, gives
//
//   types      globals; input, output (one stage of each ring); task (has `steps`)
//   constants  stages; output_stages; consumers (warpgroups); consumer_registers
//   functions  bool get_task(task&, globals, i)                    the i-th task of this block; false: no more
//              load(input&, task, step, semaphore& full, globals)
//              consume(stream&, task, globals)                     takes every stage of the input and releases each, in
//                                                                  order; asks for a stage of the output for each step
//                                                                  and hands it over
//              store(const output&, task, step, globals)           issues the asynchronous stores of one stage
//
// Without output_stages there is no output and nothing is stored. A kernel may have a `workspace`, the consumers' own
// shared memory (stream::own), and a `preparation`: `preparing_warps` (1 or 2) other warps then write to each stage
// what no copy engine brings, each its own part,
//
//              fetch(preparation&, task, step, part, globals)      starts ordinary loads, a step ahead
//              prepare(const preparation&, input&, task, step, part, globals)
#pragma once

#include "kittens/pipeline/lcf.cuh"

namespace kittens {

struct lcsf_defaults {
    struct none {};
    using output = none;
    using workspace = none;
    using preparation = none;
    static constexpr int output_stages = 0, preparing_warps = 0, blocks_per_sm = 1;
};

// The producer's warps that have work: one loads, one stores, and from the third on they prepare.
template <typename K>
inline constexpr int lcsf_producing = K::preparing_warps > 0 ? 2 + K::preparing_warps
                                      : K::output_stages > 0 ? 2
                                                             : 1;

template <typename K> struct lcsf : block_roles<K, lcsf_producing<K>, K::blocks_per_sm> {
    using roles = block_roles<K, lcsf_producing<K>, K::blocks_per_sm>;
    using globals = typename K::globals;
    using input = typename K::input;
    using output = typename K::output;
    using task = typename K::task;
    using workspace = typename K::workspace;
    static constexpr bool stores = K::output_stages > 0, has_workspace = !std::is_empty_v<workspace>;
    static constexpr int preparing_warps = K::preparing_warps;
    static_assert(preparing_warps <= 2, "lcsf: two warps are free to prepare");

    static constexpr int shared_bytes = K::stages * int(sizeof(input)) + K::output_stages * int(sizeof(output)) +
                                        (has_workspace ? int(sizeof(workspace)) : 0) +
                                        2 * (K::stages + K::output_stages) * int(sizeof(semaphore));
    static_assert(shared_bytes <= limits::shared_bytes_for<K>(K::blocks_per_sm),
                  "lcsf: the two rings exceed a block's shared memory; use fewer stages");

    using inputs = ring<input, K::stages>;
    using outputs = ring<output, stores ? K::output_stages : 1>;
    struct shared {
        inputs in;
        outputs out;
        workspace* own;
    };

    // A consumer's view of the two rings.
    struct stream : ring_reader<inputs>, ring_writer<outputs> {
        shared& s;

        kittens_device explicit stream(shared& s_) : ring_reader<inputs>{s_.in}, ring_writer<outputs>{s_.out}, s(s_) {}

        kittens_device workspace& own() { return *s.own; }
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        shared s;
        s.in.allocate_stages(memory, "input");
        if constexpr (stores) s.out.allocate_stages(memory, "output");
        if constexpr (has_workspace) s.own = memory.allocate<workspace>("workspace");
        s.in.allocate_semaphores(memory, "full", "empty");
        if constexpr (stores) s.out.allocate_semaphores(memory, "result_full", "result_empty");
        const bool loader = roles::is_loader();
        if (loader) {
            s.in.init(1 + preparing_warps, roles::computing_warps);
            if constexpr (stores) s.out.init(roles::computing_warps, 1);
        }
        start_pipeline<roles::warps, 1>(loader);
        if (roles::produces()) {
            if (loader) load_all(s, g);
            else if (stores && warp_in_group() == 1) store_all(s, g);
            else if (warp_in_group() >= 2 && warp_in_group() < 2 + preparing_warps) prepare_all(s, g);
        } else {
            stream tiles(s);
            task t;
            for (int i = 0; K::get_task(t, g, i); i++) K::consume(tiles, t, g);
        }
    }

    kittens_device static void load_all(shared& s, const globals& g) {
        typename inputs::position at;
        task t;
        for (int i = 0; K::get_task(t, g, i); i++)
            for (int step = 0; step < t.steps; step++, at.advance()) {
                const auto into = s.in.fill(at);
                K::load(into.stage, t, step, into.full, g);
            }
    }

    kittens_device static void prepare_all(shared& s, const globals& g) {
        if constexpr (preparing_warps > 0) {
            const int part = warp_in_group() - 2;
            typename inputs::position at;
            typename K::preparation now, ahead;
            task t;
            for (int i = 0; K::get_task(t, g, i); i++) {
                K::fetch(ahead, t, 0, part, g);
                for (int step = 0; step < t.steps; step++, at.advance()) {
                    now = ahead;
                    if (step + 1 < t.steps) K::fetch(ahead, t, step + 1, part, g);
                    K::prepare(now, s.in.ask(at), t, step, part, g);
                    s.in.hand_over(at);
                }
            }
        }
    }

    kittens_device static void store_all(shared& s, const globals& g) {
        if constexpr (stores) {
            typename outputs::position at;
            task t;
            for (int i = 0; K::get_task(t, g, i); i++)
                for (int step = 0; step < t.steps; step++, at.advance()) {
                    K::store(s.out.take(at), t, step, g);
                    store_read_wait();
                    s.out.release(at.stage);
                }
            store_wait();
        }
    }
};

}  // namespace kittens

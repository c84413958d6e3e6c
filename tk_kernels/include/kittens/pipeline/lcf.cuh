// load-compute-finish: one warpgroup loads, the others compute; the template owns the ring of input buffers, the
// semaphores, the roles and the registers. A kernel K gives
//
//   types      globals; input (one stage of the ring); output (a consumer warpgroup's own shared memory, for finish);
//              task (what is computed next; has `steps`); accumulator (a consumer's registers)
//   constants  stages; consumers (warpgroups); cluster_blocks; pingpong; consumer_registers; where it has one,
//              promotion: the steps, if not 0, after which a sum is added to those before it, in registers
//   functions  prefetch(globals)                                fetches the tensor maps ahead of their first use
//              bool get_task(task&, globals, i)                 the i-th task of this block (its cluster's), if any
//              load(input&, task, step, semaphore& full, globals)
//              compute(accumulator&, const input&, task, step)  issues one group of asynchronous multiplies
//              finish(accumulator&, output&, task, globals)     writes the result; its stores may still be in flight
//
// Where blocks hand over by counters, K gives as well
//
//              bool is_last(task, globals)  whether a task has to do with other blocks; it is the last of its block
//              finish_last(accumulator&, output&, task, globals, over)  its finish; calls over() behind its last await
//              retire(globals)              by the loader, when all consumers have no more to do with counters
//
// Consumers work on one task together, or, with pingpong, each on a task of its own in turn: while one writes its
// result the other multiplies, so the tensor cores see no epilogue.
//
// Every block of a cluster may write (multicast) into every other's ring; a stage is therefore released to all of them.
#pragma once

#include "kittens/pipeline/block_roles.cuh"

namespace kittens {

// Steps that a kernel's multiplies add up before their sum is added to those before it; 0: all of a task's.
template <typename K> constexpr int promoted_steps() {
    if constexpr (requires { K::promotion; }) return K::promotion;
    else return 0;
}

template <typename K> struct lcf : block_roles<K, 1> {
    using roles = block_roles<K, 1>;
    using globals = typename K::globals;
    using input = typename K::input;
    using output = typename K::output;
    using task = typename K::task;
    static constexpr int cluster_blocks = K::cluster_blocks;
    // Warps that release a stage in one block: with pingpong, those of the one consumer whose task it is.
    static constexpr int releasing_warps = warpgroup_warps * (K::pingpong ? 1 : K::consumers);
    static constexpr int shared_bytes = K::stages * int(sizeof(input)) + K::consumers * int(sizeof(output)) +
                                        (2 * K::stages + K::consumers) * int(sizeof(semaphore));
    static_assert(shared_bytes <= limits::shared_bytes,
                  "lcf: the ring and the outputs exceed a block's shared memory; use fewer stages");

    static constexpr bool releases_behind = K::stages > 1 && limits::multiplies_behind;  // the next step's multiply

    static constexpr bool has_counters = requires(const globals& g) { K::retire(g); };

    using inputs = ring<input, K::stages, cluster_blocks>;
    using position = typename inputs::position;
    struct shared {
        inputs in;
        output* results;
        semaphore* turn;
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        shared s;
        s.in.allocate_stages(memory, "input");
        s.results = memory.allocate<output>("output", K::consumers);
        s.in.allocate_semaphores(memory, "full", "empty");
        s.turn = memory.allocate<semaphore>("turn", K::consumers);
        task first;
        const bool any = K::get_task(first, g, 0);
        const bool loader = roles::is_loader();
        if (loader) {
            K::prefetch(g);
            s.in.init(1, releasing_warps * cluster_blocks);
            init(s.turn, K::consumers, warpgroup_warps);
        }
        start_pipeline<roles::warps, cluster_blocks>(loader);
        // The first load goes out before anything else happens: 0.3 us of a cold start.
        position at;
        if (loader && any) load_step(s, g, at, first, 0);
        if (roles::produces()) {
            if (loader && any) produce(s, g, at, first);
            if constexpr (has_counters) {
                if (warp_in_group() == 0) {
                    sync_named(counters_over, roles::computing_warps + 1);
                    K::retire(g);
                }
            }
        } else {
            if (any) consume(s, g, at, first, warpgroup_index());
            else over();
        }
        if constexpr (cluster_blocks > 1)
            sync_cluster();  // a neighbour may still write here, or release a stage of ours
    }

    // This consumer's warp has no counter left to signal or to await.
    static constexpr int counters_over = 14;
    kittens_device static void over() {
        if constexpr (has_counters) arrive_named(counters_over, roles::computing_warps + 1);
    }

    kittens_device static void load_step(shared& s, const globals& g, position& at, const task& t, int step) {
        const auto into = s.in.fill(at);
        K::load(into.stage, t, step, into.full, g);
        at.advance();
    }

    // All steps but the first, which is under way.
    kittens_device static void produce(shared& s, const globals& g, position at, task t) {
        int i = 0, step = 1;
        do {
            for (; step < t.steps; step++) load_step(s, g, at, t, step);
            step = 0;
        } while (K::get_task(t, g, ++i));
    }

    kittens_device static void consume(shared& s, const globals& g, position at, task t, int consumer) {
        int i = 0, round = 0;  // round: of this consumer's turns
        bool last = false;
        do {
            if constexpr (K::pingpong) {
                if (i % K::consumers != consumer) {
                    at.advance(t.steps);
                    continue;
                }
                // The first consumer's first turn is there from the start: a fresh semaphore passes parity 1.
                wait(s.turn[consumer], (round + (consumer == 0)) & 1);
                round++;
            }
            typename K::accumulator acc;
            if constexpr (promoted_steps<K>() > 0) {
                multiply_promoted(s, at, acc, t);
            } else {
                multiply(s, at, acc, t, 0, t.steps);
                if constexpr (K::pingpong) arrive(s.turn[(consumer + 1) % K::consumers]);
                warpgroup::mma_wait(acc);
                if constexpr (releases_behind) s.in.release(at.stage_before());
            }
            if constexpr (has_counters) {
                last = K::is_last(t, g);
                if (last) {
                    K::finish_last(acc, s.results[consumer], t, g, over);
                    break;
                }
            }
            K::finish(acc, s.results[consumer], t, g);
        } while (K::get_task(t, g, ++i));
        if (!last) over();
        store_read_wait();  // the block's shared memory must outlive its stores
    }

    // Steps of a task. A stage is released once the next step's multiply is in the queue and its own has ended; the
    // last one is left to the caller. A single stage cannot wait for the next step: it is released at once, and so is
    // any where a multiply has ended when it returns.
    kittens_device static void multiply(shared& s, position& at, typename K::accumulator& acc, const task& t, int from,
                                        int to) {
        for (int step = from; step < to; step++, at.advance()) {
            K::compute(acc, s.in.take(at), t, step);
            if constexpr (!releases_behind) {
                warpgroup::mma_wait<0>();
                s.in.release(at.stage);
            } else if (step > from) {
                warpgroup::mma_wait<1>();
                s.in.release(at.stage_before());
            }
        }
    }

    // A task's steps, some at a time; the sums of each lot are added to `acc`.
    kittens_device static void multiply_promoted(shared& s, position& at, typename K::accumulator& acc, const task& t) {
        constexpr int lot = promoted_steps<K>();
        static_assert(!K::pingpong && releases_behind, "lcf: promoted sums are for consumers that share a task");
        zero(acc);
        for (int from = 0; from < t.steps; from += lot) {
            typename K::accumulator recent;
            multiply(s, at, recent, t, from, from + lot < t.steps ? from + lot : t.steps);
            warpgroup::mma_wait(recent);
            s.in.release(at.stage_before());
            add(acc, acc, recent);
        }
    }
};

}  // namespace kittens

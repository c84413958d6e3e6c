// load-compute-finish over a stream: as lcf, for kernels whose task has an operand that stays (attention's queries) and
// a sequence of tiles that come and go at their own times (keys and values). One warp loads what stays, ahead of its
// task; another fills the ring, across the borders of tasks; consumer warpgroups take tiles from the ring and give them
// back in the same order, when their multiplies have ended. A kernel K gives
//
//   types      globals; tile (one stage of the ring); resident (what stays, for one task); output (a consumer
//              warpgroup's own shared memory); task (has `steps`: tiles of the stream, zero included)
//   constants  stages; consumers (warpgroups); consumer_registers
//   functions  prefetch(globals)
//              bool get_task(task&, globals, i)                       the i-th task of this block; false: no more
//              load_resident(resident&, task, semaphore& full, globals)
//              load(tile&, task, step, semaphore& full, globals)
//              consume(stream&, output&, task, globals)               takes the resident and every tile, and gives each
//                                                                     back; its stores may still be in flight
//
// `in_turn` and `pass_turn` let the consumers issue their multiplies one after another, so that one's arithmetic runs
// under the others' multiplies; each consumer takes the same number of turns in a task.
#pragma once

#include "kittens/pipeline/lcf.cuh"

namespace kittens {

template <typename K> struct lcf_stream {
    using globals = typename K::globals;
    using tile = typename K::tile;
    using resident = typename K::resident;
    using output = typename K::output;
    using task = typename K::task;
    using position = ring_position<K::stages>;

    static constexpr int cluster_blocks = 1;
    static constexpr int blocks_per_sm = 1;
    static constexpr int warps = warpgroup_warps * (K::consumers + 1);
    static constexpr int computing_warps = warpgroup_warps * K::consumers;
    static constexpr int shared_bytes = K::stages * int(sizeof(tile)) + int(sizeof(resident)) +
                                        K::consumers * int(sizeof(output)) +
                                        (2 * K::stages + 2 + K::consumers) * int(sizeof(semaphore));
    static_assert(
        shared_bytes <= max_shared_bytes,
        "lcf_stream: the ring, the resident and the outputs exceed a block's shared memory; use fewer stages");
    static_assert(producer_registers(K::consumers, K::consumer_registers) >= 24,
                  "lcf_stream: the consumers ask for more registers than the block has");

    struct shared {
        tile* ring;
        resident* held;
        output* results;
        semaphore *full, *empty, *held_full, *held_empty, *turn;
    };

    // A consumer's view of the ring.
    struct stream {
        shared& s;
        int consumer;
        position next, oldest;  // to take, to give back
        int held_parity = 0, turn_parity;

        kittens_device stream(shared& s_, int consumer_)
            : s(s_), consumer(consumer_), turn_parity(consumer_ == 0) {}  // a fresh semaphore passes parity 1

        kittens_device resident& hold() {
            wait(*s.held_full, held_parity);
            held_parity ^= 1;
            return *s.held;
        }
        kittens_device void release_held() { arrive(*s.held_empty); }

        kittens_device tile& take() {
            wait(s.full[next.stage], next.parity);
            tile& taken = s.ring[next.stage];
            next.advance();
            return taken;
        }
        // The tile that was taken first of those not yet given back.
        kittens_device void release() {
            arrive(s.empty[oldest.stage]);
            oldest.advance();
        }

        kittens_device void in_turn() {
            wait(s.turn[consumer], turn_parity);
            turn_parity ^= 1;
        }
        kittens_device void pass_turn() { arrive(s.turn[consumer + 1 == K::consumers ? 0 : consumer + 1]); }
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        shared s;
        s.ring = memory.allocate<tile>("ring", K::stages);
        s.held = memory.allocate<resident>("resident");
        s.results = memory.allocate<output>("output", K::consumers);
        s.full = memory.allocate<semaphore>("full", K::stages);
        s.empty = memory.allocate<semaphore>("empty", K::stages);
        s.held_full = memory.allocate<semaphore>("resident_full");
        s.held_empty = memory.allocate<semaphore>("resident_empty");
        s.turn = memory.allocate<semaphore>("turn", K::consumers);
        const bool loader = warp_index() == computing_warps;
        if (loader) {
            K::prefetch(g);
            init(s.full, K::stages, 1);
            init(s.empty, K::stages, computing_warps);
            init(*s.held_full, 1);
            init(*s.held_empty, computing_warps);
            init(s.turn, K::consumers, warpgroup_warps);
        }
        start_pipeline<warps, 1>(loader);
        if (warpgroup_index() == K::consumers) {
            decrease_registers<producer_registers(K::consumers, K::consumer_registers)>();
            if (loader) load_residents(s, g);
            else if (warp_in_group() == 1) load_stream(s, g);
        } else {
            increase_registers<K::consumer_registers>();
            stream tiles(s, warpgroup_index());
            task t;
            for (int i = 0; K::get_task(t, g, i); i++) K::consume(tiles, s.results[tiles.consumer], t, g);
            store_read_wait();  // the block's shared memory must outlive its stores
        }
    }

    kittens_device static void load_residents(shared& s, const globals& g) {
        task t;
        for (int i = 0; K::get_task(t, g, i); i++) {
            wait(*s.held_empty, 1 - i % 2);
            expect_bytes(*s.held_full, loaded_bytes<resident>());
            K::load_resident(*s.held, t, *s.held_full, g);
        }
    }

    kittens_device static void load_stream(shared& s, const globals& g) {
        position at;
        task t;
        for (int i = 0; K::get_task(t, g, i); i++)
            for (int step = 0; step < t.steps; step++, at.advance()) {
                wait(s.empty[at.stage], 1 - at.parity);
                expect_bytes(s.full[at.stage], loaded_bytes<tile>());
                K::load(s.ring[at.stage], t, step, s.full[at.stage], g);
            }
    }
};

}  // namespace kittens

// load-compute-finish over a stream: as lcf, for kernels whose task has an operand that stays (attention's queries) and
// a sequence of tiles that come and go at their own times (keys and values). One warp loads what stays, ahead of its
// task; another fills the ring, across the borders of tasks; consumer warpgroups take tiles from the ring and release
// them in the same order, when their multiplies have ended. A kernel K gives
//
//   types      globals; tile (one stage of the ring); resident (what stays, for one task); output (a consumer
//              warpgroup's own shared memory); task (has `steps`: tiles of the stream, zero included)
//   constants  stages; consumers (warpgroups); consumer_registers
//   functions  prefetch(globals)
//              bool get_task(task&, globals, i)                       the i-th task of this block; false: no more
//              load_resident(resident&, task, semaphore& full, globals)
//              load(tile&, task, step, semaphore& full, globals)
//              consume(stream&, output&, task, globals)               takes the resident and every tile, and releases
//                                                                     each; its stores may still be in flight
//
// The consumers may issue their multiplies in turn (turns.cuh), so that one's arithmetic runs under the others'
// multiplies; each takes the same number of turns in a task.
#pragma once

#include "kittens.cuh"

namespace kittens {

template <typename K> struct lcf_stream : block_roles<K, 2> {
    using roles = block_roles<K, 2>;
    using globals = typename K::globals;
    using tile = typename K::tile;
    using resident = typename K::resident;
    using output = typename K::output;
    using task = typename K::task;

    static constexpr int shared_bytes = K::stages * int(sizeof(tile)) + int(sizeof(resident)) +
                                        K::consumers * int(sizeof(output)) +
                                        (2 * K::stages + 2 + K::consumers) * int(sizeof(semaphore));
    static_assert(
        shared_bytes <= limits::shared_bytes,
        "lcf_stream: the ring, the resident and the outputs exceed a block's shared memory; use fewer stages");

    using tiles = ring<tile, K::stages>;
    using residents = ring<resident, 1>;
    struct shared {
        tiles streamed;
        residents held;
        output* results;
        semaphore* turn;
    };

    // A consumer's view: of the stream it takes and releases tiles, in one order.
    struct stream : ring_reader<tiles>, semaphore_turns<K::consumers> {
        shared& s;
        typename residents::position held;

        kittens_device stream(shared& s_, int consumer_)
            : ring_reader<tiles>{s_.streamed}, semaphore_turns<K::consumers>(s_.turn, consumer_), s(s_) {}

        kittens_device resident& hold(site where = kittens_here) {
            resident& taken = s.held.take(held, where);
            held.advance();
            return taken;
        }
        kittens_device void release_held(site where = kittens_here) { s.held.release(0, where); }
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        shared s;
        s.streamed.allocate_stages(memory, "ring");
        s.held.allocate_stages(memory, "resident");
        s.results = memory.allocate<output>("output", K::consumers);
        s.streamed.allocate_semaphores(memory, "full", "empty");
        s.held.allocate_semaphores(memory, "resident_full", "resident_empty");
        s.turn = memory.allocate<semaphore>("turn", K::consumers);
        const bool loader = roles::is_loader();
        if (loader) {
            K::prefetch(g);
            s.streamed.init(1, roles::computing_warps);
            s.held.init(1, roles::computing_warps);
            init(s.turn, K::consumers, warpgroup_warps);
        }
        start_pipeline<roles::warps, 1>(loader);
        if (roles::produces()) {
            if (loader) load_residents(s, g);
            else if (warp_in_group() == 1) load_stream(s, g);
        } else {
            stream tiles(s, warpgroup_index());
            task t;
            for (int i = 0; K::get_task(t, g, i); i++) K::consume(tiles, s.results[tiles.consumer], t, g);
            store_read_wait();  // the block's shared memory must outlive its stores
        }
    }

    kittens_device static void load_residents(shared& s, const globals& g) {
        task t;
        for (int i = 0; K::get_task(t, g, i); i++) {
            const auto into = s.held.fill(residents::position::nth(i));
            K::load_resident(into.stage, t, into.full, g);
        }
    }

    kittens_device static void load_stream(shared& s, const globals& g) {
        typename tiles::position at;
        task t;
        for (int i = 0; K::get_task(t, g, i); i++)
            for (int step = 0; step < t.steps; step++, at.advance()) {
                const auto into = s.streamed.fill(at);
                K::load(into.stage, t, step, into.full, g);
            }
    }
};

}  // namespace kittens

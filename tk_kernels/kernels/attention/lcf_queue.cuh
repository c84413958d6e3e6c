// load-compute-finish over a stream, as lcf_stream, by a persistent grid: tasks come from the grid's queue, and what
// the next task needs is loaded under the end of this one. A kernel K gives
//
//   types      globals (with `queue`); tile (one stage of the ring); resident (what stays for one task: two of them);
//              output (a consumer warpgroup's own shared memory); task (has `steps`: tiles of the stream, at least one)
//   constants  stages; kept (of either resident: in how many buffers); consumers (warpgroups); consumer_registers
//   functions  prefetch(globals)
//              get_task(task&, globals, number)
//              load_resident<Which>(resident&, task, semaphore& full, globals)
//              load(tile&, task, step, semaphore& full, globals)
//              consume(stream&, output&, task, globals)        takes both residents and every tile; releases each tile
//                                                              and, in this task or the next, each resident; its stores
//                                                              may still be in flight
//
// The warp that fills the ring claims the next task once the last tile of this one is on its way: a block that claims
// earlier may take what another one could begin at once (causal attention: -10 to -20 %).
//
// The consumers may take turns (turns.cuh).
#pragma once

#include "kittens.cuh"

namespace kittens {

template <typename K> struct lcf_queue : block_roles<K, 2> {
    using roles = block_roles<K, 2>;
    using globals = typename K::globals;
    using tile = typename K::tile;
    using resident = typename K::resident;
    using output = typename K::output;
    using task = typename K::task;

    using tiles = ring<tile, K::stages>;
    template <int Which> using residents = ring<resident, K::kept[Which]>;
    using feed = ring<int, 2>;  // numbers of tasks
    static constexpr int buffers = K::kept[0] + K::kept[1];
    static constexpr int shared_bytes = K::stages * int(sizeof(tile)) + buffers * int(sizeof(resident)) +
                                        K::consumers * int(sizeof(output)) +
                                        (2 * (K::stages + buffers) + K::consumers) * int(sizeof(semaphore)) +
                                        2 * int(sizeof(int) + 2 * sizeof(semaphore));
    static_assert(
        shared_bytes <= limits::shared_bytes,
        "lcf_queue: the ring, the residents and the outputs exceed a block's shared memory; use fewer stages");

    struct shared {
        tiles streamed;
        residents<0> first;
        residents<1> second;
        output* results;
        semaphore* turn;
        feed tasks;
    };

    // A consumer's view: of the stream it takes and releases tiles, in one order. Places in the other rings follow from
    // the number of the task in its block, which takes one register.
    struct stream : ring_reader<tiles>, semaphore_turns<K::consumers> {
        shared& s;
        int round = 0;

        kittens_device stream(shared& s_, int consumer_)
            : ring_reader<tiles>{s_.streamed}, semaphore_turns<K::consumers>(s_.turn, consumer_), s(s_) {}

        kittens_device resident& take_first(site where = kittens_here) {
            return s.first.take(residents<0>::position::nth(round), where);
        }
        kittens_device resident& take_second(site where = kittens_here) {
            return s.second.take(residents<1>::position::nth(round), where);
        }
        // Of the task before, if there is one.
        kittens_device void release_first_before(site where = kittens_here) {
            if (round > 0) s.first.release(residents<0>::position::nth(round - 1).stage, where);
        }
        kittens_device void release_second(site where = kittens_here) {
            s.second.release(residents<1>::position::nth(round).stage, where);
        }
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        shared s;
        s.streamed.allocate_stages(memory, "ring");
        s.first.allocate_stages(memory, "first");
        s.second.allocate_stages(memory, "second");
        s.results = memory.allocate<output>("output", K::consumers);
        s.streamed.allocate_semaphores(memory, "full", "empty");
        s.first.allocate_semaphores(memory, "first_full", "first_empty");
        s.second.allocate_semaphores(memory, "second_full", "second_empty");
        s.turn = memory.allocate<semaphore>("turn", K::consumers);
        s.tasks.allocate_semaphores(memory, "task_full", "task_empty");
        s.tasks.allocate_stages(memory, "task");
        const bool loader = roles::is_loader();
        if (loader) {
            K::prefetch(g);
            s.streamed.init(1, roles::computing_warps);
            s.first.init(1, roles::computing_warps);
            s.second.init(1, roles::computing_warps);
            init(s.turn, K::consumers, warpgroup_warps);
            s.tasks.init(1, roles::computing_warps + 1);
        }
        start_pipeline<roles::warps, 1>(loader);
        if (roles::produces()) {
            if (loader) load_residents(s, g);
            else if (warp_in_group() == 1) load_stream(s, g);
        } else {
            stream tiles(s, warpgroup_index());
            task t;
            for (int number = g.queue.first(); g.queue.has(number); number = next_task(s, tiles.round++)) {
                K::get_task(t, g, number);
                K::consume(tiles, s.results[tiles.consumer], t, g);
            }
            store_read_wait();  // the block's shared memory must outlive its stores
        }
    }

    // What follows task number `round` of this block, for a warp that did not claim it.
    kittens_device static int next_task(shared& s, int round, site where = kittens_here) {
        const auto at = feed::position::nth(round);
        const int number = load_number(s.tasks.take(at, where), where);
        s.tasks.release(at.stage, where);
        return number;
    }

    kittens_device static void load_residents(shared& s, const globals& g) {
        task t;
        int round = 0;
        for (int number = g.queue.first(); g.queue.has(number); number = next_task(s, round++)) {
            K::get_task(t, g, number);
            load_resident<0>(s.first, round, t, g);
            load_resident<1>(s.second, round, t, g);
        }
    }
    template <int Which>
    kittens_device static void load_resident(residents<Which>& held, int round, const task& t, const globals& g) {
        const auto into = held.fill(residents<Which>::position::nth(round));
        K::template load_resident<Which>(into.stage, t, into.full, g);
    }

    kittens_device static void load_stream(shared& s, const globals& g) {
        typename tiles::position at;
        typename feed::position told;
        task t;
        for (int number = g.queue.first(); g.queue.has(number);) {
            K::get_task(t, g, number);
            for (int step = 0; step < t.steps; step++, at.advance()) {
                const auto into = s.streamed.fill(at);
                K::load(into.stage, t, step, into.full, g);
            }
            number = g.queue.task(g.queue.claim());
            store_number(s.tasks.ask(told), number);
            s.tasks.hand_over(told);
            told.advance();
        }
    }
};

}  // namespace kittens

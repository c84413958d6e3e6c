// load-compute-finish that flows from task to task: as lcf_stream, but the last tile of a task comes after the first of
// the next, so that the two are multiplied together and no multiply waits for a task's last or first arithmetic. Tasks
// come from the grid's queue. One warp claims them and fills the ring, another one loads what stays, ahead of its task;
// consumer warpgroups take tiles from the ring and release them in the same order. A kernel K gives
//
//   types      globals (with `queue`); tile (one stage of the ring); resident (what stays, for one task); output (a
//              consumer warpgroup's own shared memory); task (has `steps`: tiles of the stream, at least two)
//   constants  stages, residents (of their rings); consumers (warpgroups); consumer_registers
//   functions  prefetch(globals)
//              get_task(task&, globals, number)
//              load_resident(resident&, task, semaphore& full, globals)
//              load(tile&, task, step, semaphore& full, globals)
//              consume(flow&, output&, globals)      all tasks of the block, by `next`, the first tile of each before
//                                                    the last one of the task before; its stores may still be in flight
//
// Consumers take turns (turns.cuh); of the tiles that are taken in a turn, only the first consumer waits for them. A
// `border` has the words for where two tasks meet, and for a consumer that does not need a task's first tile.
#pragma once

#include "kittens.cuh"

namespace kittens {

template <typename K> struct lcf_flow : block_roles<K, 2> {
    using roles = block_roles<K, 2>;
    using globals = typename K::globals;
    using tile = typename K::tile;
    using resident = typename K::resident;
    using output = typename K::output;
    using task = typename K::task;

    using tiles = ring<tile, K::stages>;
    using residents_ring = ring<resident, K::residents>;
    using feed = task_feed<4>;
    static constexpr int shared_bytes = K::stages * int(sizeof(tile)) + K::residents * int(sizeof(resident)) +
                                        K::consumers * int(sizeof(output)) +
                                        2 * (K::stages + K::residents) * int(sizeof(semaphore)) + feed::shared_bytes;
    static_assert(shared_bytes <= limits::shared_bytes,
                  "lcf_flow: the ring, the residents and the outputs exceed a block's shared memory; use fewer stages");

    struct shared {
        tiles streamed;
        residents_ring residents;
        output* results;
        feed tasks;
    };

    // A consumer's view.
    struct flow : ring_reader<tiles>, turns<K::consumers> {
        const globals& g;
        residents_ring& residents;
        typename residents_ring::position at = {};  // of the resident
        typename feed::follower told;

        kittens_device flow(shared& s, const globals& g_, int consumer)
            : ring_reader<tiles>{s.streamed},
              turns<K::consumers>(consumer),
              g(g_),
              residents(s.residents),
              told(s.tasks) {}

        // The block's next task; false: there is none.
        kittens_device bool next(task& t, site where = kittens_here) {
            const int number = told.next(where);
            if (!g.queue.has(number)) return false;
            K::get_task(t, g, number);
            return true;
        }
        // What stays, of the task: each is released before the next one is taken.
        kittens_device resident& hold(site where = kittens_here) { return residents.take(at, where); }
        kittens_device resident& held() { return residents.stages[at.stage]; }  // which has been taken
        kittens_device void release_held(site where = kittens_here) {
            residents.release(at.stage, where);
            at.advance();
        }
        // The next tile, which is used in a turn: who comes after the first consumer need not wait.
        kittens_device tile& take_in_turn(site where = kittens_here) { return this->take(where, this->group == 0); }

        // A task's first tile, and the last one of the task before where it `Follows` one: multiplied in one turn. A
        // consumer that `skips` uses the second tile instead, and neither the first nor the third: they are taken and
        // released like the others. Who comes after the first consumer relies on its waits: the first one skips too.
        template <bool Follows> struct border {
            flow& f;
            const bool skips;
            tile *values = nullptr, &first;

            kittens_device border(flow& f_, bool skips_, site where = kittens_here)
                : f(f_), skips(skips_), first(take_first(where)) {}

            kittens_device tile& take_first(site where) {
                if (skips) f.take_in_turn(where);
                if (Follows && skips) values = &f.take_in_turn(where);
                return f.take_in_turn(where);
            }
            kittens_device tile& last(site where = kittens_here) {  // in the turn
                if (!skips) values = &f.take_in_turn(where);
                return *values;
            }
            kittens_device void pass_turn(site where = kittens_here) {
                f.pass_turn(where);
                if (skips) f.release(where);
            }
            // In the order in which they came: where the second tile is used, it comes after the last of before.
            kittens_device void release_first(site where = kittens_here) {
                if (!Follows || !skips) f.release(where);
            }
            kittens_device void release_last(site where = kittens_here) {
                f.release(where);
                if (skips) f.release(where);
            }
            // Once nothing else is in flight: a turn of its own.
            kittens_device void skip_third(site where = kittens_here) {
                if (!skips) return;
                f.in_turn(where);
                f.take_in_turn(where);
                f.pass_turn(where);
                f.release(where);
            }
        };
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        shared s;
        s.streamed.allocate_stages(memory, "ring");
        s.residents.allocate_stages(memory, "resident");
        s.results = memory.allocate<output>("output", K::consumers);
        s.streamed.allocate_semaphores(memory, "full", "empty");
        s.residents.allocate_semaphores(memory, "resident_full", "resident_empty");
        s.tasks.allocate(memory);
        const bool loader = roles::is_loader();
        if (loader) {
            K::prefetch(g);
            s.streamed.init(1, roles::computing_warps);
            s.residents.init(1, roles::computing_warps);
            s.tasks.init(roles::computing_warps + 1);
        }
        start_pipeline<roles::warps, 1>(loader);
        if constexpr (roles::starts_early)
            wait_previous_kernel();  // by all: the counter is cleared, and outputs may be written
        if (roles::produces()) {
            if (loader) load_stream(s, g);
            else if (warp_in_group() == 1) load_residents(s, g);
        } else {
            flow f(s, g, warpgroup_index());
            K::consume(f, s.results[f.group], g);
            store_read_wait();  // the block's shared memory must outlive its stores
        }
    }

    kittens_device static void load_stream(shared& s, const globals& g) {
        typename feed::leader tasks(s.tasks, g.queue);
        typename tiles::position at;
        const auto load = [&](const task& t, int step) {
            const auto into = s.streamed.fill(at);
            K::load(into.stage, t, step, into.full, g);
            at.advance();
        };
        task t, before;
        bool any = false;
        tasks.tell(g.queue.first());
        for (int number = g.queue.first(); g.queue.has(number); number = tasks.next()) {
            K::get_task(t, g, number);
            load(t, 0);
            if (any) load(before, before.steps - 1);
            for (int step = 1; step < t.steps - 1; step++) {
                if (step + 4 >= t.steps) tasks.ask();  // the answer comes while the last tiles are loaded
                load(t, step);
            }
            before = t;
            any = true;
        }
        if (any) load(before, before.steps - 1);
    }

    kittens_device static void load_residents(shared& s, const globals& g) {
        typename feed::follower tasks(s.tasks);
        typename residents_ring::position at;
        task t;
        for (int number = tasks.next(); g.queue.has(number); number = tasks.next()) {
            K::get_task(t, g, number);
            const auto into = s.residents.fill(at);
            K::load_resident(into.stage, t, into.full, g);
            at.advance();
        }
    }
};

}  // namespace kittens

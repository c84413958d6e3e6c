// load-compute-finish with a carried state: for kernels that walk along a sequence, of which one warpgroup (the carrier) keeps
// the state in its registers and hands a copy of it, step by step, to those that compute. One warp loads what stays for a
// task, and the steps into a ring; carrier and computers look at any of the steps that they have not yet given back. A
// kernel K gives
//
//   types      globals; resident (what stays, for one task); input (one stage of the ring); task (`first` and `end`: its
//              steps, at least one); workspace (shared memory of the consumers' own, made of the block's shared_allocator)
//   constants  stages; consumers (warpgroups: the last one carries, those before it compute); consumer_registers (0: no
//              warpgroup asks for more than it begins with); workspace_bytes
//   functions  prefetch(globals)
//              bool get_task(task&, globals, i)                       the i-th task of this block; false: no more
//              load_resident(resident&, task, semaphore& full, globals)
//              load(input&, task, step, semaphore& full, globals)
//              carry(shared&, globals), compute(shared&, globals)     all tasks of the block, as the carrier and as another
//
// Both walk along the stream, `typename Shared::walk s{shared}`: of each task, the i-th, they begin(task) it, hold(i) the
// resident and release_held() it, look at any step(n) that they have not given back by release_before(n), and end with
// release_before(task.end). Of the n-th copy of the state, counted over all tasks, the carrier asks for the place, ask(n),
// writes it to the workspace and calls hand_over(); the others call take(n), read it and call give_back().
#pragma once

#include "kittens/pipeline/lcf.cuh"

namespace kittens {

template <typename K> struct lcf_carry {
    using globals = typename K::globals;
    using resident = typename K::resident;
    using input = typename K::input;
    using task = typename K::task;
    using workspace = typename K::workspace;
    using position = ring_position<K::stages>;

    static constexpr int cluster_blocks = 1, blocks_per_sm = 1;
    static constexpr int warps = warpgroup_warps * (K::consumers + 1);
    static constexpr int consuming_warps = warpgroup_warps * K::consumers;
    static constexpr int carrier = K::consumers - 1;  // its warpgroup
    static constexpr bool hands_over = carrier > 0;
    static constexpr int shared_bytes = int(sizeof(resident)) + K::stages * int(sizeof(input)) + K::workspace_bytes +
                                        (2 * K::stages + 4) * int(sizeof(semaphore));
    static_assert(shared_bytes <= max_shared_bytes,
                  "lcf_carry: the ring, the resident and the workspace exceed a block's shared memory");

    struct walk;
    struct shared {
        using walk = lcf_carry::walk;
        resident* held;
        input* ring;
        semaphore *full, *empty, *held_full, *held_empty, *copy_full, *copy_empty;
        workspace* own;
    };

    // A consumer's view of it all.
    struct walk {
        shared& s;
        position oldest;
        int kept = 0;  // the step at `oldest`

        kittens_device void begin(const task& t) { kept = t.first; }

        kittens_device workspace& own() { return *s.own; }
        kittens_device resident& held() { return *s.held; }
        kittens_device void hold(int i) { wait(*s.held_full, i % 2); }
        kittens_device void release_held() { arrive(*s.held_empty); }

        kittens_device input& step(int step) {
            position p = oldest;
            p.advance(step - kept);
            wait(s.full[p.stage], p.parity);
            return s.ring[p.stage];
        }
        kittens_device void release_before(int step) {
            for (; kept < step; kept++, oldest.advance()) {
                wait(s.full[oldest.stage], oldest.parity);
                arrive(s.empty[oldest.stage]);
            }
        }

        kittens_device void ask(int n) { wait(*s.copy_empty, 1 - n % 2); }
        kittens_device void hand_over() {
            fence_async();
            arrive(*s.copy_full);
        }
        kittens_device void take(int n) { wait(*s.copy_full, n % 2); }
        kittens_device void give_back() { arrive(*s.copy_empty); }
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        shared s;
        s.held = memory.allocate<resident>("resident");
        s.ring = memory.allocate<input>("ring", K::stages);
        workspace own(memory);
        s.own = &own;
        if constexpr (hands_over) {
            s.copy_full = memory.allocate<semaphore>("copy_full");
            s.copy_empty = memory.allocate<semaphore>("copy_empty");
        }
        s.full = memory.allocate<semaphore>("full", K::stages);
        s.empty = memory.allocate<semaphore>("empty", K::stages);
        s.held_full = memory.allocate<semaphore>("resident_full");
        s.held_empty = memory.allocate<semaphore>("resident_empty");
        const bool loader = warp_index() == consuming_warps;
        if (loader) {
            K::prefetch(g);
            init(s.full, K::stages, 1);
            init(s.empty, K::stages, consuming_warps);
            init(*s.held_full, 1);
            init(*s.held_empty, consuming_warps);
            if constexpr (hands_over) {
                init(*s.copy_full, warpgroup_warps);
                init(*s.copy_empty, consuming_warps - warpgroup_warps);
            }
        }
        start_pipeline<warps, 1>(loader);
        if (warpgroup_index() == K::consumers) {
            if constexpr (K::consumer_registers > 0) decrease_registers<24>();
            if (loader) load_all(s, g);
        } else if (warpgroup_index() == carrier) {
            if constexpr (K::consumer_registers > 0) increase_registers<K::consumer_registers>();
            K::carry(s, g);
        } else if constexpr (hands_over) {
            if constexpr (K::consumer_registers > 0) increase_registers<K::consumer_registers>();
            K::compute(s, g);
        }
    }

    kittens_device static void load_all(shared& s, const globals& g) {
        position at;
        task t;
        for (int i = 0; K::get_task(t, g, i); i++)
            for (int step = t.first; step < t.end; step++, at.advance()) {
                wait(s.empty[at.stage], 1 - at.parity);
                expect_bytes(s.full[at.stage], loaded_bytes<input>());
                K::load(s.ring[at.stage], t, step, s.full[at.stage], g);
                if (step == t.first) load_resident(s, g, t, i);  // ahead of the end of the task before
            }
    }
    kittens_device static void load_resident(shared& s, const globals& g, const task& t, int i) {
        wait(*s.held_empty, 1 - i % 2);
        expect_bytes(*s.held_full, loaded_bytes<resident>());
        K::load_resident(*s.held, t, *s.held_full, g);
    }
};

}  // namespace kittens

// load-compute-finish with a carried state: for kernels that walk along a sequence, of which one warpgroup (the
// carrier) keeps the state in its registers and hands a copy of it, step by step, to those that compute. One warp loads
// what stays for a task, and the steps into a ring; carrier and computers look at any of the steps that they have not
// yet given back. A kernel K gives
//
//   types      globals; resident (what stays, for one task); input (one stage of the ring); task (`first` and `end`:
//              its steps, at least one); workspace (shared memory of the consumers' own, made of the block's
//              shared_allocator)
//   constants  stages; consumers (warpgroups: the last one carries, those before it compute); consumer_registers (0: no
//              warpgroup asks for more than it begins with); workspace_bytes
//   functions  prefetch(globals)
//              bool get_task(task&, globals, i)                       the i-th task of this block; false: no more
//              load_resident(resident&, task, semaphore& full, globals)
//              load(input&, task, step, semaphore& full, globals)
//              carry(shared&, globals)                                all tasks of the block, as the carrier
//              compute(shared&, globals)                              the same, as another
//
// Both walk along the stream, `typename Shared::walk s{shared}`: of each task they begin(task) it, hold() the resident
// and release_held() it, look at any step(n) that they have not given back by release_before(n), and end with
// release_before(task.end). The copies of the state go round a ring of their own, of one stage, which lies in the
// workspace: the carrier writes the n-th, counted over all tasks, between ask(n) and hand_over(); the others read it,
// from take_copy(n) to release_copy().
#pragma once

#include "kittens.cuh"

namespace kittens {

template <typename K> struct lcf_carry : block_roles<K, 1> {
    using roles = block_roles<K, 1>;
    using globals = typename K::globals;
    using resident = typename K::resident;
    using input = typename K::input;
    using task = typename K::task;
    using workspace = typename K::workspace;

    static constexpr int carrier = K::consumers - 1;  // its warpgroup
    static constexpr bool hands_over = carrier > 0;
    static constexpr int shared_bytes = int(sizeof(resident)) + K::stages * int(sizeof(input)) + K::workspace_bytes +
                                        (2 * K::stages + 4) * int(sizeof(semaphore));
    static_assert(shared_bytes <= limits::shared_bytes,
                  "lcf_carry: the ring, the resident and the workspace exceed a block's shared memory");

    using inputs = ring<input, K::stages>;
    using residents = ring<resident, 1>;
    using copies = ring<workspace, 1>;
    struct walk;
    struct shared {
        using walk = lcf_carry::walk;
        inputs in;
        residents held;
        copies copy;
        workspace* own;
    };

    // A consumer's view of it all.
    struct walk {
        shared& s;
        typename inputs::position oldest;
        int kept = 0;  // the step at `oldest`
        int tasks = 0;

        kittens_device void begin(const task& t) { kept = t.first; }

        kittens_device workspace& own() { return *s.own; }
        kittens_device resident& hold(site where = kittens_here) {
            return s.held.take(residents::position::nth(tasks++), where);
        }
        kittens_device resident& held() { return *s.held.stages; }
        kittens_device void release_held(site where = kittens_here) { s.held.release(0, where); }

        kittens_device input& step(int step, site where = kittens_here) {
            typename inputs::position p = oldest;
            p.advance(step - kept);
            return s.in.take(p, where);
        }
        kittens_device void release_before(int step, site where = kittens_here) {
            for (; kept < step; kept++, oldest.advance()) {
                s.in.take(oldest, where);
                s.in.release(oldest.stage, where);
            }
        }

        kittens_device void ask(int n, site where = kittens_here) { s.copy.ask(copies::position::nth(n), where); }
        kittens_device void hand_over(site where = kittens_here) {
            fence_async();
            s.copy.hand_over({}, where);
        }
        kittens_device void take_copy(int n, site where = kittens_here) {
            s.copy.take(copies::position::nth(n), where);
        }
        kittens_device void release_copy(site where = kittens_here) { s.copy.release(0, where); }
    };

    kittens_device static void run(const globals& g) {
        shared_allocator memory;
        shared s;
        s.held.allocate_stages(memory, "resident");
        s.in.allocate_stages(memory, "ring");
        workspace own(memory);
        s.own = s.copy.stages = &own;
        if constexpr (hands_over) s.copy.allocate_semaphores(memory, "copy_full", "copy_empty");
        s.in.allocate_semaphores(memory, "full", "empty");
        s.held.allocate_semaphores(memory, "resident_full", "resident_empty");
        const bool loader = roles::is_loader();
        if (loader) {
            K::prefetch(g);
            s.in.init(1, roles::computing_warps);
            s.held.init(1, roles::computing_warps);
            if constexpr (hands_over) s.copy.init(warpgroup_warps, roles::computing_warps - warpgroup_warps);
        }
        start_pipeline<roles::warps, 1>(loader);
        if (warpgroup_index() == K::consumers) {
            roles::decrease_registers();
            if (loader) load_all(s, g);
        } else if (warpgroup_index() == carrier) {
            roles::increase_registers();
            K::carry(s, g);
        } else if constexpr (hands_over) {
            roles::increase_registers();
            K::compute(s, g);
        }
    }

    kittens_device static void load_all(shared& s, const globals& g) {
        typename inputs::position at;
        task t;
        for (int i = 0; K::get_task(t, g, i); i++)
            for (int step = t.first; step < t.end; step++, at.advance()) {
                const auto into = s.in.fill(at);
                K::load(into.stage, t, step, into.full, g);
                if (step == t.first) load_resident(s, g, t, i);  // ahead of the end of the task before
            }
    }
    kittens_device static void load_resident(shared& s, const globals& g, const task& t, int i) {
        const auto into = s.held.fill(residents::position::nth(i));
        K::load_resident(into.stage, t, into.full, g);
    }
};

}  // namespace kittens

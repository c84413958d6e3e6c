// A queue of tasks: the blocks of a persistent grid take one after another, so that a block whose tasks were short
// takes more of them. Give the longest tasks the lowest numbers: those that are left for the end are then short.
#pragma once

namespace kittens {

// Tasks 0 .. tasks - 1. A block begins with the task of its own number, at once, and claims the others from a counter.
// The counter is scratch of the call, so that calls on two streams cannot meet; before the launch it is cleared on the
// call's stream, by the host or by an earlier kernel of the call.
struct task_queue {
    int tasks;
    int* counter;

    void clear(void* stream) const { clear_counter_on(stream, counter); }
    // By one warp of an earlier kernel.
    kittens_device void clear(site where = kittens_here) const { clear_counter(counter, where); }

    kittens_device bool has(int task) const { return task < tasks; }
    kittens_device static int first() { return block_index(); }
    // A claim takes about a microsecond to be answered: claim ahead, and ask for the task when it is needed.
    kittens_device claimed claim(site where = kittens_here) const {
        return kittens::claim(counter, tasks - block_count(), where);
    }
    kittens_device static int task(claimed c, site where = kittens_here) { return block_count() + number_of(c, where); }
};

// Clears a queue for a kernel that starts early, under whose own start this is hidden.
struct clear_queue {
    static constexpr int warps = 1, cluster_blocks = 1, blocks_per_sm = 1;
    struct globals {
        task_queue queue;
    };
    kittens_device static void run(const globals& g) {
        start_next_kernel();
        g.queue.clear();
    }
};

// A persistent grid whose blocks take their tasks from a queue that has been cleared.
template <typename Kernel>
void launch_queue(const task_queue& queue, void* stream, const typename Kernel::globals& globals) {
    const int resident = Kernel::blocks_per_sm * multiprocessors();
    launch<Kernel>({std::min(queue.tasks, resident), Kernel::shared_bytes, true}, stream, globals);
}

}  // namespace kittens

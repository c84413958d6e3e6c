// How one warp of a block takes tasks from the grid's queue and tells the others. It may be `Ahead` tasks further than
// the slowest of those who follow.
#pragma once

#include "kittens/pipeline/ring.cuh"

namespace kittens {

template <int Ahead = 2> struct task_feed {
    using numbers = ring<int, Ahead>;
    static constexpr int shared_bytes = Ahead * int(sizeof(int) + 2 * sizeof(semaphore));
    numbers told;

    kittens_device void allocate(shared_allocator& memory) {
        told.allocate_semaphores(memory, "task_full", "task_empty");
        told.allocate_stages(memory, "task");
    }
    // By one warp, before start_pipeline. Warps that follow.
    kittens_device void init(int followers, site where = kittens_here) { told.init(1, followers, where); }

    // Of the warp that claims: its block's tasks in turn, from queue.first() on; the first that the queue does not have
    // is told to the followers too.
    struct leader {
        task_feed& feed;
        const task_queue& queue;
        claimed ahead = {};
        bool asked = false;
        typename numbers::position at = {};

        kittens_device leader(task_feed& feed_, const task_queue& queue_) : feed(feed_), queue(queue_) {}

        // Claims the next task. Where this is some time before `next`, nobody waits for the answer; where it is long
        // before, a block may keep a task that another one could do at once.
        kittens_device void ask(site where = kittens_here) {
            if (!asked) ahead = queue.claim(where);
            asked = true;
        }
        kittens_device int next(site where = kittens_here) {
            ask(where);
            asked = false;
            const int task = queue.task(ahead, where);
            tell(task, where);
            return task;
        }
        // Tells the followers a task that comes from elsewhere: the first one, where they do not take it themselves.
        kittens_device void tell(int task, site where = kittens_here) {
            store_number(feed.told.ask(at, where), task, where);
            feed.told.hand_over(at, where);
            at.advance();
        }
    };

    // Of a warp that follows: the same tasks, in the same order.
    struct follower {
        task_feed& feed;
        typename numbers::position at = {};

        kittens_device explicit follower(task_feed& feed_) : feed(feed_) {}

        kittens_device int next(site where = kittens_here) {
            const int task = load_number(feed.told.take(at, where), where);
            feed.told.release(at.stage, where);
            at.advance();
            return task;
        }
    };
};

}  // namespace kittens
